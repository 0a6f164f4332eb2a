/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the shapes of a module's tensors say: which matrices it has, and whether they fit a tensor of the base.
 *
 *     up     rows x rank, of LoHa and LoKr with a core rank x rows
 *     down   rank x columns; of a convolution without a core its kernel is part of the columns
 *     core   rank x rank x kernel
 *     full   rows x columns x kernel
 *
 * Dimensions of one element at the end are as good as none: a linear layer and a convolution of one point are the same
 * matrix.
 */
#include "checked.h"
#include "error.h"
#include "lora.h"

coffer_status coffer__lora_fail(coffer_error *err, coffer_status status, const coffer_tensor *tensor, const char *what)
{
    coffer__fail(err, status, "tensor %q of the adapter %s", tensor->name, (size_t)tensor->name_len, what);
    return coffer__fail_tensor(err, status, tensor->name, tensor->name_len);
}

/* ---- matrices ---------------------------------------------------------------------------------------------------- */

static coffer_status lora_fail_lonely(const coffer__lora_module *module, const coffer_tensor *one, coffer_error *err)
{
    return coffer__lora_fail(err, COFFER_ERR_NO_TENSOR, one != NULL ? one : coffer__lora_named(module),
                             one != NULL ? "is without the other of its two matrices"
                                         : "is without the matrices that it belongs to");
}

static coffer_status lora_measure_full(const coffer_tensor *full, coffer__lora_shape *shape, coffer_error *err)
{
    const uint64_t elements = coffer_tensor_elements(full);
    if (full->rank < 2 || elements == 0) {
        return coffer__lora_fail(err, COFFER_ERR_SIZE, full, "is no matrix: the file is damaged");
    }
    *shape = (coffer__lora_shape){ full->shape[0], elements / full->shape[0], 0, 1 };
    return COFFER_OK;
}

/* The kernel is what the core has beside the rank, twice. */
static bool lora_measure_core(const coffer_tensor *core, coffer__lora_shape *shape)
{
    const uint64_t elements = coffer_tensor_elements(core);
    if (core->rank < 2 || core->shape[0] != shape->rank || core->shape[1] != shape->rank || elements == 0) {
        return false;
    }
    shape->kernel = elements / shape->rank / shape->rank;
    return coffer__mul_u64(shape->columns, shape->kernel, &shape->columns);
}

/* The inner dimensions have to be the same. Outer ones are compared with the base's. */
static coffer_status lora_measure_factors(const coffer__lora_module *module, const coffer_tensor *const *parts,
                                          coffer__lora_shape *shape, coffer_error *err)
{
    const coffer_tensor *down = parts[COFFER__LORA_DOWN];
    const coffer_tensor *up = parts[COFFER__LORA_UP];
    const coffer_tensor *core = parts[COFFER__LORA_CORE];
    if (down == NULL || up == NULL) {
        return lora_fail_lonely(module, down != NULL ? down : up, err);
    }
    const size_t inner = coffer__lora_is_turned(module, core) ? 0 : 1;
    if (down->rank < 2 || up->rank < 2 || down->shape[0] != up->shape[inner] || down->shape[0] == 0) {
        return coffer__lora_fail(err, COFFER_ERR_SIZE, down,
                                 "and its counterpart have no common rank above 0: the file is damaged");
    }
    *shape = (coffer__lora_shape){ .rows = up->shape[1 - inner],
                                   .columns = coffer_tensor_elements(down) / down->shape[0],
                                   .rank = down->shape[0],
                                   .kernel = 1 };
    return core == NULL || lora_measure_core(core, shape)
               ? COFFER_OK
               : coffer__lora_fail(err, COFFER_ERR_SIZE, core, "is no core of its matrices: the file is damaged");
}

static coffer_status lora_measure_matrix(coffer__lora_module *module, size_t which, coffer_error *err)
{
    const coffer_tensor *const *parts = module->parts + which * COFFER__LORA_SECOND;
    const coffer_tensor *full = parts[COFFER__LORA_FULL];
    if (full == NULL) {
        return lora_measure_factors(module, parts, &module->shapes[which], err);
    }
    for (size_t i = 0; i < COFFER__LORA_FULL; i++) {
        if (parts[i] != NULL) {
            return coffer__lora_fail(err, COFFER_ERR_DUPLICATE_NAME, parts[i],
                                     "is a factor of a matrix that is there as a whole: the file is damaged");
        }
    }
    return lora_measure_full(full, &module->shapes[which], err);
}

/* LoHa's matrices have the same shape. Ranks are the same wherever there are any. */
static bool lora_agree(const coffer__lora_module *module)
{
    const coffer__lora_shape *one = &module->shapes[0];
    const coffer__lora_shape *other = &module->shapes[1];
    if (module->kind == COFFER_ADAPTER_LOHA && (one->rows != other->rows || one->columns != other->columns)) {
        return false;
    }
    return one->rank == other->rank || one->rank == 0 || other->rank == 0;
}

coffer_status coffer__lora_measure(coffer__lora_module *module, coffer_error *err)
{
    const size_t count = coffer__lora_is_double(module->kind) ? 2 : 1;
    for (size_t i = 0; i < count; i++) {
        const coffer_status status = lora_measure_matrix(module, i, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    module->rank = module->shapes[0].rank > 0 ? module->shapes[0].rank : module->shapes[1].rank;
    return count == 1 || lora_agree(module)
               ? COFFER_OK
               : coffer__lora_fail(err, COFFER_ERR_SIZE, coffer__lora_named(module),
                                   "and the others of its place differ in rank or shape: the file is damaged");
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* How many dimensions there are without those of one element at the end. */
static size_t lora_trimmed(const coffer_tensor *tensor)
{
    size_t rank = tensor->rank;
    while (rank > 0 && tensor->shape[rank - 1] == 1) {
        rank--;
    }
    return rank;
}

/* Whether two tensors are the same from dimension `from` on. */
static bool lora_same_from(size_t from, const coffer_tensor *one, const coffer_tensor *other)
{
    const size_t rank = lora_trimmed(one) > from ? lora_trimmed(one) : from;
    const size_t own = lora_trimmed(other) > from ? lora_trimmed(other) : from;
    if (rank != own) {
        return false;
    }
    for (size_t i = from; i < rank; i++) {
        if (one->shape[i] != other->shape[i]) {
            return false;
        }
    }
    return true;
}

/* The shape of the base is [rows of up, …those of down but its first]. */
static bool lora_fits_plainly(const coffer_tensor *base, const coffer_tensor *down, const coffer_tensor *up)
{
    return base->rank >= 2 && base->shape[0] == up->shape[0] && lora_same_from(1, base, down);
}

static bool lora_fits_transposed(const coffer_tensor *base, const coffer_tensor *down, const coffer_tensor *up)
{
    return base->rank == 2 && down->rank == 2 && base->shape[0] == down->shape[1] && base->shape[1] == up->shape[0];
}

/* The base is as large as the matrix, in rows and columns. */
static bool lora_fits_flat(const coffer__lora_module *module, const coffer_tensor *base)
{
    const coffer__lora_shape *one = &module->shapes[0];
    const coffer__lora_shape *other = &module->shapes[1];
    uint64_t rows = one->rows;
    uint64_t columns = one->columns;
    if (module->kind == COFFER_ADAPTER_LOKR &&
        (!coffer__mul_u64(rows, other->rows, &rows) || !coffer__mul_u64(columns, other->columns, &columns))) {
        return false;
    }
    return base->rank >= 2 && rows > 0 && base->shape[0] == rows && coffer_tensor_elements(base) / rows == columns;
}

/* Whether a part is as it has to be in any module: `up` a matrix; what states a kernel, that of the base; LoKr's first
   matrix without one. */
static bool lora_part_fits(const coffer__lora_module *module, size_t part, const coffer_tensor *base)
{
    const coffer_tensor *tensor = module->parts[part];
    const size_t role = part % COFFER__LORA_SECOND;
    if (tensor == NULL || (role == COFFER__LORA_DOWN && module->parts[part + COFFER__LORA_CORE] == NULL)) {
        return true;
    }
    const bool states = role == COFFER__LORA_CORE || part == COFFER__LORA_SECOND + COFFER__LORA_FULL;
    return lora_trimmed(tensor) <= 2 || (states && lora_same_from(2, base, tensor));
}

/* DoRA has a number for each output: each row, or where the product is transposed, each column. */
static bool lora_magnitude_fits(const coffer__lora_module *module)
{
    const coffer_tensor *magnitude = module->parts[COFFER__LORA_MAGNITUDE];
    return magnitude == NULL || coffer_tensor_elements(magnitude) == module->shapes[0].rows;
}

bool coffer__lora_fits(const coffer__lora_module *module, const coffer_tensor *base, bool prefers, bool *transposed)
{
    const coffer_tensor *down = module->parts[COFFER__LORA_DOWN];
    const coffer_tensor *up = module->parts[COFFER__LORA_UP];
    bool fits = lora_magnitude_fits(module);
    for (size_t i = 0; i < COFFER__LORA_ALPHA && fits; i++) {
        fits = lora_part_fits(module, i, base);
    }
    *transposed = false;
    if (!fits) {
        return false;
    }
    if (coffer__lora_is_double(module->kind) || module->parts[COFFER__LORA_CORE] != NULL) {
        return lora_fits_flat(module, base);
    }
    *transposed = (prefers || module->said.embedding) && lora_fits_transposed(base, down, up);
    return *transposed || (!module->said.embedding && lora_fits_plainly(base, down, up));
}

bool coffer__lora_compatible(const coffer__lora_module *one, const coffer__lora_module *other)
{
    return one->said.embedding == other->said.embedding && one->shapes[0].rows == other->shapes[0].rows &&
           lora_same_from(1, one->parts[COFFER__LORA_DOWN], other->parts[COFFER__LORA_DOWN]);
}
