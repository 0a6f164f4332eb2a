/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer/merge.h - models computed from others: averages, and adapters (LoRA) merged into what they were trained on,
 * extracted from what they were merged into, or added to one.
 *
 *     coffer_lora *lora;
 *     coffer_lora_open(&lora, "adapter/", NULL, NULL, &err);
 *     coffer_adapter adapter = { lora, 1.0 };
 *     coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
 *     options.output = "merged.safetensors";
 *     coffer_rewrite *rewrite;
 *     coffer_merge_lora_plan(&rewrite, base, &adapter, 1, NULL, &options, &err);     nothing is written yet
 *     coffer_rewrite_run(rewrite, NULL, &err);                                       now it is
 *     coffer_rewrite_free(rewrite);
 *     coffer_lora_close(lora);
 *
 * Since 0.2.
 */
#ifndef COFFER_MERGE_H
#define COFFER_MERGE_H

#include "model.h"
#include "rewrite.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Adapters ---------------------------------------------------------------------------------------------------- */

/* An adapter of low rank (LoRA, DoRA, LoHa, LoKr), opened: matrices, some for each tensor of a base model that it
   changes, and whole tensors that replace others. Immutable; any thread may use it. */
typedef struct coffer_lora coffer_lora;

/* How an adapter is opened. */
typedef struct coffer_lora_options {
    size_t struct_size;
    const coffer_allocator *allocator; /* as in coffer_open_options */
    /* Patterns for the names of the adapter's tensors (coffer_match_list): only those that they take count. Of a
       file for several models, `text_encoder.*` or `lora_unet_*`. */
    const char *const *select;
    size_t select_count; /* 0: all */
    /* The text of an adapter_config.json; NULL: that of the file next to the adapter, if there is one. */
    const char *config;
    size_t config_len;
} coffer_lora_options;
#define COFFER_LORA_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(coffer_lora_options), NULL, NULL, 0, NULL, 0                                                            \
    }

/*
 * Opens an adapter: a file, a folder with adapter_model.safetensors or with one model, or a URL of either. Reads the
 * header and the configuration, no matrices. `open` says how the file is opened; NULL: as by default. Three kinds of
 * names are understood:
 *
 *   PEFT        base_model.model.NAME.lora_A.weight, lora_B, lora_embedding_A and _B, lora_magnitude_vector (DoRA);
 *               NAME.hada_w1_a and others of LoHa, NAME.lokr_w1 and others of LoKr; whole tensors, as modules_to_save
 *               and trained biases are. adapter_config.json has to be there: the factor is lora_alpha / r, or
 *               lora_alpha / sqrt(r) with use_rslora, by rank_pattern and alpha_pattern (names or ends of names)
 *   kohya       lora_unet_NAME.lora_down.weight, lora_up, lora_mid and alpha, where the dots of the name are
 *               underscores; also lora_te_, lora_te1_, lora_te2_, lora_te3_, lora_transformer_ and lycoris_; hada_w1_a
 *               and lokr_w1 and their like of LyCORIS. The factor is alpha / rank, 1 without alpha or rank
 *   diffusers   unet.NAME.lora.down.weight, NAME.lora_A.weight, NAME.processor.to_q_lora.down.weight and their like,
 *               with alpha as in kohya's files
 *
 * COFFER_ERR_UNSUPPORTED for other kinds of adapters, by their names (OFT, VeRA, IA3, …; LyCORIS' dora_scale), for one
 * that is of another kind than its configuration states, for what is not added by a product (layer_replication,
 * target_parameters, PiSSA and others that changed the base), and for matrices that are no floats;
 * COFFER_ERR_NO_TENSOR when nothing is selected, and for one matrix without the other; COFFER_ERR_NOT_FOUND for PEFT's
 * names without a configuration; COFFER_ERR_DUPLICATE_NAME for two matrices of one place, or of two kinds;
 * COFFER_ERR_SIZE for matrices whose ranks differ or are 0; COFFER_ERR_JSON, COFFER_ERR_TYPE and COFFER_ERR_NUMBER for
 * the configuration. *lora is NULL on failure.
 */
COFFER_API coffer_status coffer_lora_open(coffer_lora **lora, const char *path, const coffer_open_options *open,
                                          const coffer_lora_options *options, coffer_error *err);
/* The model of the adapter's file, whose tensors are the matrices. Borrowed. */
COFFER_API const coffer *coffer_lora_model(const coffer_lora *lora);
/* Releases it; NULL is allowed. */
COFFER_API void coffer_lora_close(coffer_lora *lora);

/* ---- Merging ----------------------------------------------------------------------------------------------------- */

/* An adapter, and how much of it is added. Whole tensors replace others with any scale, and rows that DoRA
   changes get the lengths that were trained. */
typedef struct coffer_adapter {
    const coffer_lora *lora;
    double scale; /* 1: as it was trained. Finite */
} coffer_adapter;

/* Called for a tensor of an adapter that has no place in the base model; `why` says so in a few words: "the base has no
   such tensor". Both are borrowed for the call. */
typedef void (*coffer_lora_misfit)(void *ctx, size_t adapter, const coffer_tensor *tensor, const char *why);

/* How adapters are merged. */
typedef struct coffer_merge_lora_options {
    size_t struct_size;
    coffer_lora_misfit misfit; /* called for each of them before planning fails; NULL: the error names the first */
    void *misfit_ctx;
} coffer_merge_lora_options;
#define COFFER_MERGE_LORA_OPTIONS_INIT                                                                                 \
    {                                                                                                                  \
        sizeof(coffer_merge_lora_options), NULL, NULL                                                                  \
    }

/* What an adapter does to a tensor. Later versions may know further kinds. */
typedef enum coffer_adapter_kind {
    COFFER_ADAPTER_WHOLE = 0, /* a tensor that replaces another one */
    COFFER_ADAPTER_LORA = 1,  /* a product of two thin matrices is added */
    COFFER_ADAPTER_DORA = 2,  /* likewise, and then each row gets a length that was trained */
    COFFER_ADAPTER_LOHA = 3,  /* two such products, multiplied element by element */
    COFFER_ADAPTER_LOKR = 4   /* the Kronecker product of two matrices */
} coffer_adapter_kind;

/* The same of one tensor. Handed out by pointer, and grows at its end in later versions. */
typedef struct coffer_lora_update {
    size_t adapter; /* its number among those that are merged */
    uint64_t rank;  /* 0: the tensor is replaced, or what is added is made of no thin matrices, as LoKr may be */
    double scale;   /* all of it: the adapter's own factor times that of the merge */
    bool transposed;
    coffer_adapter_kind kind;
} coffer_lora_update;

/*
 * Plans a rewrite of the model in which the adapters are added to the tensors that they are for: coffer_rewrite_run
 * carries it out, and coffer_rewrite_at tells which tensors are `computed`. Nothing is read of tensors or written by
 * planning. The base, the adapters and what `rewriting` points to are borrowed until the plan is freed.
 *
 * For an element w of the base, in F32 (in F64 where base or result are), for each adapter in order:
 *
 *     w = w + scale * (B[i][0] * A[0][j] + B[i][1] * A[1][j] + …)      from left to right, each step rounded to F32
 *
 * and then w is rounded once to the dtype of the result, as by a cast. So the result does not depend on the number of
 * threads. Convolutions are matrices whose rows are their output channels; of embeddings, and with fan_in_fan_out
 * where the shape fits, the product is transposed. A core C (lora_mid, hada_t1, …) is multiplied with A first: at row
 * i, column c and element q of the kernel, that is the sum of C[i][j][q] * A[j][c] over j. With two matrices P and Q,
 * each as such a sum or whole, and Q of m rows and n columns, instead of the sum in brackets it is
 *
 *     LoHa    P[i][j] * Q[i][j]
 *     LoKr    P[i / m][j / n] * Q[i % m][j % n]
 *
 * With DoRA, w is then multiplied by the length that was trained for its row (its column, where the product is
 * transposed), divided by the length of that row of the base with the adapter's own product added to it, regardless of
 * what else is merged. Lengths are summed up in F64 before anything is written, for which those tensors are read once
 * more.
 *
 * An adapter's matrices are in memory, as F32, while the plan is carried out. COFFER_ERR_NUMBER then, before anything
 * is written, for a matrix with an infinity or a NaN, and for a row whose length is 0 or not finite.
 *
 * The name of an adapter's tensor is looked for as it is; else without its first component, or under further ones, if
 * exactly one tensor of the base has it so. Fails as coffer_rewrite_plan does, with COFFER_ERR_NO_TENSOR when tensors
 * of an adapter have no place, by name or by shape, or more than one; COFFER_ERR_DUPLICATE_NAME when two of one
 * adapter have the same, or one adapter replaces what another one changes; COFFER_ERR_DTYPE when the base's tensor is
 * not F16, BF16, F32 or F64, as in a quantised model. err->tensor names the tensor.
 */
COFFER_API coffer_status coffer_merge_lora_plan(coffer_rewrite **rewrite, const coffer *base,
                                                const coffer_adapter *adapters, size_t count,
                                                const coffer_merge_lora_options *options,
                                                const coffer_rewrite_options *rewriting, coffer_error *err);
/* Update `k` of what is done to coffer_at(base, i), from 0 on in the order of the adapters; NULL when there are no
   more, and for a plan that merges no adapters. Borrowed from the plan. */
COFFER_API const coffer_lora_update *coffer_merge_lora_at(const coffer_rewrite *rewrite, size_t i, size_t k);

/* ---- Extracting -------------------------------------------------------------------------------------------------- */

/* An adapter of what one model has and another has not: which tensors it changes, and then their matrices. For one
   thread at a time. */
typedef struct coffer_extraction coffer_extraction;

/* What an extraction makes of a tensor. Handed out by pointer, and grows at its end in later versions. */
typedef struct coffer_extracted {
    const coffer_tensor *tensor; /* of the base; borrowed */
    uint64_t rank;               /* of its two matrices; 0: the tuned tensor itself is written */
    bool transposed;             /* the product is the transposed difference, as in embeddings */
    /* The share of the difference that stays: 1 less the squared length of what is lost by that of the difference. 0
       until it is computed; 1 of a tensor that is written itself. */
    double kept;
} coffer_extracted;

/* Called for what the two models do not have in common; `model` is 0 for the base and 1 for the other, and `why` says
   in a few words what is wrong: "is missing". Both are borrowed for the call. */
typedef void (*coffer_extract_misfit)(void *ctx, size_t model, const coffer_tensor *tensor, const char *why);

/* How an adapter is extracted. */
typedef struct coffer_extract_lora_options {
    size_t struct_size;
    const coffer_allocator *allocator; /* NULL: coffer_libc_allocator() */
    uint64_t rank;                     /* of all pairs of matrices; at least 1, and has to be given */
    coffer_dtype dtype;                /* of the matrices: F32, BF16 or F16; COFFER_UNKNOWN_DTYPE: F32 */
    /* Patterns for names of tensors (coffer_match_list): only those that they take are compared. */
    const char *const *select;
    size_t select_count; /* 0: all */
    /* Matrices are stored as [in, out], as GPT-2's are (Conv1D). The adapter's configuration says it, too. */
    bool fan_in_fan_out;
    coffer_extract_misfit misfit; /* called for each of them before planning fails; NULL: the error names the first */
    void *misfit_ctx;
} coffer_extract_lora_options;
#define COFFER_EXTRACT_LORA_OPTIONS_INIT                                                                               \
    {                                                                                                                  \
        sizeof(coffer_extract_lora_options), NULL, 0, COFFER_UNKNOWN_DTYPE, NULL, 0, false, NULL, NULL                 \
    }

/*
 * Plans the adapter that makes `tuned` of `base`: reads and compares both, by several threads with 4 MiB each, and
 * writes nothing; progress counts elements. Of each tensor that differs it becomes
 *
 *   two matrices   of `rank`, where its name ends in .weight, it has 2 dimensions or more, and they are smaller than
 *                  it. Convolutions are matrices whose rows are their output channels; the product of embeddings, known
 *                  by their names (embed_tokens, wte, *embeddings, …), is transposed
 *   the tensor     of `tuned` itself, in any other case, as biases and norms
 *
 * Both models are borrowed until the plan is freed. COFFER_ERR_NO_TENSOR when the models do not have the same tensors,
 * by name and shape, among those that are selected, when none is, or when no tensor that has two matrices differs;
 * COFFER_ERR_DTYPE when a tensor differs that is not F16, BF16, F32 or F64; COFFER_ERR_NUMBER for an infinity or a
 * NaN in a tensor that gets two matrices; COFFER_ERR_UNSUPPORTED when the system has no LAPACK, which is loaded here,
 * and says what to install. err->tensor names the tensor. *extraction is NULL on failure.
 */
COFFER_API coffer_status coffer_extract_lora_plan(coffer_extraction **extraction, const coffer *base,
                                                  const coffer *tuned, const coffer_extract_lora_options *options,
                                                  const coffer_read_options *reading, coffer_error *err);
/* How many tensors differ. */
COFFER_API size_t coffer_extraction_count(const coffer_extraction *extraction);
/* What becomes of one of them, in the order of the base; NULL when i is not below the count. Borrowed from the plan. */
COFFER_API const coffer_extracted *coffer_extraction_at(const coffer_extraction *extraction, size_t i);
/*
 * Carries the plan out, once: writes adapter_model.safetensors, with PEFT's names, and adapter_config.json into a
 * folder, which has to be there. lora_alpha is the rank, so the adapter is added as it is. New files appear when both
 * are complete; older ones are replaced, and no crash leaves the matrices of one adapter with the configuration of
 * another.
 *
 * The difference is computed in F32 (in F64 where a tensor is, and then rounded). What is lost of it exceeds what the
 * best matrices of that rank would lose by no more than about a hundredth. The result does not depend on the number of
 * threads, and does on the LAPACK. Memory is 64 MiB (one row of the tensor, if that is more) for a part of the
 * difference, and about 4 * (rank + 16) * (2 * rows + 3 * columns) bytes besides. `writing` says how the file of
 * matrices is written, without `replaces` and `in_place`; NULL: as by default. `reading` is for both models; progress
 * counts elements. COFFER_ERR_NUMBER when numbers are too large for the matrices' dtype. After a failure the plan can
 * only be freed.
 */
COFFER_API coffer_status coffer_extract_lora_run(coffer_extraction *extraction, const char *folder,
                                                 const coffer_writer_options *writing,
                                                 const coffer_read_options *reading, coffer_error *err);
/* Releases the plan; NULL is allowed. */
COFFER_API void coffer_extraction_free(coffer_extraction *extraction);

/* ---- Adding ------------------------------------------------------------------------------------------------------ */

/* An adapter that does what several do together: which modules they have, and then its matrices. For one thread at a
   time. */
typedef struct coffer_addition coffer_addition;

/* A module of it. Handed out by pointer, and grows at its end in later versions. */
typedef struct coffer_added {
    const char
        *module; /* without what names of adapters begin and end with; not terminated. Borrowed from an adapter */
    size_t module_len;
    size_t adapter_count; /* how many of the adapters have it */
    uint64_t rank_sum;    /* of their matrices, together */
    uint64_t rank;        /* of its matrices */
    /* The share of the sum that stays with a smaller rank: 1 less the squared length of what is dropped by that of the
       sum. 0 until it is computed; 1 where no rank is dropped. */
    double kept;
} coffer_added;

/* How adapters are added. */
typedef struct coffer_add_lora_options {
    size_t struct_size;
    const coffer_allocator *allocator; /* NULL: coffer_libc_allocator() */
    uint64_t rank; /* the most that its matrices have; 0: as much as the adapters have together, and nothing is lost */
    coffer_dtype
        dtype; /* of its matrices: F32, BF16 or F16; COFFER_UNKNOWN_DTYPE: that of all of theirs, or else F32 */
} coffer_add_lora_options;
#define COFFER_ADD_LORA_OPTIONS_INIT                                                                                   \
    {                                                                                                                  \
        sizeof(coffer_add_lora_options), NULL, 0, COFFER_UNKNOWN_DTYPE                                                 \
    }

/*
 * Plans the adapter (LoRA) whose product is the sum of those of some adapters, each times its factor and its scale, in
 * every module that one of them has. Its own factor is 1. It has the names of the adapters, which are all of PEFT, with
 * their configurations, or none is. Nothing is read of tensors or written. The adapters are borrowed until the plan is
 * freed.
 *
 * COFFER_ERR_UNSUPPORTED for what is no product of two matrices: whole tensors, DoRA, LoHa, LoKr, a convolution's core;
 * for names of two kinds; for adapters that state different bases; and with a rank, when the system has no LAPACK.
 * COFFER_ERR_SIZE when the adapters are for tensors of different shapes; COFFER_ERR_ARGUMENT for a scale that is not
 * finite, and for a rank that is not below the largest that they have together. *addition is NULL on failure.
 */
COFFER_API coffer_status coffer_add_lora_plan(coffer_addition **addition, const coffer_adapter *adapters, size_t count,
                                              const coffer_add_lora_options *options, coffer_error *err);
/* How many modules it has. */
COFFER_API size_t coffer_addition_count(const coffer_addition *addition);
/* One of them, by their names; NULL when i is not below the count. Borrowed from the plan. */
COFFER_API const coffer_added *coffer_addition_at(const coffer_addition *addition, size_t i);
/* Whether it is a folder with two files, as PEFT has it; else it is one file. */
COFFER_API bool coffer_addition_is_folder(const coffer_addition *addition);
/*
 * Carries the plan out, once: writes adapter_model.safetensors and adapter_config.json into the folder `path`, which
 * has to be there; or the file `path`. Files appear, and are replaced, as those of coffer_extract_lora_run.
 *
 * Matrices are stacked: those that were lora_A as they are, those that were lora_B times factor and scale, rounded once
 * to F32, and then all to their dtype. With a smaller rank it is the best approximation of that rank, computed in F32
 * from the matrices alone (QR of both, and the singular values of a square matrix of the rank). Memory is about three
 * times the matrices of one module as F32, with a smaller rank five times and 13 squares of the rank. `writing` as of
 * coffer_extract_lora_run; of `reading` only progress counts, which is of modules. COFFER_ERR_NUMBER for a matrix with
 * an infinity or a NaN, and for numbers that are too large for the dtype. After a failure the plan can only be freed.
 */
COFFER_API coffer_status coffer_add_lora_run(coffer_addition *addition, const char *path,
                                             const coffer_writer_options *writing, const coffer_read_options *reading,
                                             coffer_error *err);
/* Releases the plan; NULL is allowed. */
COFFER_API void coffer_addition_free(coffer_addition *addition);

/* ---- Averages ---------------------------------------------------------------------------------------------------- */

/* The most models of an average. */
#define COFFER_AVERAGE_MAX_MODELS 64

/* Weights for the tensors whose names match a pattern (coffer_match). */
typedef struct coffer_average_rule {
    const char *pattern;
    const double *weights; /* one for each model; with `slerp` a single one, which is t */
} coffer_average_rule;

/* Called for what differs between the first model and another one, `model`; `why` says it in a few words: "has another
   shape". Both are borrowed for the call. The tensor is the first model's, or one that it does not have. */
typedef void (*coffer_average_misfit)(void *ctx, size_t model, const coffer_tensor *tensor, const char *why);

/* How models are averaged. */
typedef struct coffer_average_options {
    size_t struct_size;
    const double *weights; /* one for each model; NULL: all the same. With `slerp` a single one, t; NULL: 1/2 */
    /* Other weights for some tensors. Of several rules that match a tensor the first counts; each has to match one. */
    const coffer_average_rule *rules;
    size_t rule_count;
    bool slerp; /* of two models: along the sphere, and not along the line between them */
    /* Called for each difference before planning fails; NULL: the error names the first. */
    coffer_average_misfit misfit;
    void *misfit_ctx;
} coffer_average_options;
#define COFFER_AVERAGE_OPTIONS_INIT                                                                                    \
    {                                                                                                                  \
        sizeof(coffer_average_options), NULL, NULL, 0, false, NULL, NULL                                               \
    }

/*
 * Plans a rewrite of models[0] whose numbers are averages of `count` models, 2 to COFFER_AVERAGE_MAX_MODELS, that
 * have the same tensors, by name, dtype and shape. coffer_rewrite_run carries it out: layout, metadata and dtypes of
 * the result are those of models[0]. The models and what the options point to are borrowed until the plan is freed.
 *
 * For elements x of the models, in F64, with weights w whose sum is s, from left to right:
 *
 *     (w[0] / s) * x[0] + (w[1] / s) * x[1] + …                 and then one rounding to the dtype, as by a cast
 *
 * With `slerp`, t from 0 to 1 and vectors a and b, a tensor of each model with all its elements:
 *
 *     sin((1 - t) * angle) / sin(angle) * a + sin(t * angle) / sin(angle) * b,     cos(angle) = a·b / (|a| |b|)
 *
 * where a length of 1e-8 or less counts as 1. Where |cos(angle)| is above 0.9995 it is (1 - t) * a + t * b. The sums
 * are in F64, and the same with any number of threads; both models are read twice then.
 *
 * Tensors of other dtypes than F16, BF16, F32 and F64 have to be the same bytes in all models, and stay as they are;
 * that they differ is found when the plan is carried out, before anything is written: COFFER_ERR_DTYPE. Fails as
 * coffer_rewrite_plan does, with COFFER_ERR_UNSUPPORTED for adapters, whose factors cannot be averaged
 * (coffer_add_lora_plan adds them); COFFER_ERR_NO_TENSOR when the models do not have the same tensors, or a pattern
 * matches none; COFFER_ERR_ARGUMENT for weights that are not finite, or whose sum is 0, and for t outside of 0 to 1.
 */
COFFER_API coffer_status coffer_average_plan(coffer_rewrite **rewrite, const coffer *const *models, size_t count,
                                             const coffer_average_options *options,
                                             const coffer_rewrite_options *rewriting, coffer_error *err);

#ifdef __cplusplus
}
#endif

#endif
