/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of a rewrite (coffer/rewrite.h), in seven parts that know each other by this file:
 *
 *   rewrite_rules   what the rules make of one tensor: one tensor at a time, with rewrite_maps and rewrite_layers
 *   rewrite         the plan: declarations, the files that they go to, the built header of each. No tensor is read
 *   rewrite_names   what the new files are called
 *   rewrite_guard   which files the new model replaces or removes, and whether it may
 *   rewrite_cast    the numbers of tensors that get another dtype or are computed, piece by piece
 *   rewrite_run     the new files, written as any writer writes them
 *   rewrite_headers only metadata, or names, edited in each file
 *
 * A plan is one header that declares every tensor of the new model, and a built header for each of its files, which
 * says where each tensor goes and how large the file is. A single file is written from its built header. Several files
 * are written by coffer_model_writer, which gets the same declarations and the same split (shards.h), so that the plan
 * shows what it does.
 */
#ifndef COFFER_WRITE_REWRITING_H
#define COFFER_WRITE_REWRITING_H

#include "coffer.h"
#include "index_members.h"
#include "names.h"
#include "os.h"
#include "paths.h"
#include "pattern.h"
#include "rewrite_layers.h"
#include "rewrite_maps.h"
#include "shards.h"
#include "writing.h"

/* A rule that is not of an exact name, made ready for many tensors. */
typedef struct coffer__rewrite_prepared {
    const coffer_rewrite_rule *rule;
    coffer__pattern pattern;        /* of the kinds that have one; of others unused */
    coffer__os_regex *regex;        /* of expressions, else NULL */
    const coffer__rewrite_map *map; /* of maps, else NULL */
    coffer__layer_list layers;      /* of lists of layers, else zeros */
} coffer__rewrite_prepared;

/* The rules, made ready. They are borrowed, and it must not move. */
typedef struct coffer__rewrite_rules {
    coffer_allocator allocator;
    const coffer_rewrite_rule *given;
    size_t count;
    const char *const *select; /* patterns of the tensors that rules are about */
    size_t select_count;
    coffer__rewrite_prepared *others; /* in order of the rules */
    size_t other_count;
    uint32_t *exact;      /* the rules of exact names, by their numbers */
    coffer__names names;  /* an index over the names that the rules of exact names are for */
    coffer__writing text; /* the name in question, with a NUL */
    coffer__writing name; /* the new one */
} coffer__rewrite_rules;

/* What becomes of one tensor. The name is borrowed from the rules until the next decision, or is the tensor's own. */
typedef struct coffer__rewrite_decision {
    coffer__name name;
    coffer_dtype dtype;
    bool renamed;
    bool left_out;
} coffer__rewrite_decision;

/* Fails when a rule is not valid or, unless the options ignore that, when it matches no tensor of the model.
   COFFER_ERR_ARGUMENT for the one, COFFER_ERR_NO_TENSOR for the other. coffer__rewrite_rules_free follows in any case. */
coffer_status coffer__rewrite_rules_init(coffer__rewrite_rules *rules, const coffer *model,
                                         const coffer_rewrite_options *options, const coffer_allocator *allocator,
                                         coffer_error *err);
void coffer__rewrite_rules_free(coffer__rewrite_rules *rules);
/* Fails when the tensor would be cast and is not a float: COFFER_ERR_DTYPE, with the tensor's name; or when a map cannot
   tell what it is: COFFER_ERR_ARGUMENT. */
coffer_status coffer__rewrite_decide(coffer__rewrite_decision *decision, coffer__rewrite_rules *rules,
                                     const coffer_tensor *tensor, coffer_error *err);

/* A tensor that takes the place of one of the model, and is made of others. Borrowed until the next is asked for. */
typedef struct coffer__rewrite_made {
    coffer__name name; /* unless a rule renames it */
    const uint64_t *shape;
    uint32_t rank;
    coffer_dtype dtype;
    bool left_out; /* it belongs to another one that is made */
} coffer__rewrite_made;

/* Bytes of a tensor that is made, from one of its elements on. */
typedef struct coffer__rewrite_part {
    const uint8_t *bytes; /* in the worker's memory */
    uint64_t overflowed;  /* as coffer_rewrite_change has them */
    uint64_t nans;
    uint64_t wrapped;
} coffer__rewrite_part;

/*
 * Numbers that a space above computes: which tensors, and what becomes of their numbers. They go the way of casts, piece
 * by piece: decoded, changed, and encoded with one rounding.
 *
 *   wants     whether the numbers of a tensor are computed; it is F16, BF16, F32 or F64
 *   prepare   once, before a byte is written; NULL: nothing
 *   fetch     reads what the elements of a piece need into the worker's memory; NULL: nothing
 *   change    changes `count` numbers, from element first + skip on, where fetch was called for `first`; 1024 at most
 *   change_floats   the same in F32, where the dtypes before and afterwards are F16, BF16 or F32; NULL: by `change`
 *   free      frees ctx
 *
 * Tensors that are made of others, be they of another shape, are asked for instead of all of these:
 *
 *   makes     whether a tensor is made, or left out since another one is; NULL: none is
 *   pieces    how many elements come together, from one that begins a piece
 *   make      makes a piece in the worker's memory
 *
 * fetch, make and the functions that change are called by several threads at once.
 */
typedef struct coffer__computing {
    bool (*wants)(const void *ctx, size_t tensor);
    coffer_status (*prepare)(void *ctx, const coffer_read_options *options, coffer_error *err);
    coffer_status (*fetch)(const void *ctx, uint8_t *memory, size_t tensor, uint64_t first, size_t count,
                           coffer_error *err);
    void (*change)(const void *ctx, const uint8_t *memory, size_t tensor, uint64_t first, size_t skip, size_t count,
                   double *values);
    void (*change_floats)(const void *ctx, const uint8_t *memory, size_t tensor, uint64_t first, size_t skip,
                          size_t count, float *values);
    bool (*makes)(void *ctx, size_t tensor, coffer__rewrite_made *made);
    uint64_t (*pieces)(const void *ctx, size_t tensor, uint64_t first);
    coffer_status (*make)(const void *ctx, uint8_t *memory, size_t tensor, uint64_t first, coffer__rewrite_part *part,
                          coffer_error *err);
    void (*free)(void *ctx);
    size_t memory_size; /* of each worker, in bytes */
    void *ctx;
} coffer__computing;

/* The most elements of a piece. */
#define COFFER__REWRITE_PIECE_ELEMENTS ((uint64_t)1 << 18)

/* As coffer_rewrite_plan, with numbers that are computed; NULL: none are. `computing` is copied, and released with the
   plan; after a failure it is the caller's. */
coffer_status coffer__rewrite_plan_computed(coffer_rewrite **rewrite, const coffer *model,
                                            const coffer_rewrite_options *options, const coffer__computing *computing,
                                            coffer_error *err);

/* The plan itself. rewrite.c fills it, one thread at a time; while it is carried out only `lock`,
   `run` and the counts in `changes` change. */
struct coffer_rewrite {
    coffer_allocator allocator;
    const coffer *model;
    coffer_rewrite_options options;
    coffer_rewrite_summary summary;
    bool changed;                   /* a tensor is left out, cast or moved */
    bool renamed;                   /* a tensor has another name */
    bool publishes_headers;         /* of several files, which change together */
    coffer__path target;            /* of the new file or model */
    bool owns_target;               /* the model is replaced, and one of its files has that name */
    bool keeps_names;               /* the new files have the names of the old ones */
    coffer__index_members members;  /* of the old index's metadata, which the new one has, too */
    int lock;                       /* the single file that is replaced; -1: none */
    coffer_header_options layout;   /* of every new file */
    coffer_algorithm digests;       /* which every new file records */
    size_t count;                   /* tensors of the model */
    coffer_rewrite_change *changes; /* by their number in the model */
    coffer_tensor *places;          /* what `to` of the changes points to */
    coffer_header *header;          /* declares everything */
    uint32_t *sources;              /* by declaration: which tensor of the model it is */
    uint32_t *shard_of;             /* by declaration: the file that the tensor comes from */
    coffer__shards shards;          /* the files that they go to; begins as none */
    coffer_header **headers;        /* of each file, built */
    coffer__computing computing;    /* all NULL: nothing is computed */
    bool run;
};

/* What becomes of the tensor of declaration `number`. Tensors that are left out have no declaration. */
static inline coffer_rewrite_change *coffer__rewrite_change_of(const coffer_rewrite *rewrite, size_t number)
{
    return &rewrite->changes[rewrite->sources[number]];
}

/* Whether it is made of other tensors, and has nothing of the one in its place. */
static inline bool coffer__rewrite_is_made(const coffer_rewrite *rewrite, const coffer_rewrite_change *change)
{
    return change->computed && rewrite->computing.make != NULL;
}

/* Whether its bytes are made here, by a cast or otherwise. The tensor must not be left out. */
static inline bool coffer__rewrite_is_cast(const coffer_rewrite_change *change)
{
    return change->to->dtype != change->from->dtype || change->computed;
}

/* Whether the new files have the names of the old ones, once it is known how many they are. The
   result belongs in rewrite->keeps_names, on which coffer__rewrite_name_file depends. */
bool coffer__rewrite_can_keep_names(const coffer_rewrite *rewrite);
/* The path of a new file; false when it is too long. */
bool coffer__rewrite_name_file(const coffer_rewrite *rewrite, size_t file, coffer__path *path);
/* Fails when a file that the new model replaces or removes is one that has to stay: COFFER_ERR_ARGUMENT or
   COFFER_ERR_SHADOWED, with the path. Sets rewrite->owns_target. */
coffer_status coffer__rewrite_guard(coffer_rewrite *rewrite, coffer_error *err);

/* Where the new bytes go: one of the two is set. */
typedef struct coffer__rewrite_target {
    coffer_writer *file;
    coffer_model_writer *files;
} coffer__rewrite_target;

/* Writes every tensor that is cast, and counts what was lost. The options' progress counts bytes of
   the new tensors. Threads are joined when it returns. After a failure the target can only be
   freed. */
coffer_status coffer__rewrite_cast(coffer_rewrite *rewrite, const coffer__rewrite_target *target,
                                   const coffer_read_options *options, coffer_error *err);

/* Fails with COFFER_ERR_CHANGED when a file of the model that is replaced, or its index, is not the one that was read. */
coffer_status coffer__rewrite_check_unchanged(const coffer_rewrite *rewrite, coffer_error *err);
/* Sets in the summary which files lack space for their new headers. Reads the headers again. */
coffer_status coffer__rewrite_measure_headers(coffer_rewrite *rewrite, coffer_error *err);
/* Makes the new headers ready for a commit, each beside its file or in a new one, or leaves a file as it is. */
coffer_status coffer__rewrite_fill_headers(coffer_rewrite *rewrite, coffer_model_writer *files,
                                           const coffer_read_options *read, coffer_error *err);
/* Edits the header of a single file, and gives up its lock before. */
coffer_status coffer__rewrite_header(coffer_rewrite *rewrite, const coffer_read_options *read, coffer_error *err);

#endif
