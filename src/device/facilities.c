/* SPDX-License-Identifier: Apache-2.0 */
/* What loading may use on this machine: the devices, and what there is of the system. */
#include "driver.h"

#include "error.h"
#include "libc_allocator.h"

static const coffer__vendor *const facility_vendors[] = { &coffer__cuda, &coffer__hip };

coffer_status coffer_list_facilities(const char *path, const coffer_allocator *allocator, coffer_facility_visitor visit,
                                     void *ctx, coffer_error *err)
{
    (void)path;
    if (visit == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "coffer_list_facilities wants a visitor");
    }
    const coffer_allocator *from = coffer__allocator_or_libc(allocator);
    bool ended = false;
    for (size_t i = 0; i < sizeof facility_vendors / sizeof facility_vendors[0] && !ended; i++) {
        const coffer_status status = coffer__driver_list(facility_vendors[i], from, visit, ctx, &ended, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}
