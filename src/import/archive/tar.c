/* SPDX-License-Identifier: Apache-2.0 */
/* Archives (tar): see tar.h. Every size is compared with what is left of the file before anything is read for it. */
#include "tar.h"

#include "alloc.h"
#include "checked.h"
#include "error.h"
#include "text.h"

#include <string.h>

/* What describes a member may have: a path is at most a few thousand bytes. */
#define TAR_MAX_DESCRIPTION ((uint64_t)64 * 1024)

/* Of one member. */
#define TAR_MAX_DESCRIPTIONS 8

/* What was said of the next member before its head. */
typedef struct tar_next_one {
    bool has_size;
    bool has_name;
    uint64_t size;
    char name[COFFER__TAR_NAME];
} tar_next_one;

/* ---- heads --------------------------------------------------------------------------------------------------------- */

/* Octal digits, ended by a space or a NUL; false for anything else. */
static bool tar_octal(const uint8_t *digits, size_t size, uint64_t *value)
{
    size_t i = 0;
    *value = 0;
    while (i < size && digits[i] == ' ') {
        i++;
    }
    const size_t first = i;
    /* At most 12 digits of 3 bits each, so nothing is shifted out. */
    for (; i < size && digits[i] >= '0' && digits[i] <= '7'; i++) {
        *value = *value << 3 | (uint64_t)(digits[i] - '0');
    }
    return i > first && (i == size || digits[i] == ' ' || digits[i] == 0);
}

/* The size of a head's member: octal digits, or 0x80 and eleven bytes, the highest first, of which more than eight are
   no size of this world. Those of negative numbers begin with 0xFF. */
static bool tar_size(const uint8_t *field, uint64_t *size)
{
    if (field[0] != 0x80) {
        return tar_octal(field, 12, size);
    }
    *size = 0;
    for (size_t i = 4; i < 12; i++) {
        *size = *size << 8 | field[i];
    }
    return field[1] == 0 && field[2] == 0 && field[3] == 0;
}

/* The checksum as well, since five letters at byte 257 may be in any file. */
bool coffer__tar_is_head(const uint8_t *head)
{
    uint64_t stated = 0;
    uint64_t sum = 0;
    /* The largest sum is 512 * 255, so nothing wraps. */
    for (size_t i = 0; i < COFFER__TAR_BLOCK; i++) {
        sum += i >= 148 && i < 156 ? ' ' : head[i];
    }
    return memcmp(head + 257, "ustar", 5) == 0 && tar_octal(head + 148, 8, &stated) && stated == sum;
}

bool coffer__tar_is_named(const char *member, const char *name)
{
    return coffer__same_text(memcmp(member, "./", 2) == 0 ? member + 2 : member, name);
}

/* Cuts what is too long: no name that is asked for is. */
static void tar_set_name(char name[COFFER__TAR_NAME], const uint8_t *text, size_t len)
{
    const size_t most = COFFER__TAR_NAME - 1;
    size_t taken = 0;
    while (taken < len && taken < most && text[taken] != 0) {
        name[taken] = (char)text[taken];
        taken++;
    }
    name[taken] = '\0';
}

void coffer__tar_name_of(const uint8_t *head, char name[COFFER__TAR_NAME])
{
    tar_set_name(name, head, 100);
}

/* ---- what describes the next member -------------------------------------------------------------------------------- */

/* The decimal digits of a text; false when something else is among them, or they are beyond 64 bits. */
static bool tar_decimal(const uint8_t *text, size_t len, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9' || !coffer__mul_u64(*value, 10, value) ||
            !coffer__add_u64(*value, (uint64_t)(text[i] - '0'), value)) {
            return false;
        }
    }
    return len > 0;
}

/* Takes one record, "LENGTH key=value\n", of `*len` bytes. False: it is none, or says what cannot be applied. */
static bool tar_read_record(const uint8_t *text, size_t left, bool of_all, tar_next_one *next, size_t *len)
{
    size_t space = 0;
    uint64_t stated = 0;
    while (space < left && text[space] != ' ') {
        space++;
    }
    /*
     * The length counts itself, the space and the line's end, so a record of less than three bytes after its
     * digits has no key.
     */
    if (!tar_decimal(text, space, &stated) || stated > left || stated < space + 3 || text[stated - 1] != '\n') {
        return false;
    }
    *len = (size_t)stated;
    size_t equals = space + 1;
    while (equals < *len && text[equals] != '=') {
        equals++;
    }
    if (equals == *len) {
        return false;
    }
    const char *key = (const char *)text + space + 1;
    const size_t key_len = equals - space - 1;
    const uint8_t *value = text + equals + 1;
    const size_t value_len = *len - 1 - (equals + 1);
    /*
     * Of two records with one key the last counts, as in tarfile. Those of all members would change every size
     * and name after them.
     */
    if (coffer__text_is(key, key_len, "size")) {
        next->has_size = true;
        return !of_all && tar_decimal(value, value_len, &next->size);
    }
    if (coffer__text_is(key, key_len, "path")) {
        next->has_name = true;
        tar_set_name(next->name, value, value_len);
        return !of_all;
    }
    /* Members with holes cut out of them are described so; torch writes none. */
    return key_len < 10 || memcmp(key, "GNU.sparse", 10) != 0;
}

/* Reads the bytes of a member that describes the next one. */
static coffer_status tar_read_description(const coffer__tar *tar, uint8_t type, uint64_t at, uint8_t *text, size_t size,
                                          tar_next_one *next, coffer_error *err)
{
    const coffer_status status = coffer__input_files_read(tar->input, tar->file, tar->size, at, text, size, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (type == 'L') {
        /* GNU's tar ends it with a NUL. */
        next->has_name = true;
        tar_set_name(next->name, text, size);
        return COFFER_OK;
    }
    for (size_t from = 0; from < size;) {
        size_t len = 0;
        if (!tar_read_record(text + from, size - from, type == 'g', next, &len)) {
            return coffer__fail_at(err, COFFER_ERR_DAMAGED, at + from,
                                   "the archive (tar) has a record at byte %u that is damaged, or not understood",
                                   at + from);
        }
        from += len;
    }
    return COFFER_OK;
}

static coffer_status tar_describe(const coffer__tar *tar, uint8_t type, uint64_t at, uint64_t size, tar_next_one *next,
                                  coffer_error *err)
{
    if (size > TAR_MAX_DESCRIPTION) {
        return coffer__fail_at(err, COFFER_ERR_DAMAGED, at,
                               "the archive (tar) describes a member in %z, which is too much", size);
    }
    uint8_t *text = coffer__alloc_array(tar->allocator, (size_t)size, 1, err);
    if (text == NULL) {
        return COFFER_ERR_MEMORY;
    }
    const coffer_status status = tar_read_description(tar, type, at, text, (size_t)size, next, err);
    coffer__free_array(tar->allocator, text, (size_t)size, 1);
    return status;
}

/* ---- members ------------------------------------------------------------------------------------------------------- */

/* Goes past the bytes of a member. They have to be in the file; their padding need not, since the last member of a cut
   archive may be whole, and the walk then ends at the file's end. */
static coffer_status tar_pass(coffer__tar *tar, uint64_t size, coffer_error *err)
{
    uint64_t padded = 0;
    if (!coffer__round_up_u64(size, COFFER__TAR_BLOCK, &padded) || size > tar->size - tar->at) {
        return coffer__fail_at(err, COFFER_ERR_DAMAGED, tar->at,
                               "a member of the archive reaches past the end of the file; get the file again");
    }
    tar->at = padded > tar->size - tar->at ? tar->size : tar->at + padded;
    return COFFER_OK;
}

/* A block of zeros ends the archive. One that only begins so does not, and is no head that anybody writes. */
static bool tar_is_end(const uint8_t *head)
{
    for (size_t i = 0; i < COFFER__TAR_BLOCK; i++) {
        if (head[i] != 0) {
            return false;
        }
    }
    return true;
}

/* Fills a member by its head and what was said before; its bytes begin at tar->at. */
static coffer_status tar_take(coffer__tar *tar, const uint8_t *head, uint64_t size, const tar_next_one *next,
                              coffer__tar_member *member, coffer_error *err)
{
    member->at = tar->at;
    /* The head of a member above 8 GiB says 0, or what fits; the record is right. */
    member->size = next->has_size ? next->size : size;
    /* A NUL is how the first programs wrote '0'; '7' is a plain file on systems that know nothing better. */
    member->plain = head[156] == '0' || head[156] == 0 || head[156] == '7';
    member->folder = head[156] == '5';
    if (next->has_name) {
        memcpy(member->name, next->name, sizeof member->name);
    } else {
        coffer__tar_name_of(head, member->name);
    }
    return tar_pass(tar, member->size, err);
}

coffer_status coffer__tar_next(coffer__tar *tar, coffer__tar_member *member, bool *more, coffer_error *err)
{
    tar_next_one next = { 0 };
    *more = false;
    /* Descriptions come before their member, at most one of each kind. A file of nothing else is no archive. */
    for (size_t i = 0; tar->size - tar->at >= COFFER__TAR_BLOCK; i++) {
        uint8_t head[COFFER__TAR_BLOCK];
        uint64_t size = 0;
        coffer_status status =
            coffer__input_files_read(tar->input, tar->file, tar->size, tar->at, head, sizeof head, err);
        if (status != COFFER_OK) {
            return status;
        }
        if (tar_is_end(head)) {
            tar->at += COFFER__TAR_BLOCK;
            tar->ended = true;
            return COFFER_OK;
        }
        if (head[0] == 0 || i > TAR_MAX_DESCRIPTIONS || !coffer__tar_is_head(head) || !tar_size(head + 124, &size)) {
            return coffer__fail_at(err, COFFER_ERR_DAMAGED, tar->at, "this is no member of an archive (tar)");
        }
        tar->at += COFFER__TAR_BLOCK;
        const uint8_t type = head[156];
        /* Anything else is a member, also of a type that is not known: it has a size, and is passed over by it. */
        if (type != 'x' && type != 'g' && type != 'L') {
            *more = true;
            return tar_take(tar, head, size, &next, member, err);
        }
        const uint64_t at = tar->at;
        status = tar_pass(tar, size, err);
        if (status != COFFER_OK) {
            return status;
        }
        status = tar_describe(tar, type, at, size, &next, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}
