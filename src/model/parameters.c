/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many parameters a model has: as its tensors are stored, and as it was trained, for weights of
 * which quantisation packed several into an element. config.json and the names that each method
 * gives its tensors tell what was packed:
 *
 *   any method           .weight_scale, .zero_point and the like say how to unpack: they were not trained
 *   gptq, awq            .qweight has 32 / bits weights in an element; .qzeros, .g_idx and .scales say how to unpack
 *   compressed-tensors   .weight_packed of a packed format has as many weights as num_bits go into its dtype
 *   mxfp4                U8 _blocks have two weights; _scales say how to unpack
 *   bitsandbytes         with load_in_4bit, U8 has two weights; .absmax, .quant_map and what follows .quant_state do
 *                        not count; with 8 bits, .SCB and .weight_format do not count either
 *   none: MLX            a U32 .weight with .scales beside it has 32 / bits, where a module may state its own bits;
 *                        .scales and .biases say how to unpack
 *
 * F8_E8M0 holds nothing but scales. Modules that the configuration leaves out count as they are
 * stored. If the outermost object says nothing of quantisation, that of the language model in it is
 * used.
 *
 * Reading the configuration never makes counting fail, except for memory: a configuration that is
 * missing or not valid counts as none. One pass reads it, with a function for the members of each
 * kind of object. Every string that is kept goes into one block as long as the file, which is
 * enough since undoing escapes makes a string shorter.
 */
#include "alloc.h"
#include "coffer.h"
#include "error.h"
#include "json.h"
#include "model.h"
#include "model_dir.h"
#include "text.h"

#include <string.h>

#define PARAMETERS_CONFIG "config.json"
#define PARAMETERS_MAX_CONFIG ((uint64_t)16 << 20)
#define PARAMETERS_USUAL_BITS 4u
#define PARAMETERS_NAME_CAPACITY 1024u

/* The method, as far as it tells how weights are packed. */
typedef enum parameters_method {
    PARAMETERS_AS_STORED,
    PARAMETERS_OTHER, /* nothing is packed, but there are scales */
    PARAMETERS_GPTQ,
    PARAMETERS_COMPRESSED,
    PARAMETERS_MXFP4,
    PARAMETERS_BITSANDBYTES,
    PARAMETERS_MLX
} parameters_method;

/* A module of MLX that has bits of its own. The name is that of the module, without `.weight`. */
typedef struct parameters_module {
    coffer__name name;
    uint64_t bits;
} parameters_module;

/* What config.json says of quantisation. Zero but for the allocator at first. A number of 0 means
   that nothing is stated, and all of it is untrusted: numbers are checked where they are used. */
typedef struct parameters_config {
    coffer_allocator allocator;
    coffer__json json;
    coffer__scratch scratch;
    size_t depth; /* objects that are open */
    char *text;   /* every string that was read, one after the other; as long as the file, which is enough */
    size_t text_size;
    size_t text_used;
    coffer__name *left_out; /* patterns of modules that are not quantised */
    size_t left_out_count;
    size_t left_out_capacity;
    parameters_module *modules;
    size_t module_count;
    size_t module_capacity;
    coffer__names module_names;
    coffer__name method;
    coffer__name format;
    uint64_t bits;
    uint64_t packed_bits; /* num_bits of compressed-tensors */
    uint64_t module_bits; /* of the module that is being read; 0: it states none */
    bool quantised;
    bool four_bits; /* load_in_4bit */
} parameters_config;

/* ---- config.json ------------------------------------------------------------------------------------------------- */

static bool parameters_is(coffer__name name, const char *text)
{
    return name.len == coffer__text_len(text) && memcmp(name.text, text, name.len) == 0;
}

/* Reads a string to the end of `text`, which never moves, so the names that point into it stay
   valid. A string that fails to be read uses no space. */
static coffer_status parameters_string(parameters_config *config, coffer__name *string)
{
    bool has_control = false;
    string->text = config->text + config->text_used;
    const coffer_status status =
        coffer__json_string(&config->json, config->text + config->text_used, &string->len, &has_control);
    config->text_used += status == COFFER_OK ? string->len : 0;
    return status;
}

/* Skipping checks the JSON as well, so a file that is not valid is found out wherever the
   fault is. */
static coffer_status parameters_skip(parameters_config *config)
{
    return coffer__json_skip(&config->json, config->depth, &config->scratch);
}

/* *string is unchanged if it is another value. */
static coffer_status parameters_string_or_skip(parameters_config *config, coffer__name *string)
{
    return coffer__json_peek(&config->json) == '"' ? parameters_string(config, string) : parameters_skip(config);
}

/* A number that is not a plain integer is skipped and counts as 0. The value is read from a copy of
   the reader, as skipping has to move the real one past it whatever it is. */
static coffer_status parameters_number(parameters_config *config, uint64_t *number)
{
    coffer__json_space(&config->json);
    coffer__json there = config->json;
    there.err = NULL;
    const coffer_status status = parameters_skip(config);
    if (status == COFFER_OK && coffer__json_u64(&there, number) == COFFER_OK) {
        *number = there.in.position == config->json.in.position ? *number : 0;
    }
    return status;
}

/* After a failure the old items are still there, to be freed with the configuration. */
static coffer_status parameters_no_memory(const parameters_config *config)
{
    return coffer__fail(config->json.err, COFFER_ERR_MEMORY, "no memory for the model's configuration");
}

static coffer_status parameters_add_left_out(parameters_config *config, coffer__name pattern)
{
    coffer__name *grown = coffer__grow_array(&config->allocator, config->left_out, config->left_out_count,
                                             &config->left_out_capacity, sizeof *grown, config->json.err);
    if (grown == NULL) {
        return parameters_no_memory(config);
    }
    config->left_out = grown;
    config->left_out[config->left_out_count++] = pattern;
    return COFFER_OK;
}

static coffer_status parameters_add_module(parameters_config *config, coffer__name name)
{
    parameters_module *grown = coffer__grow_array(&config->allocator, config->modules, config->module_count,
                                                  &config->module_capacity, sizeof *grown, config->json.err);
    if (grown == NULL) {
        return parameters_no_memory(config);
    }
    config->modules = grown;
    config->modules[config->module_count++] = (parameters_module){ name, config->module_bits };
    return COFFER_OK;
}

/* Reads the list of modules that are not quantised. Items that are not strings are skipped. An
   empty pattern would match every name, so it is not kept. */
static coffer_status parameters_left_out(parameters_config *config)
{
    coffer__json *json = &config->json;
    bool more = true;
    if (coffer__json_peek(json) != '[') {
        return parameters_skip(config);
    }
    coffer_status status = coffer__json_expect(json, '[', "a list");
    if (status == COFFER_OK && coffer__json_peek(json) == ']') {
        return coffer__json_expect(json, ']', "the end of a list");
    }
    while (status == COFFER_OK && more) {
        coffer__name pattern = { NULL, 0 };
        status = parameters_string_or_skip(config, &pattern);
        if (status == COFFER_OK && pattern.len > 0) {
            status = parameters_add_left_out(config, pattern);
        }
        if (status != COFFER_OK) {
            return status;
        }
        status = coffer__json_next(json, ']', &more);
    }
    return status;
}

/* Visits the members of an object; `member` consumes the value of each. Any other value is skipped.
   Recursion is bounded by this file's own functions and not by the input: each kind of object has a
   function of its own. `depth` bounds nesting within what is skipped. It is set back on every path,
   because the same configuration is read a second time. */
static coffer_status parameters_object(parameters_config *config,
                                       coffer_status (*member)(parameters_config *config, coffer__name key))
{
    coffer__json *json = &config->json;
    bool more = true;
    if (coffer__json_peek(json) != '{') {
        return parameters_skip(config);
    }
    coffer_status status = coffer__json_expect(json, '{', "an object");
    if (status == COFFER_OK && coffer__json_peek(json) == '}') {
        return coffer__json_expect(json, '}', "the end of an object");
    }
    config->depth++;
    while (status == COFFER_OK && more) {
        coffer__name key = { NULL, 0 };
        status = parameters_string(config, &key);
        if (status != COFFER_OK) {
            goto done;
        }
        status = coffer__json_expect(json, ':', "a colon");
        if (status != COFFER_OK) {
            goto done;
        }
        status = member(config, key);
        if (status != COFFER_OK) {
            goto done;
        }
        status = coffer__json_next(json, '}', &more);
    }
done:
    config->depth--;
    return status;
}

/* config_groups: {group: {weights: {num_bits}}}. The last group counts if they differ. */
static coffer_status parameters_weights_member(parameters_config *config, coffer__name key)
{
    return parameters_is(key, "num_bits") ? parameters_number(config, &config->packed_bits) : parameters_skip(config);
}

static coffer_status parameters_group_member(parameters_config *config, coffer__name key)
{
    return parameters_is(key, "weights") ? parameters_object(config, parameters_weights_member)
                                         : parameters_skip(config);
}

static coffer_status parameters_groups_member(parameters_config *config, coffer__name key)
{
    (void)key;
    return parameters_object(config, parameters_group_member);
}

static coffer_status parameters_module_member(parameters_config *config, coffer__name key)
{
    return parameters_is(key, "bits") ? parameters_number(config, &config->module_bits) : parameters_skip(config);
}

/* MLX: {module: {bits}}. Unknown members of the quantisation object may be modules; those that
   state no bits are not kept. The number of modules is bounded by the file's size, which is at most
   PARAMETERS_MAX_CONFIG. */
static coffer_status parameters_read_module(parameters_config *config, coffer__name name)
{
    config->module_bits = 0;
    const coffer_status status = parameters_object(config, parameters_module_member);
    return status == COFFER_OK && config->module_bits > 0 ? parameters_add_module(config, name) : status;
}

/* load_in_4bit is read by its first character and then falls through to the end, where a value that
   is no object is skipped. */
static coffer_status parameters_quantisation_member(parameters_config *config, coffer__name key)
{
    if (parameters_is(key, "quant_method")) {
        return parameters_string_or_skip(config, &config->method);
    }
    if (parameters_is(key, "format")) {
        return parameters_string_or_skip(config, &config->format);
    }
    if (parameters_is(key, "bits")) {
        return parameters_number(config, &config->bits);
    }
    if (parameters_is(key, "load_in_4bit")) {
        config->four_bits = coffer__json_peek(&config->json) == 't';
    }
    if (parameters_is(key, "config_groups")) {
        return parameters_object(config, parameters_groups_member);
    }
    if (parameters_is(key, "modules_to_not_convert") || parameters_is(key, "ignore")) {
        return parameters_left_out(config);
    }
    return parameters_read_module(config, key);
}

/* MLX writes `quantization`, and some of its models have both, with the same content. */
static coffer_status parameters_config_member(parameters_config *config, coffer__name key)
{
    const bool mlx = parameters_is(key, "quantization");
    if (!mlx && !parameters_is(key, "quantization_config")) {
        return parameters_skip(config);
    }
    config->quantised = config->quantised || coffer__json_peek(&config->json) == '{';
    return parameters_object(config, parameters_quantisation_member);
}

/* A model for several kinds of input has the configuration of its language model in one of these.
   These are the names that Hugging Face's configurations use. */
static coffer_status parameters_inner_member(parameters_config *config, coffer__name key)
{
    static const char *const inner[] = { "text_config", "language_config", "llm_config" };
    for (size_t i = 0; i < sizeof inner / sizeof inner[0]; i++) {
        if (parameters_is(key, inner[i])) {
            return parameters_object(config, parameters_config_member);
        }
    }
    return parameters_skip(config);
}

static coffer__name parameters_module_name(const void *ctx, uint32_t item)
{
    return ((const parameters_config *)ctx)->modules[item].name;
}

/* One byte more than the file keeps the space from being empty. If a module is stated twice the
   index finds the first one. */
static coffer_status parameters_read_config(parameters_config *config, const uint8_t *text, size_t size,
                                            coffer_error *err)
{
    uint32_t twice = 0;
    const coffer__json whole = { .in = { .base = text, .length = size }, .err = err };
    config->scratch.allocator = &config->allocator;
    config->text_size = size + 1;
    config->text = coffer__alloc(&config->allocator, config->text_size);
    if (config->text == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the model's configuration");
    }
    config->json = whole;
    /* The first pass reads the outermost object, the second one those within it. */
    coffer_status status = parameters_object(config, parameters_config_member);
    if (status == COFFER_OK && !config->quantised) {
        /* Nothing was kept, so the space for text is used again. */
        config->json = whole;
        config->text_used = 0;
        status = parameters_object(config, parameters_inner_member);
    }
    config->module_names =
        (coffer__names){ &config->allocator, parameters_module_name, config, config->module_count, 0, NULL, NULL };
    return status == COFFER_OK ? coffer__names_build(&config->module_names, &twice, err) : status;
}

/* Valid at any point of reading. */
static void parameters_free_config(parameters_config *config)
{
    coffer__scratch_free(&config->scratch);
    coffer__free(&config->allocator, config->text, config->text_size);
    coffer__free(&config->allocator, config->left_out, config->left_out_capacity * sizeof *config->left_out);
    coffer__names_free(&config->module_names);
    coffer__free(&config->allocator, config->modules, config->module_capacity * sizeof *config->modules);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static bool parameters_ends(coffer__name name, const char *ending)
{
    const size_t len = coffer__text_len(ending);
    return name.len >= len && memcmp(name.text + name.len - len, ending, len) == 0;
}

static bool parameters_ends_in_any(coffer__name name, const char *const *endings)
{
    for (size_t i = 0; endings[i] != NULL; i++) {
        if (parameters_ends(name, endings[i])) {
            return true;
        }
    }
    return false;
}

/* Where a piece of a pattern begins in a name, from `from` on; SIZE_MAX when it is not there. In at
   most name times piece steps. An empty piece is found at once. */
static size_t parameters_find(coffer__name name, size_t from, const char *piece, size_t piece_len)
{
    for (size_t at = from; at <= name.len && piece_len <= name.len - at; at++) {
        if (memcmp(name.text + at, piece, piece_len) == 0) {
            return at;
        }
    }
    return SIZE_MAX;
}

/* Whether a pattern occurs somewhere in the name. `*` stands for anything, and so does `.*` in a
   regular expression ("re:…"), of which no more is understood. The pieces between stars are
   searched for from left to right, each after the one before it. A star at either end changes
   nothing, since a pattern may occur anywhere. Stretching earlier stars is not needed: the leftmost
   place leaves the most space for what follows. */
static bool parameters_matches(coffer__name name, coffer__name pattern)
{
    const bool regular = pattern.len > 3 && memcmp(pattern.text, "re:", 3) == 0;
    size_t at = 0;
    for (size_t begin = regular ? 3 : 0; begin < pattern.len;) {
        size_t end = begin;
        while (end < pattern.len && pattern.text[end] != '*') {
            end++;
        }
        /* `.*` of a regular expression is a star, so its dot is no part of the piece. */
        const bool any_dot = regular && end < pattern.len && end > begin && pattern.text[end - 1] == '.';
        const size_t len = end - begin - (any_dot ? 1 : 0);
        at = parameters_find(name, at, pattern.text + begin, len);
        if (at == SIZE_MAX) {
            return false;
        }
        at += len;
        begin = end + 1;
    }
    return true;
}

/* The time is that of patterns times tensors. Both are bounded by files that the user has chosen to
   open. */
static bool parameters_is_left_out(const parameters_config *config, coffer__name name)
{
    for (size_t i = 0; i < config->left_out_count; i++) {
        if (parameters_matches(name, config->left_out[i])) {
            return true;
        }
    }
    return false;
}

/* The tensor with the same name but another ending; NULL if there is none, or if the name would be
   too long. The name ends in `ending`. A name that is too long for the buffer has no helper, so its
   tensor counts as it is stored. */
static const coffer_tensor *parameters_beside(const coffer *model, coffer__name name, const char *ending,
                                              const char *other)
{
    char text[PARAMETERS_NAME_CAPACITY];
    const size_t other_len = coffer__text_len(other);
    const size_t stem_len = name.len - coffer__text_len(ending);
    if (stem_len > sizeof text - other_len) {
        return NULL;
    }
    memcpy(text, name.text, stem_len);
    memcpy(text + stem_len, other, other_len);
    return coffer_find(model, text, stem_len + other_len);
}

/* ---- how many weights are in an element -------------------------------------------------------------------------- */

/* `of` weights in `in` elements. Auxiliary tensors have 0 in 1, plain ones 1 in 1. `in` is
   never 0. */
typedef struct parameters_share {
    uint64_t of;
    uint64_t in;
} parameters_share;

/* MLX states no method, only bits. A method that is not known packs nothing as far as this goes,
   and is named in what was assumed. */
static parameters_method parameters_method_of(const parameters_config *config)
{
    static const struct {
        const char *name;
        parameters_method method;
    } methods[] = {
        { "gptq", PARAMETERS_GPTQ },
        { "awq", PARAMETERS_GPTQ },
        { "compressed-tensors", PARAMETERS_COMPRESSED },
        { "mxfp4", PARAMETERS_MXFP4 },
        { "bitsandbytes", PARAMETERS_BITSANDBYTES },
    };
    if (!config->quantised) {
        return PARAMETERS_AS_STORED;
    }
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (parameters_is(config->method, methods[i].name)) {
            return methods[i].method;
        }
    }
    return config->method.len == 0 && config->bits > 0 ? PARAMETERS_MLX : PARAMETERS_OTHER;
}

/* Bits of a weight: what the configuration says if that is possible, and otherwise what is usual.
   The bounds keep a hostile number from making a share of 0 or beyond a word. */
static uint64_t parameters_bits(const parameters_config *config, parameters_method method)
{
    const uint64_t bits = method == PARAMETERS_COMPRESSED ? config->packed_bits : config->bits;
    return bits > 0 && bits <= 32 ? bits : PARAMETERS_USUAL_BITS;
}

/* Bits of a weight of MLX: those of its module if it states them. */
static uint64_t parameters_bits_of_module(const parameters_config *config, coffer__name weight, uint64_t bits)
{
    const size_t len = weight.len - (sizeof ".weight" - 1);
    const uint32_t found = coffer__names_find(&config->module_names, weight.text, len);
    const uint64_t own = found == COFFER__NO_NAME ? 0 : config->modules[found].bits;
    return own > 0 && own <= 32 ? own : bits;
}

/* MLX has no list of what it packed. A U32 weight with scales beside it is packed, and the helpers
   beside such a weight do not count. An element of 32 bits with 3-bit weights holds 32 / 3 of them:
   MLX packs across elements, so only the sum is whole. */
static parameters_share parameters_share_of_mlx(const coffer *model, const parameters_config *config, coffer__name name,
                                                const coffer_tensor *tensor, uint64_t bits)
{
    static const char *const helpers[] = { ".scales", ".biases" };
    if (tensor->dtype == COFFER_U32 && parameters_ends(name, ".weight") &&
        parameters_beside(model, name, ".weight", ".scales") != NULL) {
        return (parameters_share){ 32, parameters_bits_of_module(config, name, bits) };
    }
    for (size_t i = 0; i < sizeof helpers / sizeof helpers[0]; i++) {
        const coffer_tensor *weight =
            parameters_ends(name, helpers[i]) ? parameters_beside(model, name, helpers[i], ".weight") : NULL;
        if (weight != NULL && weight->dtype == COFFER_U32) {
            return (parameters_share){ 0, 1 };
        }
    }
    return (parameters_share){ 1, 1 };
}

/* How many weights an element of the tensor holds. What holds for any method is decided first:
   scales by dtype, modules that are left out, and the endings of helpers. */
static parameters_share parameters_share_of(const coffer *model, const parameters_config *config,
                                            parameters_method method, const coffer_tensor *tensor)
{
    static const char *const scales[] = {
        ".weight_scale",      ".weight_scale_inv", ".weight_scale_2",     ".weight_global_scale",
        ".weight_zero_point", ".input_scale",      ".input_global_scale", ".input_zero_point",
        ".zero_point",        ".weight_shape",     ".weight_g_idx",       NULL,
    };
    static const char *const of_gptq[] = { ".qzeros", ".g_idx", ".scales", NULL };
    static const char *const of_bitsandbytes[] = { "absmax", "quant_map", NULL };
    const coffer__name name = { tensor->name, tensor->name_len };
    const parameters_share none = { 0, 1 };
    const parameters_share one = { 1, 1 };
    const uint64_t bits = parameters_bits(config, method);
    /* What holds for any method. */
    if (tensor->dtype == COFFER_F8_E8M0) {
        return none;
    }
    if (method == PARAMETERS_AS_STORED || parameters_is_left_out(config, name)) {
        return one;
    }
    if (parameters_ends_in_any(name, scales)) {
        return none;
    }
    /* What each method packs, by the endings of its names. */
    switch (method) {
    case PARAMETERS_GPTQ:
        if (parameters_ends_in_any(name, of_gptq)) {
            return none;
        }
        return parameters_ends(name, ".qweight") ? (parameters_share){ 32, bits } : one;
    case PARAMETERS_COMPRESSED:
        if (parameters_find(config->format, 0, "pack-quantized", 14) == SIZE_MAX ||
            !parameters_ends(name, ".weight_packed")) {
            return one;
        }
        return (parameters_share){ coffer_dtype_bits(tensor->dtype), bits };
    case PARAMETERS_MXFP4:
        if (parameters_ends(name, "_scales")) {
            return none;
        }
        return tensor->dtype == COFFER_U8 && parameters_ends(name, "_blocks") ? (parameters_share){ 2, 1 } : one;
    case PARAMETERS_BITSANDBYTES:
        if (parameters_ends_in_any(name, of_bitsandbytes) ||
            parameters_find(name, 0, ".quant_state.", 13) != SIZE_MAX) {
            return none;
        }
        return config->four_bits && tensor->dtype == COFFER_U8 ? (parameters_share){ 2, 1 } : one;
    case PARAMETERS_MLX:
        return parameters_share_of_mlx(model, config, name, tensor, bits);
    default:
        return one;
    }
}

/* The scales of bitsandbytes with 8 bits, and what says how its weights are laid out: not trained,
   though @huggingface/hub counts them. */
static bool parameters_is_of_int8(parameters_method method, coffer__name name)
{
    static const char *const of_int8[] = { ".SCB", ".weight_format", NULL };
    return method == PARAMETERS_BITSANDBYTES && parameters_ends_in_any(name, of_int8);
}

/* ---- counting ---------------------------------------------------------------------------------------------------- */

/* A sum that a number cannot hold stays at the largest number. */
static void parameters_add(uint64_t *sum, uint64_t number)
{
    *sum = number > UINT64_MAX - *sum ? UINT64_MAX : *sum + number;
}

/* elements * of / in without overflow, as `of` is at most 64. Whole groups of `in` elements are
   scaled first, then the rest. */
static uint64_t parameters_scaled(uint64_t elements, parameters_share share)
{
    return elements / share.in * share.of + elements % share.in * share.of / share.in;
}

/* Three counts in one pass: `plain` as stored, `trained` as unpacked, and `compatible` as
   @huggingface/hub counts, which multiplies by whole numbers only and counts no scalars. */
static void parameters_count(const coffer *model, const parameters_config *config, coffer_parameters *counts)
{
    const parameters_method method = parameters_method_of(config);
    const size_t count = coffer_count(model);
    for (size_t i = 0; i < count; i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        const uint64_t elements = coffer_tensor_elements(tensor);
        const parameters_share share = parameters_share_of(model, config, method, tensor);
        parameters_add(&counts->plain[tensor->dtype], elements);
        if (!parameters_is_of_int8(method, (coffer__name){ tensor->name, tensor->name_len })) {
            parameters_add(&counts->trained[tensor->dtype], parameters_scaled(elements, share));
        }
        parameters_add(&counts->compatible[tensor->dtype], tensor->rank == 0 ? 0 : elements * (share.of / share.in));
    }
}

/* Says in words what was assumed. The message is made by the formatter of errors, which escapes
   what comes from the configuration, and is cut to the space in *counts. */
static void parameters_note(const parameters_config *config, coffer_parameters *counts)
{
    coffer_error said;
    const parameters_method method = parameters_method_of(config);
    const uint64_t bits = parameters_bits(config, method);
    if (method == PARAMETERS_AS_STORED) {
        return;
    }
    if (method == PARAMETERS_OTHER || (method == PARAMETERS_BITSANDBYTES && !config->four_bits)) {
        coffer__fail(&said, COFFER_OK, "%q: weights count as they are stored; scales do not count",
                     config->method.len > 0 ? config->method.text : "?",
                     config->method.len > 0 ? config->method.len : 1);
    } else if (method == PARAMETERS_MXFP4 || method == PARAMETERS_BITSANDBYTES) {
        coffer__fail(&said, COFFER_OK, "%q: weights of 4 bits, two in each byte; scales do not count",
                     config->method.text, config->method.len);
    } else {
        coffer__fail(&said, COFFER_OK, "%q: weights of %u bits%s%s, unpacked; scales do not count",
                     method == PARAMETERS_MLX ? "mlx" : config->method.text,
                     method == PARAMETERS_MLX ? (size_t)3 : config->method.len, bits,
                     (method == PARAMETERS_COMPRESSED ? config->packed_bits : config->bits) == bits ? ""
                                                                                                    : " (not stated)",
                     method == PARAMETERS_MLX && config->module_count > 0 ? ", or what a module states" : "");
    }
    memcpy(counts->assumed, said.message, sizeof counts->assumed - 1);
}

/* Counts by a configuration. One that is not valid counts as none, and that is noted; only a lack
   of memory is a failure. `why` is not shown. A configuration that was read half counts as none, so
   that the counts never depend on where the fault is. */
static coffer_status parameters_count_by(const coffer *model, const uint8_t *text, size_t size,
                                         coffer_parameters *counts, coffer_error *err)
{
    coffer_error why;
    parameters_config config = { .allocator = model->allocator };
    coffer_status status = size == 0 ? COFFER_OK : parameters_read_config(&config, text, size, &why);
    if (status == COFFER_ERR_MEMORY) {
        parameters_free_config(&config);
        return coffer__fail(err, status, "no memory for the model's configuration");
    }
    /* After a failure nothing counts as quantised. */
    config.quantised = config.quantised && status == COFFER_OK;
    parameters_count(model, &config, counts);
    parameters_note(&config, counts);
    if (status != COFFER_OK) {
        static const char unread[] = "config.json is not valid JSON: everything counts as it is stored";
        memcpy(counts->assumed, unread, sizeof unread);
    }
    parameters_free_config(&config);
    return COFFER_OK;
}

/* Reads the configuration beside the model's first file; false if there is none that can be read. A
   model from memory or from the caller's source has no path, and no configuration. */
static bool parameters_find_config(const coffer *model, coffer__whole *whole)
{
    coffer__model_dir place;
    const coffer__name name = { PARAMETERS_CONFIG, sizeof PARAMETERS_CONFIG - 1 };
    return model->shards->path != NULL && coffer__model_dir_of(model, &place, NULL) == COFFER_OK &&
           coffer__model_dir_read_beside(&place, name, PARAMETERS_MAX_CONFIG, &model->allocator, whole, NULL) ==
               COFFER_OK;
}

coffer_status coffer_count_parameters(const coffer *model, const char *config, size_t config_len,
                                      coffer_parameters *counts, coffer_error *err)
{
    coffer__whole whole = { .bytes = NULL };
    if (model == NULL || counts == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the model, or where to count, is NULL");
    }
    memset(counts, 0, sizeof *counts);
    if (config != NULL || !parameters_find_config(model, &whole)) {
        return parameters_count_by(model, (const uint8_t *)config, config == NULL ? 0 : config_len, counts, err);
    }
    const coffer_status status = parameters_count_by(model, whole.bytes, whole.size, counts, err);
    coffer__whole_free(&whole, &model->allocator);
    return status;
}
