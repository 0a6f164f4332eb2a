/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives (zip), as PKWARE's APPNOTE.TXT has them (sections 4.3 and 4.4; 4.5.3 for zip64). All integers are
 * little-endian; offsets in bytes. The two heads of a member:
 *
 *   in the directory, 46 bytes and more           before its data, 30 bytes and more
 *    0  signature  50 4b 01 02                     0  signature  50 4b 03 04
 *    4  u16 made by, u16 needed                    4  u16 needed
 *    8  u16 flags                                  6  u16 flags
 *   10  u16 method                                 8  u16 method
 *   12  u16 time, u16 date                        10  u16 time, u16 date
 *   16  u32 CRC-32                                14  u32 CRC-32
 *   20  u32 stored size, u32 size                 18  u32 stored size, u32 size
 *   28  u16 length of the name                    26  u16 length of the name
 *   30  u16 length of the extra fields            28  u16 length of the extra fields
 *   32  u16 length of the comment                 30  name, extra fields
 *   34  u16 disk, u16 and u32 attributes
 *   42  u32 offset of the local head
 *   46  name, extra fields, comment
 *
 * A number that is all ones stands in the zip64 extra field (u16 1, u16 size), which has, in this order, those of
 * size, stored size and offset that are needed.
 *
 * The local head's CRC and sizes are the directory's, or zeros with flag 3 (they follow the data), or all ones with
 * the true sizes in a zip64 field.
 *
 * The order of the checks: the end (zip_end.c), every entry by itself, names among each other, local heads, and last
 * places among each other, since these are exact only once the local heads are known. Each step relies on those
 * before it. The directory is the one that is believed: a local head may confirm it and never adds to it.
 */
#include "zip.h"

#include "alloc.h"
#include "bytes.h"
#include "error.h"
#include "names.h"
#include "sort.h"
#include "text.h"
#include "zip_end.h"

/* What one directory may cost in memory; far more than any checkpoint has. */
#define ZIP_MAX_DIRECTORY ((uint64_t)64 << 20)
#define ZIP_MAX_MEMBERS 1000000u
/* Of an archive among thousands of them in one file: more than torch writes after the data of a tensor. */
#define ZIP_EMBEDDED_TAIL ((size_t)4096)
#define ZIP_ENTRY_SIZE 46u
#define ZIP_HEAD_SIZE 30u
#define ZIP_LONGEST_HEAD ((size_t)ZIP_HEAD_SIZE + 2 * (size_t)UINT16_MAX)
#define ZIP_USUAL_EXTRA 32u                       /* bytes of extra fields that are worth reading */
#define ZIP_MAX_GAPS ((uint64_t)4 << 20)          /* bytes between members that are read to save round trips */
#define ZIP_MAX_SCANNED_GAPS ((uint64_t)16 << 10) /* of a scan, which promises to read little */
#define ZIP_SCANNED_HEADS 64                      /* that a scan reads of its own accord */
#define ZIP_MAX_RATIO 1032u                       /* bytes that one deflated byte can become */
#define ZIP_LONGEST_TRAILER 24                    /* CRC and sizes after the data, in their longest spelling */

#define ZIP_FLAG_SIZES_FOLLOW 0x0008u
#define ZIP_FLAGS_REFUSED 0x2061u /* encrypted, patched, strongly encrypted, masked */

#define ZIP_EXTRA_ZIP64 0x0001u
#define ZIP_EXTRA_NAME 0x7075u /* another name, which some programs prefer */

/* What reading an archive needs at hand. */
typedef struct zip_reading {
    coffer__zip *zip;
    const coffer__input_files *input;
    coffer__import_plan *plan; /* NULL: findings are not wanted */
    bool scan;
    size_t tail;   /* bytes at the end of the archive that are looked at */
    uint64_t size; /* of the archive, and what may follow it */
    coffer__zip_end end;
    uint8_t *block; /* the directory */
    coffer_error *err;
} zip_reading;

/* ---- what is odd, and what is refused ---- */

/* A finding, which `sentence` with its %q for the name tells. */
static coffer_status zip_note(const zip_reading *in, coffer_weight weight, uint64_t offset, const char *sentence,
                              const char *name, size_t name_len)
{
    return in->plan == NULL ? COFFER_OK
                            : coffer__import_plan_put_finding(in->plan, weight, in->zip->file, offset, "", sentence,
                                                              name, name_len, in->err);
}

/* Refuses the archive because of a member; in a scan that is a finding, and the scan goes on. */
static coffer_status zip_refuse(const zip_reading *in, const coffer__zip_member *member, const char *sentence)
{
    return in->scan
               ? zip_note(in, COFFER_WEIGHT_DANGER, member->head, sentence, member->name, member->name_len)
               : coffer__fail_at(in->err, COFFER_ERR_DAMAGED, member->head, sentence, member->name, member->name_len);
}

/* ---- the directory ---- */

/*
 * Reads the tail, in which zip_end.c finds the end, and judges the directory's size before any memory is reserved for
 * it: until then it is a number that a stranger wrote.
 */
static coffer_status zip_find_end(zip_reading *in)
{
    const coffer__zip *zip = in->zip;
    const size_t tail_size = in->size < in->tail ? (size_t)in->size : in->tail;
    const uint64_t tail_at = in->size - tail_size;
    const coffer__zip_range tail = { .at = zip->start + tail_at, .size = tail_size };
    /* Into the window: of a small archive the tail has the directory and the members, too. */
    coffer_status status = coffer__zip_window_fill(zip->window, in->input, tail, in->err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__zip_find_end(zip->window->bytes, tail_size, tail_at, zip->start, &in->end, in->err);
    if (status != COFFER_OK) {
        return status;
    }
    const uint64_t place = zip->start + in->end.directory;
    /* An entry has 46 bytes at least, so the count is also bounded by the directory, which is known to lie in
       the file. */
    if (in->end.count > ZIP_MAX_MEMBERS || in->end.directory_size > ZIP_MAX_DIRECTORY ||
        in->end.count > in->end.directory_size / ZIP_ENTRY_SIZE) {
        return coffer__fail_at(in->err, COFFER_ERR_DAMAGED, place,
                               "the archive's directory, at byte %u, has %u members in %z, which is too many", place,
                               in->end.count, in->end.directory_size);
    }
    return COFFER_OK;
}

/* What is odd about the end is known before any member is. */
static coffer_status zip_judge_end(const zip_reading *in)
{
    const uint64_t end = in->zip->start + in->end.end;
    /*
     * Two ends are two directories: a scanner that takes the one and a loader that takes the other see different
     * files.
     */
    if (in->end.another != UINT64_MAX && !in->scan) {
        return coffer__fail_at(
            in->err, COFFER_ERR_DAMAGED, in->end.another,
            "the archive has two end records, the other one at byte %u: programs would read different "
            "things in it",
            in->end.another);
    }
    if (in->end.another != UINT64_MAX) {
        const coffer_status status =
            zip_note(in, COFFER_WEIGHT_DANGER, in->end.another, "the archive has two end records", "", 0);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return in->end.end == in->size ? COFFER_OK
                                   : zip_note(in, COFFER_WEIGHT_NOTE, end, "bytes follow the archive", "", 0);
}

/* A number of an entry that is all ones is the next one of its zip64 field. */
static bool zip_widen(uint64_t *number, coffer__cursor *field)
{
    if (*number != UINT32_MAX) {
        return true;
    }
    if (coffer__left(field) < 8) {
        return false;
    }
    *number = coffer__load_u64le(field->base + field->position);
    field->position += 8;
    return true;
}

/*
 * Finds the zip64 field among the extra fields; empty when there is none. False: a field is cut, comes twice, or gives
 * the member another name.
 */
static bool zip_find_zip64(const uint8_t *extra, size_t extra_size, coffer__cursor *field)
{
    coffer__cursor in = { .base = extra, .length = extra_size };
    *field = (coffer__cursor){ .base = extra };
    while (coffer__left(&in) >= 4) {
        const uint8_t *head = in.base + in.position;
        const uint16_t size = coffer__load_u16le(head + 2);
        in.position += 4;
        /* A field that says another name for the member is what some programs unpack it as, and others do not. */
        if (size > coffer__left(&in) || coffer__load_u16le(head) == ZIP_EXTRA_NAME) {
            return false;
        }
        if (coffer__load_u16le(head) == ZIP_EXTRA_ZIP64) {
            if (field->length > 0) {
                return false;
            }
            *field = (coffer__cursor){ .base = head + 4, .length = size };
        }
        in.position += size;
    }
    return true;
}

/* Whether a name stays below the folder where somebody unpacks it, and reads the same everywhere. */
bool coffer__zip_is_plain_name(const char *name, size_t name_len)
{
    size_t part = 0; /* where the part of the path begins */
    if (name_len == 0 || name[0] == '/') {
        return false;
    }
    for (size_t i = 0; i <= name_len; i++) {
        /* Every part ends at a slash or at the name's end, which is why the loop goes one past the last byte. */
        if (i == name_len || name[i] == '/') {
            if (i - part == 2 && name[part] == '.' && name[part + 1] == '.') {
                return false;
            }
            part = i + 1;
        } else if (name[i] == '\\' || name[i] == '\0') {
            return false;
        }
    }
    return true;
}

/* Whether sizes and method go together. Of a member that deflates the size is only what the directory says, but there is a
   most that its bytes can become. */
static bool zip_sizes_fit(const coffer__zip_member *member)
{
    if (member->method == 0) {
        return member->size == member->stored_size;
    }
    return member->size / ZIP_MAX_RATIO <= member->stored_size && (member->size == 0 || member->stored_size > 0);
}

/* What is wrong with a member in itself; NULL: nothing. */
static const char *zip_fault(const coffer__zip_member *member)
{
    if ((member->flags & ZIP_FLAGS_REFUSED) != 0) {
        return "the archive's member %q is encrypted";
    }
    if (member->method != 0 && member->method != 8) {
        return "the archive's member %q is compressed by another method than deflate";
    }
    if (!zip_sizes_fit(member)) {
        return "the sizes of the archive's member %q contradict each other";
    }
    if (!coffer__zip_is_plain_name(member->name, member->name_len)) {
        return "the archive's member %q has a name that is not simply one below a folder";
    }
    if (member->name[member->name_len - 1] == '/' && member->size > 0) {
        return "the archive's member %q is a folder and has bytes";
    }
    return NULL;
}

/*
 * Takes one entry, which lies `at` in the directory's block, and moves on to the next. The name moves up by a byte, over
 * the head, which is then known, so that a NUL can follow it.
 */
static coffer_status zip_read_entry(zip_reading *in, size_t *at, coffer__zip_member *member)
{
    uint8_t *entry = in->block + *at;
    const size_t left = (size_t)in->end.directory_size - *at;
    const uint64_t place = in->zip->start + in->end.directory + *at;
    /* The three lengths are read only from an entry whose 46 bytes are all there, and their sum, which is at
       most 3 * 65535, is compared with what is left before anything after the head is looked at. */
    const bool whole = left >= ZIP_ENTRY_SIZE && memcmp(entry, "PK\1\2", 4) == 0;
    const size_t name_len = whole ? coffer__load_u16le(entry + 28) : 0;
    const size_t extra_size = whole ? coffer__load_u16le(entry + 30) : 0;
    const size_t rest = whole ? name_len + extra_size + coffer__load_u16le(entry + 32) : 0;
    if (!whole || rest > left - ZIP_ENTRY_SIZE) {
        return coffer__fail_at(in->err, COFFER_ERR_DAMAGED, place,
                               "the archive's directory is damaged at byte %u: an entry should be there", place);
    }
    coffer__cursor field;
    uint64_t head = coffer__load_u32le(entry + 42);
    member->stored_size = coffer__load_u32le(entry + 20);
    member->size = coffer__load_u32le(entry + 24);
    /* In the order of the zip64 field, which is not that of the entry: size, stored size, offset. */
    const bool good = zip_find_zip64(entry + ZIP_ENTRY_SIZE + name_len, extra_size, &field) &&
                      zip_widen(&member->size, &field) && zip_widen(&member->stored_size, &field) &&
                      zip_widen(&head, &field);
    if (!good || coffer__load_u16le(entry + 34) != 0) {
        return coffer__fail_at(in->err, COFFER_ERR_DAMAGED, place,
                               "the archive's directory has an entry at byte %u whose extra fields or disk are wrong",
                               place);
    }
    /* The head, its name and the data lie before the directory. From here on sums of a member's numbers cannot
       wrap. */
    if (head > in->end.directory || in->end.directory - head < ZIP_HEAD_SIZE + name_len ||
        member->stored_size > in->end.directory - head - ZIP_HEAD_SIZE - name_len) {
        return coffer__fail_at(
            in->err, COFFER_ERR_DAMAGED, place,
            "the archive's directory has an entry at byte %u whose member reaches into the directory", place);
    }
    member->head = in->zip->start + head;
    member->flags = coffer__load_u16le(entry + 8);
    member->method = coffer__load_u16le(entry + 10);
    member->crc = coffer__load_u32le(entry + 16);
    member->coding = member->method == 0 ? COFFER__CODING_STORED : COFFER__CODING_DEFLATED;
    member->name = (const char *)memmove(entry + ZIP_ENTRY_SIZE - 1, entry + ZIP_ENTRY_SIZE, name_len);
    member->name_len = name_len;
    entry[ZIP_ENTRY_SIZE - 1 + name_len] = '\0';
    *at += ZIP_ENTRY_SIZE + rest;
    return COFFER_OK;
}

/* All entries, one after another, until as many are read as the end record says. They have to fill the
   directory exactly: programs differ in whether they go by the count or by the size. */
static coffer_status zip_read_entries(zip_reading *in)
{
    coffer__zip *zip = in->zip;
    size_t at = 0;
    zip->without_crcs = true;
    bool has_bytes = false;
    for (size_t i = 0; i < zip->count; i++) {
        coffer__zip_member *member = &zip->members[i];
        coffer_status status = zip_read_entry(in, &at, member);
        if (status != COFFER_OK) {
            return status;
        }
        const char *fault = zip_fault(member);
        status = fault == NULL ? COFFER_OK : zip_refuse(in, member, fault);
        if (status != COFFER_OK) {
            return status;
        }
        /*
         * torch can be told to compute none, and then writes 0 for all of them. One CRC that is not 0 shows that
         * they were computed.
         */
        zip->without_crcs = zip->without_crcs && member->crc == 0;
        has_bytes = has_bytes || member->size > 0;
    }
    /* A CRC of nothing is 0 by right, so an archive of empty members tells nothing of whether CRCs were
       computed. */
    zip->without_crcs = zip->without_crcs && has_bytes;
    if (at != in->end.directory_size) {
        const uint64_t place = zip->directory + at;
        return coffer__fail_at(in->err, COFFER_ERR_DAMAGED, place,
                               "the archive's directory has something at byte %u that is no entry", place);
    }
    return COFFER_OK;
}

/* ---- members among each other ---- */

/* Order of names but for the case of ASCII letters, which some loaders overlook. What file systems fold beyond ASCII differs, and
   real names of members are ASCII. */
static int zip_compare_folded(const coffer__zip_member *a, const coffer__zip_member *b)
{
    const size_t shorter = a->name_len < b->name_len ? a->name_len : b->name_len;
    for (size_t i = 0; i < shorter; i++) {
        const int difference =
            (int)(uint8_t)coffer__text_lower(a->name[i]) - (int)(uint8_t)coffer__text_lower(b->name[i]);
        if (difference != 0) {
            return difference;
        }
    }
    return a->name_len < b->name_len ? -1 : a->name_len > b->name_len;
}

static bool zip_name_before(const void *members, uint32_t a, uint32_t b)
{
    const coffer__zip_member *one = (const coffer__zip_member *)members + a;
    const coffer__zip_member *two = (const coffer__zip_member *)members + b;
    return coffer__compare_names(one->name, one->name_len, two->name, two->name_len) < 0;
}

/* By the folded names, then by the names as they are: of "W.npy", "w.npy" and "W.npy" the two that are the same have to
   be neighbours, whatever stands between them in the directory. */
static bool zip_folded_before(const void *members, uint32_t a, uint32_t b)
{
    const int difference =
        zip_compare_folded((const coffer__zip_member *)members + a, (const coffer__zip_member *)members + b);
    return difference != 0 ? difference < 0 : zip_name_before(members, a, b);
}

/* By the places of local heads, which are distinct in an archive that is in order. */
static bool zip_place_before(const void *members, uint32_t a, uint32_t b)
{
    return ((const coffer__zip_member *)members)[a].head < ((const coffer__zip_member *)members)[b].head;
}

static bool zip_is_array(const coffer__zip_member *member)
{
    return coffer__text_ends(member->name, member->name_len, ".npy");
}

/* Whether two members have the same name for some loader. Those of .npz files tell W from w. */
static bool zip_names_clash(const coffer__zip_member *a, const coffer__zip_member *b)
{
    if (zip_compare_folded(a, b) != 0) {
        return false;
    }
    return !zip_is_array(a) || !zip_is_array(b) || memcmp(a->name, b->name, a->name_len) == 0;
}

/* In the order of the folded names, and of the names as they are where those are equal, two that clash are neighbours. */
static coffer_status zip_check_names(const zip_reading *in, uint32_t *order)
{
    const coffer__zip *zip = in->zip;
    /* Sorting instead of comparing each with each: an archive may have a million members. */
    coffer__sort(order, zip->count, zip_folded_before, zip->members);
    for (size_t i = 1; i < zip->count; i++) {
        const coffer__zip_member *member = &zip->members[order[i]];
        if (!zip_names_clash(&zip->members[order[i - 1]], member)) {
            continue;
        }
        const coffer_status status = zip_refuse(
            in, member, "the archive has two members of the name %q, perhaps but for case: loaders take either");
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* Where a member's data end at the earliest: exactly, when it is located. */
static uint64_t zip_end_of(const coffer__zip_member *member)
{
    return (member->located ? member->at : member->head + ZIP_HEAD_SIZE + member->name_len) + member->stored_size;
}

/* Members lie one after another from the archive's first byte on. Sums cannot wrap: each lies before the directory. */
static coffer_status zip_check_places(const zip_reading *in, uint32_t *order)
{
    const coffer__zip *zip = in->zip;
    uint64_t end = zip->start;
    bool reported = false;
    coffer__sort(order, zip->count, zip_place_before, zip->members);
    for (size_t i = 0; i < zip->count; i++) {
        const coffer__zip_member *member = &zip->members[order[i]];
        coffer_status status = COFFER_OK;
        /*
         * `end` is exact for members that were located, and the least that is possible for the others, so an
         * overlap is never told where there is none.
         */
        if (member->head < end) {
            /* Two members of the same bytes are also how a small archive inflates to a huge one. */
            status = zip_refuse(in, member, "the archive's member %q overlaps the one before it");
        } else if (i == 0 && member->head > end) {
            status = zip_refuse(in, member, "bytes come before the archive's first member %q");
        } else if (i > 0 && member->head - end > ZIP_LONGEST_TRAILER && member->located && !reported) {
            status = zip_note(in, COFFER_WEIGHT_NOTE, end, "bytes before the archive's member %q belong to none",
                              member->name, member->name_len);
            reported = true;
        }
        if (status != COFFER_OK) {
            return status;
        }
        end = zip_end_of(member) > end ? zip_end_of(member) : end;
    }
    return COFFER_OK;
}

/* ---- local heads ---- */

/* Whether CRC and sizes of a local head are the directory's, in one of the spellings that the head of this file
   lists. A zip64 field here has sizes only: a local head has no offset. */
static bool zip_sizes_agree(const uint8_t *head, const uint8_t *extra, size_t extra_size,
                            const coffer__zip_member *member)
{
    coffer__cursor field;
    uint64_t stored_size = coffer__load_u32le(head + 18);
    uint64_t size = coffer__load_u32le(head + 22);
    const uint32_t crc = coffer__load_u32le(head + 14);
    if (!zip_find_zip64(extra, extra_size, &field) || !zip_widen(&size, &field) || !zip_widen(&stored_size, &field)) {
        return false;
    }
    /*
     * With the flag a writer did not know the sizes when it wrote the head, and left zeros. A head that has them
     * all the same has to have the right ones.
     */
    const bool follow = (member->flags & ZIP_FLAG_SIZES_FOLLOW) != 0;
    const bool same = size == member->size && stored_size == member->stored_size;
    return (same || (follow && size == 0 && stored_size == 0)) && (crc == member->crc || (follow && crc == 0));
}

/*
 * Judges a local head of which `size` bytes are known, and finds the data's place: as loaders do, by the lengths that
 * the head itself states, also when its name is another. False: there is no place, and *fault says why.
 */
static bool zip_place(const coffer__zip *zip, const uint8_t *head, coffer__zip_member *member, const char **fault)
{
    const uint64_t name_len = coffer__load_u16le(head + 26);
    /* Not below zero: the entry's check left space for a head of 30 bytes before the directory. */
    const uint64_t most = zip->directory - member->head - ZIP_HEAD_SIZE;
    const uint64_t before = name_len + coffer__load_u16le(head + 28);
    if (memcmp(head, "PK\3\4", 4) != 0) {
        *fault = "the archive's directory has a member %q where the file has none";
        return false;
    }
    /*
     * With the lengths that the head itself states, which may be others than the directory's: the data have to
     * end before the directory in either case.
     */
    if (before > most || member->stored_size > most - before) {
        *fault = "the archive's member %q reaches into the directory";
        return false;
    }
    if (name_len != member->name_len || memcmp(head + ZIP_HEAD_SIZE, member->name, member->name_len) != 0) {
        *fault = "the archive's member %q has another name before its data";
    } else if (coffer__load_u16le(head + 6) != member->flags || coffer__load_u16le(head + 8) != member->method) {
        *fault = "the archive's member %q has other flags or another method before its data";
    }
    member->at = member->head + ZIP_HEAD_SIZE + before;
    member->located = true;
    return true;
}

/* Reads a local head into `head`, which has space for ZIP_LONGEST_HEAD bytes. What contradicts the directory is told by
   *fault, a sentence with %q for the name; NULL: nothing does. */
static coffer_status zip_locate(const coffer__zip *zip, const coffer__input_files *input, coffer__zip_member *member,
                                uint8_t *head, const char **fault, coffer_error *err)
{
    /* The head is read with the name in one go, since its length is known from the directory. If the local
       head states another one, that is a fault, found before any byte after the name is used. */
    const size_t known = ZIP_HEAD_SIZE + member->name_len;
    *fault = NULL;
    coffer_status status = coffer__zip_window_read(zip->window, input, member->head, head, known, err);
    if (status != COFFER_OK || !zip_place(zip, head, member, fault) || *fault != NULL) {
        return status;
    }
    /* Sizes are in the extra fields when they are all ones; else nothing there is of interest. */
    const bool needs_extra = coffer__load_u32le(head + 18) == UINT32_MAX || coffer__load_u32le(head + 22) == UINT32_MAX;
    const size_t extra_size = needs_extra ? coffer__load_u16le(head + 28) : 0;
    status = coffer__zip_window_read(zip->window, input, member->head + known, head + known, extra_size, err);
    if (status == COFFER_OK && !zip_sizes_agree(head, head + known, extra_size, member)) {
        *fault = "the archive's member %q has other sizes, or another CRC, before its data";
    }
    return status;
}

coffer_status coffer__zip_locate(const coffer__zip *zip, const coffer__input_files *input, coffer__zip_member *member,
                                 coffer_error *err)
{
    const char *fault = NULL;
    if (member->located) {
        return COFFER_OK;
    }
    uint8_t *head = coffer__alloc_array(zip->allocator, ZIP_LONGEST_HEAD, 1, err);
    if (head == NULL) {
        return COFFER_ERR_MEMORY;
    }
    const coffer_status status = zip_locate(zip, input, member, head, &fault, err);
    coffer__free_array(zip->allocator, head, ZIP_LONGEST_HEAD, 1);
    return status != COFFER_OK || fault == NULL
               ? status
               : coffer__fail_at(err, COFFER_ERR_DAMAGED, member->head, fault, member->name, member->name_len);
}

/* What is read of a local head, and some space for the extra fields that follow the name: NumPy's has sizes there. */
static coffer__zip_range zip_head_of(const void *archive, size_t number)
{
    const coffer__zip *zip = archive;
    const coffer__zip_member *member = &zip->members[number];
    const uint64_t known = ZIP_HEAD_SIZE + member->name_len;
    const uint64_t left = zip->directory - member->head - known;
    return (coffer__zip_range){ .at = member->head, .size = known + (left < ZIP_USUAL_EXTRA ? left : ZIP_USUAL_EXTRA) };
}

/* A scan of a file on a server reads only the first heads, and those of members that it opens: each is a
   request. */
static coffer_status zip_locate_all(const zip_reading *in, uint8_t *head)
{
    const coffer__zip *zip = in->zip;
    const size_t count = in->scan && zip->count > ZIP_SCANNED_HEADS ? ZIP_SCANNED_HEADS : zip->count;
    for (size_t i = 0; i < count; i++) {
        coffer__zip_member *member = &zip->members[i];
        const char *fault = NULL;
        coffer_status status = coffer__zip_window_ahead(zip->window, in->input, i, count, zip_head_of, zip, in->err);
        if (status != COFFER_OK) {
            return status;
        }
        status = zip_locate(zip, in->input, member, head, &fault, in->err);
        if (status != COFFER_OK) {
            return status;
        }
        status = fault == NULL ? COFFER_OK : zip_refuse(in, member, fault);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* ---- the archive ---- */

/* The block of the directory becomes the names: zip_read_entry moves each up by a byte and ends it with a NUL,
   so they need no memory of their own. */
static coffer_status zip_read_directory(zip_reading *in)
{
    coffer__zip *zip = in->zip;
    /* Both were bounded when the end was found, so neither array can be larger than what one directory may cost. */
    zip->count = (size_t)in->end.count;
    zip->directory = zip->start + in->end.directory;
    zip->end = zip->start + in->end.end;
    zip->names_size = (size_t)in->end.directory_size;
    zip->names = coffer__alloc_array(zip->allocator, zip->names_size, 1, in->err);
    zip->members = coffer__alloc_array(zip->allocator, zip->count, sizeof *zip->members, in->err);
    zip->by_name = coffer__alloc_array(zip->allocator, zip->count, sizeof *zip->by_name, in->err);
    if (zip->names == NULL || zip->members == NULL || zip->by_name == NULL) {
        return COFFER_ERR_MEMORY;
    }
    in->block = (uint8_t *)zip->names;
    const coffer_status status =
        coffer__zip_window_read(zip->window, in->input, zip->directory, zip->names, zip->names_size, in->err);
    return status == COFFER_OK ? zip_read_entries(in) : status;
}

/* The orders that the checks want lie in by_name one after another; that of the names comes last and stays. */
static coffer_status zip_check_members(const zip_reading *in)
{
    const coffer__zip *zip = in->zip;
    for (uint32_t i = 0; i < zip->count; i++) {
        zip->by_name[i] = i;
    }
    coffer_status status = zip_check_names(in, zip->by_name);
    if (status != COFFER_OK) {
        return status;
    }
    uint8_t *head = coffer__alloc_array(zip->allocator, ZIP_LONGEST_HEAD, 1, in->err);
    status = head == NULL ? COFFER_ERR_MEMORY : zip_locate_all(in, head);
    coffer__free_array(zip->allocator, head, ZIP_LONGEST_HEAD, 1);
    if (status != COFFER_OK) {
        return status;
    }
    status = zip_check_places(in, zip->by_name);
    coffer__sort(zip->by_name, zip->count, zip_name_before, zip->members);
    return status;
}

/* From the end to the members: each step relies on what the one before it has judged. */
static coffer_status zip_read(zip_reading *in)
{
    coffer__zip_window *window = coffer__alloc_zeroed(in->zip->allocator, sizeof *window);
    if (window == NULL) {
        return coffer__fail(in->err, COFFER_ERR_MEMORY, "no memory for reading an archive");
    }
    window->file = in->zip->file;
    window->limit = in->zip->start + in->size;
    window->spare = in->scan ? ZIP_MAX_SCANNED_GAPS : ZIP_MAX_GAPS;
    in->zip->window = window;
    coffer_status status = zip_find_end(in);
    if (status != COFFER_OK) {
        return status;
    }
    status = zip_judge_end(in);
    if (status != COFFER_OK) {
        return status;
    }
    status = zip_read_directory(in);
    return status == COFFER_OK ? zip_check_members(in) : status;
}

/* Findings are put even when the archive is refused afterwards; the caller drops the plan then, or, in a scan,
   keeps it. */
static coffer_status zip_read_or_free(zip_reading *in, const coffer__wants *wants)
{
    in->scan = wants->scan && in->plan != NULL;
    const coffer_status status = zip_read(in);
    if (status != COFFER_OK) {
        coffer__zip_free(in->zip);
    }
    return status;
}

coffer_status coffer__zip_read(coffer__zip *zip, const coffer__input_files *input, uint32_t file, uint64_t start,
                               uint64_t size, const coffer__wants *wants, coffer__import_plan *plan,
                               const coffer_allocator *allocator, coffer_error *err)
{
    *zip = (coffer__zip){ .file = file, .start = start, .allocator = allocator };
    zip_reading in = { .zip = zip, .input = input, .plan = plan, .tail = COFFER__ZIP_TAIL, .size = size, .err = err };
    return zip_read_or_free(&in, wants);
}

/* A comment that reaches beyond the tail would hide the end: nobody writes one into such an archive. */
coffer_status coffer__zip_read_embedded(coffer__zip *zip, const coffer__input_files *input, uint32_t file,
                                        uint64_t start, uint64_t size, const coffer__wants *wants,
                                        coffer__import_plan *plan, const coffer_allocator *allocator, coffer_error *err)
{
    *zip = (coffer__zip){ .file = file, .start = start, .allocator = allocator };
    zip_reading in = { .zip = zip, .input = input, .plan = plan, .tail = ZIP_EMBEDDED_TAIL, .size = size, .err = err };
    return zip_read_or_free(&in, wants);
}

/* After it the archive is empty, so freeing it twice does nothing. */
void coffer__zip_free(coffer__zip *zip)
{
    coffer__free(zip->allocator, zip->window, sizeof *zip->window);
    coffer__free_array(zip->allocator, zip->names, zip->names_size, 1);
    coffer__free_array(zip->allocator, zip->members, zip->count, sizeof *zip->members);
    coffer__free_array(zip->allocator, zip->by_name, zip->count, sizeof *zip->by_name);
    *zip = (coffer__zip){ .allocator = zip->allocator };
}

static int zip_compare_name(const void *ctx, size_t i, const void *wanted)
{
    const coffer__zip *zip = ctx;
    const coffer__name *name = wanted;
    const coffer__zip_member *member = &zip->members[zip->by_name[i]];
    return coffer__compare_names(member->name, member->name_len, name->text, name->len);
}

coffer__zip_member *coffer__zip_find(const coffer__zip *zip, const char *name, size_t name_len)
{
    const coffer__name wanted = { name, name_len };
    size_t at = 0;
    return coffer__find_sorted(zip->count, zip_compare_name, zip, &wanted, &at) ? &zip->members[zip->by_name[at]]
                                                                                : NULL;
}
