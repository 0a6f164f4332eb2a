/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each rank takes of the tensors of a model, by their names. The usual transformers split the weights of a layer
 * so that a rank has some of its heads and some of its hidden units, from the first projection to the second:
 *
 *   - A projection into heads or hidden units (queries, keys, values, gate, up) is split along its outputs, dimension 0
 *     of a weight [outputs, inputs]; its bias likewise.
 *   - The projection back (o, down) is split along its inputs, dimension 1; its bias is added once, so every rank has
 *     it.
 *   - Vocabularies are split along dimension 0. Everything else, such as norms, is whole.
 *
 * GPT-2 has its weights transposed. A projection that is fused of several has several parts along the dimension, each
 * of which is split. The tensors of a layer whose weight is packed (split_packed.h) are split as that weight would be,
 * where integers and groups stay whole.
 */
#include "alloc.h"
#include "checked.h"
#include "error.h"
#include "load_plan.h"
#include "model.h"
#include "pattern.h"
#include "split_packed.h"
#include "text.h"

#include <string.h>

/* How many parts a split dimension has. */
typedef enum split_parts {
    SPLIT_ONE = 1,
    SPLIT_TWO = 2,   /* of equal size: gate and up */
    SPLIT_THREE = 3, /* of equal size: queries, keys, values */
    SPLIT_GROUPED    /* queries, as many as there are inputs, and keys and values, which are fewer */
} split_parts;

typedef struct split_row {
    const char *pattern;
    int32_t dim;
    split_parts parts;
} split_row;

/* The first that fits holds, so what is special comes before what is general. Patterns begin with a star: names have
   prefixes such as "model.layers.0.". */
static const split_row split_usual[] = {
/* GPT-2 and its kin, [inputs, outputs]: these come first, and are so many */
#define SPLIT_TRANSPOSED 7
    { "*.attn.c_attn.weight", 1, SPLIT_THREE },
    { "*.attn.c_attn.bias", 0, SPLIT_THREE },
    { "*.attn.c_proj.weight", 0, SPLIT_ONE },
    { "*.mlp.c_fc.weight", 1, SPLIT_ONE },
    { "*.mlp.c_fc.bias", 0, SPLIT_ONE },
    { "*.mlp.c_proj.weight", 0, SPLIT_ONE },
    { "*.c_proj.bias", -1, SPLIT_ONE },
    { "wte.weight", 0, SPLIT_ONE },
    { "*.wte.weight", 0, SPLIT_ONE },
    /* experts whose weights are fused of all experts: [experts, inputs, outputs] */
    { "*.experts.gate_up_proj", 2, SPLIT_TWO },
    { "*.experts.down_proj", 1, SPLIT_ONE },
    /* Mixtral's experts */
    { "*.block_sparse_moe.experts.*.w1.weight", 0, SPLIT_ONE },
    { "*.block_sparse_moe.experts.*.w3.weight", 0, SPLIT_ONE },
    { "*.block_sparse_moe.experts.*.w2.weight", 1, SPLIT_ONE },
    /* fused projections of Phi-3, Baichuan, MPT; GPT-NeoX, BLOOM and Falcon have theirs head by head */
    { "*.qkv_proj.weight", 0, SPLIT_GROUPED },
    { "*.gate_up_proj.weight", 0, SPLIT_TWO },
    { "*.W_pack.weight", 0, SPLIT_THREE },
    { "*.Wqkv.weight", 0, SPLIT_THREE },
    { "*.query_key_value.weight", 0, SPLIT_ONE },
    { "*.query_key_value.bias", 0, SPLIT_ONE },
    { "*.dense_h_to_4h.weight", 0, SPLIT_ONE },
    { "*.dense_h_to_4h.bias", 0, SPLIT_ONE },
    { "*.dense_4h_to_h.weight", 1, SPLIT_ONE },
    { "*.attention.dense.weight", 1, SPLIT_ONE },
    { "*.self_attention.dense.weight", 1, SPLIT_ONE },
    /* Phi-1 and Phi-2 */
    { "*.self_attn.dense.weight", 1, SPLIT_ONE },
    { "*.mlp.fc1.weight", 0, SPLIT_ONE },
    { "*.mlp.fc1.bias", 0, SPLIT_ONE },
    { "*.mlp.fc2.weight", 1, SPLIT_ONE },
    /* Llama, Qwen, Mistral, Gemma and most others, experts included */
    { "*.q_proj.weight", 0, SPLIT_ONE },
    { "*.k_proj.weight", 0, SPLIT_ONE },
    { "*.v_proj.weight", 0, SPLIT_ONE },
    { "*.q_proj.bias", 0, SPLIT_ONE },
    { "*.k_proj.bias", 0, SPLIT_ONE },
    { "*.v_proj.bias", 0, SPLIT_ONE },
    { "*.o_proj.weight", 1, SPLIT_ONE },
    { "*.out_proj.weight", 1, SPLIT_ONE },
    { "*.gate_proj.weight", 0, SPLIT_ONE },
    { "*.up_proj.weight", 0, SPLIT_ONE },
    { "*.gate_proj.bias", 0, SPLIT_ONE },
    { "*.up_proj.bias", 0, SPLIT_ONE },
    { "*.down_proj.weight", 1, SPLIT_ONE },
    /* vocabularies */
    { "*embed_tokens.weight", 0, SPLIT_ONE },
    { "*embed_in.weight", 0, SPLIT_ONE },
    { "*embed_out.weight", 0, SPLIT_ONE },
    { "*word_embeddings.weight", 0, SPLIT_ONE },
    { "*lm_head.weight", 0, SPLIT_ONE },
    { "*lm_head.bias", 0, SPLIT_ONE },
};

/* How one tensor is split: along `dim`, which has `count` parts. */
typedef struct split_way {
    int32_t dim; /* -1: it is not */
    uint64_t parts[3];
    size_t count;
} split_way;

/* Of a fused tensor, the parts along its dimension of `size`; none that add up to it means that the tensor is not what
   its name says. Queries are as many as the inputs in the models that this is for, if those are known; what is left is
   shared evenly by keys and values. */
static void split_measure(uint64_t size, uint64_t inputs, split_parts parts, split_way *way)
{
    way->count = parts == SPLIT_TWO ? 2 : parts == SPLIT_ONE ? 1 : 3;
    for (size_t i = 0; i < 3; i++) {
        way->parts[i] = size / way->count;
    }
    if (parts == SPLIT_GROUPED && inputs > 0 && inputs < size) {
        way->parts[0] = inputs;
        way->parts[1] = (size - inputs) / 2;
        way->parts[2] = way->parts[1];
    }
}

/* Whether the parts fill the dimension and can all be split. A dimension that does not divide is no error: the
   tensor is then taken whole by every rank, which is always right, if not the best. */
static bool split_is_even(const coffer_tensor *tensor, const split_way *way, uint32_t world)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < way->count; i++) {
        sum += way->parts[i];
        if (way->parts[i] % world != 0) {
            return false;
        }
    }
    return sum == tensor->shape[way->dim];
}

/* The rules of one call: the caller's, which replace the usual ones and do not add to them, so what they leave out is
   whole. */
typedef struct split_rules {
    const coffer_split_rule *given; /* NULL: the usual ones */
    coffer__pattern *patterns;      /* of each */
    size_t count;
} split_rules;

/* Ends with freeing the patterns. They are prepared once, as every tensor is compared with all of them until one fits;
   for a rank that is alone the usual ones are not, which would take longer than planning a small model. */
static coffer_status split_prepare(const coffer_plan *plan, const coffer_split_rule *given, size_t count,
                                   uint32_t world, split_rules *rules, coffer_error *err)
{
    *rules = (split_rules){ .given = given, .count = count };
    if (given == NULL) {
        rules->count = world > 1 ? sizeof split_usual / sizeof split_usual[0] : 0;
    }
    rules->patterns = coffer__alloc_array(&plan->allocator, rules->count, sizeof *rules->patterns, err);
    if (rules->patterns == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < rules->count; i++) {
        const char *pattern = given != NULL ? given[i].pattern : split_usual[i].pattern;
        if (pattern == NULL) {
            return coffer__fail(err, COFFER_ERR_ARGUMENT, "rule %u of coffer_plan_add_all has no pattern", (uint64_t)i);
        }
        rules->patterns[i] = coffer__pattern_prepare(pattern);
    }
    return COFFER_OK;
}

/* The first rule that fits a name; SIZE_MAX: none does. */
static size_t split_find(const split_rules *rules, const char *name, size_t name_len)
{
    for (size_t i = 0; i < rules->count; i++) {
        if (coffer__pattern_fits(&rules->patterns[i], (coffer__name){ name, name_len })) {
            return i;
        }
    }
    return SIZE_MAX;
}

/* ---- packed layers ----------------------------------------------------------------------------------------------- */

/* Which of the usual rules there is for the weight of a packed layer, if it was not packed. */
static const split_row *split_find_weight(const split_rules *rules, const coffer_tensor *weight)
{
    char name[512];
    const size_t prefix = weight->name_len - coffer__text_len("qweight");
    if (prefix > sizeof name - coffer__text_len("weight")) {
        return NULL;
    }
    memcpy(name, weight->name, prefix);
    memcpy(name + prefix, "weight", coffer__text_len("weight"));
    const size_t rule = split_find(rules, name, prefix + coffer__text_len("weight"));
    return rule == SIZE_MAX ? NULL : &split_usual[rule];
}

/* The parts of one tensor, in its own units: those of the weight, times the size of the tensor's dimension over the
   weight's. They come out whole, and can be split, where no integer has numbers of two parts or two ranks. */
static bool split_scale(const split_way *of_weight, uint64_t size, uint64_t whole, uint32_t world, split_way *way)
{
    for (size_t i = 0; i < of_weight->count; i++) {
        uint64_t scaled = 0;
        if (!coffer__mul_u64(of_weight->parts[i], size, &scaled) || scaled % whole != 0 ||
            scaled / whole % world != 0) {
            return false;
        }
        way->parts[i] = scaled / whole;
    }
    way->count = of_weight->count;
    return true;
}

/* All tensors of the layer have to agree, so all are looked at for each of them. */
static split_way split_packed(const split_rules *rules, const coffer__packed *packed, uint32_t world)
{
    const split_way none = { .dim = -1 };
    split_way of_weight = { .dim = -1 };
    split_way found = none;
    const split_row *op = split_find_weight(rules, packed->tensors[COFFER__PACKED_WEIGHT]);
    if (!packed->known || op == NULL || op->dim < 0) {
        return none;
    }
    const bool outputs = (op->dim == 0) != (op < split_usual + SPLIT_TRANSPOSED);
    const uint64_t whole = outputs ? packed->outputs : packed->inputs;
    if (!outputs && !packed->even) {
        return none;
    }
    split_measure(whole, packed->inputs, op->parts, &of_weight);
    for (size_t i = 0; i < COFFER__PACKED_ROLES; i++) {
        const coffer_tensor *tensor = packed->tensors[i];
        split_way way = { .dim = coffer__packed_dim(packed, (coffer__packed_role)i, outputs) };
        if (tensor == NULL || way.dim < 0) {
            continue;
        }
        if (!split_scale(&of_weight, tensor->shape[way.dim], whole, world, &way)) {
            return none;
        }
        found = i == (size_t)packed->role ? way : found;
    }
    return found;
}

/* ---- one tensor -------------------------------------------------------------------------------------------------- */

/* The caller's rules are about the tensors as they are in the file, packed or not. */
static split_way split_of(const coffer *model, const coffer_tensor *tensor, const split_rules *rules, uint32_t world)
{
    split_way way = { .dim = -1 };
    coffer__packed packed;
    split_parts parts = SPLIT_ONE;
    if (rules->given == NULL && coffer__packed_find(model, tensor, &packed)) {
        return split_packed(rules, &packed, world);
    }
    const size_t rule = split_find(rules, tensor->name, tensor->name_len);
    if (rule != SIZE_MAX) {
        way.dim = rules->given != NULL ? rules->given[rule].dim : split_usual[rule].dim;
        parts = rules->given != NULL ? SPLIT_ONE : split_usual[rule].parts;
    }
    if (way.dim < 0 || (size_t)way.dim >= tensor->rank) {
        way.dim = -1;
        return way;
    }
    split_measure(tensor->shape[way.dim], tensor->rank == 2 ? tensor->shape[1] : 0, parts, &way);
    return way;
}

/* A share whose elements are no whole bytes cannot be taken either; then the tensor is taken whole. Only these two
   failures mean that; every other one is the caller's to see, and taking the tensor whole would hide it. */
static coffer_status split_add(coffer_plan *plan, const coffer_tensor *tensor, const split_way *way, uint32_t rank,
                               uint32_t world, coffer_device *device, coffer_error *err)
{
    if (way->dim >= 0 && world > 1 && split_is_even(tensor, way, world)) {
        const coffer_status status = coffer_plan_add_rank(plan, tensor, (size_t)way->dim, way->parts, way->count, rank,
                                                          world, NULL, device, NULL, err);
        if (status != COFFER_ERR_SLICE_BITS && status != COFFER_ERR_DTYPE) {
            return status;
        }
    }
    return coffer_plan_add_on(plan, tensor, NULL, 0, device, NULL, err);
}

/* The tensors are added in the model's order, so all ranks have the same items in the same order, and only the
   shares differ. A failure leaves what was added before it in the plan. */
coffer_status coffer_plan_add_all(coffer_plan *plan, const coffer_split_rule *rules, size_t rule_count, uint32_t rank,
                                  uint32_t world, coffer_device *device, coffer_error *err)
{
    if (plan == NULL || world == 0 || rank >= world) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT,
                            "coffer_plan_add_all was called without a plan, or for rank %u of %u", (uint64_t)rank,
                            (uint64_t)world);
    }
    split_rules known;
    coffer_status status = split_prepare(plan, rules, rule_count, world, &known, err);
    const size_t count = coffer_count(plan->model);
    for (size_t i = 0; status == COFFER_OK && i < count; i++) {
        const coffer_tensor *tensor = coffer_at(plan->model, i);
        split_way way = { .dim = -1 };
        if (world > 1) {
            way = split_of(plan->model, tensor, &known, world);
        }
        status = split_add(plan, tensor, &way, rank, world, device, err);
    }
    coffer__free_array(&plan->allocator, known.patterns, known.count, sizeof *known.patterns);
    return status;
}
