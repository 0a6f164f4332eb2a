/* SPDX-License-Identifier: Apache-2.0 */
#include "part.h"

#include "alloc.h"
#include "bytes.h"
#include "error.h"
#include "os.h"
#include "text.h"
#include "trouble.h"

#include <errno.h>
#include <string.h>

#define PART_SUFFIX ".coffer-part"
#define PART_RECORD_SIZE ((size_t)16 + COFFER__PART_VALIDATOR + 16)

static void part_record(const coffer__part *part, const char *validator, uint64_t plan,
                        uint8_t record[PART_RECORD_SIZE])
{
    static const char magic[] = "coffer-part 1\n";
    memset(record, 0, PART_RECORD_SIZE);
    memcpy(record, magic, sizeof magic);
    memcpy(record + 16, validator, coffer__text_len(validator));
    coffer__store_u64le(record + 16 + COFFER__PART_VALIDATOR, part->size);
    coffer__store_u64le(record + 16 + COFFER__PART_VALIDATOR + 8, plan);
}

static coffer_status part_trouble(const coffer__part *part, const char *task, int os_error, coffer_error *err)
{
    return coffer__trouble(err, task, part->name.text, os_error);
}

/* Whether what lies there is this part: then its pieces count. */
static bool part_goes_on(const coffer__part *part, const uint8_t *record)
{
    coffer__os_info info;
    uint8_t there[PART_RECORD_SIZE];
    size_t got = 0;
    const uint64_t whole = part->size + PART_RECORD_SIZE + part->piece_count;
    return record[16] != '\0' && coffer__os_inspect_fd(part->fd, &info) == 0 && info.size == whole &&
           coffer__os_read_at(part->fd, part->size, there, sizeof there, &got) == 0 && got == sizeof there &&
           memcmp(there, record, sizeof there) == 0 &&
           coffer__os_read_at(part->fd, part->size + sizeof there, part->done, (size_t)part->piece_count, &got) == 0 &&
           got == part->piece_count;
}

static coffer_status part_begin(coffer__part *part, const uint8_t *record, coffer_error *err)
{
    const uint64_t whole = part->size + PART_RECORD_SIZE + part->piece_count;
    memset(part->done, 0, (size_t)part->piece_count);
    int os_error = coffer__os_truncate(part->fd, 0);
    os_error = os_error != 0 ? os_error : coffer__os_reserve(part->fd, 0, part->size);
    os_error = os_error != 0 ? os_error : coffer__os_truncate(part->fd, whole);
    os_error = os_error != 0 ? os_error : coffer__os_write_at(part->fd, part->size, record, PART_RECORD_SIZE);
    return os_error == 0 ? COFFER_OK : part_trouble(part, "make room for the file", os_error, err);
}

static coffer_status part_open_file(coffer__part *part, coffer_error *err)
{
    int os_error = coffer__os_open(part->name.text, COFFER__OS_EDIT, false, &part->fd);
    if (os_error == ENOENT) {
        os_error = coffer__os_create(part->name.text, false, &part->fd);
    }
    if (os_error != 0) {
        part->fd = -1;
        return part_trouble(part, "make the file", os_error, err);
    }
    os_error = coffer__os_lock(part->fd);
    if (os_error == EWOULDBLOCK) {
        coffer__fail(err, COFFER_ERR_LOCKED, "another process is fetching the same file");
        return coffer__fail_path(err, COFFER_ERR_LOCKED, part->name.text);
    }
    return os_error == 0 ? COFFER_OK : part_trouble(part, "lock the file", os_error, err);
}

coffer_status coffer__part_open(coffer__part *part, const coffer__path *target, uint64_t size, const char *validator,
                                uint64_t plan, const coffer_allocator *allocator, coffer_error *err)
{
    uint8_t record[PART_RECORD_SIZE];
    memset(part, 0, sizeof *part);
    part->fd = -1;
    part->size = size;
    part->piece_count = size / COFFER__PART_PIECE + (size % COFFER__PART_PIECE != 0);
    part->target = *target;
    if (!coffer__path_beside(&part->name, target->text, "", PART_SUFFIX)) {
        return coffer__trouble(err, "make the file", target->text, ENAMETOOLONG);
    }
    part->done = coffer__alloc_zeroed(allocator, (size_t)part->piece_count + 1);
    if (part->done == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to fetch the file");
    }
    const coffer_status status = part_open_file(part, err);
    if (status != COFFER_OK) {
        return status;
    }
    part_record(part, validator, plan, record);
    return part_goes_on(part, record) ? COFFER_OK : part_begin(part, record, err);
}

uint64_t coffer__part_piece_size(const coffer__part *part, uint64_t piece)
{
    const uint64_t left = part->size - piece * COFFER__PART_PIECE;
    return left < COFFER__PART_PIECE ? left : COFFER__PART_PIECE;
}

coffer_status coffer__part_write(coffer__part *part, uint64_t piece, const void *bytes, coffer_error *err)
{
    const uint64_t at = piece * COFFER__PART_PIECE;
    int os_error = coffer__os_write_at(part->fd, at, bytes, (size_t)coffer__part_piece_size(part, piece));
    part->done[piece] = 1;
    if (os_error == 0) {
        os_error = coffer__os_write_at(part->fd, part->size + PART_RECORD_SIZE + piece, &part->done[piece], 1);
    }
    return os_error == 0 ? COFFER_OK : part_trouble(part, "write the file", os_error, err);
}

coffer_status coffer__part_finish(coffer__part *part, coffer_error *err)
{
    int os_error = coffer__os_truncate(part->fd, part->size);
    os_error = os_error != 0 ? os_error : coffer__os_sync(part->fd);
    return os_error == 0 ? COFFER_OK : part_trouble(part, "complete the file", os_error, err);
}

coffer_status coffer__part_publish(coffer__part *part, coffer_error *err)
{
    const int os_error = coffer__os_rename(part->name.text, part->target.text);
    return os_error == 0 ? COFFER_OK : coffer__trouble(err, "give the file its name", part->target.text, os_error);
}

void coffer__part_remove(coffer__part *part)
{
    (void)coffer__os_unlink(part->name.text);
}

void coffer__part_close(coffer__part *part, const coffer_allocator *allocator)
{
    if (part->fd >= 0) {
        (void)coffer__os_close(part->fd);
        part->fd = -1;
    }
    coffer__free(allocator, part->done, (size_t)part->piece_count + 1);
    part->done = NULL;
}
