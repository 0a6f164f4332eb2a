/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer/rewrite.h - a model written again with other names, other dtypes, fewer tensors, other metadata, another
 * alignment or another format: in its own place or somewhere else, as one file or as several.
 *
 *     coffer_rewrite_rule rules[] = { { COFFER_REWRITE_CAST, COFFER_BF16, "*", NULL } };
 *     coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
 *     options.rules = rules;
 *     options.rule_count = 1;
 *     coffer_rewrite *rewrite;
 *     coffer_rewrite_plan(&rewrite, model, &options, &err);     nothing is written: look at what would be
 *     coffer_rewrite_run(rewrite, NULL, &err);                  now it is
 *     coffer_rewrite_free(rewrite);
 */
#ifndef COFFER_REWRITE_H
#define COFFER_REWRITE_H

#include "edit.h"
#include "write.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a rule does with the tensors whose names match its pattern. */
typedef enum coffer_rewrite_kind {
    COFFER_REWRITE_DROP = 1,   /* leaves them out */
    COFFER_REWRITE_KEEP = 2,   /* keeps them: with one such rule or more, what none of them matches is left out */
    COFFER_REWRITE_RENAME = 3, /* gives them other names */
    COFFER_REWRITE_CAST = 4,   /* gives them another dtype */
    /* Renames the one tensor whose name is `pattern`, to the byte, to `name`: no character is special in either.
       There may be as many of these as there are tensors. Since 0.2, as are those below. */
    COFFER_REWRITE_RENAME_EXACT = 5,
    /* Renames by a POSIX extended regular expression, which may match anywhere in a name: the first match becomes
       `name`, in which \1 to \9 are what groups took, & or \0 is the whole match, and a backslash takes any other
       character as it is. In any locale of the program, by the characters of UTF-8 where the system has the
       locale C.UTF-8, else by bytes. A name with a NUL in it, or of more than 4096 bytes, never matches.
       COFFER_ERR_UNSUPPORTED on Windows. */
    COFFER_REWRITE_RENAME_REGEX = 6,
    COFFER_REWRITE_RENAME_REGEX_ALL = 7, /* the same for every match in a name, from left to right */
    COFFER_REWRITE_RENAME_MAP = 8,       /* renames by the known map that `pattern` names: see coffer_rewrite_map_at */
    /* Keeps the layers that `pattern` lists, "0-15,20", leaves the others out, and numbers those that are kept 0, 1,
       2, … in the order of the list. A layer is what a name has after the first part "layers", "layer", "h",
       "blocks", "block" or "blk" that a number follows: "model.layers.3.mlp.up". `name` says which stack of layers,
       "model.layers"; NULL: that of the model, which may have only one then. Tensors in no layer stay. Cannot be
       combined with renames. */
    COFFER_REWRITE_LAYERS = 9
} coffer_rewrite_kind;

/* The most `*` in the pattern of a rename. */
#define COFFER_REWRITE_MAX_STARS 16

/*
 * One rule. In a pattern, where the kind says nothing else, `*` is any text, `?` one character, `[a-z]` one of a set,
 * and a backslash takes the next character as it is; the whole name has to match. Every pattern has to match a tensor.
 * Of several renames that match a tensor the first counts, likewise of several casts. All patterns are about the names
 * that the model has, never about new ones, so that two renames can exchange names.
 */
typedef struct coffer_rewrite_rule {
    coffer_rewrite_kind kind;
    coffer_dtype dtype; /* cast to: COFFER_F16, COFFER_BF16, COFFER_F32, COFFER_F64, COFFER_F8_E4M3, COFFER_F8_E5M2 */
    /* NULL, of a cast alone: every float, but for those of 4 and 6 bits and F8_E8M0, which are of no use without what
       they are scaled by, or scale. */
    const char *pattern;
    /* Of a rename: the new name. Each `*` becomes what the `*` of the same place in the pattern took (the shortest text
       that serves), and a backslash takes the next character as it is; of the other kinds, as these say. */
    const char *name;
} coffer_rewrite_rule;

/* What a rewrite is to do, and where. */
typedef struct coffer_rewrite_options {
    size_t struct_size;
    const coffer_allocator *allocator; /* as in coffer_open_options; casting calls it from several threads at once */
    const coffer_rewrite_rule *rules;  /* with their strings borrowed until the plan is freed, as are the edits */
    size_t rule_count;
    const coffer_edit *edits; /* of the metadata; where a key comes twice, the last edit counts */
    size_t edit_count;
    /* The path of the new file, which for several files has to end in NAME.safetensors, as for coffer_model_writer. No
       file that the model is read from may be replaced or removed. NULL: the new files replace the model, which then
       has to have been opened by a path, and whole. Borrowed until the plan is freed. */
    const char *output;
    /* COFFER_FORMAT_ANY: that of the model, with the alignment of its data and the slack that it has. Any other one: as
       that format's own writers write it, without slack. */
    coffer_format format;
    /* Of the data's start, at least: a power of two from 8 on. 0: tensors are not moved to be aligned. */
    uint64_t alignment;
    /* Bytes of tensors in a file, as in coffer_model_writer_options; UINT64_MAX: one file. 0: every tensor stays in its
       file. */
    uint64_t max_shard_size;
    uint64_t max_header_size; /* as in coffer_parse_options */
    /* To record; COFFER_NO_ALGORITHM: by that with which the model records them, if it does. */
    coffer_algorithm digests;
    coffer_sync sync;
    /* As in coffer_edit_options. Of several files, symbolic links are never replaced; with hard links, the other name
       keeps the old file. */
    bool follow_links;
    /* As in coffer_model_writer_options; in place, files that are not the model's are replaced, too. */
    bool force;
    bool ignore_unmatched; /* a rule that matches no tensor is no failure. Since 0.2, as is what follows */
    /* Told of every two tensors that would have one name, `name`, before the plan fails of that; NULL: err names the
       first two. What it is given is borrowed until it returns. */
    void (*collision)(void *ctx, const coffer_tensor *first, const coffer_tensor *second, const char *name,
                      size_t name_len);
    void *collision_ctx;
    /* Write files anew that have tensors which the index says are in others (COFFER_NOTE_SUPERSEDED), without these. */
    bool drop_superseded;
    /* Files that are published with the new model in the folder of `output`, as in coffer_model_writer_options.
       Borrowed until the plan is freed; what is in them is read when the plan is carried out, so that it can say what
       is planned. An output with companions is safetensors, and its path ends as one of several files does. */
    const coffer_companion *companions;
    size_t companion_count;
    /* Where the new model goes is not known yet, and `output` does not count: such a plan can only be checked, by all
       but what is asked of the place. */
    bool unplaced;
} coffer_rewrite_options;
#define COFFER_REWRITE_OPTIONS_INIT                                                                                    \
    {                                                                                                                  \
        sizeof(coffer_rewrite_options), NULL, NULL, 0, NULL, 0, NULL, COFFER_FORMAT_ANY, 0, 0, 0, COFFER_NO_ALGORITHM, \
            COFFER_SYNC_REPLACE, false, false, false, NULL, NULL, false, NULL, 0, false                                \
    }

/* Known maps from the names of one program to those of another, where nothing but the names differs: map number `i`,
   and in *about (when not NULL) a line on what it does. NULL after the last. docs/editing.md has them all, with
   their sources. Static strings; any thread. Since 0.2. */
COFFER_API const char *coffer_rewrite_map_at(size_t i, const char **about);

/* How a rewrite is done. */
typedef enum coffer_rewrite_way {
    COFFER_REWRITE_NOTHING = 0, /* the model is that way already, and there is no output */
    /* Only metadata or names change: each file is edited as by coffer_edit_metadata, and tensors stay where they are,
       in the order that they have. Several files change together, with their index where names do, and a crash leaves
       what coffer_recover finishes or undoes. */
    COFFER_REWRITE_HEADERS = 1,
    COFFER_REWRITE_FILES = 2 /* new files are written, and take their places together when all of them are complete */
} coffer_rewrite_way;

/* Why new files are written: the first of these that holds. Since 0.2. */
typedef enum coffer_rewrite_reason {
    COFFER_REWRITE_NO_REASON = 0,   /* they are not */
    COFFER_REWRITE_FOR_OUTPUT = 1,  /* an output was asked for */
    COFFER_REWRITE_FOR_DATA = 2,    /* tensors are left out, cast, moved, or divided among files in another way */
    COFFER_REWRITE_FOR_FORMAT = 3,  /* another format, or one in which names cannot be changed in place */
    COFFER_REWRITE_FOR_DIGESTS = 4, /* digests are recorded, and that of a tensor is of its name, too */
    COFFER_REWRITE_FOR_SHARDED = 5  /* headers change of several files, which get other names themselves */
} coffer_rewrite_reason;

/* What is to be done, in numbers. Handed out by pointer, and grows at its end in later versions. */
typedef struct coffer_rewrite_summary {
    coffer_rewrite_way way;
    size_t file_count;    /* of the new model */
    size_t tensor_count;  /* likewise */
    uint64_t size_before; /* bytes of the model's files, without an index */
    uint64_t size;        /* the same of the new model's; where only metadata change, of files that would be written */
    uint64_t copied; /* bytes of tensors that stay as they are: where the system can, they never come into memory */
    uint64_t cast;   /* bytes of tensors, in their new dtypes, that are cast or computed otherwise */
    coffer_rewrite_reason reason; /* why `way` is COFFER_REWRITE_FILES. Since 0.2, as is what follows */
    /* Once a rewrite of headers has run: how the files were edited, of several the way that takes longest. */
    coffer_edit_way edited;
    /* Of a rewrite of headers, from the plan on: the most bytes by which a new header is longer than the space for it;
       how many files lack space, which are cloned or copied then; and the bytes of those files. */
    uint64_t lacking;
    size_t lacking_count;
    uint64_t lacking_size;
} coffer_rewrite_summary;

/* What becomes of one tensor. Handed out by pointer, and grows at its end in later versions. */
typedef struct coffer_rewrite_change {
    const coffer_tensor *from;
    const coffer_tensor
        *to;             /* with its new name, dtype and offset in its file, which `shard` numbers; NULL: left out */
    uint64_t overflowed; /* numbers that a cast made infinite, in F8_E4M3 448, once it has run */
    uint64_t vanished;   /* numbers that a cast made zero */
    bool computed;       /* its numbers are changed by a plan of coffer/merge.h. Since 0.2, as is what follows */
    /* Once a plan of coffer/quantised.h has run: numbers that are NaN, and uses of zero points of GPTQ of which every
       bit is set, which programs read in different ways. */
    uint64_t nans;
    uint64_t wrapped;
} coffer_rewrite_change;

/* A plan, and what carries it out. One thread at a time. */
typedef struct coffer_rewrite coffer_rewrite;

/*
 * Plans a rewrite. No tensor is read and nothing is written; but a single file that is to be replaced is locked against
 * edits of its metadata until the plan is freed (COFFER_ERR_LOCKED). The model is borrowed until then. Everything that
 * follows from the headers is refused here: a pattern that matches nothing, or a layer that is not there
 * (COFFER_ERR_NO_TENSOR), an expression, map or list of layers that is not valid (COFFER_ERR_ARGUMENT), two tensors
 * that would have one name (COFFER_ERR_DUPLICATE_NAME), a cast of what is no float or a dtype that the format lacks
 * (COFFER_ERR_DTYPE), files whose metadata contradict each other and no edit settles it (COFFER_ERR_DUPLICATE_KEY), a
 * link that is not to be followed (COFFER_ERR_LINKED), a model without a place of its own, or of which only some files
 * are open (COFFER_ERR_UNSUPPORTED), an output that would replace or remove a file that the model is read from, under
 * any name (COFFER_ERR_ARGUMENT), a rewrite in place that would do so to a file that is not the model's
 * (COFFER_ERR_SHADOWED). err->tensor names the tensor, err->path the file.
 */
COFFER_API coffer_status coffer_rewrite_plan(coffer_rewrite **rewrite, const coffer *model,
                                             const coffer_rewrite_options *options, coffer_error *err);
/* Borrowed from the plan, like what it points to. */
COFFER_API const coffer_rewrite_summary *coffer_rewrite_summarize(const coffer_rewrite *rewrite);
/* What becomes of coffer_at(model, i); NULL when i is not below coffer_count(model). Borrowed from the plan. */
COFFER_API const coffer_rewrite_change *coffer_rewrite_at(const coffer_rewrite *rewrite, size_t i);
/* Of a rewrite by COFFER_REWRITE_LAYERS, by the first such rule: how many layers the stack had, *before, how many it
   has then, *after, and the old number of each of those, as far as `capacity` goes, in `from`; NULL when it is 0.
   False, and nothing else, for a rewrite without such a rule. Since 0.2. */
COFFER_API bool coffer_rewrite_layers(const coffer_rewrite *rewrite, uint32_t *from, size_t capacity, size_t *before,
                                      size_t *after);
/*
 * Carries the plan out, once. In new files tensors come in the order in which every writer puts them; casts round to
 * the nearest, of two that are as near to the even one, beyond the largest as coffer_encode, by several threads with at
 * most 4 MiB each.
 * Until the new files are complete nothing is touched: after any failure the old model is there as it was, and
 * COFFER_ERR_CHANGED means that somebody saved another one meanwhile, which stays. Several files, or their new headers,
 * take their places together: COFFER_ERR_UNFINISHED says that all is decided and coffer_recover has to finish.
 * `progress` counts the bytes of tensors (of an edit, those of coffer_edit_metadata). After a failure the plan can only
 * be freed.
 */
COFFER_API coffer_status coffer_rewrite_run(coffer_rewrite *rewrite, const coffer_read_options *options,
                                            coffer_error *err);
/*
 * Does what coffer_rewrite_run does before it writes the first byte of a tensor, and fails as that would: reads
 * what has to be known of tensors (those that an average leaves as they are, adapters), and makes the new files,
 * which have no name yet, get their space and are removed again. For one who asks first what a rewrite would do.
 * Afterwards the plan can only be freed. Since 0.2.
 */
COFFER_API coffer_status coffer_rewrite_check(coffer_rewrite *rewrite, const coffer_read_options *options,
                                              coffer_error *err);
/* Releases the plan and its lock; NULL is allowed. */
COFFER_API void coffer_rewrite_free(coffer_rewrite *rewrite);

#ifdef __cplusplus
}
#endif

#endif
