/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names are paths joined by dots. A tensor is wanted if its name is below the root, which is then cut off, and if what is
 * left is selected by one of the patterns. Without a root, what training has besides the model stays out.
 */
#include "selection.h"

#include "error.h"
#include "pattern.h"
#include "text.h"

#include <string.h>

/* As training programs call the state of an optimiser within a checkpoint. */
static const char *const wanted_optimisers[] = {
    "optim", "optimizer", "opt", "optimizers", "optimizer_state_dict", "optimizer_states", "optim_state"
};

coffer_status coffer__selection_begin(coffer__selection *wanted, coffer__import_plan *plan, const coffer__wants *wants,
                                      const char *found, coffer_error *err)
{
    static const char outside[] = "outside of the model";
    static const char optimiser[] = "the state of an optimizer";
    static const char unselected[] = "not selected";
    *wanted = (coffer__selection){ .wants = wants, .root = wants->root };
    wanted->all = coffer__same_text(wants->root, "all");
    if (wanted->all || coffer__same_text(wants->root, "auto")) {
        wanted->root = wanted->all ? "" : found;
    }
    coffer_status status = coffer__import_plan_put_text(plan, outside, sizeof outside - 1, &wanted->outside, err);
    if (status == COFFER_OK) {
        status = coffer__import_plan_put_text(plan, optimiser, sizeof optimiser - 1, &wanted->optimiser, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    return coffer__import_plan_put_text(plan, unselected, sizeof unselected - 1, &wanted->unselected, err);
}

bool coffer__selection_selects(const coffer__wants *wants, const char *name, size_t name_len)
{
    return coffer__patterns_take(wants->select, wants->select_count, (coffer__name){ name, name_len });
}

/* Whether the first key of a name is that of an optimiser, and others follow. */
static bool wanted_is_optimiser(const char *name, size_t name_len)
{
    size_t len = 0;
    while (len < name_len && name[len] != '.') {
        len++;
    }
    for (size_t i = 0; len < name_len && i < sizeof wanted_optimisers / sizeof *wanted_optimisers; i++) {
        if (coffer__text_is(name, len, wanted_optimisers[i])) {
            return true;
        }
    }
    return false;
}

const char *coffer__selection_name(coffer__selection *wanted, const char *name, size_t *name_len, uint32_t *reason)
{
    const size_t root_len = coffer__text_len(wanted->root);
    const size_t prefix_len = coffer__text_len(wanted->wants->strip_prefix);
    const bool below =
        root_len > 0 && *name_len > root_len + 1 && memcmp(name, wanted->root, root_len) == 0 && name[root_len] == '.';
    *reason = wanted->outside;
    if (root_len > 0 && !below) {
        return NULL;
    }
    if (root_len > 0) {
        name += root_len + 1;
        *name_len -= root_len + 1;
    }
    *reason = wanted->optimiser;
    if (root_len == 0 && !wanted->all && wanted_is_optimiser(name, *name_len)) {
        return NULL;
    }
    if (prefix_len > 0 && *name_len > prefix_len && memcmp(name, wanted->wants->strip_prefix, prefix_len) == 0) {
        name += prefix_len;
        *name_len -= prefix_len;
    }
    wanted->found++;
    *reason = wanted->unselected;
    if (!coffer__selection_selects(wanted->wants, name, *name_len)) {
        return NULL;
    }
    wanted->taken++;
    return name;
}

static coffer_status wanted_fail_selected(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_ROOT, "no tensor has a name that is selected");
}

coffer_status coffer__selection_end(const coffer__selection *wanted, coffer_error *err)
{
    const char *root = wanted->wants->root;
    if (wanted->found == 0 && wanted->root[0] != '\0') {
        return coffer__fail(err, COFFER_ERR_ROOT, "the checkpoint has no tensors below %q", root,
                            coffer__text_len(root));
    }
    if (wanted->found == 0) {
        return coffer__fail(err, COFFER_ERR_ROOT, "the checkpoint has no tensors of a model");
    }
    return wanted->taken > 0 ? COFFER_OK : wanted_fail_selected(err);
}

/* ---- any plan ------------------------------------------------------------------------------------------------------ */

/* The first alias that is selected takes over from a tensor that is not; `alias_of` of what is left out tells the other
   aliases which one that is. */
static void select_alias(coffer__import_plan *plan, uint32_t i)
{
    coffer__import_plan_row *rows = plan->rows.items;
    coffer__import_plan_row *kept = &rows[rows[i].alias_of];
    if (kept->fate == COFFER_FATE_WRITTEN) {
        return;
    }
    if (kept->alias_of == UINT32_MAX) {
        kept->alias_of = i;
        rows[i].fate = COFFER_FATE_WRITTEN;
    } else {
        rows[i].alias_of = kept->alias_of;
    }
}

coffer_status coffer__import_plan_select(coffer__import_plan *plan, const coffer__wants *wants, coffer_error *err)
{
    static const char why[] = "not selected";
    coffer__import_plan_row *rows = plan->rows.items;
    uint32_t reason = 0;
    bool found = false;
    if (wants->select_count == 0 || wants->scan) {
        return COFFER_OK;
    }
    const coffer_status status = coffer__import_plan_put_text(plan, why, sizeof why - 1, &reason, err);
    for (uint32_t i = 0; i < plan->rows.count && status == COFFER_OK; i++) {
        size_t name_len = 0;
        const char *name = coffer__import_plan_text(plan, rows[i].name, &name_len);
        if (rows[i].fate == COFFER_FATE_SKIPPED || coffer__selection_selects(wants, name, name_len)) {
            found = found || rows[i].fate != COFFER_FATE_SKIPPED;
            continue;
        }
        rows[i].alias_of = rows[i].fate == COFFER_FATE_WRITTEN ? UINT32_MAX : 0;
        rows[i].fate = COFFER_FATE_SKIPPED;
        rows[i].reason = reason;
    }
    for (uint32_t i = 0; i < plan->rows.count && status == COFFER_OK; i++) {
        if (rows[i].fate == COFFER_FATE_ALIAS) {
            select_alias(plan, i);
        }
    }
    return status != COFFER_OK || found ? status : wanted_fail_selected(err);
}
