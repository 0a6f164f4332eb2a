/* SPDX-License-Identifier: Apache-2.0 */
#include "split_packed.h"

#include "checked.h"
#include "text.h"

#include <string.h>

#define PACKED_NAME 512u /* of a longer name no layer is looked for */

static const char *const packed_names[COFFER__PACKED_ROLES] = { "qweight", "qzeros", "scales", "g_idx", "bias" };

/* ---- the names --------------------------------------------------------------------------------------------------- */

/* How many bytes of a name are before its last part, with the dot; 0: there is no dot. */
static size_t packed_prefix(const coffer_tensor *tensor)
{
    size_t len = tensor->name_len;
    while (len > 0 && tensor->name[len - 1] != '.') {
        len--;
    }
    return len;
}

static bool packed_role_of(const coffer_tensor *tensor, size_t prefix, coffer__packed_role *role)
{
    for (size_t i = 0; i < COFFER__PACKED_ROLES; i++) {
        if (coffer__text_is(tensor->name + prefix, tensor->name_len - prefix, packed_names[i])) {
            *role = (coffer__packed_role)i;
            return true;
        }
    }
    return false;
}

/* ---- the shapes -------------------------------------------------------------------------------------------------- */

/* A tensor that the layer does not have, of the optional ones, is as it should be. */
static bool packed_has_shape(const coffer_tensor *tensor, uint64_t first, uint64_t second)
{
    return tensor == NULL || (tensor->rank == 2 && tensor->shape[0] == first && tensor->shape[1] == second);
}

static bool packed_has_length(const coffer_tensor *tensor, uint64_t length)
{
    return tensor == NULL || (tensor->rank == 1 && tensor->shape[0] == length);
}

/* Groups are powers of two in all programs that write them. Where the last group is shorter the quotient is another
   number, mostly, or does not come out even; which inputs a group has is not known then. */
static bool packed_is_even(uint64_t inputs, uint64_t groups)
{
    const uint64_t size = groups > 0 && inputs % groups == 0 ? inputs / groups : 0;
    return groups == 1 || (size > 1 && (size & (size - 1)) == 0);
}

/* How many inputs a layer of GPTQ has. Without g_idx it follows from how outputs are packed into zeros, which inputs
   are into weights, too. 0: not known. */
static uint64_t packed_inputs(const coffer__packed *packed)
{
    const coffer_tensor *groups = packed->tensors[COFFER__PACKED_GROUPS];
    const coffer_tensor *zeros = packed->tensors[COFFER__PACKED_ZEROS];
    uint64_t product = 0;
    if (groups != NULL) {
        return groups->rank == 1 ? groups->shape[0] : 0;
    }
    if (zeros == NULL || zeros->rank != 2 || zeros->shape[1] == 0 ||
        !coffer__mul_u64(packed->tensors[COFFER__PACKED_WEIGHT]->shape[0], packed->outputs, &product)) {
        return 0;
    }
    return product % zeros->shape[1] == 0 ? product / zeros->shape[1] : 0;
}

/* The scales are the one tensor that is not packed, so they say how many outputs there are. A weight as wide as they is
   packed along its inputs, as in GPTQ, and one that is narrower by a whole factor along its outputs, as in AWQ. */
static void packed_measure(coffer__packed *packed)
{
    const coffer_tensor *weight = packed->tensors[COFFER__PACKED_WEIGHT];
    const coffer_tensor *scales = packed->tensors[COFFER__PACKED_SCALES];
    const coffer_tensor *zeros = packed->tensors[COFFER__PACKED_ZEROS];
    if (scales == NULL || scales->rank != 2 || weight->rank != 2 || weight->size == 0 || scales->size == 0) {
        return;
    }
    const uint64_t groups = scales->shape[0];
    const uint64_t width = weight->shape[1];
    packed->outputs = scales->shape[1];
    if (width == packed->outputs) {
        packed->inputs = packed_inputs(packed);
        packed->known = zeros == NULL || (zeros->rank == 2 && zeros->shape[0] == groups);
    } else {
        packed->inputs = weight->shape[0];
        packed->known = packed->outputs % width == 0 && packed_has_shape(zeros, groups, width);
    }
    packed->known = packed->known && packed->inputs > 0 &&
                    packed_has_length(packed->tensors[COFFER__PACKED_GROUPS], packed->inputs) &&
                    packed_has_length(packed->tensors[COFFER__PACKED_BIAS], packed->outputs);
    packed->even = packed_is_even(packed->inputs, groups);
}

/* ---- for split.c ------------------------------------------------------------------------------------------------- */

/* The names of the roles are of usual tensors, too, such as "bias". It is the weight that makes it a packed layer, and so
   most tensors are told apart by one look-up, or by none. */
bool coffer__packed_find(const coffer *model, const coffer_tensor *tensor, coffer__packed *packed)
{
    char name[PACKED_NAME];
    const size_t prefix = packed_prefix(tensor);
    *packed = (coffer__packed){ .known = false };
    if (prefix == 0 || prefix > sizeof name - 8 || !packed_role_of(tensor, prefix, &packed->role)) {
        return false;
    }
    memcpy(name, tensor->name, prefix);
    for (size_t i = 0; i < COFFER__PACKED_ROLES; i++) {
        const size_t len = coffer__text_len(packed_names[i]);
        memcpy(name + prefix, packed_names[i], len);
        packed->tensors[i] = coffer_find(model, name, prefix + len);
        if (packed->tensors[COFFER__PACKED_WEIGHT] == NULL) {
            return false;
        }
    }
    packed_measure(packed);
    return true;
}

/* Scales and zeros go by groups, each of which lies within one rank's inputs. Where the file says by g_idx which group
   each input has, the groups may be mixed; they are numbers of all groups, so every rank has all scales. One group for
   all inputs is every rank's as well. */
int32_t coffer__packed_dim(const coffer__packed *packed, coffer__packed_role role, bool outputs)
{
    const bool grouped =
        packed->tensors[COFFER__PACKED_GROUPS] == NULL && packed->tensors[COFFER__PACKED_SCALES]->shape[0] > 1;
    switch (role) {
    case COFFER__PACKED_WEIGHT:
        return outputs ? 1 : 0;
    case COFFER__PACKED_GROUPS:
        return outputs ? -1 : 0;
    case COFFER__PACKED_BIAS:
        return outputs ? 0 : -1;
    default:
        return outputs ? 1 : grouped ? 0 : -1;
    }
}
