/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What loaders would have done with the pickles of an archive: those that are named as such, those that begin so, those
 * that are arrays of objects, and those in archives within it. The bytes of a checkpoint's storages are not looked at:
 * nobody loads them as pickles, and a large checkpoint on the Hub is scanned by reading its directory and its pickles.
 * In programs of torch.export they may be pickles, and NumPy takes any member for an array; so there all are.
 *
 * A scan never gives up where something is wrong, since that may be what was meant to stop it: what cannot be read or
 * is too large becomes a finding of its own. Archives within archives are a list, bounded in number, and no recursion.
 */
#include "alloc.h"
#include "error.h"
#include "pickle_scan.h"
#include "text.h"
#include "torch_archive.h"

#include <string.h>

/* Of pickles that have to be inflated. */
#define TORCH_SCAN_MOST_INFLATED ((uint64_t)64 << 20)
/* Archives within an archive that are looked at. */
#define TORCH_SCAN_MOST_ARCHIVES 64

/* Archives that are still to be looked at, ranges of the file. */
typedef struct torch_scan {
    const coffer__torch_file *file;
    struct {
        uint64_t at;
        uint64_t size;
    } archives[TORCH_SCAN_MOST_ARCHIVES];
    size_t count;
    coffer__torch_archive archive; /* the one that is looked at */
    bool everywhere;               /* it is of a kind whose storages may be pickles */
    bool script;                   /* torch.load hands it to the loader of TorchScript */
} torch_scan;

static bool torch_scan_ends(const coffer__zip_member *member, const char *ending)
{
    return coffer__text_ends(member->name, member->name_len, ending);
}

/* Whether a member is the bytes of a storage: FOLDER/data/KEY, or FOLDER/data/weights/KEY. */
static bool torch_scan_is_storage(const coffer__zip_member *member)
{
    static const char folder[] = "/data/";
    return !torch_scan_ends(member, ".pkl") && !torch_scan_ends(member, ".pt") &&
           coffer__torch_has((const uint8_t *)member->name, member->name_len, folder);
}

/* A program of torch.export says what it is; archives of arrays have members that are called so. */
static bool torch_scan_everywhere(const coffer__zip *zip)
{
    for (size_t i = 0; i < zip->count; i++) {
        if (torch_scan_ends(&zip->members[i], "/archive_format") || torch_scan_ends(&zip->members[i], ".npy")) {
            return true;
        }
    }
    return false;
}

/* By the member that torch.load goes by, in the folder of the first one. */
static bool torch_scan_is_script(const coffer__zip *zip)
{
    static const char wanted[] = "constants.pkl";
    const coffer__zip_member *first = zip->members;
    size_t folder_len = 0;
    while (zip->count > 0 && folder_len < first->name_len && first->name[folder_len] != '/') {
        folder_len++;
    }
    for (size_t i = 0; i < zip->count; i++) {
        const coffer__zip_member *member = &zip->members[i];
        if (member->name_len == folder_len + sizeof wanted && memcmp(member->name, first->name, folder_len + 1) == 0 &&
            torch_scan_ends(member, wanted)) {
            return true;
        }
    }
    return false;
}

/* Whether torch.export's loader may unpickle a member, which depends on what a description says: a weight, a constant. */
static bool torch_scan_may_be_pickle(const torch_scan *scan, const coffer__zip_member *member)
{
    return scan->everywhere && torch_scan_is_storage(member) && !torch_scan_ends(member, ".json") &&
           !torch_scan_ends(member, ".npy");
}

/* A danger for each member that a loader might read and that was not looked at. */
static coffer_status torch_scan_put(const torch_scan *scan, const coffer__zip_member *member, const char *sentence,
                                    coffer_error *err)
{
    return coffer__plan_put_finding(scan->file->plan, COFFER_WEIGHT_DANGER, scan->file->file, member->head,
                                    member->name, sentence, member->name, member->name_len, err);
}

/* A deflated pickle, which is inflated as a whole; findings name the place of the member, since bytes within
   have none. */
static coffer_status torch_scan_inflated(torch_scan *scan, coffer__zip_member *member, bool unsure, coffer_error *err)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    if (member->size > TORCH_SCAN_MOST_INFLATED) {
        return torch_scan_put(scan, member, "%q is a compressed pickle that is too large to look at", err);
    }
    coffer_status status =
        coffer__torch_archive_load(&scan->archive, member, TORCH_SCAN_MOST_INFLATED, &bytes, &size, err);
    if (status == COFFER_OK) {
        const coffer__scan_range range = { .member = member->name,
                                           .bytes = bytes,
                                           .at = member->at,
                                           .size = size,
                                           .expected = 1,
                                           .unsure = unsure,
                                           .script = scan->script };
        status = coffer__scan_pickles(scan->file, &range, NULL, err);
    }
    coffer__free_array(scan->file->plan->allocator, bytes, size, 1);
    return status;
}

/* Only a stored archive is a range of the file, and can be read as one. */
static coffer_status torch_scan_inner_archive(torch_scan *scan, const coffer__zip_member *member, coffer_error *err)
{
    if (member->coding != COFFER__CODING_STORED) {
        return torch_scan_put(scan, member, "%q is a compressed archive, which was not looked at", err);
    }
    /* A scan goes on past members whose sizes are lies. */
    if (member->at > scan->file->size || member->size > scan->file->size - member->at) {
        return torch_scan_put(scan, member, "%q reaches past the end of the file", err);
    }
    if (scan->count == TORCH_SCAN_MOST_ARCHIVES) {
        return torch_scan_put(scan, member, "%q is one archive too many: it was not looked at", err);
    }
    scan->archives[scan->count].at = member->at;
    scan->archives[scan->count].size = member->size;
    scan->count++;
    return COFFER_OK;
}

/* Whether a member is called as pickles are. */
static bool torch_scan_is_named(const coffer__zip_member *member)
{
    return torch_scan_ends(member, ".pkl") || torch_scan_ends(member, ".debug_pkl") ||
           torch_scan_ends(member, ".pickle");
}

static coffer_status torch_scan_pickle(torch_scan *scan, coffer__zip_member *member, bool unsure, coffer_error *err)
{
    if (member->coding != COFFER__CODING_STORED) {
        return torch_scan_inflated(scan, member, unsure, err);
    }
    const coffer__scan_range range = { .member = member->name,
                                       .at = member->at,
                                       .size = member->size,
                                       .expected = 1,
                                       .unsure = unsure,
                                       .script = scan->script };
    return coffer__scan_pickles(scan->file, &range, NULL, err);
}

/* One member: by its name and by its first bytes, whichever tells. Names alone would miss a pickle that is
   called .bin. */
static coffer_status torch_scan_member(torch_scan *scan, coffer__zip_member *member, coffer_error *err)
{
    uint8_t head[4] = { 0 };
    const bool is_array = torch_scan_ends(member, ".npy");
    /*
     * Storages are most of a checkpoint. Not even their first bytes are read, which on a server would be a
     * request for each.
     */
    if (torch_scan_is_storage(member) && !scan->everywhere) {
        return COFFER_OK;
    }
    if (member->size < sizeof head) {
        return is_array ? coffer__numpy_put_member(scan->file, &scan->archive.zip, member, err) : COFFER_OK;
    }
    coffer_status status = coffer__zip_load(&scan->archive.zip, scan->file->input, member, head, sizeof head, err);
    if (status == COFFER_OK && (is_array || memcmp(head, "\x93NUM", sizeof head) == 0)) {
        status = coffer__numpy_put_member(scan->file, &scan->archive.zip, member, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    /* An archive within the archive: torch.export and others keep whole checkpoints as members. */
    if (memcmp(head, "PK\3\4", sizeof head) == 0) {
        return torch_scan_inner_archive(scan, member, err);
    }
    if (torch_scan_is_named(member) || coffer__scan_is_pickle(head, sizeof head)) {
        return torch_scan_pickle(scan, member, torch_scan_may_be_pickle(scan, member), err);
    }
    return torch_scan_may_be_pickle(scan, member) ? torch_scan_pickle(scan, member, true, err) : COFFER_OK;
}

/* A member that cannot be read is a finding; the others are looked at all the same. */
static coffer_status torch_scan_members(torch_scan *scan, coffer_error *err)
{
    for (size_t i = 0; i < scan->archive.zip.count; i++) {
        coffer__zip_member *member = &scan->archive.zip.members[i];
        /* Kept apart from the caller's error, which is not touched by what becomes a finding. */
        coffer_error trouble;
        coffer__error_clear(&trouble);
        coffer_status status = torch_scan_member(scan, member, &trouble);
        if (status == COFFER_ERR_ARCHIVE || status == COFFER_ERR_CHECKSUM || status == COFFER_ERR_RANGE) {
            /* A copy, since putting the finding may fail and write another error over it. */
            char message[sizeof trouble.message];
            memcpy(message, trouble.message, sizeof message);
            status = coffer__plan_put_finding(scan->file->plan, COFFER_WEIGHT_DANGER, scan->file->file, member->head,
                                              member->name, "a member of the archive cannot be read: %p", message,
                                              coffer__text_len(message), &trouble);
        }
        if (status != COFFER_OK) {
            if (err != NULL) {
                *err = trouble;
            }
            return status;
        }
    }
    return COFFER_OK;
}

/* The list begins with the file itself and grows while it is worked off. */
coffer_status coffer__torch_scan_archive(const coffer__torch_file *file, coffer_error *err)
{
    torch_scan scan = { .file = file, .count = 1 };
    scan.archives[0].at = file->embedded ? file->at : 0;
    scan.archives[0].size = file->embedded ? file->part : file->size;
    for (size_t i = 0; i < scan.count; i++) {
        scan.archive = (coffer__torch_archive){ .file = file };
        const bool embedded = file->embedded && i == 0;
        coffer_status status = (embedded ? coffer__zip_read_embedded : coffer__zip_read)(
            &scan.archive.zip, file->input, file->file, scan.archives[i].at, scan.archives[i].size, file->wants,
            file->plan, file->plan->allocator, err);
        if (status == COFFER_OK) {
            scan.everywhere = torch_scan_everywhere(&scan.archive.zip);
            /* An archive within another is opened by no loader of TorchScript. */
            scan.script = i == 0 && torch_scan_is_script(&scan.archive.zip);
            status = torch_scan_members(&scan, err);
            coffer__zip_free(&scan.archive.zip);
        }
        /* What only looks like an archive is none that a loader would open. */
        if (status != COFFER_OK && (i == 0 || status != COFFER_ERR_ARCHIVE)) {
            return status;
        }
    }
    return COFFER_OK;
}
