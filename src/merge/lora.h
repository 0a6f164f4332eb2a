/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of coffer/merge.h, in parts that know each other by this file:
 *
 *   lora_config   adapter_config.json: from text to factors
 *   lora_names    what the name of an adapter's tensor says: which module, and which part of it
 *   lora_shapes   what shapes say: which matrices a module has, and whether they fit a tensor of the base
 *   lora          an adapter, opened: its modules
 *   lora_places   where modules belong in a base model
 *   lora_merge    the plan: which tensors are changed, by what
 *   lora_load     matrices, read into memory
 *   lora_norms    lengths of rows, for DoRA, before the first byte is written
 *   lora_sum      the numbers
 *
 * Every kind of adapter is made of one matrix or two (LoHa, LoKr), each of which is whole or the product of two thin ones.
 * How the two become one is a function in lora_sum; nothing else goes by the kind.
 */
#ifndef COFFER_MERGE_LORA_H
#define COFFER_MERGE_LORA_H

#include "coffer.h"
#include "names.h"

#include <stddef.h>

/* What PEFT calls the two files of an adapter. */
#define COFFER__LORA_FILE_NAME "adapter_model.safetensors"
#define COFFER__LORA_CONFIG_NAME "adapter_config.json"

/* ---- configuration ----------------------------------------------------------------------------------------------- */

/* A number for modules whose names match: an entry of rank_pattern or alpha_pattern. */
typedef struct coffer__lora_pattern {
    coffer__name key; /* in the configuration's text block */
    double value;
} coffer__lora_pattern;

typedef struct coffer__lora_patterns {
    coffer__lora_pattern *items;
    size_t count;
    size_t capacity;
    uint32_t *by_key; /* the items in order of their keys, of the same ones the first */
    size_t key_count;
    size_t key_capacity;
} coffer__lora_patterns;

/* What a configuration says. Begins as zeros. */
typedef struct coffer__lora_config {
    bool present;
    coffer_adapter_kind kind; /* peft_type: LoRA, LoHa or LoKr */
    double rank;
    double lora_alpha;
    double alpha;      /* the same of LoHa and LoKr */
    bool by_root;      /* use_rslora */
    bool by_magnitude; /* use_dora */
    bool fan_in_fan_out;
    coffer__name base; /* base_model_name_or_path and task_type, as JSON has strings; empty for null */
    coffer__name task;
    coffer__lora_patterns ranks;
    coffer__lora_patterns alphas;
    char *text; /* the strings that patterns and the two above point into */
    size_t text_size;
    size_t text_used;
} coffer__lora_config;

/* Reads the text. `config` is released by coffer__lora_config_free in any case. */
coffer_status coffer__lora_config_read(coffer__lora_config *config, const char *text, size_t len,
                                       const coffer_allocator *allocator, coffer_error *err);
void coffer__lora_config_free(coffer__lora_config *config, const coffer_allocator *allocator);
/* The factor of a module, `rank` being that of its matrices, or 0 when they have none; fails when the configuration states
   another rank. */
coffer_status coffer__lora_config_factor(const coffer__lora_config *config, coffer__name module, uint64_t rank,
                                         double *factor, coffer_error *err);
/* Whether a pattern that is this text stands for nothing but it. */
bool coffer__lora_config_is_plain(coffer__name key);
/* A number of JSON as a double; false for what is none, or beyond a double's range. */
bool coffer__lora_number(const char *text, size_t len, double *value);

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* The parts of a module's first matrix. Those of the second one are COFFER__LORA_SECOND and on, in the same order. */
typedef enum coffer__lora_part {
    COFFER__LORA_DOWN = 0, /* its right factor, A: rank rows */
    COFFER__LORA_UP = 1,   /* its left factor, B: rank columns */
    COFFER__LORA_CORE = 2, /* of a convolution, what is between the two: rank x rank x kernel */
    COFFER__LORA_FULL = 3, /* the matrix itself */
    COFFER__LORA_SECOND = 4,
    COFFER__LORA_ALPHA = 8,
    COFFER__LORA_MAGNITUDE = 9, /* of DoRA */
    COFFER__LORA_WHOLE = 10,    /* not a part: a tensor that replaces another one */
    COFFER__LORA_PARTS = 11
} coffer__lora_part;

/* What a name says. */
typedef struct coffer__lora_said {
    coffer__name module; /* the name without what only adapters have at its beginning and end; of a whole tensor, all */
    coffer__name beginning;   /* what was before it */
    unsigned part;            /* a coffer__lora_part */
    coffer_adapter_kind kind; /* COFFER_ADAPTER_WHOLE where any kind may have the part */
    bool embedding;
    bool flat;     /* the module's dots are underscores */
    bool prefixed; /* it began as PEFT's names do */
    bool below;    /* of a whole tensor: it is the base of a layer with an adapter, which is added to it */
} coffer__lora_said;

/* Takes a name apart. Fails with COFFER_ERR_UNSUPPORTED for a part of another kind of adapter. */
coffer_status coffer__lora_understand(coffer__name name, coffer__lora_said *said, coffer_error *err);

/* ---- an adapter -------------------------------------------------------------------------------------------------- */

/* A matrix of a module, as the shapes of its tensors have it. */
typedef struct coffer__lora_shape {
    uint64_t rows;
    uint64_t columns;
    uint64_t rank;   /* of its factors; 0: it is whole */
    uint64_t kernel; /* columns that a core makes of each column of the right factor; 1 without one */
} coffer__lora_shape;

typedef struct coffer__lora_module {
    coffer__lora_said said; /* of its first tensor */
    const coffer_tensor *parts[COFFER__LORA_PARTS];
    coffer_adapter_kind kind;
    coffer__lora_shape shapes[2]; /* of a kind with one matrix, the second is all zeros */
    uint64_t rank;                /* 0: no matrix has factors */
    double factor;                /* alpha / rank */
} coffer__lora_module;

struct coffer_lora {
    coffer_allocator allocator;
    coffer *model;
    coffer__lora_config config;
    coffer__lora_module *modules; /* in order of their names */
    size_t count;
    size_t capacity; /* of modules */
};

/* Whether a kind is made of two matrices. */
static inline bool coffer__lora_is_double(coffer_adapter_kind kind)
{
    return kind == COFFER_ADAPTER_LOHA || kind == COFFER_ADAPTER_LOKR;
}

/* Whether up is stored the other way round, as LoHa and LoKr have it beside a core. */
static inline bool coffer__lora_is_turned(const coffer__lora_module *module, const coffer_tensor *core)
{
    return core != NULL && coffer__lora_is_double(module->kind);
}

/* The tensor that stands for a module in messages. */
static inline const coffer_tensor *coffer__lora_named(const coffer__lora_module *module)
{
    size_t i = 0;
    while (i < COFFER__LORA_WHOLE && module->parts[i] == NULL) {
        i++;
    }
    return module->parts[i];
}

/* Fails for a tensor of an adapter; `what` follows its name. */
coffer_status coffer__lora_fail(coffer_error *err, coffer_status status, const coffer_tensor *tensor, const char *what);

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

/* Finds the matrices of a module, which is none that replaces a tensor, and its rank. Fails when a tensor is missing or is
   there twice, and when they do not fit each other. */
coffer_status coffer__lora_measure(coffer__lora_module *module, coffer_error *err);
/* Whether a module fits a tensor of the base; *transposed tells which way round. Where both ways fit, `prefers` decides. */
bool coffer__lora_fits(const coffer__lora_module *module, const coffer_tensor *base, bool prefers, bool *transposed);

/* Whether two modules with a pair of matrices each can be added: they are for tensors of the same shape. */
bool coffer__lora_compatible(const coffer__lora_module *one, const coffer__lora_module *other);

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* The names of a base model, to be looked up with leading components missing, and with underscores for dots. */
typedef struct coffer__lora_places {
    const coffer_allocator *allocator;
    const coffer *base;
    char *text; /* the names, one after the other, with underscores for dots */
    size_t text_size;
    struct coffer__lora_place *items;
    uint32_t *by_name; /* the items by what is left of their names, and then by how much was left out */
    uint32_t *by_flat; /* the items by the same names with underscores */
    size_t count;
    size_t capacity;
} coffer__lora_places;

#define COFFER__LORA_NO_PLACE SIZE_MAX
#define COFFER__LORA_TWO_PLACES (SIZE_MAX - 1)

coffer_status coffer__lora_places_open(coffer__lora_places *places, const coffer *base,
                                       const coffer_allocator *allocator, coffer_error *err);
void coffer__lora_places_free(coffer__lora_places *places);
/* The number of the tensor that a module is for, or one of the two numbers above. `buffer` has space for the module's name
   and 12 bytes. */
size_t coffer__lora_place(const coffer__lora_places *places, const coffer__lora_said *said, char *buffer);

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* A matrix in memory, row-major: left of rows x rank times right of rank x columns, or right alone. */
typedef struct coffer__lora_matrix {
    const float *left;
    const float *right;
    uint64_t rows;
    uint64_t columns;
    uint64_t rank; /* 0: right is the matrix */
} coffer__lora_matrix;

/* What an adapter adds to a tensor, and by what the sum is multiplied. */
typedef struct coffer__lora_product {
    coffer_adapter_kind kind;
    coffer__lora_matrix matrices[2];
    uint64_t columns; /* of the tensor as a matrix */
    double scale;
    double *factors; /* of DoRA: one for each row; else NULL */
    bool by_columns; /* `factors` has one for each column */
} coffer__lora_product;

/* Adds `count` elements of the product, from its element `first` on, to values, in F32, and multiplies the sums by their
   factors. At most COFFER__LORA_MAX_SUMS at a time. */
#define COFFER__LORA_MAX_SUMS 1024
void coffer__lora_add(const coffer__lora_product *product, uint64_t first, size_t count, float *values);
/* The same with values in F64: sums are in F32, and all else is in F64. */
void coffer__lora_add_wide(const coffer__lora_product *product, uint64_t first, size_t count, double *values);

/* ---- a merge ----------------------------------------------------------------------------------------------------- */

/* A module at its place. */
typedef struct coffer__lora_change {
    size_t tensor; /* of the base */
    const coffer__lora_module *module;
    coffer_lora_update update;
    coffer__lora_product product; /* matrices and factors are read when the plan is carried out */
    const float *magnitudes;      /* of DoRA */
} coffer__lora_change;

typedef struct coffer__lora_merge {
    coffer_allocator allocator;
    const coffer *base;
    coffer_adapter *adapters;
    size_t adapter_count;
    coffer__lora_change *changes; /* by tensor, and then by adapter */
    coffer_lora_update *updates;  /* theirs */
    size_t count;
    size_t capacity;
    size_t *first; /* of each tensor of the base, its first change; one more at the end */
    size_t first_capacity;
    float *matrices; /* of all changes */
    size_t matrices_count;
    double *factors; /* likewise */
    size_t factors_count;
    bool replaces; /* some change is a whole tensor */
} coffer__lora_merge;

static inline const coffer *coffer__lora_model_of(const coffer__lora_merge *merge, const coffer__lora_change *change)
{
    return merge->adapters[change->update.adapter].lora->model;
}

/* How many factors a change of DoRA has. */
static inline uint64_t coffer__lora_lines(const coffer__lora_change *change)
{
    const coffer__lora_product *product = &change->product;
    return product->by_columns ? product->columns : product->matrices[0].rows;
}

/* Reads the elements of a tensor as F32. Fails for one that is infinite or a NaN. `buffer` has COFFER__LORA_BUFFER_SIZE
   bytes. */
#define COFFER__LORA_BUFFER_SIZE ((size_t)1 << 20)
coffer_status coffer__lora_read(const coffer *model, const coffer_tensor *tensor, float *to, uint8_t *buffer,
                                coffer_error *err);
/* Reads the matrices of all changes into memory. What it allocated is released with the merge. */
coffer_status coffer__lora_load(coffer__lora_merge *merge, coffer_error *err);
/* Finds the factors of all changes of DoRA, whose matrices are in memory: reads the tensors that they are for. */
coffer_status coffer__lora_find_norms(coffer__lora_merge *merge, const coffer_read_options *options, coffer_error *err);

#endif
