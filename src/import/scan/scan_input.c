/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scanning an input: see readers.h.
 *
 * Loaders take any file for a pickle, whatever it is called and however it begins. So every input is looked at as one here,
 * before its reader gets it, and none of the readers has to. What no reader knows may still be what a loader runs
 * (scan_others.h).
 */
#include "alloc.h"
#include "bytes.h"
#include "error.h"
#include "pickle_scan.h"
#include "readers.h"
#include "scan_contents.h"
#include "scan_others.h"
#include "tar.h"
#include "text.h"

#include <string.h>

#define SCAN_END 22u                          /* bytes of the record that ends an archive (zip) */
#define SCAN_LOCATOR 20u                      /* bytes of the record before it that says where the longer one is */
#define SCAN_LONGER (SCAN_LOCATOR + 56u)      /* bytes of the locator and the longer record */
#define SCAN_TAIL (SCAN_END + (size_t)0xFFFF) /* bytes of the end with the longest comment after it */

/* Readers of files that are pickles run them from the first byte on, and know how many there are. */
static bool scan_reads_pickles(const coffer__reader *reader)
{
    return reader == &coffer__reader_pickle || reader == &coffer__reader_torch_stream;
}

/* As a loader would that takes it for a pickle. */
static coffer_status scan_as_pickle(const coffer__input_files *input, const coffer__wants *wants,
                                    coffer__import_plan *plan, coffer_error *err)
{
    const coffer__reader_file file = { .input = input, .wants = wants, .plan = plan, .size = input->size };
    const coffer__scan_range range = { .member = "", .size = input->size, .expected = 1, .unsure = true };
    return coffer__scan_pickles(&file, &range, NULL, err);
}

/* ---- archives at the end ------------------------------------------------------------------------------------------- */

/* What an end record says, or the record before it that has longer numbers. */
typedef struct scan_directory {
    uint64_t end;
    uint64_t size;
    uint64_t offset; /* from where the archive begins */
} scan_directory;

static scan_directory scan_read_end(const uint8_t *tail, size_t at, uint64_t place)
{
    const uint8_t *longer = tail + at - (at >= SCAN_LONGER ? SCAN_LONGER : 0);
    if (at >= SCAN_LONGER && memcmp(longer, "PK\6\6", 4) == 0 && memcmp(tail + at - SCAN_LOCATOR, "PK\6\7", 4) == 0) {
        return (scan_directory){ place - SCAN_LONGER, coffer__load_u64le(longer + 40),
                                 coffer__load_u64le(longer + 48) };
    }
    return (scan_directory){ place, coffer__load_u32le(tail + at + 12), coffer__load_u32le(tail + at + 16) };
}

/* Where the archive is that Python's zipfile would find: it goes by the last end record, and counts back from there. Bytes
   that only look like one lead to no directory. */
static coffer_status scan_find_archive(coffer__reader_file *file, const uint8_t *tail, size_t size, bool *found,
                                       coffer_error *err)
{
    size_t at = size - SCAN_END;
    uint8_t entry[4];
    while (at > 0 && memcmp(tail + at, "PK\5\6", 4) != 0) {
        at--;
    }
    const scan_directory directory = scan_read_end(tail, at, file->size - size + at);
    *found = memcmp(tail + at, "PK\5\6", 4) == 0 && directory.size >= sizeof entry && directory.end >= directory.size &&
             directory.end - directory.size >= directory.offset;
    if (!*found) {
        return COFFER_OK;
    }
    const coffer_status status = coffer__input_files_read(file->input, file->file, file->size,
                                                          directory.end - directory.size, entry, sizeof entry, err);
    const size_t comment = coffer__load_u16le(tail + at + 20);
    const size_t left = size - at - SCAN_END;
    *found = status == COFFER_OK && memcmp(entry, "PK\1\2", sizeof entry) == 0;
    file->embedded = true;
    file->at = directory.end - directory.size - directory.offset;
    file->part = file->size - left + (comment < left ? comment : left) - file->at;
    return status;
}

/* Some programs take any file for an archive that ends as one, whatever it begins with. One that is the whole file is its
   reader's matter, and those of tar are looked into member by member. `parts`: the file is of archives one after another,
   and no other file is looked at. */
static coffer_status scan_end(const coffer__input_files *input, const coffer__wants *wants, coffer__import_plan *plan,
                              bool parts, coffer_error *err)
{
    coffer__reader_file file = { .input = input, .wants = wants, .plan = plan, .size = input->size };
    const size_t size = input->size < SCAN_TAIL ? (size_t)input->size : SCAN_TAIL;
    uint8_t head[COFFER__TAR_BLOCK] = { 0 };
    const size_t head_size = input->size < sizeof head ? (size_t)input->size : sizeof head;
    bool found = false;
    if (size < SCAN_END) {
        return COFFER_OK;
    }
    coffer_status status = coffer__input_files_read(input, 0, input->size, 0, head, head_size, err);
    if (status != COFFER_OK || coffer__tar_is_head(head) || (memcmp(head, "PK\3\4", 4) == 0) != parts) {
        return status;
    }
    uint8_t *tail = coffer__alloc_array(plan->allocator, size, 1, err);
    status = tail == NULL ? COFFER_ERR_MEMORY
                          : coffer__input_files_read(input, 0, input->size, input->size - size, tail, size, err);
    if (status == COFFER_OK) {
        status = scan_find_archive(&file, tail, size, &found, err);
    }
    coffer__free_array(plan->allocator, tail, size, 1);
    return status == COFFER_OK && found ? coffer__scan_zip(&file, err) : status;
}

/* ---- HDF5 behind something else ------------------------------------------------------------------------------------ */

/* HDF5 may begin at byte 512, and at each twice of that, behind what a user put there. h5py finds it, and Keras takes what is
   called so for a model. */
static coffer_status scan_user_block(const coffer__input_files *input, coffer__import_plan *plan, coffer_error *err)
{
    static const char *const endings[] = { ".h5", ".hdf5", ".hdf", ".keras" };
    uint8_t bytes[8] = { 0 };
    coffer_status status = COFFER_OK;
    bool named = false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        named = named || coffer__text_ends(input->path, input->path_len, endings[i]);
    }
    for (uint64_t at = 512; named && status == COFFER_OK && input->size >= at + sizeof bytes; at *= 2) {
        status = coffer__input_files_read(input, 0, input->size, at, bytes, sizeof bytes, err);
        if (status == COFFER_OK && memcmp(bytes, "\x89HDF\r\n\x1a\n", sizeof bytes) == 0) {
            return coffer__import_plan_put_finding(plan, COFFER_WEIGHT_DANGER, 0, at, "",
                                                   "HDF5 begins here, behind other bytes: it was not looked at", "", 0,
                                                   err);
        }
    }
    return status;
}

/* ---- the whole ----------------------------------------------------------------------------------------------------- */

static bool scan_has_findings(const coffer__import_plan *plan)
{
    const coffer__import_plan_finding *findings = coffer__import_plan_findings(plan);
    for (size_t i = 0; i < plan->findings.count; i++) {
        if (findings[i].weight != COFFER_WEIGHT_NOTE) {
            return true;
        }
    }
    return false;
}

/* What was found must not be lost to damage that comes after it, which may be there for that. */
static coffer_status scan_keep(coffer__import_plan *plan, coffer_status status, coffer_error *trouble,
                               coffer_error *err)
{
    if (status == COFFER_ERR_MEMORY || status == COFFER_ERR_CANCELLED || !scan_has_findings(plan)) {
        if (err != NULL) {
            *err = *trouble;
        }
        return status;
    }
    char message[sizeof trouble->message];
    memcpy(message, trouble->message, sizeof message);
    return coffer__import_plan_put_finding(plan, COFFER_WEIGHT_DANGER, 0, trouble->offset, "",
                                           "the rest was not looked at: %p", message, strlen(message), err);
}

/* Who knows the input. Where nobody does, what was found so far is a reason to know it. */
static coffer_status scan_find_reader(const coffer__input_files *input, const coffer__wants *wants,
                                      coffer__import_plan *plan, const coffer__reader **reader, coffer_error *err)
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

/* What its reader does not judge may still be an archive in which there is what every scan finds. */
static coffer_status scan_refused(const coffer__input_files *input, const coffer__wants *wants,
                                  coffer__import_plan *plan, coffer_error *err)
{
    const coffer__reader_file file = { .input = input, .wants = wants, .plan = plan, .size = input->size };
    uint8_t head[4] = { 0 };
    const coffer_status status = coffer__input_files_read(input, 0, input->size, 0, head, sizeof head, NULL);
    const bool is_archive = status == COFFER_OK && memcmp(head, "PK\3\4", sizeof head) == 0;
    const coffer_status found = is_archive ? coffer__scan_zip(&file, NULL) : COFFER_OK;
    return found == COFFER_ERR_MEMORY ? coffer__fail(err, found, "no memory to look into the archive")
                                      : COFFER_ERR_UNSUPPORTED;
}

coffer_status coffer__scan_input(const coffer__input_files *input, const coffer__wants *wants,
                                 coffer__import_plan *plan, const coffer__reader **reader, coffer_error *err)
{
    coffer_error trouble;
    coffer__error_clear(&trouble);
    coffer_status status = scan_end(input, wants, plan, false, &trouble);
    if (status == COFFER_OK) {
        status = scan_user_block(input, plan, &trouble);
    }
    if (status == COFFER_OK) {
        status = scan_find_reader(input, wants, plan, reader, &trouble);
    }
    if (status != COFFER_OK) {
        *reader = &coffer__reader_code;
        return scan_keep(plan, status, &trouble, err);
    }
    plan->noun = (*reader)->noun;
    if (!scan_reads_pickles(*reader)) {
        status = scan_as_pickle(input, wants, plan, &trouble);
    }
    if (status == COFFER_OK && *reader == &coffer__reader_dcp) {
        status = scan_end(input, wants, plan, true, &trouble);
    }
    if (status == COFFER_OK && *reader != &coffer__reader_code) {
        status = (*reader)->read(input, wants, plan, &trouble);
    }
    if (status == COFFER_ERR_UNSUPPORTED) {
        status = scan_refused(input, wants, plan, &trouble);
    }
    return status == COFFER_OK ? status : scan_keep(plan, status, &trouble, err);
}
