/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of coffer/mix.h, in parts that know each other by this file:
 *
 *   lora_config   adapter_config.json: from text to factors
 *   lora_names    what the name of an adapter's tensor says: which module, and which part of it
 *   lora          an adapter, opened: its modules
 *   lora_places   where modules belong in a base model
 *   lora_merge    the plan: which tensors are changed, by what
 *   lora_sum      the numbers
 */
#ifndef COFFER_MIX_LORA_H
#define COFFER_MIX_LORA_H

#include "coffer.h"
#include "names.h"

#include <stddef.h>

/* ---- configuration ----------------------------------------------------------------------------------------------- */

/* A number for modules whose names match: an entry of rank_pattern or alpha_pattern. */
typedef struct coffer__lora_pattern {
    coffer__name key; /* in the configuration's text block */
    double value;
} coffer__lora_pattern;

typedef struct coffer__lora_patterns {
    coffer__lora_pattern *items;
    size_t count;
    size_t room;
} coffer__lora_patterns;

/* What a configuration says. Begins as zeros. */
typedef struct coffer__lora_config {
    bool present;
    double rank;
    double alpha;
    bool by_root; /* use_rslora */
    bool fan_in_fan_out;
    coffer__lora_patterns ranks;
    coffer__lora_patterns alphas;
    char *text; /* the strings that patterns point into */
    size_t text_size;
    size_t text_used;
} coffer__lora_config;

/* Reads the text. `config` is released by coffer__lora_config_free in any case. */
coffer_status coffer__lora_config_read(coffer__lora_config *config, const char *text, size_t len,
                                       const coffer_allocator *allocator, coffer_error *err);
void coffer__lora_config_free(coffer__lora_config *config, const coffer_allocator *allocator);
/* The factor of a module, `rank` being that of its matrices; fails when the configuration states another rank. */
coffer_status coffer__lora_config_factor(const coffer__lora_config *config, coffer__name module, uint64_t rank,
                                         double *factor, coffer_error *err);
/* A number of JSON as a double; false for what is none, or beyond a double's range. */
bool coffer__lora_number(const char *text, size_t len, double *value);

/* ---- names ------------------------------------------------------------------------------------------------------- */

typedef enum coffer__lora_part {
    COFFER__LORA_DOWN = 0, /* A: rank rows */
    COFFER__LORA_UP = 1,   /* B: rank columns */
    COFFER__LORA_ALPHA = 2,
    COFFER__LORA_WHOLE = 3, /* not a part: a tensor that replaces another one */
    COFFER__LORA_PARTS = 4
} coffer__lora_part;

/* What a name says. */
typedef struct coffer__lora_said {
    coffer__name module; /* the name without what only adapters have at its beginning and end; of a whole tensor, all */
    coffer__lora_part part;
    bool embedding;
    bool flat;     /* the module's dots are underscores */
    bool prefixed; /* it began as PEFT's names do */
    bool below;    /* of a whole tensor: it is the base of a layer with an adapter, which is added to it */
} coffer__lora_said;

/* Takes a name apart. Fails with COFFER_ERR_UNSUPPORTED for a part of another kind of adapter. */
coffer_status coffer__lora_understand(coffer__name name, coffer__lora_said *said, coffer_error *err);

/* ---- an adapter -------------------------------------------------------------------------------------------------- */

typedef struct coffer__lora_module {
    coffer__lora_said said; /* of its first tensor */
    const coffer_tensor *parts[COFFER__LORA_PARTS];
    uint64_t rank; /* 0: a whole tensor */
    double factor; /* alpha / rank */
} coffer__lora_module;

struct coffer_lora {
    coffer_allocator allocator;
    coffer *model;
    coffer__lora_config config;
    coffer__lora_module *modules; /* in order of their names */
    size_t count;
    size_t room; /* of modules */
};

/* The tensor that stands for a module in messages. */
static inline const coffer_tensor *coffer__lora_named(const coffer__lora_module *module)
{
    const coffer_tensor *down = module->parts[COFFER__LORA_DOWN];
    return down != NULL ? down : module->parts[COFFER__LORA_WHOLE];
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* The names of a base model, to be looked up with leading components missing, and with underscores for dots. */
typedef struct coffer__lora_places {
    const coffer_allocator *allocator;
    const coffer *base;
    char *text; /* the names, one after the other, with underscores for dots */
    size_t text_size;
    struct coffer__lora_place *items;
    uint32_t *by_name; /* the items by what is left of their names, and then by how much was left out, … */
    uint32_t *by_flat; /* … and by the same with underscores */
    size_t count;
    size_t room;
} coffer__lora_places;

#define COFFER__LORA_NO_PLACE SIZE_MAX
#define COFFER__LORA_TWO_PLACES (SIZE_MAX - 1)

coffer_status coffer__lora_places_open(coffer__lora_places *places, const coffer *base,
                                       const coffer_allocator *allocator, coffer_error *err);
void coffer__lora_places_close(coffer__lora_places *places);
/* The number of the tensor that a module is for, or one of the two numbers above. `buffer` has room for the module's name
   and 12 bytes. */
size_t coffer__lora_place(const coffer__lora_places *places, const coffer__lora_said *said, char *buffer);

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* A product of two matrices, row-major: left of rows x rank, right of rank x columns. */
typedef struct coffer__lora_product {
    const float *left;
    const float *right;
    uint64_t rank;
    uint64_t columns;
    double scale;
} coffer__lora_product;

/* Adds `count` elements of the product, from its element `first` on, to values, in F32. At most COFFER__LORA_MOST_SUMS at
   a time. */
#define COFFER__LORA_MOST_SUMS 1024
void coffer__lora_add(const coffer__lora_product *product, uint64_t first, size_t count, float *values);
/* The same with values in F64: sums are in F32, and are multiplied and added in F64. */
void coffer__lora_add_wide(const coffer__lora_product *product, uint64_t first, size_t count, double *values);

#endif
