/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of a rewrite, one tensor at a time: see rewriting.h for the contracts. */
#include "error.h"
#include "pattern.h"
#include "rewriting.h"

#include <string.h>

/* ---- what a rule may be ---- */

/* Of these four, encoding rounds correctly and has an infinity to overflow to. */
static bool rewrite_can_cast_to(coffer_dtype dtype)
{
    return dtype == COFFER_F16 || dtype == COFFER_BF16 || dtype == COFFER_F32 || dtype == COFFER_F64;
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

/* The stars of the new name take the captures of the pattern's stars in order, so it cannot have
   more of them. The bound on the stars is that of the array of captures in a decision, so it
   protects memory and not only sense. */
static coffer_status rewrite_check_rename(const coffer_rewrite_rule *rule, coffer_error *err)
{
    if (rule->name == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "a rule that renames needs a name");
    }
    const size_t stars = rewrite_count_stars(rule->pattern);
    if (stars > COFFER_REWRITE_MOST_STARS) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "%q has more than %u stars", rule->pattern, strlen(rule->pattern),
                            (uint64_t)COFFER_REWRITE_MOST_STARS);
    }
    return rewrite_count_stars(rule->name) <= stars
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_ARGUMENT, "the new name %q has more stars than the pattern %q",
                              rule->name, strlen(rule->name), rule->pattern, strlen(rule->pattern));
}

/* Only the fields that the kind uses are looked at, so the others may have any value. */
static coffer_status rewrite_check_rule(const coffer_rewrite_rule *rule, coffer_error *err)
{
    if (rule->pattern == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "a rule's pattern is NULL");
    }
    /* No default: the compiler warns when a kind is added and not handled. A value that is no kind,
       which a caller may pass, ends after the switch. */
    switch (rule->kind) {
    case COFFER_REWRITE_DROP:
    case COFFER_REWRITE_KEEP:
        return COFFER_OK;
    case COFFER_REWRITE_RENAME:
        return rewrite_check_rename(rule, err);
    case COFFER_REWRITE_CAST:
        return rewrite_can_cast_to(rule->dtype)
                   ? COFFER_OK
                   : coffer__fail(err, COFFER_ERR_ARGUMENT, "tensors are cast to F16, BF16, F32 or F64 only");
    }
    return coffer__fail(err, COFFER_ERR_ARGUMENT, "a rule's kind is not one of its values");
}

/* The whole name has to match. Names are those of the model, never new ones. */
static bool rewrite_matches(const coffer_rewrite_rule *rule, const coffer_tensor *tensor)
{
    return coffer__pattern_matches(rule->pattern, (coffer__name){ tensor->name, tensor->name_len });
}

/* A pattern that matches nothing is more likely a typing error than intended. It stops at the first
   match, so the common case is cheap; the worst costs one comparison for each tensor. */
static coffer_status rewrite_check_match(const coffer *model, const coffer_rewrite_rule *rule, coffer_error *err)
{
    const size_t count = coffer_count(model);
    for (size_t i = 0; i < count; i++) {
        if (rewrite_matches(rule, coffer_at(model, i))) {
            return COFFER_OK;
        }
    }
    return coffer__fail(err, COFFER_ERR_NO_TENSOR, "no tensor has a name that matches %q; coffer ls shows the names",
                        rule->pattern, strlen(rule->pattern));
}

/* In the order of the rules, so the first that is wrong is reported. Everything
   coffer__rewrite_decide relies on is checked here: patterns that are not NULL, known kinds, and
   few enough stars. */
coffer_status coffer__rewrite_check_rules(const coffer *model, const coffer_rewrite_rule *rules, size_t count,
                                          coffer_error *err)
{
    for (size_t i = 0; i < count; i++) {
        coffer_status status = rewrite_check_rule(&rules[i], err);
        if (status == COFFER_OK) {
            status = rewrite_check_match(model, &rules[i], err);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* ---- what becomes of a tensor ---- */

/* The tensor's name is in the error, too, for programs that show it. */
static coffer_status rewrite_no_float(const coffer_tensor *tensor, coffer_error *err)
{
    coffer__fail(err, COFFER_ERR_DTYPE,
                 "tensor %q is %s, and only floats can be cast: choose a pattern that leaves it out", tensor->name,
                 (size_t)tensor->name_len, coffer_tensor_dtype_name(tensor));
    return coffer__fail_tensor(err, COFFER_ERR_DTYPE, tensor->name, tensor->name_len);
}

/* The first rule of a kind that matches; NULL: none does. *any, unless NULL, becomes true if there
   is a rule of that kind at all: with a rule that keeps, tensors that no such rule matches are left
   out. *any may become true although the answer is NULL, which is the point of it; it is never set
   to false. */
static const coffer_rewrite_rule *rewrite_first(const coffer_rewrite_rule *rules, size_t count,
                                                coffer_rewrite_kind kind, const coffer_tensor *tensor, bool *any)
{
    for (size_t i = 0; i < count; i++) {
        if (rules[i].kind != kind) {
            continue;
        }
        if (any != NULL) {
            *any = true;
        }
        if (rewrite_matches(&rules[i], tensor)) {
            return &rules[i];
        }
    }
    return NULL;
}

/* Keeping and dropping are decided first: what is left out need not be castable. Then the first
   rule of each other kind counts. Pure. A cast to the dtype that a tensor has leaves it as it is.
   The captures are borrowed from the tensor's name and are set only with a rename. */
coffer_status coffer__rewrite_decide(coffer__rewrite_decision *decision, const coffer_rewrite_rule *rules, size_t count,
                                     const coffer_tensor *tensor, coffer_error *err)
{
    bool choosing = false;
    decision->dtype = tensor->dtype;
    decision->rename = NULL;
    /* A tensor that a rule keeps and another one drops is dropped. */
    const bool kept = rewrite_first(rules, count, COFFER_REWRITE_KEEP, tensor, &choosing) != NULL;
    decision->left_out = (choosing && !kept) || rewrite_first(rules, count, COFFER_REWRITE_DROP, tensor, NULL) != NULL;
    if (decision->left_out) {
        return COFFER_OK;
    }
    /* Of several casts that match, the first counts, also if a later one has the tensor's own
       dtype. */
    const coffer_rewrite_rule *cast = rewrite_first(rules, count, COFFER_REWRITE_CAST, tensor, NULL);
    if (cast != NULL && coffer_dtype_kind(tensor->dtype) != COFFER_KIND_FLOAT) {
        return rewrite_no_float(tensor, err);
    }
    decision->dtype = cast != NULL ? cast->dtype : tensor->dtype;
    /* Renames look at the old name only, so two rules can exchange two names. */
    decision->rename = rewrite_first(rules, count, COFFER_REWRITE_RENAME, tensor, NULL);
    if (decision->rename != NULL) {
        /* A star in a set counts as one but captures nothing, so its capture must be empty. */
        for (size_t i = 0; i < COFFER_REWRITE_MOST_STARS; i++) {
            decision->captures[i] = (coffer__name){ "", 0 };
        }
        (void)coffer__pattern_captures(decision->rename->pattern, (coffer__name){ tensor->name, tensor->name_len },
                                       decision->captures);
    }
    return COFFER_OK;
}

/* Replaces each star of the rule's name by the next capture, and undoes backslashes. No NUL is
   written. `name` has room for the rule's name and the old one together, which is enough because
   captures do not overlap. The rule was checked to have no more stars than there are captures. */
size_t coffer__rewrite_put_name(const coffer__rewrite_decision *decision, char *name)
{
    const coffer__name *capture = decision->captures;
    size_t len = 0;
    for (const char *next = decision->rename->name; *next != '\0'; next++) {
        /* The pattern has at least as many stars as the name (rewrite_check_rename). */
        if (*next == '*') {
            memcpy(name + len, capture->text, capture->len);
            len += capture->len;
            capture++;
            continue;
        }
        next += next[0] == '\\' && next[1] != '\0';
        name[len++] = *next;
    }
    return len;
}
