/* SPDX-License-Identifier: Apache-2.0 */
/* Packing a file for the writers, which pack what they have written before they publish it. */
#ifndef COFFER_WRITE_PACK_FILE_H
#define COFFER_WRITE_PACK_FILE_H

#include "coffer.h"
#include "os.h"

/* As coffer_pack_shard, of arguments that are valid. Where `only` is not NULL, the new file replaces that one or none:
   COFFER_ERR_CHANGED. A failure names no file. */
coffer_status coffer__pack_file(const coffer *model, size_t shard, const char *path, const coffer_pack_options *options,
                                const coffer__os_info *only, coffer_pack_result *result, coffer_error *err);

#endif
