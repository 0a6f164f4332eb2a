/* SPDX-License-Identifier: Apache-2.0 */
/* What coffer_import is: a plan that was checked, and what is shown of it. */
#ifndef COFFER_IMPORT_IMPORT_H
#define COFFER_IMPORT_IMPORT_H

#include "coffer.h"
#include "input.h"
#include "plan.h"
#include "sink.h"

struct coffer_import {
    coffer_allocator allocator;
    coffer_input *input;
    coffer__import_plan plan;
    coffer_import_summary summary;
    /* What the functions of the public header hand out, with space that is made once. */
    coffer_import_tensor tensor;
    coffer_import_finding finding;
    uint64_t *shapes;       /* the written sizes of all dimensions of the plan */
    uint32_t *aliases;      /* rows whose names go into the metadata, `alias_count` of them */
    uint32_t *unreferenced; /* storages, summary.unreferenced_count of them */
    size_t alias_count;
    bool joined;        /* it is of several inputs */
    uint32_t own_files; /* files of its own input, where it is joined */
    uint8_t *saved;     /* by coffer_import_save; or NULL */
    size_t saved_size;
};

/* Row `i` of the plan, as it is shown; there is one. Any thread may ask. */
coffer_import_tensor coffer__import_describe(const coffer_import *import, size_t i);
/* coffer_import_verify; what is decoded, and too much for memory, goes into a file without a name beside `spool`, or, if
   that is NULL, where the system has its own. */
coffer_status coffer__import_compare(coffer_import *import, const coffer *written, const char *spool,
                                     const coffer_read_options *reading, coffer_error *err);
/* Summarises a plan that has grown, and had `dimensions` before. The import stays as it was on failure. */
coffer_status coffer__import_summarize_again(coffer_import *import, size_t dimensions, coffer_error *err);
/* Opens a sink for a path, and writes the sidecar of an import there. `verified`: it is read again and compared, if it is a
   file that can be. The caller publishes or discards it; a failure has discarded it already. COFFER_ERR_ARGUMENT for an
   import that has no keys, and for a path that is one of its files; COFFER_ERR_CHECKSUM when it reads differently. */
coffer_status coffer__import_write_sidecar(const coffer_import *import, const char *path, coffer_sync sync,
                                           bool verified, coffer__byte_sink *sink, coffer_error *err);

#endif
