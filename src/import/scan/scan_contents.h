/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a loader would run of what is in a container: archives (zip, tar), of any depth that is bounded, and parts of files.
 *
 * Each member is looked at by its bytes, whatever it is called: pickles, arrays of objects, archives, programs, JSON with
 * pickles in it. What could not be looked at is a finding, which says so. Only the bytes of a checkpoint's storages are
 * passed over, as no loader takes them for anything else.
 */
#ifndef COFFER_SCAN_SCAN_CONTENTS_H
#define COFFER_SCAN_SCAN_CONTENTS_H

#include "reader.h"

/* The archive (zip) that the file is, or, if it is embedded, that its part is. */
coffer_status coffer__scan_zip(const coffer__reader_file *file, coffer_error *err);
/* The archive (tar) that the file is. With `oldest` it is a checkpoint of PyTorch's first kind, three members of which its
   reader looks at. */
coffer_status coffer__scan_tar(const coffer__reader_file *file, bool oldest, coffer_error *err);
/* The part of the file that is embedded in it, of which nobody says what it is but for its name. */
coffer_status coffer__scan_part(const coffer__reader_file *file, const char *name, coffer_error *err);

#endif
