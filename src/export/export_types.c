/* SPDX-License-Identifier: Apache-2.0 */
/* What the kinds of exported files share: dtypes that they do not have. */
#include "export.h"

#include "dtype.h"
#include "error.h"

coffer_status coffer__export_lacks(const coffer_tensor *tensor, const char *format, coffer_error *err)
{
    coffer__fail(err, COFFER_ERR_NO_EQUIVALENT,
                 "%s has nothing that tensor %q of %s could become; its bytes can be written as U8, if that is wanted",
                 format, tensor->name, (size_t)tensor->name_len, coffer_dtype_name(tensor->dtype));
    return coffer__fail_tensor(err, COFFER_ERR_NO_EQUIVALENT, tensor->name, tensor->name_len);
}

/* A tensor's bits are whole bytes, so without a dimension there is nothing to divide. */
bool coffer__export_row_bytes(const coffer_tensor *tensor, uint64_t *size)
{
    const uint64_t bits = coffer__dtype_info_of(tensor->dtype)->bits;
    *size = tensor->rank > 0 ? tensor->shape[tensor->rank - 1] : 0;
    if (bits >= 8 || tensor->rank == 0) {
        return bits >= 8;
    }
    if (*size > UINT64_MAX / 8 || *size * bits % 8 != 0) {
        return false;
    }
    *size = *size * bits / 8;
    return true;
}
