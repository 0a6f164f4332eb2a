/* SPDX-License-Identifier: Apache-2.0 */
/* Layers in names, and lists of them: see rewrite_layers.h for the contracts. */
#include "rewrite_layers.h"

#include "alloc.h"
#include "error.h"

#include <string.h>

#define LAYER_MAX 65536u /* numbers; no model is that deep */

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* Where the part that begins at `at` ends: at a dot, or at the name's end. */
static size_t layer_part_end(coffer__name name, size_t at)
{
    const char *dot = at < name.len ? memchr(name.text + at, '.', name.len - at) : NULL;
    return dot != NULL ? (size_t)(dot - name.text) : name.len;
}

static bool layer_is_word(const char *part, size_t part_len)
{
    static const char *const words[] = { "layers", "layer", "h", "blocks", "block", "blk" };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strlen(words[i]) == part_len && memcmp(words[i], part, part_len) == 0) {
            return true;
        }
    }
    return false;
}

/* Digits alone, spelt as numbers are: "007" would not come back as it was. */
static bool layer_is_number(const char *part, size_t part_len, uint32_t *number)
{
    uint32_t value = 0;
    for (size_t i = 0; i < part_len; i++) {
        if (part[i] < '0' || part[i] > '9') {
            return false;
        }
        value = value < LAYER_MAX ? 10 * value + (uint32_t)(part[i] - '0') : value;
    }
    *number = value < LAYER_MAX ? value : COFFER__NO_LAYER;
    return part_len > 0 && (part_len == 1 || part[0] != '0');
}

bool coffer__layer_find(coffer__name name, coffer__layer_place *place)
{
    size_t at = 0;
    while (at < name.len) {
        const size_t end = layer_part_end(name, at);
        const size_t next = end < name.len ? end + 1 : end;
        const size_t next_end = layer_part_end(name, next);
        if (layer_is_word(name.text + at, end - at) && next_end < name.len &&
            layer_is_number(name.text + next, next_end - next, &place->number)) {
            place->stack_len = end;
            place->end = next_end;
            return true;
        }
        at = next;
    }
    return false;
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

static coffer_status layer_no_list(const char *text, const char *why, coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_ARGUMENT, "%q is no list of layers, such as 0-15,20: %s", text, strlen(text),
                        why);
}

/* A number at *text, which moves past it; false: there is none, or it is too large. */
static bool layer_read_number(const char **text, uint32_t *number)
{
    const char *digits = *text;
    *number = 0;
    while (**text >= '0' && **text <= '9' && *number < LAYER_MAX) {
        *number = 10 * *number + (uint32_t)(**text - '0');
        (*text)++;
    }
    return *text > digits && *number < LAYER_MAX;
}

/* Lists are read once to find the largest number and once to number the layers: `list` is NULL the first time. */
static coffer_status layer_read_items(const char *text, coffer__layer_list *list, uint32_t *largest, coffer_error *err)
{
    const char *next = text;
    for (;;) {
        uint32_t first = 0;
        uint32_t last = 0;
        if (!layer_read_number(&next, &first)) {
            return layer_no_list(text, "a number from 0 to 65535 is missing", err);
        }
        last = first;
        if (*next == '-') {
            next++;
            if (!layer_read_number(&next, &last) || last < first) {
                return layer_no_list(text, "a range needs a first and a last layer, the last one not below the first",
                                     err);
            }
        }
        *largest = last > *largest ? last : *largest;
        for (uint32_t i = first; list != NULL && i <= last; i++) {
            if (list->number_of[i] != COFFER__NO_LAYER) {
                return layer_no_list(text, "a layer is in it twice", err);
            }
            list->number_of[i] = list->count++;
        }
        if (*next == '\0') {
            return COFFER_OK;
        }
        if (*next++ != ',') {
            return layer_no_list(text, "numbers and ranges have commas between them", err);
        }
    }
}

coffer_status coffer__layer_list_read(coffer__layer_list *list, const char *text, coffer_error *err)
{
    uint32_t largest = 0;
    coffer_status status = layer_read_items(text, NULL, &largest, err);
    if (status != COFFER_OK) {
        return status;
    }
    list->number_of = coffer__alloc_array(list->allocator, largest + 1, sizeof *list->number_of, err);
    if (list->number_of == NULL) {
        return COFFER_ERR_MEMORY;
    }
    list->capacity = largest + 1;
    list->count = 0;
    for (uint32_t i = 0; i < list->capacity; i++) {
        list->number_of[i] = COFFER__NO_LAYER;
    }
    return layer_read_items(text, list, &largest, err);
}

uint32_t coffer__layer_new_number(const coffer__layer_list *list, uint32_t number)
{
    return number < list->capacity ? list->number_of[number] : COFFER__NO_LAYER;
}

void coffer__layer_list_free(coffer__layer_list *list)
{
    coffer__free_array(list->allocator, list->number_of, list->capacity, sizeof *list->number_of);
    list->number_of = NULL;
    list->capacity = 0;
}
