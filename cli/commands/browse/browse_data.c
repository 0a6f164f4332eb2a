/* SPDX-License-Identifier: Apache-2.0 */
/* What is browsed: see browse_data.h for the contract. */
#include "browse_data.h"

#include <stdlib.h>
#include <string.h>

browse_item browse_item_at(const browse_data *data, size_t item)
{
    return data->pairs != NULL ? data->pairs[item] : (browse_item){ coffer_at(data->models[0], item), NULL };
}

const coffer_tensor *browse_tensor_at(const browse_data *data, size_t item)
{
    const browse_item pair = browse_item_at(data, item);
    return pair.a != NULL ? pair.a : pair.b;
}

static bool same_kind(const coffer_tensor *a, const coffer_tensor *b)
{
    return strcmp(coffer_tensor_dtype_name(a), coffer_tensor_dtype_name(b)) == 0 && a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0);
}

browse_difference browse_difference_at(const browse_data *data, size_t item)
{
    if (data->pairs == NULL) {
        return BROWSE_ALIKE;
    }
    const browse_item *pair = &data->pairs[item];
    if (pair->a == NULL || pair->b == NULL) {
        return pair->b == NULL ? BROWSE_ONLY_A : BROWSE_ONLY_B;
    }
    return same_kind(pair->a, pair->b) ? BROWSE_ALIKE : BROWSE_OTHER_KIND;
}

static bool match_names(browse_data *data)
{
    const coffer *a = data->models[0];
    const coffer *b = data->models[1];
    const size_t count_a = coffer_count(a);
    const size_t count_b = coffer_count(b);
    data->pairs = malloc((count_a + count_b + 1) * sizeof *data->pairs);
    if (data->pairs == NULL) {
        return false;
    }
    for (size_t i = 0; i < count_a; i++) {
        const coffer_tensor *tensor = coffer_at(a, i);
        data->pairs[i] = (browse_item){ tensor, coffer_find(b, tensor->name, tensor->name_len) };
    }
    data->count = count_a;
    for (size_t i = 0; i < count_b; i++) {
        const coffer_tensor *tensor = coffer_at(b, i);
        if (coffer_find(a, tensor->name, tensor->name_len) == NULL) {
            data->pairs[data->count++] = (browse_item){ NULL, tensor };
        }
    }
    return true;
}

bool browse_data_make(browse_data *data, const coffer *a, const char *path_a, const coffer *b, const char *path_b)
{
    *data = (browse_data){ .paths = { path_a, path_b }, .models = { a, b }, .count = coffer_count(a) };
    if (b != NULL && !match_names(data)) {
        return false;
    }
    for (size_t i = 0; i < data->count; i++) {
        const coffer_tensor *tensor = browse_tensor_at(data, i);
        data->bytes += tensor->size;
        data->elements += coffer_tensor_elements(tensor);
    }
    return true;
}

void browse_data_free(browse_data *data)
{
    free(data->pairs);
    data->pairs = NULL;
}
