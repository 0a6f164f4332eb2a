/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of NumPy's files (.npy): an array; or what numpy.save makes of a dict, a list, or arrays of several shapes,
 * which is an array of objects, with a pickle of them after its header.
 */
#include "numpy.h"
#include "readers.h"

#include <string.h>

static bool npy_sniff(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size, const char *path,
                      size_t path_len)
{
    (void)tail;
    (void)tail_size;
    (void)path;
    (void)path_len;
    return head_size >= 6 && memcmp(head, "\x93NUMPY", 6) == 0;
}

static coffer_status npy_read_file(const coffer__input_files *input, const coffer__wants *wants,
                                   coffer__import_plan *plan, coffer_error *err)
{
    coffer__reader_file file = { .input = input, .wants = wants, .plan = plan, .size = input->size };
    uint64_t objects = 0;
    const coffer_status status = coffer__numpy_put_file(&file, &objects, err);
    if (status != COFFER_OK || objects == 0) {
        return status;
    }
    file.embedded = true;
    file.at = objects;
    file.part = input->size - objects;
    return coffer__reader_pickle_at(&file, err);
}

const coffer__reader coffer__reader_npy = { "npy", "a NumPy array", npy_sniff, npy_read_file };
