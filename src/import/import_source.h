/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An import as the bytes of the safetensors file that it would be written as: its header, and its tensors, which are gathered
 * and decoded as they are read. Whatever opens a safetensors file needs to know nothing of other formats.
 *
 * A row that lies in a file as it is costs no more than a read there, and is mapped from there. Of any other one, what is
 * wanted is decoded by what copies tensors when an import is written: see decoded.h, source_blocks.h, source_parts.h.
 */
#ifndef COFFER_IMPORT_IMPORT_SOURCE_H
#define COFFER_IMPORT_IMPORT_SOURCE_H

#include "import.h"
#include "source.h"

/* Opens a source, which owns the import and its input from then on. After a failure nothing is taken. */
coffer_status coffer__import_source(coffer__byte_source *source, coffer_import *import, coffer_error *err);
/* The import of a source; NULL of any other source. */
coffer_import *coffer__import_source_of(const coffer__byte_source *source);
/* The row whose bytes begin at a byte of the source, or lie around it; NULL where there are none. */
const coffer__import_plan_row *coffer__import_source_row(const coffer__byte_source *source, uint64_t offset);

#endif
