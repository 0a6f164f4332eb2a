/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scanning an input: see scan_input.h.
 *
 * Loaders take any file for a pickle, whatever it is called and however it begins. So every input is looked at as one here,
 * before its reader gets it, and none of the readers has to. What no reader knows may still be what a loader runs
 * (scan_others.h).
 */
#include "scan_input.h"

#include "error.h"
#include "pickle_scan.h"
#include "readers.h"
#include "scan_others.h"

#include <string.h>

/* Readers of files that are pickles run them from the first byte on, and know how many there are. */
static bool scan_reads_pickles(const coffer__reader *reader)
{
    return reader == &coffer__reader_pickle || reader == &coffer__reader_torch_stream;
}

/* As a loader would that takes it for a pickle. */
static coffer_status scan_as_pickle(const coffer__input *input, const coffer__wants *wants, coffer__plan *plan,
                                    coffer_error *err)
{
    const coffer__torch_file file = { .input = input, .wants = wants, .plan = plan, .size = input->size };
    const coffer__scan_range range = { .member = "", .size = input->size, .expected = 1 };
    bool would_import = false;
    const coffer_status status = coffer__scan_would_import(input, plan->allocator, &would_import, err);
    return status == COFFER_OK && would_import ? coffer__scan_pickles(&file, &range, NULL, err) : status;
}

static bool scan_has_findings(const coffer__plan *plan)
{
    const coffer__plan_finding *findings = coffer__plan_findings(plan);
    for (size_t i = 0; i < plan->findings.count; i++) {
        if (findings[i].weight != COFFER_WEIGHT_NOTE) {
            return true;
        }
    }
    return false;
}

/* What was found must not be lost to damage that comes after it, which may be there for that. */
static coffer_status scan_keep(coffer__plan *plan, coffer_status status, coffer_error *trouble, coffer_error *err)
{
    if (status == COFFER_ERR_MEMORY || status == COFFER_ERR_CANCELLED || !scan_has_findings(plan)) {
        if (err != NULL) {
            *err = *trouble;
        }
        return status;
    }
    char message[sizeof trouble->message];
    memcpy(message, trouble->message, sizeof message);
    return coffer__plan_put_finding(plan, COFFER_WEIGHT_DANGER, 0, trouble->offset, "",
                                    "the rest was not looked at: %p", message, strlen(message), err);
}

coffer_status coffer__scan_input(const coffer__input *input, const coffer__wants *wants, coffer__plan *plan,
                                 const coffer__reader **reader, coffer_error *err)
{
    coffer_error trouble;
    coffer__error_clear(&trouble);
    coffer_status status = coffer__reader_for(input, plan->allocator, reader, &trouble);
    if (status == COFFER_ERR_UNKNOWN_INPUT) {
        const coffer_status unknown = coffer__scan_unknown(input, wants, plan, reader, err);
        if (unknown != COFFER_OK) {
            return unknown;
        }
        status = *reader != NULL ? COFFER_OK : status;
    }
    if (status != COFFER_OK) {
        return scan_keep(plan, status, &trouble, err);
    }
    plan->format = (*reader)->noun;
    if (!scan_reads_pickles(*reader)) {
        status = scan_as_pickle(input, wants, plan, &trouble);
    }
    if (status == COFFER_OK && *reader != &coffer__reader_code) {
        status = (*reader)->read(input, wants, plan, &trouble);
    }
    return status == COFFER_OK ? status : scan_keep(plan, status, &trouble, err);
}
