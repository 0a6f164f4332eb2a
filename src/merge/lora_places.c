/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the modules of an adapter belong. Programs name the same tensor with more or fewer components before the name:
 * `h.0.attn.c_attn.weight` is `transformer.h.0.attn.c_attn.weight` in a model with a head, and `down_blocks.0…` of a
 * diffusers folder is `unet.down_blocks.0…` in an adapter for a pipeline. So each name of the base is found without up
 * to four of its first components; the fewest that are missing count, and two places of as many are none.
 *
 * There are two orders of the names: as they are, and with underscores in place of dots, which is what kohya's names are.
 */
#include "alloc.h"
#include "checked.h"
#include "error.h"
#include "lora.h"
#include "sort.h"

#include <string.h>

#define LORA_MAX_LEFT_OUT 4 /* components of a base's name */

/* A name of the base without `left_out` components. */
typedef struct coffer__lora_place {
    size_t at;  /* of the whole name in the text */
    size_t len; /* of what is left of it */
    size_t tensor;
    unsigned left_out;
} lora_place;

/* ---- the index --------------------------------------------------------------------------------------------------- */

/* The names as one of the two orders has them. */
typedef struct lora_order {
    const coffer__lora_places *places;
    const uint32_t *items;
    bool flat;
} lora_order;

static lora_order lora_order_of(const coffer__lora_places *places, bool flat)
{
    return (lora_order){ places, flat ? places->by_flat : places->by_name, flat };
}

static coffer__name lora_place_name(const lora_order *order, const lora_place *item)
{
    const coffer_tensor *tensor = coffer_at(order->places->base, item->tensor);
    const char *whole = order->flat ? order->places->text + item->at : tensor->name;
    const size_t cut = tensor->name_len - item->len;
    return (coffer__name){ whole + cut, item->len };
}

static bool lora_place_before(const void *ctx, uint32_t a, uint32_t b)
{
    const lora_order *order = ctx;
    const lora_place *one = &order->places->items[a];
    const lora_place *other = &order->places->items[b];
    const coffer__name name = lora_place_name(order, one);
    const coffer__name second = lora_place_name(order, other);
    const int compared = coffer__compare_names(name.text, name.len, second.text, second.len);
    return compared != 0 ? compared < 0 : one->left_out < other->left_out;
}

/* Adds a tensor's name, and what is left of it without its first components. */
static void lora_place_add(coffer__lora_places *places, size_t tensor, const coffer_tensor *from, size_t at)
{
    size_t cut = 0;
    for (unsigned left_out = 0; left_out <= LORA_MAX_LEFT_OUT && cut < from->name_len; left_out++) {
        places->items[places->count] = (lora_place){ at, from->name_len - cut, tensor, left_out };
        places->by_name[places->count] = (uint32_t)places->count;
        places->by_flat[places->count] = (uint32_t)places->count;
        places->count++;
        const char *dot = memchr(from->name + cut, '.', from->name_len - cut);
        cut = dot != NULL ? (size_t)(dot - from->name) + 1 : from->name_len;
    }
}

static void lora_place_flatten(char *text, const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        text[i] = name[i] == '.' ? '_' : name[i];
    }
}

static void lora_places_fill(coffer__lora_places *places)
{
    size_t at = 0;
    const size_t count = coffer_count(places->base);
    for (size_t i = 0; i < count; i++) {
        const coffer_tensor *tensor = coffer_at(places->base, i);
        lora_place_flatten(places->text + at, tensor->name, tensor->name_len);
        lora_place_add(places, i, tensor, at);
        at += tensor->name_len;
    }
    const lora_order by_name = lora_order_of(places, false);
    const lora_order by_flat = lora_order_of(places, true);
    coffer__sort(places->by_name, places->count, lora_place_before, &by_name);
    coffer__sort(places->by_flat, places->count, lora_place_before, &by_flat);
}

coffer_status coffer__lora_places_open(coffer__lora_places *places, const coffer *base,
                                       const coffer_allocator *allocator, coffer_error *err)
{
    const size_t count = coffer_count(base);
    *places = (coffer__lora_places){ .allocator = allocator, .base = base };
    for (size_t i = 0; i < count; i++) {
        places->text_size += coffer_at(base, i)->name_len; /* all of them are in memory already */
    }
    if (count > UINT32_MAX / (LORA_MAX_LEFT_OUT + 1)) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED, "the base model has too many tensors");
    }
    places->capacity = count * (LORA_MAX_LEFT_OUT + 1);
    places->text = coffer__alloc_array(allocator, places->text_size, 1, err);
    places->items = coffer__alloc_array(allocator, places->capacity, sizeof *places->items, err);
    places->by_name = coffer__alloc_array(allocator, places->capacity, sizeof *places->by_name, err);
    places->by_flat = coffer__alloc_array(allocator, places->capacity, sizeof *places->by_flat, err);
    if (places->text == NULL || places->items == NULL || places->by_name == NULL || places->by_flat == NULL) {
        return COFFER_ERR_MEMORY;
    }
    lora_places_fill(places);
    return COFFER_OK;
}

void coffer__lora_places_free(coffer__lora_places *places)
{
    coffer__free_array(places->allocator, places->text, places->text_size, 1);
    coffer__free_array(places->allocator, places->items, places->capacity, sizeof *places->items);
    coffer__free_array(places->allocator, places->by_name, places->capacity, sizeof *places->by_name);
    coffer__free_array(places->allocator, places->by_flat, places->capacity, sizeof *places->by_flat);
}

/* ---- looking up -------------------------------------------------------------------------------------------------- */

/* The first item whose name is not before the wanted one. */
static size_t lora_place_first(const lora_order *order, coffer__name wanted)
{
    size_t low = 0;
    size_t high = order->places->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const coffer__name name = lora_place_name(order, &order->places->items[order->items[middle]]);
        const bool before = coffer__compare_names(name.text, name.len, wanted.text, wanted.len) < 0;
        low = before ? middle + 1 : low;
        high = before ? high : middle;
    }
    return low;
}

/* The item at a place of the order, if it has the name and lacks at most so many components; else NULL. */
static const lora_place *lora_place_at(const lora_order *order, size_t i, coffer__name wanted, unsigned most)
{
    if (i >= order->places->count) {
        return NULL;
    }
    const lora_place *item = &order->places->items[order->items[i]];
    const coffer__name name = lora_place_name(order, item);
    const bool is = name.len == wanted.len && memcmp(name.text, wanted.text, name.len) == 0;
    return is && item->left_out <= most ? item : NULL;
}

/* The first item lacks the fewest components. A second one that lacks as many makes two places. */
static size_t lora_place_find(const lora_order *order, coffer__name wanted, unsigned most)
{
    const size_t first = lora_place_first(order, wanted);
    const lora_place *found = lora_place_at(order, first, wanted, most);
    if (found == NULL) {
        return COFFER__LORA_NO_PLACE;
    }
    return lora_place_at(order, first + 1, wanted, found->left_out) != NULL ? COFFER__LORA_TWO_PLACES : found->tensor;
}

/* As it is; without its first component, which may say which model of a pipeline it is for; under further components. */
static size_t lora_place_of(const lora_order *order, coffer__name name)
{
    size_t found = lora_place_find(order, name, 0);
    const char *dot = order->flat ? NULL : memchr(name.text, '.', name.len);
    if (found == COFFER__LORA_NO_PLACE && dot != NULL) {
        const size_t cut = (size_t)(dot - name.text) + 1;
        found = lora_place_find(order, (coffer__name){ name.text + cut, name.len - cut }, 0);
    }
    return found != COFFER__LORA_NO_PLACE ? found : lora_place_find(order, name, LORA_MAX_LEFT_OUT);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* Whether a component stands in a name only because of an adapter. */
static bool lora_place_is_own(const char *component, size_t len)
{
    return (len == 9 && memcmp(component, "processor", 9) == 0) ||
           (len == 10 && memcmp(component, "base_layer", 10) == 0);
}

/* Copies a name without those components. What is left of it has a dot between any two, as it had before. */
static size_t lora_place_spell(coffer__name name, char *buffer)
{
    size_t len = 0;
    for (size_t at = 0; at < name.len;) {
        const char *dot = memchr(name.text + at, '.', name.len - at);
        const size_t end = dot != NULL ? (size_t)(dot - name.text) : name.len;
        if (!lora_place_is_own(name.text + at, end - at)) {
            if (len > 0) {
                buffer[len++] = '.';
            }
            memcpy(buffer + len, name.text + at, end - at);
            len += end - at;
        }
        at = end + 1;
    }
    return len;
}

/* In names with a `processor`, to_out is what is now the first of a list. */
static size_t lora_place_finish(const coffer__lora_said *said, char *buffer, size_t len)
{
    static const char out[] = ".to_out";
    const size_t out_len = sizeof out - 1;
    const bool is_out =
        len + 1 < said->module.len && len > out_len && memcmp(buffer + len - out_len, out, out_len) == 0;
    const char *rest = said->part == COFFER__LORA_WHOLE ? "" : is_out ? ".0.weight" : ".weight";
    memcpy(buffer + len, rest, strlen(rest));
    return len + strlen(rest);
}

size_t coffer__lora_place(const coffer__lora_places *places, const coffer__lora_said *said, char *buffer)
{
    size_t len = said->module.len;
    if (said->flat) {
        lora_place_flatten(buffer, said->module.text, len);
        memcpy(buffer + len, "_weight", sizeof "_weight" - 1);
        len += sizeof "_weight" - 1;
    } else {
        len = lora_place_finish(said, buffer, lora_place_spell(said->module, buffer));
    }
    const lora_order order = lora_order_of(places, said->flat);
    return lora_place_of(&order, (coffer__name){ buffer, len });
}
