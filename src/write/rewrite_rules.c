/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of a rewrite, one tensor at a time: see rewriting.h for the contracts.
 *
 * Exact names may be as many as a model has tensors, so they are in an index, and every tensor is looked up in it once.
 * All other rules are few, and are asked one after the other.
 */
#include "alloc.h"
#include "error.h"
#include "pattern.h"
#include "rewriting.h"
#include "text.h"

#include <string.h>

#define REGEX_MAX_DEPTH 32  /* groups in groups */
#define REGEX_MAX_SIZE 1000 /* signs, where a repetition counts for as many as it stands for */

/* Bytes of a name that expressions are tried on. The time for replacing grows with the square, and files choose names. */
#define REWRITE_LONGEST_TEXT 4096u
#define REWRITE_LONGEST_CHARACTER 4u /* of UTF-8 */

/* ---- what a rule may be ---- */

/* Those that coffer_encode knows. */
static bool rewrite_can_cast_to(coffer_dtype dtype)
{
    return coffer_encode(dtype, NULL, 0, NULL) == COFFER_OK;
}

/* Counts the stars that no backslash precedes. A star in a set counts too, which at worst asks for
   one capture too many. The byte after a backslash is skipped, whatever it is; a backslash at the
   end is itself. */
static size_t rewrite_count_stars(const char *pattern)
{
    size_t count = 0;
    for (const char *next = pattern; *next != '\0'; next++) {
        count += *next == '*';
        next += next[0] == '\\' && next[1] != '\0';
    }
    return count;
}

static coffer_status rewrite_no_name(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_ARGUMENT, "a rule that renames needs a name");
}

/* The stars of the new name take the captures of the pattern's stars in order, so it cannot have
   more of them. The bound on the stars is that of the array of captures in a decision, so it
   protects memory and not only sense. */
static coffer_status rewrite_check_rename(const coffer_rewrite_rule *rule, coffer_error *err)
{
    if (rule->name == NULL) {
        return rewrite_no_name(err);
    }
    const size_t stars = rewrite_count_stars(rule->pattern);
    if (stars > COFFER_REWRITE_MAX_STARS) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "%q has more than %u stars", rule->pattern, strlen(rule->pattern),
                            (uint64_t)COFFER_REWRITE_MAX_STARS);
    }
    return rewrite_count_stars(rule->name) <= stars
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_ARGUMENT, "the new name %q has more stars than the pattern %q",
                              rule->name, strlen(rule->name), rule->pattern, strlen(rule->pattern));
}

/* Only the fields that the kind uses are looked at, so the others may have any value. */
static coffer_status rewrite_check_rule(const coffer_rewrite_rule *rule, coffer_error *err)
{
    if (rule->pattern == NULL && rule->kind != COFFER_REWRITE_CAST) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "a rule's pattern is NULL");
    }
    /* No default: the compiler warns when a kind is added and not handled. A value that is no kind,
       which a caller may pass, ends after the switch. */
    switch (rule->kind) {
    case COFFER_REWRITE_DROP:
    case COFFER_REWRITE_KEEP:
    case COFFER_REWRITE_RENAME_MAP:
    case COFFER_REWRITE_LAYERS:
        return COFFER_OK;
    case COFFER_REWRITE_RENAME:
        return rewrite_check_rename(rule, err);
    case COFFER_REWRITE_RENAME_EXACT:
    case COFFER_REWRITE_RENAME_REGEX:
    case COFFER_REWRITE_RENAME_REGEX_ALL:
        return rule->name != NULL ? COFFER_OK : rewrite_no_name(err);
    case COFFER_REWRITE_CAST:
        return rewrite_can_cast_to(rule->dtype)
                   ? COFFER_OK
                   : coffer__fail(err, COFFER_ERR_ARGUMENT,
                                  "tensors are cast to F16, BF16, F32, F64, F8_E4M3 or F8_E5M2 only");
    }
    return coffer__fail(err, COFFER_ERR_ARGUMENT, "a rule's kind is not one of its values");
}

/* ---- stars ------------------------------------------------------------------------------------------------------- */

/* Replaces each star of the new name by the next capture, and undoes backslashes. The rule was checked to have no more
   stars than there are captures (rewrite_check_rename). */
static void rewrite_put_stars(coffer__writing *out, const char *name, const coffer__name *captures)
{
    for (const char *next = name; *next != '\0'; next++) {
        if (*next == '*') {
            coffer__write(out, captures->text, captures->len);
            captures++;
            continue;
        }
        next += next[0] == '\\' && next[1] != '\0';
        coffer__write(out, next, 1);
    }
}

static coffer_status rewrite_out_of_memory(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the rules of a rewrite");
}

/* ---- expressions ------------------------------------------------------------------------------------------------- */

/* A group that the new name asks for has to be there, or a typing error would write nothing in its place. */
static coffer_status rewrite_check_groups(const coffer_rewrite_rule *rule, const coffer__os_regex *regex,
                                          coffer_error *err)
{
    const size_t groups = coffer__os_regex_groups(regex);
    for (const char *next = rule->name; *next != '\0'; next++) {
        if (next[0] != '\\' || next[1] == '\0') {
            continue;
        }
        next++;
        if (*next >= '1' && *next <= '9' && (size_t)(*next - '0') > groups) {
            return coffer__fail(err, COFFER_ERR_ARGUMENT, "the new name %q asks for group %u, and %q has %u",
                                rule->name, strlen(rule->name), (uint64_t)(*next - '0'), rule->pattern,
                                strlen(rule->pattern), (uint64_t)groups);
        }
    }
    return COFFER_OK;
}

/* Groups of an expression that are open, and the sizes that they have once repetitions are written out. */
typedef struct regex_groups {
    uint64_t sizes[REGEX_MAX_DEPTH];
    size_t depth;
    uint64_t last; /* the size of what a repetition would repeat */
    bool counts;
} regex_groups;

/* The end of a bracket expression that begins at `text`, past its closing bracket; of one that is not closed, the end. */
static const char *regex_bracket_end(const char *text)
{
    text += 1 + (text[1] == '^');
    text += *text == ']';
    while (*text != '\0' && *text != ']') {
        const bool nested = text[0] == '[' && text[1] != '\0' && strchr(".:=", text[1]) != NULL;
        const char sign = text[1];
        text++;
        while (nested && *++text != '\0' && !(text[0] == sign && text[1] == ']')) {}
        text += nested && *text != '\0' ? 2 : 0;
    }
    return *text == ']' ? text + 1 : text;
}

/* The larger number of {m}, {m,} and {m,n}, or one that is beyond the limit. */
static uint64_t regex_times(const char *text)
{
    uint64_t most = 0;
    uint64_t number = 0;
    for (; *text != '\0' && *text != '}'; text++) {
        const bool digit = *text >= '0' && *text <= '9';
        number = digit ? number * 10 + (uint64_t)(*text - '0') : 0;
        number = number <= REGEX_MAX_SIZE ? number : REGEX_MAX_SIZE + 1;
        most = number > most ? number : most;
    }
    return most > 0 ? most : 1;
}

static bool regex_take(regex_groups *groups, const char **text)
{
    const char c = **text;
    uint64_t *size = &groups->sizes[groups->depth];
    if (c == '(') {
        groups->sizes[++groups->depth < REGEX_MAX_DEPTH ? groups->depth : 0] = 0;
        ++*text;
        return groups->depth < REGEX_MAX_DEPTH;
    }
    if (c == ')' && groups->depth > 0) {
        groups->last = *size + 1;
        groups->sizes[--groups->depth] += groups->last;
    } else if (c == '{') {
        const uint64_t times = regex_times(*text + 1);
        *size += groups->last * (times - 1);
        groups->last *= times;
        groups->counts = true;
        *text += strcspn(*text, "}");
    } else {
        const bool repeats = c == '*' || c == '+' || c == '?';
        *size += 1;
        groups->last = repeats ? groups->last + 1 : 1;
    }
    if (c == '[') {
        *text = regex_bracket_end(*text);
    } else {
        *text += (**text != '\0') + (c == '\\' && (*text)[1] != '\0');
    }
    return !groups->counts || (*size <= REGEX_MAX_SIZE && groups->last <= REGEX_MAX_SIZE);
}

/* The C library's work is bounded only for expressions without back-references, which POSIX does not know in these, and whose
   repetitions, written out, are not many. */
static coffer_status rewrite_check_work(const coffer_rewrite_rule *rule, coffer_error *err)
{
    regex_groups groups = { .depth = 0 };
    for (const char *text = rule->pattern; *text != '\0';) {
        if (text[0] == '\\' && text[1] >= '1' && text[1] <= '9') {
            return coffer__fail(err, COFFER_ERR_ARGUMENT,
                                "%q refers back to a group, which POSIX extended regular expressions cannot: only the "
                                "new name has groups",
                                rule->pattern, strlen(rule->pattern));
        }
        if (!regex_take(&groups, &text)) {
            return coffer__fail(err, COFFER_ERR_ARGUMENT,
                                "%q nests groups deeper than %u, or repeats more than %u times in all: take * or +",
                                rule->pattern, strlen(rule->pattern), (uint64_t)REGEX_MAX_DEPTH,
                                (uint64_t)REGEX_MAX_SIZE);
        }
    }
    return COFFER_OK;
}

static coffer_status rewrite_compile(const coffer_rewrite_rule *rule, coffer__os_regex **regex, coffer_error *err)
{
    char why[128];
    const coffer_status status = rewrite_check_work(rule, err);
    if (status != COFFER_OK) {
        return status;
    }
    switch (coffer__os_regex_new(regex, rule->pattern, why, sizeof why)) {
    case 0:
        return rewrite_check_groups(rule, *regex, err);
    case ENOMEM:
        return rewrite_out_of_memory(err);
    case EINVAL:
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "%q is no regular expression: %s", rule->pattern,
                            strlen(rule->pattern), why);
    default:
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                            "regular expressions are not available on this system: rename by patterns or by a table");
    }
}

/* What a match becomes; `text` is what the spans are places in. */
static void rewrite_put_match(coffer__writing *out, const char *name, const char *text, const coffer__os_span *spans)
{
    for (const char *next = name; *next != '\0'; next++) {
        const bool escaped = next[0] == '\\' && next[1] != '\0';
        next += escaped;
        const bool group = escaped ? *next >= '0' && *next <= '9' : *next == '&';
        if (group) {
            const coffer__os_span *span = &spans[*next == '&' ? 0 : *next - '0'];
            coffer__write(out, text + span->first, span->end - span->first);
        } else {
            coffer__write(out, next, 1);
        }
    }
}

/* The character at `text`, which is not at its end, as it is; a match of nothing must not stand still. Returns its size. */
static size_t rewrite_put_character(coffer__writing *out, const char *text)
{
    uint32_t character = 0;
    const char *end = memchr(text, '\0', REWRITE_LONGEST_CHARACTER);
    const size_t size =
        coffer__utf8_decode(text, end != NULL ? (size_t)(end - text) : REWRITE_LONGEST_CHARACTER, &character);
    coffer__write(out, text, size > 0 ? size : 1);
    return size > 0 ? size : 1;
}

/* Replaces one match, or all, as sed does: a match of nothing right after another match is none. False: there is none.
   `text` is the tensor's name with a NUL. */
static bool rewrite_replace(const coffer__os_regex *regex, const coffer_rewrite_rule *rule, const char *text,
                            coffer__writing *out)
{
    coffer__os_span spans[COFFER__OS_REGEX_SPANS];
    const char *rest = text;
    const char *after = NULL; /* the last match */
    while (!out->failed && coffer__os_regex_find(regex, rest, rest == text, spans)) {
        const bool empty = spans[0].first == spans[0].end;
        coffer__write(out, rest, spans[0].first);
        if (!empty || rest + spans[0].first != after) {
            rewrite_put_match(out, rule->name, rest, spans);
        }
        rest += spans[0].end;
        after = rest;
        if (rule->kind == COFFER_REWRITE_RENAME_REGEX || *rest == '\0') {
            break;
        }
        rest += empty ? rewrite_put_character(out, rest) : 0;
    }
    coffer__write_text(out, rest);
    return after != NULL;
}

/* ---- preparing --------------------------------------------------------------------------------------------------- */

static coffer__name rewrite_exact_name(const void *ctx, uint32_t item)
{
    const coffer__rewrite_rules *rules = ctx;
    const char *pattern = rules->given[rules->exact[item]].pattern;
    return (coffer__name){ pattern, strlen(pattern) };
}

static bool rewrite_is_rename(const coffer_rewrite_rule *rule)
{
    return rule->kind == COFFER_REWRITE_RENAME ||
           (rule->kind >= COFFER_REWRITE_RENAME_EXACT && rule->kind <= COFFER_REWRITE_RENAME_MAP);
}

/* Layers get their numbers where names have them now; another rename of the same tensor could move those. */
static coffer_status rewrite_check_together(const coffer__rewrite_rules *rules, coffer_error *err)
{
    bool renames = false;
    bool layers = false;
    for (size_t i = 0; i < rules->count; i++) {
        renames = renames || rewrite_is_rename(&rules->given[i]);
        layers = layers || rules->given[i].kind == COFFER_REWRITE_LAYERS;
    }
    return renames && layers ? coffer__fail(err, COFFER_ERR_ARGUMENT,
                                            "layers cannot be chosen and tensors renamed in one go: rename them in a "
                                            "second rewrite")
                             : COFFER_OK;
}

static coffer_status rewrite_prepare_rule(const coffer__rewrite_rules *rules, coffer__rewrite_prepared *prepared,
                                          coffer_error *err)
{
    const coffer_rewrite_rule *rule = prepared->rule;
    switch (rule->kind) {
    case COFFER_REWRITE_RENAME_REGEX:
    case COFFER_REWRITE_RENAME_REGEX_ALL:
        return rewrite_compile(rule, &prepared->regex, err);
    case COFFER_REWRITE_RENAME_MAP:
        prepared->map = coffer__rewrite_map_find(rule->pattern);
        return prepared->map != NULL ? COFFER_OK
                                     : coffer__fail(err, COFFER_ERR_ARGUMENT, "there is no known map %q", rule->pattern,
                                                    strlen(rule->pattern));
    case COFFER_REWRITE_LAYERS:
        prepared->layers.allocator = &rules->allocator;
        return coffer__layer_list_read(&prepared->layers, rule->pattern, err);
    default:
        prepared->pattern = coffer__pattern_prepare(rule->pattern != NULL ? rule->pattern : "*");
        return COFFER_OK;
    }
}

/* Sorts the rules into those of exact names and the others. */
static coffer_status rewrite_prepare(coffer__rewrite_rules *rules, coffer_error *err)
{
    uint32_t twice = 0;
    for (size_t i = 0; i < rules->count; i++) {
        coffer_status status = rewrite_check_rule(&rules->given[i], err);
        if (status != COFFER_OK) {
            return status;
        }
        if (rules->given[i].kind == COFFER_REWRITE_RENAME_EXACT) {
            rules->exact[rules->names.count++] = (uint32_t)i;
            continue;
        }
        coffer__rewrite_prepared *prepared = &rules->others[rules->other_count++];
        prepared->rule = &rules->given[i];
        status = rewrite_prepare_rule(rules, prepared, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    const coffer_status status = rewrite_check_together(rules, err);
    return status == COFFER_OK && rules->names.count > 0 ? coffer__names_build(&rules->names, &twice, err) : status;
}

void coffer__rewrite_rules_free(coffer__rewrite_rules *rules)
{
    for (size_t i = 0; rules->others != NULL && i < rules->other_count; i++) {
        coffer__os_regex_free(rules->others[i].regex);
        if (rules->others[i].layers.allocator != NULL) {
            coffer__layer_list_free(&rules->others[i].layers);
        }
    }
    if (rules->names.count > 0) {
        coffer__names_free(&rules->names);
    }
    rules->names.count = 0;
    coffer__free_array(&rules->allocator, rules->others, rules->count, sizeof *rules->others);
    coffer__free_array(&rules->allocator, rules->exact, rules->count, sizeof *rules->exact);
    coffer__writing_free(&rules->text);
    coffer__writing_free(&rules->name);
    rules->others = NULL;
    rules->exact = NULL;
}

/* ---- what matches ------------------------------------------------------------------------------------------------ */

static coffer__name rewrite_name_of(const coffer_tensor *tensor)
{
    return (coffer__name){ tensor->name, tensor->name_len };
}

/* The name as text for expressions, which end at a NUL; NULL: it has one within, is too long, or there is no memory. */
static const char *rewrite_as_text(coffer__rewrite_rules *rules, coffer__name name)
{
    rules->text.used = 0;
    if (name.len > REWRITE_LONGEST_TEXT) {
        return NULL;
    }
    coffer__write(&rules->text, name.text, name.len);
    coffer__write(&rules->text, "", 1);
    return rules->text.failed || memchr(rules->text.text, '\0', name.len) != NULL ? NULL : rules->text.text;
}

/* The tensor's layer, if it is in the rule's stack. */
static bool rewrite_in_stack(const coffer__rewrite_prepared *prepared, coffer__name name, coffer__layer_place *place)
{
    const char *stack = prepared->rule->name;
    return coffer__layer_find(name, place) &&
           (stack == NULL || (strlen(stack) == place->stack_len && memcmp(stack, name.text, place->stack_len) == 0));
}

/* Whether a rename applies to the tensor; then rules->name is its new name. The glob's captures are borrowed from the name.
   A star in a set counts as one but captures nothing, so its capture must be empty. */
static bool rewrite_rename_by(coffer__rewrite_rules *rules, const coffer__rewrite_prepared *prepared, coffer__name name,
                              bool *unclear)
{
    coffer__name captures[COFFER_REWRITE_MAX_STARS];
    rules->name.used = 0;
    if (prepared->regex != NULL) {
        const char *text = rewrite_as_text(rules, name);
        return text != NULL && rewrite_replace(prepared->regex, prepared->rule, text, &rules->name);
    }
    if (prepared->map != NULL) {
        const coffer__rewrite_mapped mapped = coffer__rewrite_map_name(prepared->map, name, &rules->name);
        *unclear = mapped == COFFER__MAPPED_UNCLEAR;
        return mapped != COFFER__MAPPED_NOT;
    }
    if (!coffer__pattern_fits(&prepared->pattern, name)) {
        return false;
    }
    for (size_t i = 0; i < COFFER_REWRITE_MAX_STARS; i++) {
        captures[i] = (coffer__name){ "", 0 };
    }
    (void)coffer__pattern_captures(prepared->rule->pattern, name, captures);
    rewrite_put_stars(&rules->name, prepared->rule->name, captures);
    return true;
}

/* Floats whose numbers mean something without others: codes of 4 and 6 bits have scales, and F8_E8M0 is one. */
static bool rewrite_is_alone(coffer_dtype dtype)
{
    return coffer_dtype_kind(dtype) == COFFER_KIND_FLOAT && coffer_dtype_bits(dtype) >= 8 && dtype != COFFER_F8_E8M0;
}

/* Whether the rule has anything to do with the tensor. */
static bool rewrite_matches(coffer__rewrite_rules *rules, const coffer__rewrite_prepared *prepared,
                            const coffer_tensor *tensor)
{
    coffer__layer_place place;
    bool unclear = false;
    const coffer__name name = rewrite_name_of(tensor);
    if (prepared->rule->kind == COFFER_REWRITE_LAYERS) {
        return rewrite_in_stack(prepared, name, &place);
    }
    if (prepared->rule->pattern == NULL) {
        return rewrite_is_alone(tensor->dtype);
    }
    return rewrite_is_rename(prepared->rule) ? rewrite_rename_by(rules, prepared, name, &unclear)
                                             : coffer__pattern_fits(&prepared->pattern, name);
}

/* ---- rules that match nothing ------------------------------------------------------------------------------------ */

static coffer_status rewrite_no_match(const coffer_rewrite_rule *rule, coffer_error *err)
{
    if (rule->pattern == NULL) {
        return coffer__fail(err, COFFER_ERR_NO_TENSOR, "no tensor is a float that can be cast by itself");
    }
    const size_t len = strlen(rule->pattern);
    switch (rule->kind) {
    case COFFER_REWRITE_RENAME_EXACT:
        coffer__fail(err, COFFER_ERR_NO_TENSOR, "no tensor is named %q; coffer ls shows the names", rule->pattern, len);
        return coffer__fail_tensor(err, COFFER_ERR_NO_TENSOR, rule->pattern, len);
    case COFFER_REWRITE_RENAME_MAP:
        return coffer__fail(err, COFFER_ERR_NO_TENSOR,
                            "no tensor has a name that the map %s is for; coffer ls shows the names", rule->pattern);
    case COFFER_REWRITE_LAYERS:
        return rule->name == NULL
                   ? coffer__fail(err, COFFER_ERR_NO_TENSOR,
                                  "no tensor has a layer in its name, such as layers.0; coffer ls shows the names")
                   : coffer__fail(err, COFFER_ERR_NO_TENSOR, "no tensor is in a layer of %q; coffer ls shows the names",
                                  rule->name, strlen(rule->name));
    default:
        return coffer__fail(err, COFFER_ERR_NO_TENSOR,
                            "no tensor has a name that matches %q; coffer ls shows the names", rule->pattern, len);
    }
}

/* A pattern that matches nothing is more likely a typing error than intended. It stops at the first
   match, so the common case is cheap; the worst costs one comparison for each tensor. */
static coffer_status rewrite_check_match(coffer__rewrite_rules *rules, const coffer__rewrite_prepared *prepared,
                                         const coffer *model, coffer_error *err)
{
    const size_t count = coffer_count(model);
    for (size_t i = 0; i < count; i++) {
        if (rewrite_matches(rules, prepared, coffer_at(model, i))) {
            return COFFER_OK;
        }
    }
    return rules->text.failed || rules->name.failed ? rewrite_out_of_memory(err)
                                                    : rewrite_no_match(prepared->rule, err);
}

static coffer_status rewrite_check_exact(const coffer__rewrite_rules *rules, const coffer *model, coffer_error *err)
{
    for (size_t i = 0; i < rules->names.count; i++) {
        const coffer_rewrite_rule *rule = &rules->given[rules->exact[i]];
        if (coffer_find(model, rule->pattern, strlen(rule->pattern)) == NULL) {
            return rewrite_no_match(rule, err);
        }
    }
    return COFFER_OK;
}

/* A list without a stack is for the only one that there is. */
static coffer_status rewrite_check_stacks(const coffer__rewrite_prepared *prepared, const coffer *model,
                                          coffer_error *err)
{
    coffer__name stack = { NULL, 0 };
    coffer__layer_place place;
    for (size_t i = 0; i < coffer_count(model) && prepared->rule->name == NULL; i++) {
        const coffer__name name = rewrite_name_of(coffer_at(model, i));
        if (!coffer__layer_find(name, &place)) {
            continue;
        }
        if (stack.text != NULL && (stack.len != place.stack_len || memcmp(stack.text, name.text, stack.len) != 0)) {
            coffer__fail(err, COFFER_ERR_ARGUMENT,
                         "the model has more than one stack of layers, %q and %q: say which is meant", stack.text,
                         stack.len, name.text, place.stack_len);
            return coffer__fail_tensor(err, COFFER_ERR_ARGUMENT, name.text, name.len);
        }
        stack = (coffer__name){ name.text, place.stack_len };
    }
    return COFFER_OK;
}

/* Each layer of the list has to be there. What is seen is marked by its new number. */
static coffer_status rewrite_check_layers(const coffer__rewrite_rules *rules, const coffer__rewrite_prepared *prepared,
                                          const coffer *model, coffer_error *err)
{
    const coffer__layer_list *list = &prepared->layers;
    coffer__layer_place place;
    coffer_status status = rewrite_check_stacks(prepared, model, err);
    if (status != COFFER_OK) {
        return status;
    }
    bool *seen = coffer__alloc_array(&rules->allocator, list->count, sizeof *seen, err);
    if (seen == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < coffer_count(model); i++) {
        if (rewrite_in_stack(prepared, rewrite_name_of(coffer_at(model, i)), &place) &&
            coffer__layer_new_number(list, place.number) != COFFER__NO_LAYER) {
            seen[coffer__layer_new_number(list, place.number)] = true;
        }
    }
    for (uint32_t i = 0; i < list->capacity && status == COFFER_OK; i++) {
        if (list->number_of[i] != COFFER__NO_LAYER && !seen[list->number_of[i]]) {
            status = coffer__fail(err, COFFER_ERR_NO_TENSOR, "there is no layer %u; coffer ls --tree shows the layers",
                                  (uint64_t)i);
        }
    }
    coffer__free_array(&rules->allocator, seen, list->count, sizeof *seen);
    return status;
}

/* In the order of the rules, but those of exact names come last. */
static coffer_status rewrite_check_matches(coffer__rewrite_rules *rules, const coffer *model, coffer_error *err)
{
    for (size_t i = 0; i < rules->other_count; i++) {
        const coffer__rewrite_prepared *prepared = &rules->others[i];
        coffer_status status = rewrite_check_match(rules, prepared, model, err);
        if (status == COFFER_OK && prepared->rule->kind == COFFER_REWRITE_LAYERS) {
            status = rewrite_check_layers(rules, prepared, model, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return rewrite_check_exact(rules, model, err);
}

coffer_status coffer__rewrite_rules_init(coffer__rewrite_rules *rules, const coffer *model,
                                         const coffer_rewrite_options *options, const coffer_allocator *allocator,
                                         coffer_error *err)
{
    memset(rules, 0, sizeof *rules);
    rules->allocator = *allocator;
    rules->given = options->rules;
    rules->text.allocator = &rules->allocator;
    rules->name.allocator = &rules->allocator;
    rules->names = (coffer__names){ .allocator = &rules->allocator, .name_of = rewrite_exact_name, .ctx = rules };
    if (options->rule_count > UINT32_MAX - 1) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "a rewrite cannot have %u rules", (uint64_t)options->rule_count);
    }
    rules->count = options->rule_count;
    rules->others = coffer__alloc_array(&rules->allocator, rules->count, sizeof *rules->others, err);
    rules->exact = coffer__alloc_array(&rules->allocator, rules->count, sizeof *rules->exact, err);
    if (rules->others == NULL || rules->exact == NULL) {
        return COFFER_ERR_MEMORY;
    }
    const coffer_status status = rewrite_prepare(rules, err);
    return status == COFFER_OK && !options->ignore_unmatched ? rewrite_check_matches(rules, model, err) : status;
}

/* ---- what becomes of a tensor ------------------------------------------------------------------------------------ */

/* The tensor's name is in the error, too, for programs that show it. */
static coffer_status rewrite_no_float(const coffer_tensor *tensor, coffer_error *err)
{
    coffer__fail(err, COFFER_ERR_DTYPE,
                 "tensor %q is %s, and only floats can be cast: choose a pattern that leaves it out", tensor->name,
                 (size_t)tensor->name_len, coffer_tensor_dtype_name(tensor));
    return coffer__fail_tensor(err, COFFER_ERR_DTYPE, tensor->name, tensor->name_len);
}

static coffer_status rewrite_unclear(const coffer_rewrite_rule *rule, const coffer_tensor *tensor, coffer_error *err)
{
    coffer__fail(err, COFFER_ERR_ARGUMENT,
                 "the map %s cannot tell what %q stands for: rename that tensor by itself, before the map",
                 rule->pattern, tensor->name, (size_t)tensor->name_len);
    return coffer__fail_tensor(err, COFFER_ERR_ARGUMENT, tensor->name, tensor->name_len);
}

/* The first rule of a kind that matches; NULL: none does. *any, unless NULL, becomes true if there
   is a rule of that kind at all: with a rule that keeps, tensors that no such rule matches are left
   out. *any may become true although the answer is NULL, which is the point of it; it is never set
   to false. */
static const coffer_rewrite_rule *rewrite_first(coffer__rewrite_rules *rules, coffer_rewrite_kind kind,
                                                const coffer_tensor *tensor, bool *any)
{
    for (size_t i = 0; i < rules->other_count; i++) {
        if (rules->others[i].rule->kind != kind) {
            continue;
        }
        if (any != NULL) {
            *any = true;
        }
        if (rewrite_matches(rules, &rules->others[i], tensor)) {
            return rules->others[i].rule;
        }
    }
    return NULL;
}

/* The number in the name becomes the new one; false: the layer is left out. */
static bool rewrite_number(coffer__rewrite_rules *rules, const coffer__layer_list *list, coffer__name name,
                           const coffer__layer_place *place)
{
    char digits[24];
    const uint32_t number = coffer__layer_new_number(list, place->number);
    if (number == COFFER__NO_LAYER) {
        return false;
    }
    rules->name.used = 0;
    coffer__write(&rules->name, name.text, place->stack_len + 1);
    coffer__write(&rules->name, digits, coffer__write_u64(digits, number));
    coffer__write(&rules->name, name.text + place->end, name.len - place->end);
    return true;
}

/* The first list of the tensor's stack decides. */
static void rewrite_decide_layer(coffer__rewrite_decision *decision, coffer__rewrite_rules *rules,
                                 const coffer_tensor *tensor)
{
    coffer__layer_place place;
    const coffer__name name = rewrite_name_of(tensor);
    for (size_t i = 0; i < rules->other_count; i++) {
        const coffer__rewrite_prepared *prepared = &rules->others[i];
        if (prepared->rule->kind == COFFER_REWRITE_LAYERS && rewrite_in_stack(prepared, name, &place)) {
            decision->renamed = rewrite_number(rules, &prepared->layers, name, &place);
            decision->left_out = !decision->renamed;
            return;
        }
    }
}

/* The first rename that matches, by the order of all rules. They look at the old name only, so two rules can exchange two
   names. */
static coffer_status rewrite_decide_name(coffer__rewrite_decision *decision, coffer__rewrite_rules *rules,
                                         const coffer_tensor *tensor, coffer_error *err)
{
    const coffer__name name = rewrite_name_of(tensor);
    const uint32_t item =
        rules->names.count > 0 ? coffer__names_find(&rules->names, name.text, name.len) : COFFER__NO_NAME;
    const coffer_rewrite_rule *exact = item != COFFER__NO_NAME ? &rules->given[rules->exact[item]] : NULL;
    for (size_t i = 0; i < rules->other_count && !decision->renamed; i++) {
        const coffer__rewrite_prepared *prepared = &rules->others[i];
        bool unclear = false;
        if (exact != NULL && prepared->rule > exact) {
            break;
        }
        decision->renamed = rewrite_is_rename(prepared->rule) && rewrite_rename_by(rules, prepared, name, &unclear);
        if (unclear) {
            return rewrite_unclear(prepared->rule, tensor, err);
        }
    }
    if (!decision->renamed && exact != NULL) {
        rules->name.used = 0;
        coffer__write_text(&rules->name, exact->name);
        decision->renamed = true;
    }
    return COFFER_OK;
}

/* Keeping and dropping are decided first: what is left out need not be castable. Then the first
   rule of each other kind counts. A cast to the dtype that a tensor has leaves it as it is. */
coffer_status coffer__rewrite_decide(coffer__rewrite_decision *decision, coffer__rewrite_rules *rules,
                                     const coffer_tensor *tensor, coffer_error *err)
{
    bool choosing = false;
    *decision = (coffer__rewrite_decision){ .dtype = tensor->dtype };
    /* A tensor that a rule keeps and another one drops is dropped. */
    const bool kept = rewrite_first(rules, COFFER_REWRITE_KEEP, tensor, &choosing) != NULL;
    decision->left_out = (choosing && !kept) || rewrite_first(rules, COFFER_REWRITE_DROP, tensor, NULL) != NULL;
    if (!decision->left_out) {
        rewrite_decide_layer(decision, rules, tensor);
    }
    if (decision->left_out) {
        return COFFER_OK;
    }
    /* Of several casts that match, the first counts, also if a later one has the tensor's own
       dtype. */
    const coffer_rewrite_rule *cast = rewrite_first(rules, COFFER_REWRITE_CAST, tensor, NULL);
    if (cast != NULL && coffer_dtype_kind(tensor->dtype) != COFFER_KIND_FLOAT) {
        return rewrite_no_float(tensor, err);
    }
    decision->dtype = cast != NULL ? cast->dtype : tensor->dtype;
    const coffer_status status = rewrite_decide_name(decision, rules, tensor, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (rules->text.failed || rules->name.failed) {
        return rewrite_out_of_memory(err);
    }
    decision->name = decision->renamed ? (coffer__name){ rules->name.text, rules->name.used } : rewrite_name_of(tensor);
    return COFFER_OK;
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

bool coffer_rewrite_layers(const coffer_rewrite *rewrite, uint32_t *from, size_t capacity, size_t *before,
                           size_t *after)
{
    const coffer_rewrite_options *options = &rewrite->options;
    coffer__rewrite_prepared prepared = { .rule = NULL };
    coffer__layer_place place;
    for (size_t i = 0; i < options->rule_count && prepared.rule == NULL; i++) {
        prepared.rule = options->rules[i].kind == COFFER_REWRITE_LAYERS ? &options->rules[i] : NULL;
    }
    if (prepared.rule == NULL) {
        return false;
    }
    *before = 0;
    *after = 0;
    for (size_t i = 0; i < rewrite->count; i++) {
        const coffer_rewrite_change *change = &rewrite->changes[i];
        if (!rewrite_in_stack(&prepared, rewrite_name_of(change->from), &place)) {
            continue;
        }
        const uint32_t old = place.number;
        *before = old >= *before ? (size_t)old + 1 : *before;
        if (change->to == NULL || !coffer__layer_find(rewrite_name_of(change->to), &place)) {
            continue;
        }
        *after = place.number >= *after ? (size_t)place.number + 1 : *after;
        if (place.number < capacity) {
            from[place.number] = old;
        }
    }
    return true;
}
