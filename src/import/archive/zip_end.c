/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of an archive. All integers are little-endian; offsets in bytes.
 *
 *   end record, 22 bytes and the comment          zip64 end record, 56 bytes           its locator, 20 bytes
 *    0  signature  50 4b 05 06                     0  signature  50 4b 06 06            0  signature  50 4b 06 07
 *    4  u16 number of this disk                    4  u64 size of the rest: 44          4  u32 disk of the record
 *    6  u16 disk of the directory                 12  u16 made by, u16 needed           8  u64 the record's offset
 *    8  u16 members on this disk                  16  u32 this disk, u32 directory's   16  u32 number of disks
 *   10  u16 members                               24  u64 members on this disk
 *   12  u32 size of the directory                 32  u64 members
 *   16  u32 offset of the directory               40  u64 size of the directory
 *   20  u16 length of the comment                 48  u64 offset of the directory
 *
 * With a locator right before the end record, the zip64 record has the numbers, and those of the end record
 * are all ones or the same. Directory, zip64 record, locator and end record follow each other without a gap.
 */
#include "zip_end.h"

#include "bytes.h"
#include "error.h"

#define END_SIZE 22u
#define LOCATOR_SIZE 20u
#define RECORD_SIZE 56u

/* Whether a short number is what the long one says: the same, or all ones, which stand for it. */
static bool end_agrees(uint64_t number, uint64_t all_ones, uint64_t actual)
{
    return number == all_ones || number == actual;
}

/* Takes the numbers of the zip64 record that lies before the end record `at`. False: they are not in order. */
static bool end_read_zip64(const uint8_t *tail, uint64_t tail_at, size_t at, coffer__zip_end *end)
{
    const uint8_t *locator = tail + at - LOCATOR_SIZE;
    const uint8_t *record = locator - RECORD_SIZE;
    const uint8_t *short_one = tail + at;
    const uint64_t record_at = tail_at + at - LOCATOR_SIZE - RECORD_SIZE;
    /* The record has exactly its 44 bytes after the size: an extensible data sector (APPNOTE 4.3.14) could
       hide another record, and nobody writes one. */
    if (memcmp(record, "PK\6\6", 4) != 0 || coffer__load_u64le(record + 4) != RECORD_SIZE - 12 ||
        coffer__load_u64le(locator + 8) != record_at) {
        return false;
    }
    /* One writer says that there are no disks at all. */
    if (coffer__load_u32le(locator + 4) != 0 || coffer__load_u32le(locator + 16) > 1 ||
        coffer__load_u64le(record + 16) != 0) {
        return false;
    }
    end->count = coffer__load_u64le(record + 32);
    end->directory_size = coffer__load_u64le(record + 40);
    end->directory = coffer__load_u64le(record + 48);
    /* Programs that know nothing of zip64 read the short numbers. They must not see another archive than the
       others do. */
    return coffer__load_u64le(record + 24) == end->count &&
           end_agrees(coffer__load_u16le(short_one + 10), UINT16_MAX, end->count) &&
           end_agrees(coffer__load_u32le(short_one + 12), UINT32_MAX, end->directory_size) &&
           end_agrees(coffer__load_u32le(short_one + 16), UINT32_MAX, end->directory);
}

/* Whether an end record lies `at` in the tail, and everything before it is where it says. */
static bool end_fits(const uint8_t *tail, size_t tail_size, uint64_t tail_at, size_t at, coffer__zip_end *end)
{
    const uint8_t *record = tail + at;
    const uint16_t comment = coffer__load_u16le(record + 20);
    const uint16_t count = coffer__load_u16le(record + 10);
    if (comment > tail_size - at - END_SIZE || coffer__load_u32le(record + 4) != 0 ||
        coffer__load_u16le(record + 8) != count) {
        return false;
    }
    end->end = tail_at + at + END_SIZE + comment;
    const bool is_zip64 = at >= LOCATOR_SIZE + RECORD_SIZE && memcmp(record - LOCATOR_SIZE, "PK\6\7", 4) == 0;
    end->count = count;
    end->directory_size = coffer__load_u32le(record + 12);
    end->directory = coffer__load_u32le(record + 16);
    if (is_zip64 && !end_read_zip64(tail, tail_at, at, end)) {
        return false;
    }
    /* No gap and no overlap: the directory ends where the first record of the end begins. The subtraction
       turns an addition round that could wrap. */
    const uint64_t directory_end = tail_at + at - (is_zip64 ? LOCATOR_SIZE + RECORD_SIZE : 0);
    return end->directory <= directory_end && end->directory_size == directory_end - end->directory;
}

/*
 * Loaders take the last signature that they find, so the last one has to be the end record. What looks like one
 * before it is harmless, as in an archive within the archive, unless it fits as well.
 */
coffer_status coffer__zip_find_end(const uint8_t *tail, size_t tail_size, uint64_t tail_at, uint64_t origin,
                                   coffer__zip_end *end, coffer_error *err)
{
    bool found = false;
    /* From the last place at which 22 bytes fit. The tail has at most 64 KiB and some, so trying every place
       is cheap. */
    for (size_t at = tail_size < END_SIZE ? 0 : tail_size - END_SIZE + 1; at-- > 0;) {
        coffer__zip_end other;
        if (memcmp(tail + at, "PK\5\6", 4) != 0) {
            continue;
        }
        const uint64_t place = origin + tail_at + at;
        if (end_fits(tail, tail_size, tail_at, at, found ? &other : end)) {
            end->another = found ? place : UINT64_MAX;
            if (found) {
                return COFFER_OK;
            }
            found = true;
        } else if (!found) {
            return coffer__fail_at(err, COFFER_ERR_DAMAGED, place,
                                   "the archive's end record, at byte %u, contradicts what is before it: the file is "
                                   "damaged, or has several ends",
                                   place);
        }
    }
    const uint64_t last = origin + tail_at + tail_size;
    return found ? COFFER_OK
                 : coffer__fail_at(
                       err, COFFER_ERR_DAMAGED, last,
                       "the archive has no end record among its last %u bytes: it was cut; get the file again",
                       (uint64_t)tail_size);
}
