/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scanning an input: see scan_input.h.
 *
 * Loaders take any file for a pickle, whatever it is called and however it begins. So every input is looked at as one here,
 * before its reader gets it, and none of the readers has to. What no reader knows may still be what a loader runs
 * (scan_others.h).
 */
#include "scan_input.h"

#include "alloc.h"
#include "bytes.h"
#include "error.h"
#include "pickle_scan.h"
#include "readers.h"
#include "scan_contents.h"
#include "scan_others.h"
#include "tar.h"

#include <string.h>

#define SCAN_END 22u                          /* bytes of the record that ends an archive (zip) */
#define SCAN_TAIL (SCAN_END + (size_t)0xFFFF) /* and of the longest comment after it */

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
    const coffer__scan_range range = { .member = "", .size = input->size, .expected = 1, .unsure = true };
    return coffer__scan_pickles(&file, &range, NULL, err);
}

/* ---- archives at the end ------------------------------------------------------------------------------------------- */

/* Where the archive is that Python's zipfile would find: it goes by the last end record, and counts back from there. Bytes
   that only look like one lead to no directory. */
static coffer_status scan_find_archive(coffer__torch_file *file, const uint8_t *tail, size_t size, bool *found,
                                       coffer_error *err)
{
    size_t at = size - SCAN_END;
    while (at > 0 && memcmp(tail + at, "PK\5\6", 4) != 0) {
        at--;
    }
    uint8_t entry[4];
    const uint64_t end = file->size - size + at;
    const uint64_t directory_size = coffer__load_u32le(tail + at + 12);
    const uint64_t directory = coffer__load_u32le(tail + at + 16);
    *found = memcmp(tail + at, "PK\5\6", 4) == 0 && directory_size >= sizeof entry && end >= directory_size &&
             end - directory_size >= directory;
    if (!*found) {
        return COFFER_OK;
    }
    const coffer_status status =
        coffer__input_read(file->input, file->file, file->size, end - directory_size, entry, sizeof entry, err);
    const size_t comment = coffer__load_u16le(tail + at + 20);
    const size_t left = size - at - SCAN_END;
    *found = memcmp(entry, "PK\1\2", sizeof entry) == 0;
    file->embedded = true;
    file->at = end - directory_size - directory;
    file->part = end + SCAN_END + (comment < left ? comment : left) - file->at;
    return status;
}

/* Some programs take any file for an archive that ends as one, whatever it begins with. Those that begin as one are their
   readers' matter, and those of tar are looked into as a whole. */
static coffer_status scan_end(const coffer__input *input, const coffer__wants *wants, coffer__plan *plan,
                              coffer_error *err)
{
    coffer__torch_file file = { .input = input, .wants = wants, .plan = plan, .size = input->size };
    const size_t size = input->size < SCAN_TAIL ? (size_t)input->size : SCAN_TAIL;
    uint8_t head[COFFER__TAR_BLOCK] = { 0 };
    const size_t head_size = input->size < sizeof head ? (size_t)input->size : sizeof head;
    bool found = false;
    if (size < SCAN_END) {
        return COFFER_OK;
    }
    coffer_status status = coffer__input_read(input, 0, input->size, 0, head, head_size, err);
    if (status != COFFER_OK || memcmp(head, "PK\3\4", 4) == 0 || coffer__tar_is_head(head)) {
        return status;
    }
    uint8_t *tail = coffer__alloc_array(plan->allocator, size, 1, err);
    status = tail == NULL ? COFFER_ERR_MEMORY
                          : coffer__input_read(input, 0, input->size, input->size - size, tail, size, err);
    if (status == COFFER_OK) {
        status = scan_find_archive(&file, tail, size, &found, err);
    }
    coffer__free_array(plan->allocator, tail, size, 1);
    return status == COFFER_OK && found ? coffer__scan_zip(&file, err) : status;
}

/* ---- the whole ----------------------------------------------------------------------------------------------------- */

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

/* Who knows the input. Where nobody does, what was found so far is a reason to know it. */
static coffer_status scan_find_reader(const coffer__input *input, const coffer__wants *wants, coffer__plan *plan,
                                      const coffer__reader **reader, coffer_error *err)
{
    coffer_error trouble;
    const coffer_status status = coffer__reader_for(input, plan->allocator, reader, err);
    if (status != COFFER_ERR_UNKNOWN_INPUT) {
        return status;
    }
    coffer__error_clear(&trouble);
    const coffer_status others = coffer__scan_unknown(input, wants, plan, reader, &trouble);
    if (others == COFFER_OK) {
        return *reader != NULL ? COFFER_OK : status;
    }
    if (err != NULL) {
        *err = trouble;
    }
    return others;
}

coffer_status coffer__scan_input(const coffer__input *input, const coffer__wants *wants, coffer__plan *plan,
                                 const coffer__reader **reader, coffer_error *err)
{
    coffer_error trouble;
    coffer__error_clear(&trouble);
    coffer_status status = scan_end(input, wants, plan, &trouble);
    if (status == COFFER_OK) {
        status = scan_find_reader(input, wants, plan, reader, &trouble);
    }
    if (status != COFFER_OK) {
        *reader = &coffer__reader_code;
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
