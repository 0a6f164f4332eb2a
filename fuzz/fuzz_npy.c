/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the parser of NumPy's headers. What it accepts has a type, a shape and a size; who gives it less is asked for exactly as
 * much as it needs, and then answered the same.
 */
#define _DEFAULT_SOURCE /* guarded.h */

#include "coffer.h"
#include "fuzz_input.h"
#include "guarded.h"
#include "npy_header.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void expect_header(const coffer__npy *npy, coffer_status status, size_t size)
{
    expect(status == COFFER_OK || status == COFFER_NEED_MORE || status == COFFER_ERR_ARRAY, "it answers one of three");
    expect((status == COFFER_ERR_ARRAY) == (npy->fault != NULL), "a fault is told, and nothing else is one");
    expect(status != COFFER_ERR_ARRAY || npy->fault_at <= size, "a fault has a place");
    expect(status != COFFER_NEED_MORE || (npy->size > size && npy->size <= COFFER__NPY_MAX), "more is more");
    expect(status != COFFER_OK || (npy->size <= size && npy->rank <= COFFER__PLAN_MAX_RANK), "a header ends");
    expect(status != COFFER_OK || npy->lack != NULL || npy->element != COFFER__ELEMENT_NONE, "elements are something");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    coffer__npy npy;
    coffer__npy part;
    const uint8_t *edge = guarded_copy(bytes, size);
    if (edge == NULL) {
        return 0;
    }
    const coffer_status status = coffer__npy_read(&npy, edge, size);
    expect_header(&npy, status, size);
    if (status != COFFER_OK) {
        return 0;
    }
    edge = guarded_copy(bytes, npy.size);
    expect(coffer__npy_read(&part, edge, npy.size) == COFFER_OK, "a header needs nothing after it");
    for (size_t less = 0; less < npy.size; less += 5) {
        edge = guarded_copy(bytes, less);
        expect(coffer__npy_read(&part, edge, less) == COFFER_NEED_MORE, "a part of a header is no fault");
        expect_header(&part, COFFER_NEED_MORE, less);
    }
    return 0;
}
