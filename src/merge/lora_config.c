/* SPDX-License-Identifier: Apache-2.0 */
/*
 * adapter_config.json, as PEFT writes it: which factor belongs to each module. Members that say how to train are passed
 * over. Those that say that adding the product would not give the trained model are refused, by name.
 *
 * Values are skipped as JSON, which checks them, and then looked at as text: so the table of members needs no tree.
 */
#include "alloc.h"
#include "error.h"
#include "json.h"
#include "lora.h"
#include "root.h"
#include "sort.h"

#include <math.h>
#include <string.h>

typedef struct lora_config_reader {
    coffer__json json;
    coffer__scratch scratch;
    coffer__lora_config *config;
    const coffer_allocator *allocator;
} lora_config_reader;

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* 10 to a power; infinite, or 0, beyond the range of doubles. Exact up to 22. */
static double lora_power_of_ten(int exponent)
{
    double power = 1;
    const int steps = exponent < 0 ? -exponent : exponent;
    for (int i = 0; i < steps && i < 400; i++) {
        power *= 10;
    }
    return power;
}

/* Reads digits from *at on into *digits, as far as 18 of them; *dropped counts those that did not fit. */
static void lora_digits(const char *text, size_t len, size_t *at, uint64_t *digits, int *dropped)
{
    for (; *at < len && text[*at] >= '0' && text[*at] <= '9'; (*at)++) {
        if (*digits < UINT64_C(100000000000000000)) {
            *digits = *digits * 10 + (uint64_t)(text[*at] - '0');
        } else if (*dropped < 1000) {
            *dropped += 1;
        }
    }
}

/* The exponent after an e, as far as 1000; 0 without one. */
static int lora_exponent(const char *text, size_t len, size_t at)
{
    uint64_t digits = 0;
    int dropped = 0;
    if (at >= len || (text[at] != 'e' && text[at] != 'E')) {
        return 0;
    }
    at++;
    const bool negative = at < len && text[at] == '-';
    at += at < len && (text[at] == '-' || text[at] == '+');
    lora_digits(text, len, &at, &digits, &dropped);
    const int exponent = digits < 1000 ? (int)digits : 1000;
    return negative ? -exponent : exponent;
}

/* The text was checked to be JSON. Numbers that people write, of few digits, come out exactly rounded: a number below 2^53
   times or divided by a power of ten that is exact, in one operation. */
bool coffer__lora_number(const char *text, size_t len, double *value)
{
    size_t at = len > 0 && text[0] == '-';
    uint64_t digits = 0;
    int dropped = 0;
    if (at >= len || text[at] < '0' || text[at] > '9') {
        return false;
    }
    lora_digits(text, len, &at, &digits, &dropped);
    int exponent = dropped;
    if (at < len && text[at] == '.') {
        const size_t point = ++at;
        dropped = 0;
        lora_digits(text, len, &at, &digits, &dropped);
        exponent -= (int)(at - point < 1000 ? at - point : 1000) - dropped;
    }
    exponent += lora_exponent(text, len, at);
    const double power = lora_power_of_ten(exponent);
    const double size = digits == 0 ? 0 : exponent < 0 ? (double)digits / power : (double)digits * power;
    *value = text[0] == '-' ? -size : size;
    return digits == 0 || (size > 0 && !isinf(size));
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Skips a value; *value is its text, white space before it left out. */
static coffer_status lora_config_value(lora_config_reader *reader, size_t depth, coffer__name *value)
{
    coffer__json *json = &reader->json;
    coffer__json_space(json);
    const size_t from = json->in.position;
    const coffer_status status = coffer__json_skip(json, depth, &reader->scratch);
    value->text = (const char *)json->in.base + from;
    value->len = json->in.position - from;
    return status;
}

static bool lora_config_is(coffer__name value, const char *text)
{
    return value.len == strlen(text) && memcmp(value.text, text, value.len) == 0;
}

static bool lora_config_begins(coffer__name value, const char *text)
{
    return value.len >= strlen(text) && memcmp(value.text, text, strlen(text)) == 0;
}

/* Whether it says that something is not there: null, false, or an empty list, object or text. */
static bool lora_config_is_nothing(coffer__name value)
{
    static const char *const nothing[] = { "null", "false", "[]", "{}", "\"\"", "0" };
    for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++) {
        if (lora_config_is(value, nothing[i])) {
            return true;
        }
    }
    return false;
}

static coffer_status lora_config_wrong(const lora_config_reader *reader, const char *key, const char *wanted)
{
    return coffer__fail(reader->json.err, COFFER_ERR_TYPE, "in " COFFER__LORA_CONFIG_NAME ", %q must be %s", key,
                        strlen(key), wanted);
}

static coffer_status lora_config_number(const lora_config_reader *reader, const char *key, coffer__name value,
                                        double *number)
{
    const bool is = coffer__lora_number(value.text, value.len, number);
    if (!is && value.len > 0 && (value.text[0] == '-' || (value.text[0] >= '0' && value.text[0] <= '9'))) {
        return coffer__fail(reader->json.err, COFFER_ERR_NUMBER,
                            "in " COFFER__LORA_CONFIG_NAME ", the number %q is too large or too small for a double",
                            value.text, value.len);
    }
    return is ? COFFER_OK : lora_config_wrong(reader, key, "a number");
}

static coffer_status lora_config_bool(const lora_config_reader *reader, const char *key, coffer__name value, bool *flag)
{
    *flag = lora_config_is(value, "true");
    return *flag || lora_config_is_nothing(value) ? COFFER_OK : lora_config_wrong(reader, key, "true or false");
}

/* ---- patterns ---------------------------------------------------------------------------------------------------- */

/* PEFT takes the key for the end of a regular expression. Names are what people write there; anything that would match
   other text than itself is refused, the dot excepted. */
bool coffer__lora_config_is_plain(coffer__name key)
{
    for (size_t i = 0; i < key.len; i++) {
        if (key.text[i] == '\0' || strchr("\\^$*+?()[]{}|", key.text[i]) != NULL) {
            return false;
        }
    }
    return key.len > 0;
}

/* A `^` at the beginning and a `$` at the end are how a whole name is written: PEFT does it when it merges adapters. */
static coffer__name lora_config_trim(coffer__name key)
{
    const bool hat = key.len > 0 && key.text[0] == '^';
    key.text += hat;
    key.len -= hat;
    key.len -= key.len > 0 && key.text[key.len - 1] == '$';
    return key;
}

static coffer_status lora_config_pattern(lora_config_reader *reader, const char *which, coffer__lora_patterns *patterns)
{
    coffer__lora_config *config = reader->config;
    bool has_control = false;
    coffer__name value;
    coffer__lora_pattern made = { { config->text + config->text_used, 0 }, 0 };
    coffer_status status =
        coffer__json_string(&reader->json, config->text + config->text_used, &made.key.len, &has_control);
    if (status == COFFER_OK) {
        config->text_used += made.key.len;
        status = coffer__json_expect(&reader->json, ':', "a colon should be here");
    }
    if (status == COFFER_OK) {
        status = lora_config_value(reader, 2, &value);
    }
    if (status == COFFER_OK) {
        status = lora_config_number(reader, which, value, &made.value);
    }
    if (status != COFFER_OK) {
        return status;
    }
    made.key = lora_config_trim(made.key);
    if (!coffer__lora_config_is_plain(made.key)) {
        return coffer__fail(reader->json.err, COFFER_ERR_UNSUPPORTED,
                            "in " COFFER__LORA_CONFIG_NAME
                            ", %q of %q is a regular expression, and only names are understood: "
                            "write out the names of the modules",
                            made.key.text, made.key.len, which, strlen(which));
    }
    coffer__lora_pattern *grown = coffer__grow_array(reader->allocator, patterns->items, patterns->count,
                                                     &patterns->capacity, sizeof *grown, reader->json.err);
    if (grown == NULL) {
        return COFFER_ERR_MEMORY;
    }
    patterns->items = grown;
    patterns->items[patterns->count++] = made;
    return COFFER_OK;
}

static bool lora_config_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__lora_pattern *items = ctx;
    return coffer__compare_names(items[a].key.text, items[a].key.len, items[b].key.text, items[b].key.len) < 0;
}

/* Of patterns with one key the first counts. An object that comes twice is sorted again with what was there. */
static coffer_status lora_config_sort(const lora_config_reader *reader, coffer__lora_patterns *patterns)
{
    coffer__free_array(reader->allocator, patterns->by_key, patterns->key_capacity, sizeof *patterns->by_key);
    patterns->key_count = 0;
    patterns->key_capacity = 0;
    patterns->by_key =
        coffer__alloc_array(reader->allocator, patterns->count, sizeof *patterns->by_key, reader->json.err);
    if (patterns->by_key == NULL) {
        return COFFER_ERR_MEMORY;
    }
    patterns->key_capacity = patterns->count;
    for (size_t i = 0; i < patterns->count; i++) {
        patterns->by_key[i] = (uint32_t)i;
    }
    coffer__sort(patterns->by_key, patterns->count, lora_config_before, patterns->items);
    for (size_t i = 0; i < patterns->count; i++) {
        const size_t kept = patterns->key_count;
        if (kept == 0 || lora_config_before(patterns->items, patterns->by_key[kept - 1], patterns->by_key[i])) {
            patterns->by_key[patterns->key_count++] = patterns->by_key[i];
        }
    }
    return COFFER_OK;
}

/* null is an empty object. */
static coffer_status lora_config_patterns(lora_config_reader *reader, const char *which,
                                          coffer__lora_patterns *patterns)
{
    coffer__name value;
    coffer__json *json = &reader->json;
    if (coffer__json_peek(json) != '{') {
        const coffer_status skipped = lora_config_value(reader, 1, &value);
        return skipped != COFFER_OK || lora_config_is_nothing(value) ? skipped
                                                                     : lora_config_wrong(reader, which, "an object");
    }
    const size_t before = patterns->count;
    json->in.position++;
    bool more = coffer__json_peek(json) != '}';
    json->in.position += !more;
    coffer_status status = COFFER_OK;
    while (status == COFFER_OK && more) {
        status = lora_config_pattern(reader, which, patterns);
        if (status == COFFER_OK) {
            status = coffer__json_next(json, '}', &more);
        }
    }
    return status == COFFER_OK && patterns->count > before ? lora_config_sort(reader, patterns) : status;
}

/* ---- members ----------------------------------------------------------------------------------------------------- */

/* What the members stand for that change what merging means; what would do it is PEFT itself. */
static const struct {
    const char *key;
    const char *what;
} lora_config_refused[] = {
    { "use_qalora", "QALoRA" },
    { "use_bdlora", "block-diagonal LoRA" },
    { "kasa_config", "KaSA" },
    { "arrow_config", "Arrow, which chooses among adapters" },
    { "monteclora_config", "MonteCLoRA" },
    { "layer_replication", "layers that are replicated" },
    { "target_parameters", "adapters of parameters without a module (target_parameters)" },
    { "trainable_token_indices", "tokens that are trained by themselves (trainable_token_indices)" },
    { "alora_invocation_tokens", "an adapter that is active only after certain tokens (aLoRA)" },
    { "lora_bias", "a bias of lora_B (lora_bias)" },
};

static coffer_status lora_config_refuse(const lora_config_reader *reader, const char *what)
{
    return coffer__fail(reader->json.err, COFFER_ERR_UNSUPPORTED,
                        "the adapter has %s, which cannot be merged here: merge it with PEFT (merge_and_unload)", what);
}

/* These begin with a change of the base's weights, so that the product does not belong to the base as it is published. */
static coffer_status lora_config_beginning(const lora_config_reader *reader, coffer__name value)
{
    static const char *const changing[] = { "\"pissa", "\"olora", "\"corda", "\"loftq", "\"lora_ga" };
    for (size_t i = 0; i < sizeof changing / sizeof changing[0]; i++) {
        if (lora_config_begins(value, changing[i])) {
            return coffer__fail(reader->json.err, COFFER_ERR_UNSUPPORTED,
                                "the adapter was begun as %q, which changed the base: convert it with PEFT "
                                "(save_pretrained with path_initial_model_for_weight_conversion), or merge it there",
                                value.text + 1, value.len - 2);
        }
    }
    return COFFER_OK;
}

/* Which kind it is. LoRA and DoRA have the same, and differ by use_dora. */
static coffer_status lora_config_kind(const lora_config_reader *reader, coffer__name value)
{
    static const struct {
        const char *type;
        coffer_adapter_kind kind;
    } kinds[] = {
        { "\"LORA\"", COFFER_ADAPTER_LORA },
        { "\"LOHA\"", COFFER_ADAPTER_LOHA },
        { "\"LOKR\"", COFFER_ADAPTER_LOKR },
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (lora_config_is(value, kinds[i].type)) {
            reader->config->kind = kinds[i].kind;
            return COFFER_OK;
        }
    }
    return coffer__fail(reader->json.err, COFFER_ERR_UNSUPPORTED,
                        "the adapter is of the kind %q, and only LoRA, LoHa and LoKr can be merged here: merge it with "
                        "PEFT",
                        value.text, value.len);
}

/* Keeps a string as JSON has it. What was unescaped of its key is used up. */
static coffer__name lora_config_keep(coffer__lora_config *config, coffer__name value)
{
    if (value.text[0] != '"') {
        return (coffer__name){ NULL, 0 };
    }
    char *const to = config->text + config->text_used;
    memcpy(to, value.text, value.len);
    config->text_used += value.len;
    return (coffer__name){ to, value.len };
}

/* A member that is one value. */
static coffer_status lora_config_take(lora_config_reader *reader, coffer__name key, coffer__name value)
{
    coffer__lora_config *config = reader->config;
    if (lora_config_is(key, "r")) {
        return lora_config_number(reader, "r", value, &config->rank);
    }
    if (lora_config_is(key, "lora_alpha")) {
        return lora_config_number(reader, "lora_alpha", value, &config->lora_alpha);
    }
    if (lora_config_is(key, "alpha")) {
        return lora_config_number(reader, "alpha", value, &config->alpha);
    }
    if (lora_config_is(key, "use_rslora")) {
        return lora_config_bool(reader, "use_rslora", value, &config->by_root);
    }
    if (lora_config_is(key, "use_dora")) {
        return lora_config_bool(reader, "use_dora", value, &config->by_magnitude);
    }
    if (lora_config_is(key, "fan_in_fan_out")) {
        return lora_config_bool(reader, "fan_in_fan_out", value, &config->fan_in_fan_out);
    }
    if (lora_config_is(key, "init_lora_weights")) {
        return lora_config_beginning(reader, value);
    }
    if (lora_config_is(key, "peft_type")) {
        return lora_config_kind(reader, value);
    }
    if (lora_config_is(key, "base_model_name_or_path")) {
        config->base = lora_config_keep(config, value);
        return COFFER_OK;
    }
    if (lora_config_is(key, "task_type")) {
        config->task = lora_config_keep(config, value);
        return COFFER_OK;
    }
    for (size_t i = 0; i < sizeof lora_config_refused / sizeof lora_config_refused[0]; i++) {
        if (lora_config_is(key, lora_config_refused[i].key) && !lora_config_is_nothing(value)) {
            return lora_config_refuse(reader, lora_config_refused[i].what);
        }
    }
    return COFFER_OK;
}

/* The key is a view of what was unescaped; it is used up when the next string comes. */
static coffer_status lora_config_member(lora_config_reader *reader)
{
    coffer__lora_config *config = reader->config;
    coffer__name value;
    coffer__name key = { config->text + config->text_used, 0 };
    bool has_control = false;
    coffer_status status = coffer__json_string(&reader->json, config->text + config->text_used, &key.len, &has_control);
    if (status == COFFER_OK) {
        status = coffer__json_expect(&reader->json, ':', "a colon should be here");
    }
    if (status != COFFER_OK) {
        return status;
    }
    if (lora_config_is(key, "rank_pattern")) {
        return lora_config_patterns(reader, "rank_pattern", &config->ranks);
    }
    if (lora_config_is(key, "alpha_pattern")) {
        return lora_config_patterns(reader, "alpha_pattern", &config->alphas);
    }
    status = lora_config_value(reader, 1, &value);
    return status == COFFER_OK ? lora_config_take(reader, key, value) : status;
}

/* Nothing but the object. r and lora_alpha have to be there, so that no factor is guessed. */
static coffer_status lora_config_object(lora_config_reader *reader)
{
    coffer__json *json = &reader->json;
    coffer_status status = coffer__json_expect(json, '{', "an object should be here");
    bool more = status == COFFER_OK && coffer__json_peek(json) != '}';
    json->in.position += status == COFFER_OK && !more;
    while (status == COFFER_OK && more) {
        status = lora_config_member(reader);
        if (status == COFFER_OK) {
            status = coffer__json_next(json, '}', &more);
        }
    }
    if (status != COFFER_OK) {
        return status;
    }
    if (coffer__json_peek(json) != 0 || json->in.position < json->in.length) {
        return coffer__json_error(json, "nothing should follow the object");
    }
    return reader->config->rank > 0
               ? COFFER_OK
               : coffer__fail(json->err, COFFER_ERR_NUMBER,
                              "in " COFFER__LORA_CONFIG_NAME ", the rank `r` is missing, or not above 0");
}

coffer_status coffer__lora_config_read(coffer__lora_config *config, const char *text, size_t len,
                                       const coffer_allocator *allocator, coffer_error *err)
{
    lora_config_reader reader = { .config = config, .allocator = allocator };
    memset(config, 0, sizeof *config);
    /* PEFT's own defaults. */
    config->kind = COFFER_ADAPTER_LORA;
    config->lora_alpha = 8;
    config->alpha = 8;
    config->text = coffer__alloc_array(allocator, len + 1, 1, err);
    config->text_size = len + 1;
    if (config->text == NULL) {
        return COFFER_ERR_MEMORY;
    }
    reader.scratch.allocator = allocator;
    reader.json = (coffer__json){ .in = { .base = (const uint8_t *)text, .length = len },
                                  .err = err,
                                  .noun = COFFER__LORA_CONFIG_NAME };
    const coffer_status status = lora_config_object(&reader);
    coffer__scratch_free(&reader.scratch);
    config->present = status == COFFER_OK;
    return status;
}

void coffer__lora_config_free(coffer__lora_config *config, const coffer_allocator *allocator)
{
    coffer__free(allocator, config->ranks.items, config->ranks.capacity * sizeof *config->ranks.items);
    coffer__free_array(allocator, config->ranks.by_key, config->ranks.key_capacity, sizeof *config->ranks.by_key);
    coffer__free_array(allocator, config->alphas.by_key, config->alphas.key_capacity, sizeof *config->alphas.by_key);
    coffer__free(allocator, config->alphas.items, config->alphas.capacity * sizeof *config->alphas.items);
    coffer__free_array(allocator, config->text, config->text_size, 1);
    memset(config, 0, sizeof *config);
}

/* ---- factors ----------------------------------------------------------------------------------------------------- */

static int lora_config_compare(const void *ctx, size_t i, const void *wanted)
{
    const coffer__lora_patterns *patterns = ctx;
    const coffer__name key = patterns->items[patterns->by_key[i]].key;
    const coffer__name *name = wanted;
    return coffer__compare_names(key.text, key.len, name->text, name->len);
}

/* The first pattern that is the module's name, or the end of it after a dot. Each end is looked up, so that the work does not
   grow with the number of patterns. */
static double lora_config_for(const coffer__lora_patterns *patterns, coffer__name module, double otherwise)
{
    size_t first = patterns->count;
    for (size_t from = 0; from <= module.len && patterns->key_count > 0; from++) {
        const coffer__name end = { module.text + from, module.len - from };
        size_t place = 0;
        const bool begins = from == 0 || module.text[from - 1] == '.';
        if (begins && coffer__find_sorted(patterns->key_count, lora_config_compare, patterns, &end, &place)) {
            first = patterns->by_key[place] < first ? patterns->by_key[place] : first;
        }
    }
    return first < patterns->count ? patterns->items[first].value : otherwise;
}

coffer_status coffer__lora_config_factor(const coffer__lora_config *config, coffer__name module, uint64_t rank,
                                         double *factor, coffer_error *err)
{
    const double stated = lora_config_for(&config->ranks, module, config->rank);
    const double general = config->kind == COFFER_ADAPTER_LORA ? config->lora_alpha : config->alpha;
    const double alpha = lora_config_for(&config->alphas, module, general);
    if (rank > 0 ? stated != (double)rank : stated <= 0) {
        return coffer__fail(err, COFFER_ERR_SIZE,
                            "the matrices of %q have the rank %u, and " COFFER__LORA_CONFIG_NAME
                            " states another one for them: "
                            "the two do not belong together",
                            module.text, module.len, rank);
    }
    *factor = alpha / (config->by_root ? coffer__root(stated) : stated);
    return COFFER_OK;
}
