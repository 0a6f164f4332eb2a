/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edits the metadata of a file. The header is read, its text spliced (edit_text.h) and the result validated by the
 * parser. Only then is anything written, in the first of these ways that works:
 *
 *   clone     a clone by reflink gets the new header and replaces the file
 *   in place  the header is overwritten; until that is complete, an undo file lies beside the file (patch.h)
 *   clone     the same without space in the header: in the clone the data lies some blocks further on
 *   insert    if that is asked for: the file system moves the data by whole blocks, then the edit is done in place
 *   rewrite   a new file with space for the next edit replaces the file (sink.h)
 *
 * The first two need space in the header: its length and the data stay where they are. docs/editing.md has the
 * protocol.
 *
 * All ways hold a lock of the file from before the header is read until the end. The lock excludes other editors.
 * It does not exclude programs that save over the path, so each way checks that the path still leads to the locked
 * file, as late as it can.
 */
#include "edit.h"
#include "alloc.h"
#include "bytes.h"
#include "checked.h"
#include "commit.h"
#include "edit_text.h"
#include "errno_status.h"
#include "error.h"
#include "hash.h"
#include "libc_allocator.h"
#include "model.h"
#include "options.h"
#include "os.h"
#include "output_target.h"
#include "packed_file.h"
#include "parts.h"
#include "patch.h"
#include "paths.h"
#include "record.h"
#include "sink.h"
#include "sniff.h"
#include "sort.h"
#include "source.h"
#include "temporary.h"

#include <errno.h>
#include <string.h>

/* Enough to recognise a file of another kind. Most headers need a second read. */
#define EDIT_FIRST_READ_SIZE 4096
#define EDIT_DEFAULT_SLACK 4096
/* A rewrite keeps the alignment of the data, up to that of a page. */
#define EDIT_LARGEST_ALIGNMENT 4096
#define EDIT_SMALLEST_ALIGNMENT 8
/* Data can be moved without copying by multiples of this: the block size of nearly every file system. */
#define EDIT_BLOCK_SIZE 4096

/* An edit from beginning to end. edit_init sets every field to a value that edit_close accepts, so edit_close is
   right after any failure. */
typedef struct edit_job {
    coffer_edit_options options;
    const coffer__os_info *only;         /* the one file that may be edited, as it was read; NULL: any */
    const coffer__edit_renames *renames; /* NULL: none */
    const coffer__edit_aside *aside;     /* NULL: the file itself is edited */
    coffer_allocator allocator;
    coffer__path path; /* of the file itself: no symbolic link */
    int fd;            /* the file, locked */
    bool by_new_file;  /* the file itself is not written to */
    bool fixes;        /* what follows is accepted of the file, and fixed */
    bool loose;        /* values of its metadata are no strings */
    uint64_t end;      /* of its data, where bytes follow them; else its size */
    coffer__os_info info;
    coffer_table *table;
    uint8_t *old; /* the first bytes of the file */
    size_t old_capacity;
    size_t old_size; /* bytes of `old` that are the head */
    coffer__edit_text text;
    char digest[2 * COFFER_LARGEST_DIGEST_SIZE]; /* of the new metadata, as text; it is one of them */
    uint8_t *fresh;                              /* the head of the new file */
    size_t fresh_size;
} edit_job;

/* ---- the file ---------------------------------------------------------------------------------------------------- */

/* A link is an error by default, and not only a warning: a name in the Hub's cache states the
   digest of what it leads to, and a tool that edits the one name cannot know who reads through the
   others. It always fails, so callers return its result. */
coffer_status coffer__edit_linked(bool hard, coffer_error *err)
{
    return coffer__fail(
        err, COFFER_ERR_LINKED,
        "%s, so an edit would change what others see under another name (the Hub's cache names its files by "
        "their digest); edit a copy, or have links followed",
        hard ? "the file has several names (hard links)" : "this is a symbolic link");
}

/* The path is resolved before the file is opened: temporary and undo files must lie beside the
   file itself, and not beside a link to it. A link is resolved once. If it is pointed elsewhere
   later, the edit still goes to the file that was found here, and coffer__edit_lock finds out
   if that one was replaced. Only regular files pass: a pipe or a device has no header that
   could be read twice. */
coffer_status coffer__edit_resolve(const char *path, bool follow_links, coffer__path *real, coffer_error *err)
{
    coffer__os_info info;
    int os_error = coffer__os_inspect(path, false, &info);
    if (os_error != 0) {
        return coffer__errno_status(err, "edit the file", NULL, os_error);
    }
    if (info.kind == COFFER__OS_LINK) {
        if (!follow_links) {
            return coffer__edit_linked(false, err);
        }
        os_error = coffer__os_real_path(path, real->text, sizeof real->text);
    } else {
        os_error = coffer__path_copy(real, path) ? 0 : ENAMETOOLONG;
    }
    if (os_error == 0) {
        os_error = coffer__os_inspect(real->text, false, &info);
    }
    if (os_error != 0) {
        return coffer__errno_status(err, "follow the symbolic link", NULL, os_error);
    }
    return info.kind == COFFER__OS_REGULAR ? COFFER_OK
                                           : coffer__kind_status(err, info.kind == COFFER__OS_DIRECTORY, NULL);
}

/* The file at the path is not the one that is locked. Trying again starts with the new file, so the
   caller may simply repeat the call; `what` says whether the old file was changed. */
static coffer_status edit_lost_its_place(const char *what, coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_CHANGED, "the file was replaced just now, and %s: try again", what);
}

/* Whether the path is seen to lead to another file now. Programs that save over a path take no
   lock, so this is a look and not a guarantee; it narrows the window in which an edit goes to a
   file that nobody will see. A path that cannot be examined for another reason counts as unchanged,
   because the edit itself does not need it. The inode is compared and not the time, since this edit
   changes the time. */
static bool edit_has_lost_its_place(const edit_job *job)
{
    coffer__os_info now;
    const int os_error = coffer__os_inspect(job->path.text, false, &now);
    return os_error == ENOENT || (os_error == 0 && (now.device != job->info.device || now.inode != job->info.inode));
}

/* An editor that replaces the file leaves its lock on the old one. So an editor that had opened the
   file before, and locks it afterwards, must check that the path still leads to it. The lock is
   never waited for: an edit takes moments or, when it rewrites, hours, and only the user knows
   whether to wait. The path is inspected without following links, since it is resolved already.
   *info is taken from the descriptor, so it describes the locked file even if the path changes
   right after the check. */
coffer_status coffer__edit_lock(int fd, const coffer__path *path, coffer__os_info *info, coffer_error *err)
{
    int os_error = coffer__os_lock(fd);
    if (os_error == EWOULDBLOCK) {
        return coffer__fail(err, COFFER_ERR_LOCKED,
                            "another program is editing the file: try again when it has finished");
    }
    if (os_error != 0) {
        return coffer__errno_status(err, "lock the file, which edits need", NULL, os_error);
    }
    coffer__os_info now;
    os_error = coffer__os_inspect(path->text, false, &now);
    if (os_error == 0) {
        os_error = coffer__os_inspect_fd(fd, info);
    }
    if (os_error != 0) {
        return coffer__errno_status(err, "examine the file again", NULL, os_error);
    }
    return now.device == info->device && now.inode == info->inode ? COFFER_OK
                                                                  : edit_lost_its_place("nothing was edited", err);
}

/* Whether the file that was found is the one that the caller has read. */
static coffer_status edit_is_wanted(const edit_job *job, coffer_error *err)
{
    return job->only == NULL || coffer__os_unchanged(job->only, &job->info)
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_CHANGED,
                              "the file was changed, or replaced by another one, since it was read: try again");
}

/* Locks the file, and checks that it is the one that the caller has read, if the caller says which.
   The comparison comes after the lock is held. Before it, an editor could still change the file
   between the look and the lock. */
static coffer_status edit_lock(edit_job *job, coffer_error *err)
{
    const coffer_status status = coffer__edit_lock(job->fd, &job->path, &job->info, err);
    return status == COFFER_OK ? edit_is_wanted(job, err) : status;
}

/* Whether a file that is published with others gets no patch: that would reach it under its other names, too, while those
   of its files that are replaced keep the old state there. */
static bool edit_is_never_patched(const edit_job *job)
{
    return job->aside != NULL && (job->aside->head == NULL || job->info.links > 1);
}

/* Opens and locks the file. edit_close closes it, also after a failure. A file that cannot be
   opened for writing may still be replaced, if the options allow that: then it is opened to read,
   and `by_new_file` rules out the ways that write to it. Hard links are counted under the lock,
   from the locked file. An error leaves the descriptor open, and with it the lock, until
   edit_close. */
static coffer_status edit_open(edit_job *job, const char *path, coffer_error *err)
{
    coffer_status status = coffer__edit_resolve(path, job->options.follow_links, &job->path, err);
    if (status != COFFER_OK) {
        return status;
    }
    int os_error = coffer__os_open(job->path.text, COFFER__OS_EDIT, false, &job->fd);
    job->by_new_file = os_error == EACCES && job->options.read_only && job->options.mode != COFFER_EDIT_IN_PLACE;
    if (job->by_new_file) {
        os_error = coffer__os_open(job->path.text, COFFER__OS_READ, false, &job->fd);
    }
    if (os_error != 0) {
        return coffer__errno_status(err, "open the file to read and write", NULL, os_error);
    }
    status = edit_lock(job, err);
    job->by_new_file = job->by_new_file || edit_is_never_patched(job);
    if (status == COFFER_OK && job->info.links > 1 && !job->options.follow_links) {
        return coffer__edit_linked(true, err);
    }
    return status;
}

/* The allocator is set even if the options are not valid. edit_close is only needed after success.
   Every field is set before anything can fail, and the options are copied in their known size, so
   that a caller who was built with an older header may pass a shorter struct. Nothing is opened and
   nothing allocated here. */
static coffer_status edit_init(edit_job *job, const char *path, const coffer_edit_options *options, coffer_error *err)
{
    job->only = NULL;
    job->renames = NULL;
    job->aside = NULL;
    job->info = (coffer__os_info){ .kind = COFFER__OS_OTHER };
    job->fd = -1;
    job->by_new_file = false;
    job->fixes = false;
    job->loose = false;
    job->end = UINT64_MAX;
    job->table = NULL;
    job->old = NULL;
    job->old_capacity = 0;
    job->old_size = 0;
    memset(&job->text, 0, sizeof job->text);
    job->fresh = NULL;
    job->fresh_size = 0;
    const coffer_status status = coffer__options_copy(&job->options, sizeof job->options, options, err);
    const coffer_allocator *given = status == COFFER_OK ? job->options.allocator : NULL;
    job->allocator = *coffer__allocator_or_libc(given);
    job->text.allocator = job->allocator;
    if (status != COFFER_OK) {
        return status;
    }
    if (path == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the path is NULL");
    }
    const bool known = job->options.mode <= COFFER_EDIT_REWRITE && job->options.sync <= COFFER_SYNC_NEVER;
    return known ? COFFER_OK
                 : coffer__fail(err, COFFER_ERR_ARGUMENT, "the options' mode or sync is not one of its values");
}

/* Closing the descriptor ends the lock, so it goes last. An undo file that still exists is left
   alone: it belongs to the file and not to this call. */
static void edit_close(edit_job *job)
{
    coffer__free(&job->allocator, job->fresh, job->fresh_size);
    coffer__edit_text_free(&job->text);
    coffer_table_free(job->table);
    coffer__free(&job->allocator, job->old, job->old_capacity);
    if (job->fd >= 0) {
        (void)coffer__os_close(job->fd);
    }
}

/* ---- the headers ------------------------------------------------------------------------------------------------- */

/* Nothing of the edit was written yet wherever this is returned. */
static coffer_status edit_out_of_header_memory(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the file's header");
}

/* The size was taken under the lock, so a shorter file means that a program without the lock has
   cut it. The error carries both sizes, in bytes, and the place where the file ends. */
static coffer_status edit_shrank(const edit_job *job, uint64_t end, coffer_error *err)
{
    coffer__fail_at(err, COFFER_ERR_CHANGED, end,
                    "the file became shorter during the edit: it had %z, and ends at %u now", job->info.size, end);
    return coffer__fail_sizes(err, COFFER_ERR_CHANGED, job->info.size, end);
}

/* Reads the first `size` bytes of the file into job->old. It may be called again with a larger
   size: the buffer of the first read is freed and not grown, as none of it needs to be kept.
   `old_capacity` is its size as allocated, which freeing needs. */
static coffer_status edit_read_first(edit_job *job, size_t size, coffer_error *err)
{
    coffer__free(&job->allocator, job->old, job->old_capacity);
    job->old_capacity = size;
    job->old = coffer__alloc(&job->allocator, size);
    if (job->old == NULL) {
        return edit_out_of_header_memory(err);
    }
    size_t done = 0;
    const int os_error = coffer__os_read_at(job->fd, 0, job->old, size, &done);
    if (os_error != 0) {
        return coffer__errno_status(err, "read the file's header", NULL, os_error);
    }
    return done == size ? COFFER_OK : edit_shrank(job, done, err);
}

/* Old and new heads are parsed with the same limits, so what is written is accepted by the same
   reader that accepted the file. `need` becomes the bytes that the parser wants when it answers
   COFFER_NEED_MORE. */
static coffer_status edit_parse(const edit_job *job, coffer_table **table, uint64_t *need, const uint8_t *bytes,
                                size_t size, uint64_t file_size, bool loose, coffer_error *err)
{
    coffer_parse_options parse = COFFER_PARSE_OPTIONS_INIT;
    parse.file_size = file_size;
    parse.max_header_size = job->options.max_header_size;
    parse.loose_metadata = loose;
    return coffer_parse(table, need, bytes, size, &job->allocator, &parse, err);
}

/* Reads and parses the header. The file's size is the one seen under the lock. On success `old` has
   at least the first `old_size` bytes of the file, all of the frame and header. A file that changes
   its length between the two reads is caught by edit_read_first. The table is left in job->table,
   where edit_close finds it after any failure. */
static coffer_status edit_read_header_once(edit_job *job, coffer_error *err)
{
    const uint64_t file_size = job->end < job->info.size ? job->end : job->info.size;
    if (file_size == 0) {
        coffer__fail_at(err, COFFER_ERR_EMPTY, 0, "the file is empty");
        return coffer__fail_sizes(err, COFFER_ERR_EMPTY, 8, 0);
    }
    uint64_t need = file_size < EDIT_FIRST_READ_SIZE ? file_size : EDIT_FIRST_READ_SIZE;
    coffer_status status = COFFER_NEED_MORE;
    /* The first round learns at least the header's length. With the second all of it is there. */
    for (int i = 0; i < 2 && status == COFFER_NEED_MORE; i++) {
        if (need > SIZE_MAX) {
            return edit_out_of_header_memory(err);
        }
        status = edit_read_first(job, (size_t)need, err);
        if (status == COFFER_OK) {
            status = edit_parse(job, &job->table, &need, job->old, job->old_capacity, file_size, job->loose, err);
        }
    }
    job->old_size = status == COFFER_OK ? (size_t)coffer_table_data_offset(job->table) : 0;
    /* Of a packed file the metadata stay, but what follows its data may go. */
    const bool only_cuts = job->fixes && !job->loose;
    return status == COFFER_OK && !only_cuts ? coffer__packed_file_refuse(job->table, err) : status;
}

/* Whether a fault is one that is fixed and was not accepted yet. It is from now on. */
static bool edit_accepts(edit_job *job, coffer_status status, const coffer_error *err)
{
    if (job->fixes && status == COFFER_ERR_TRAILING_BYTES && job->end == UINT64_MAX) {
        job->end = err->expected;
        return true;
    }
    /* NaN and Infinity are no JSON. Whatever else is none is refused again. */
    const bool is_value = status == COFFER_ERR_TYPE || status == COFFER_ERR_JSON;
    const bool loose = job->fixes && is_value && !job->loose;
    job->loose = job->loose || loose;
    return loose;
}

/* A file that is to be fixed is read again for each of its faults: there are two kinds. What is another fault after all is
   reported by the last reading. Who fixes has an error to fill. */
static coffer_status edit_read_header(edit_job *job, coffer_error *err)
{
    coffer_status status = edit_read_header_once(job, err);
    while (edit_accepts(job, status, err)) {
        status = edit_read_header_once(job, err);
    }
    return status;
}

/* How many bytes of a head of `head_size` belong to the header itself, without the frame before it. */
static uint64_t edit_header_part(const edit_job *job, uint64_t head_size)
{
    return head_size - job->text.format->header_at;
}

/* The parser would refuse such a header too, but with a message about a bad file; here the file is
   fine and the edit is not. The limit is about the header alone, as in coffer_parse_options: the
   frame before it is not counted. */
static coffer_status edit_check_limit(const edit_job *job, uint64_t head_size, coffer_error *err)
{
    const uint64_t given = job->options.max_header_size;
    const uint64_t limit = given != 0 ? given : COFFER_DEFAULT_MAX_HEADER_SIZE;
    const uint64_t header_size = edit_header_part(job, head_size);
    if (header_size <= limit) {
        return COFFER_OK;
    }
    coffer__fail(err, COFFER_ERR_HEADER_TOO_LARGE,
                 "the new header would have %u bytes, more than the limit of %u, and readers would "
                 "refuse it: the file was not changed",
                 header_size, limit);
    return coffer__fail_sizes(err, COFFER_ERR_HEADER_TOO_LARGE, limit, header_size);
}

/* Makes the head of the new file, of `head_size` bytes, and parses it as a reader would. A head
   that the parser refuses is never written, so an edit cannot break a file, whatever the edits
   are. The buffer stays in job->fresh, also after a refusal, and the caller may make another
   one only after edit_forget_fresh. The table of the new head is freed at once: only the
   verdict is needed. */
static coffer_status edit_make_head(edit_job *job, uint64_t head_size, coffer_error *err)
{
    const coffer_status fits = edit_check_limit(job, head_size, err);
    if (fits != COFFER_OK) {
        return fits;
    }
    job->fresh = head_size > SIZE_MAX ? NULL : coffer__alloc(&job->allocator, (size_t)head_size);
    if (job->fresh == NULL) {
        return edit_out_of_header_memory(err);
    }
    job->fresh_size = (size_t)head_size;
    coffer__edit_text_write(&job->text, job->fresh, job->fresh_size);
    uint64_t need = 0;
    coffer_table *table = NULL;
    const uint64_t file_size = head_size + coffer_table_data_size(job->table);
    const coffer_status status = edit_parse(job, &table, &need, job->fresh, job->fresh_size, file_size, false, err);
    coffer_table_free(table);
    return status;
}

/* ---- the digest of the metadata ---------------------------------------------------------------------------------- */

/* All edits are looked at, because the last one of a key wins. Edits are few, so a search that
   sorts nothing is fast enough. */
bool coffer__edit_names(const coffer_edit *edits, size_t count, const char *key, size_t key_len,
                        const coffer_edit **found)
{
    *found = NULL;
    for (size_t i = 0; i < count; i++) {
        if (coffer__compare_names(edits[i].key, edits[i].key_len, key, key_len) == 0) {
            *found = &edits[i];
        }
    }
    return *found != NULL;
}

static bool edit_names(const coffer_edit *edits, size_t count, const char *key, const coffer_edit **found)
{
    return coffer__edit_names(edits, count, key, strlen(key), found);
}

/* Finds the algorithm by which the new metadata must be hashed. There is none if the file records
   no digests, if they are of an unknown kind, or if the caller sets the digest itself. Metadata
   that do not match their recorded digest make the edit fail: a new digest would make a damaged
   file look intact. The order of the three questions matters: what the caller states explicitly
   wins over what the file records, and only a digest that would be replaced is checked. */
static coffer_status edit_digest_algorithm(const edit_job *job, const coffer_edit *edits, size_t count,
                                           coffer_algorithm *algorithm, coffer_error *err)
{
    const coffer_edit *edit = NULL;
    size_t base64_at = 0;
    *algorithm = COFFER_NO_ALGORITHM;
    /* The caller sets the digest: whatever it is, it is not replaced. */
    if (edit_names(edits, count, COFFER_METADATA_DIGEST_KEY, &edit)) {
        return COFFER_OK;
    }
    /* The caller sets new digests of the tensors, so their algorithm counts and not the old one. */
    if (edit_names(edits, count, COFFER_DIGESTS_KEY, &edit)) {
        *algorithm = edit->value == NULL ? COFFER_NO_ALGORITHM
                                         : coffer__record_text_algorithm(edit->value, edit->value_len, &base64_at);
        return COFFER_OK;
    }
    /* The file keeps its digests. If it has none that can be used, there is nothing to keep true. */
    if (coffer__table_algorithm(job->table, algorithm, NULL) != COFFER_OK) {
        return COFFER_OK;
    }
    coffer_hasher *hasher = NULL;
    coffer_status status = coffer_hasher_new(&hasher, *algorithm, &job->allocator, err);
    if (status == COFFER_OK) {
        status = coffer__recorded_metadata(hasher, job->table, err);
    }
    coffer_hasher_free(hasher);
    return status;
}

/* Plans the new text. The digest of the metadata is updated with them. If the edits remove the
   digests of the tensors, it is removed too. The text without a digest is planned first in any
   case, since the digest is made of it. The digest's text is in job->digest, because the plan
   borrows the strings of its pairs. */
static coffer_status edit_plan(edit_job *job, const coffer_edit *edits, size_t count, coffer_error *err)
{
    const coffer_edit *edit = NULL;
    coffer_algorithm algorithm = COFFER_NO_ALGORITHM;
    coffer_status status = coffer__edit_text_plan(&job->text, job->table, job->old, edits, count, job->renames, err);
    if (status == COFFER_OK) {
        status = edit_digest_algorithm(job, edits, count, &algorithm, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    /* Without an algorithm, and with the digests of the tensors not removed, there is nothing to update. */
    const bool removed = edit_names(edits, count, COFFER_DIGESTS_KEY, &edit) && edit->value == NULL;
    if (algorithm == COFFER_NO_ALGORITHM && !removed) {
        return COFFER_OK;
    }
    return coffer__edit_text_add_digest(&job->text, job->table, edits, count, job->renames, algorithm, job->digest,
                                        err);
}

/* ---- ways that keep the header's length -------------------------------------------------------------------------- */

/* Both texts have the size of the old head, which is what allows a patch: nothing after it moves.
   Borrowed from the job. */
static coffer__patch edit_patch(const edit_job *job)
{
    const coffer__patch patch = {
        .file_size = job->info.size, .old = job->old, .fresh = job->fresh, .size = job->old_size
    };
    return patch;
}

/* Writes the bytes of the header from `first` to `end` into the clone, and makes everything about
   the clone final before it gets the file's name: contents, owner, mode, and durability. The order
   protects against a file that is visible with the wrong rights: the clone is created for its owner
   alone, and gets the rights of the old file only when its bytes are complete. Syncing before the
   rename means that after a power cut the name leads to the old file or to the whole new one.
   Returns 0 or an errno. */
static int edit_clone_fill(const edit_job *job, coffer__temporary *clone, size_t first, size_t end)
{
    int os_error = coffer__os_write_at(clone->fd, first, job->fresh + first, end - first);
    if (os_error == 0) {
        os_error = coffer__os_take_owner_and_mode(clone->fd, &job->info, job->path.text);
    }
    if (os_error == 0 && job->options.sync != COFFER_SYNC_NEVER) {
        os_error = coffer__os_sync(clone->fd);
    }
    return os_error == 0 ? coffer__temporary_settle(clone) : os_error;
}

/* The name that a new file gets. */
static const char *edit_target(const edit_job *job)
{
    return job->aside != NULL ? job->aside->fresh : job->path.text;
}

/* Makes the rename durable, which is a change of the directory and not of the file. Only
   COFFER_SYNC_ALWAYS asks for it: without it a power cut may bring the old file back, which is
   whole. */
static int edit_sync_names(const edit_job *job)
{
    coffer__path directory;
    return coffer__path_directory(&directory, job->path.text) ? coffer__os_sync_directory(directory.text)
                                                              : ENAMETOOLONG;
}

/* Gives the clone its header and then the file's name. *done tells whether it worked. If renaming
   is not possible, nothing has happened and the next way may be tried. If a program has replaced
   the file since it was locked, the edit fails, as the clone is of the old one. The clone is
   discarded on every path: after a rename it has no temporary name any more, and discarding only
   closes it. If only the last sync fails, the new file is in place already, and the message says
   that it is finished. The old file keeps its lock until edit_close; an editor that had opened it
   before, and locks it then, sees by the inode that it was replaced. */
static coffer_status edit_place_clone(const edit_job *job, coffer__temporary *clone, size_t first, size_t end,
                                      bool *done, coffer_error *err)
{
    int os_error = edit_clone_fill(job, clone, first, end);
    if (os_error != 0) {
        coffer__temporary_discard(clone);
        return coffer__errno_status(err, "write the header into a clone of the file", NULL, os_error);
    }
    bool changed = false;
    os_error = job->aside != NULL ? coffer__temporary_replace(clone, job->aside->fresh, true)
                                  : coffer__temporary_replace_only(clone, job->path.text, &job->info, true, &changed);
    *done = os_error == 0;
    coffer__temporary_discard(clone);
    if (changed) {
        return edit_lost_its_place("nothing was edited", err);
    }
    if (!*done || job->options.sync != COFFER_SYNC_ALWAYS) {
        return COFFER_OK;
    }
    os_error = edit_sync_names(job);
    return os_error == 0 ? COFFER_OK : coffer__errno_status(err, "make the finished edit durable", NULL, os_error);
}

/* Clones the whole file and changes only the bytes that differ, so the data is shared and not
   copied. *done tells whether it worked; if cloning or renaming is not possible, nothing has
   happened. A crash before the rename leaves at most a temporary file, and the file itself
   untouched. The changed range is the smallest that holds all differences, so that the file system
   has few blocks to unshare. */
static coffer_status edit_by_clone(const edit_job *job, bool *done, coffer_error *err)
{
    coffer__temporary clone;
    const coffer__patch patch = edit_patch(job);
    size_t first = 0;
    size_t end = 0;
    *done = false;
    if (coffer__temporary_open(&clone, edit_target(job), true) != 0) {
        return COFFER_OK;
    }
    if (coffer__os_clone(job->fd, clone.fd) != 0) {
        coffer__temporary_discard(&clone);
        return COFFER_OK;
    }
    coffer__patch_changes(&patch, &first, &end);
    return edit_place_clone(job, &clone, first, end, done, err);
}

/* The edit fits into the header. A clone comes first, because it is atomic for readers. In place,
   the undo file protects against a crash, and the path is checked before and after: if a program
   saved over it in between, the edit went to the old file and is lost, and the caller has to know.
   If the undo file cannot be written, nothing is overwritten. A crash during the overwriting leaves
   the undo file, which readers notice and coffer_recover applies. The second look at the path comes
   after the undo file is gone, so a lost edit leaves nothing to recover. */
static coffer_status edit_within_header(edit_job *job, coffer_edit_way *way, coffer_error *err)
{
    /* The head keeps its size, so that the data stay where they are. */
    coffer_status status = edit_make_head(job, job->old_size, err);
    if (status != COFFER_OK) {
        return status;
    }
    bool done = false;
    /* A clone would take only one of several names along. All names of a file must see the edit, so then it is done
       in place. */
    if (job->info.links == 1) {
        status = edit_by_clone(job, &done, err);
    }
    if (done || status != COFFER_OK) {
        *way = COFFER_EDITED_CLONE;
        return status;
    }
    *way = COFFER_EDITED_IN_PLACE;
    if (edit_has_lost_its_place(job)) {
        return edit_lost_its_place("nothing was edited", err);
    }
    const coffer__patch patch = edit_patch(job);
    if (job->aside != NULL) {
        return coffer__patch_prepare(job->fd, job->path.text, job->aside->head, &patch, err);
    }
    status = coffer__patch_apply(job->fd, job->path.text, &patch, err);
    return status == COFFER_OK && edit_has_lost_its_place(job)
               ? edit_lost_its_place("the edit was lost with the old one", err)
               : status;
}

/* ---- ways that move the data by whole blocks --------------------------------------------------------------------- */

/* The sizes are bounded before they are added up, so a slack near 2^64 is refused here and does not
   wrap around. */
static coffer_status edit_too_much_slack(uint64_t slack, coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_HEADER_TOO_LARGE, "a slack of %u bytes is more than any header has", slack);
}

/* In bytes. 0 in the options means the default and not "none". */
static uint64_t edit_slack(const edit_job *job)
{
    return job->options.slack != 0 ? job->options.slack : EDIT_DEFAULT_SLACK;
}

/* By how much the data moves so that the new header and the slack fit before it, in whole blocks;
   false if no header is that long. It is at least one block, so that the result always has more
   space than before. The bound of a quarter of 2^64 leaves space for the rounding and for the size of
   the data that is added later. */
static bool edit_shift(const edit_job *job, uint64_t *shift)
{
    uint64_t end = 0;
    if (!coffer__add_u64(job->text.size, edit_slack(job), &end) || end > UINT64_MAX / 4) {
        return false;
    }
    const uint64_t lacking = end > job->old_size ? end - job->old_size : 1;
    return coffer__round_up_u64(lacking, EDIT_BLOCK_SIZE, shift);
}

/* Replaces the file with a new one that shares the blocks of the data, placed `shift` bytes further
   on. The block where the old header ends and the data begins is shared whole, so sharing starts at
   the block boundary at or before the data; the bytes of the old header in it are overwritten by
   the new head. *done as above. A file with several names is left to the next way, as in
   edit_within_header. The data is shared first and the head made only then: most file systems
   cannot share blocks, and for them no head is built in vain. The space between the head and the
   data needs no bytes, because the head is padded up to the data. Failures before the rename leave
   the old file. */
static coffer_status edit_by_shared_blocks(edit_job *job, bool *done, coffer_error *err)
{
    coffer__temporary clone;
    uint64_t shift = 0;
    /* Blocks are shared whole, so sharing begins at the boundary before the data. */
    const uint64_t from = job->old_size / EDIT_BLOCK_SIZE * EDIT_BLOCK_SIZE;
    *done = false;
    if (job->info.links != 1 || !edit_shift(job, &shift) ||
        coffer__temporary_open(&clone, edit_target(job), true) != 0) {
        return COFFER_OK;
    }
    if (coffer__os_clone_range(job->fd, from, clone.fd, from + shift) != 0) {
        coffer__temporary_discard(&clone);
        return COFFER_OK;
    }
    const coffer_status status = edit_make_head(job, job->old_size + shift, err);
    if (status != COFFER_OK) {
        coffer__temporary_discard(&clone);
        return status;
    }
    return edit_place_clone(job, &clone, 0, job->fresh_size, done, err);
}

/* EAGAIN means that a program has the file open: a lease is refused then. Any other failure
   means that this cannot be known. Both mean that inserting is not safe, and both leave the
   file untouched. They have different codes because only the first may succeed when it is tried
   again. */
static coffer_status edit_not_claimed(int os_error, coffer_error *err)
{
    return os_error == EAGAIN ? coffer__fail(err, COFFER_ERR_LOCKED,
                                             "another program, or this one, has the file open, and inserting room "
                                             "would move its tensors: close the file, or allow a rewrite")
                              : coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                                             "cannot tell whether somebody has the file open (the file is not this "
                                             "user's, or the system has no leases): allow a rewrite");
}

/* Releases a header that was made for a way that did not work, before the next way makes its own. */
static void edit_forget_fresh(edit_job *job)
{
    coffer__free(&job->allocator, job->fresh, job->fresh_size);
    job->fresh = NULL;
    job->fresh_size = 0;
}

/* Releases everything that was read and planned, before the header is read again. job->old stays:
   edit_read_first replaces it. */
static void edit_forget_header(edit_job *job)
{
    coffer__edit_text_free(&job->text);
    coffer_table_free(job->table);
    job->table = NULL;
    edit_forget_fresh(job);
}

/* Inserts blocks at the beginning of the file. Its metadata stay the same; only the slack grows.
   `inserted` is what the insertion alone makes of the first bytes: zeros, then the old head.
   `job->fresh`, the old head with more slack, is then written over them. Until that is done the
   undo file has both texts, so that recovery can finish it. The edit itself comes afterwards, so
   that recovery from a crash here gives the file that was, with more slack, and never half an edit.
   The patch's sizes are those after the insertion, in bytes, and its `old` is the text to restore:
   see coffer__patch_insert. */
static coffer_status edit_put_capacity_in(edit_job *job, uint64_t shift, coffer_error *err)
{
    coffer__edit_text_free(&job->text);
    coffer_status status = coffer__edit_text_plan(&job->text, job->table, job->old, NULL, 0, NULL, err);
    if (status == COFFER_OK) {
        status = edit_make_head(job, job->old_size + shift, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    uint8_t *inserted = coffer__alloc_zeroed(&job->allocator, job->fresh_size);
    if (inserted == NULL) {
        return edit_out_of_header_memory(err);
    }
    memcpy(inserted + shift, job->old, job->old_size);
    const coffer__patch patch = {
        .file_size = job->info.size + shift, .old = job->fresh, .fresh = inserted, .size = job->fresh_size
    };
    status = coffer__patch_insert(job->fd, job->path.text, &patch, shift, err);
    coffer__free(&job->allocator, inserted, job->fresh_size);
    return status;
}

/* Planning on what is read from the file again, and not on what was in memory, makes the second
   half of an insertion the same code as an edit of any file. */
static coffer_status edit_read_and_plan(edit_job *job, const coffer_edit *edits, size_t count, coffer_error *err)
{
    const coffer_status status = edit_read_header(job, err);
    return status == COFFER_OK ? edit_plan(job, edits, count, err) : status;
}

static coffer_status edit_look_again(edit_job *job, coffer_error *err)
{
    const int os_error = coffer__os_inspect_fd(job->fd, &job->info);
    return os_error == 0 ? COFFER_OK : coffer__errno_status(err, "examine the file", NULL, os_error);
}

/* Moves the data while nobody else has the file open, since a reader with an open descriptor would
   see its tensors move. Then the header is read again and the edit is done within it. The claim
   lasts until both are complete. Whatever happens between, the claim is released at the end. If the
   edit fails after the space was made, the file is whole, has its old metadata and more slack, and
   the next edit fits. */
static coffer_status edit_by_insert(edit_job *job, const coffer_edit *edits, size_t count, coffer_error *err)
{
    uint64_t shift = 0;
    coffer_edit_way within = COFFER_EDITED_NOTHING;
    if (!edit_shift(job, &shift)) {
        return edit_too_much_slack(edit_slack(job), err);
    }
    /* A lease tells that nobody else has the file open, and delays every open until coffer__os_claim_release. */
    const int os_error = coffer__os_claim(job->fd);
    if (os_error != 0) {
        return edit_not_claimed(os_error, err);
    }
    coffer_status status = edit_put_capacity_in(job, shift, err);
    if (status == COFFER_OK) {
        /* The file has another size, other times and another header now; its tensors and its other metadata are the
           same. What is compared with the file from here on is the file as this edit left it. */
        edit_forget_header(job);
        status = edit_look_again(job, err);
    }
    if (status == COFFER_OK) {
        status = edit_read_and_plan(job, edits, count, err);
    }
    if (status == COFFER_OK) {
        status = edit_within_header(job, &within, err);
    }
    coffer__os_claim_release(job->fd);
    return status;
}

/* ---- rewriting --------------------------------------------------------------------------------------------------- */

/* Copies the data to its place in the new file, with whatever the system offers for that
   (coffer__land_in_sink). The source duplicates the descriptor, and reads by offset, so the job's
   own descriptor keeps the lock and its position does not matter. It is closed before the caller
   publishes or discards the sink. */
static coffer_status edit_move_data(edit_job *job, coffer__byte_sink *sink, coffer_error *err)
{
    /* The head is written before the data, so it counts as done. */
    coffer__parts parts = { .before = job->fresh_size };
    coffer__transfer_options options = {
        .allocator = &job->allocator,
        .progress = job->options.progress,
        .progress_ctx = job->options.progress_ctx,
    };
    coffer__byte_source source;
    coffer_status status = coffer__source_fd(&source, job->fd, err);
    if (status != COFFER_OK) {
        return status;
    }
    const coffer__transfer_op row = {
        .source = &source, .offset = job->old_size, .at = job->fresh_size, .size = coffer_table_data_size(job->table)
    };
    parts.total = parts.before + row.size;
    coffer__parts_begin(&parts, &options.progress, &options.progress_ctx);
    status = coffer__land_in_sink(sink, &row, 1, &options, err);
    source.ops->close(&source);
    return status;
}

/* Fills the new file. If the data has holes, space is not reserved up front, so that the holes stay
   holes. Reserving comes first: a disk that is too full is reported before hours of copying. The
   head is written before the data, but nobody sees the file until it is published, so the order
   does not matter to readers. */
static coffer_status edit_fill_sink(edit_job *job, coffer__byte_sink *sink, coffer_error *err)
{
    sink->sparse = sink->keeps_holes && coffer__os_next_hole(job->fd, job->old_size) != UINT64_MAX;
    coffer_status status = sink->ops->reserve(sink, job->fresh_size + coffer_table_data_size(job->table), err);
    if (status == COFFER_OK) {
        status = sink->ops->write_at(sink, 0, job->fresh, job->fresh_size, err);
    }
    return status == COFFER_OK ? edit_move_data(job, sink, err) : status;
}

/* The alignment that the data has in the file, as far as it is worth keeping. In bytes, a power of
   two from EDIT_SMALLEST_ALIGNMENT to EDIT_LARGEST_ALIGNMENT. A file whose data happened to begin
   at a page boundary keeps that for programs that map it. */
static uint64_t edit_alignment(uint64_t data_offset)
{
    uint64_t alignment = EDIT_LARGEST_ALIGNMENT;
    while (alignment > EDIT_SMALLEST_ALIGNMENT && data_offset % alignment != 0) {
        alignment /= 2;
    }
    return alignment;
}

/* Tells the user how much there is to do before anything is written. Rewriting is the only way that
   may take long, so it is the only one that asks first. Saying no leaves the file untouched. */
static coffer_status edit_announce(const edit_job *job, coffer_error *err)
{
    const uint64_t total = job->fresh_size + coffer_table_data_size(job->table);
    return job->options.progress == NULL || job->options.progress(job->options.progress_ctx, 0, total) == 0
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_CANCELLED, "cancelled by the caller before anything was written");
}

/* Writes a new file and replaces the old one with it. coffer__sink_path_only makes the replacement
   fail if the path leads to another file by then. Exactly one of `publish` and `discard` is called
   once the sink is open. Until it is published the new file is hidden, so a crash leaves the old
   file; the locked descriptor stays open until edit_close, and other editors are kept out for all
   of the copying. */
static coffer_status edit_by_rewrite(edit_job *job, coffer_error *err)
{
    const uint64_t slack = edit_slack(job);
    uint64_t end = 0;
    const bool fits = coffer__add_u64(job->text.size, slack, &end) &&
                      coffer__round_up_u64(end, edit_alignment(job->old_size), &end) && end <= UINT64_MAX / 4;
    if (!fits) {
        return edit_too_much_slack(slack, err);
    }
    coffer_status status = edit_make_head(job, end, err);
    if (status == COFFER_OK) {
        status = edit_announce(job, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    coffer__byte_sink sink;
    status = coffer__sink_path(&sink, &job->allocator, edit_target(job), job->options.sync, false, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (job->aside == NULL) {
        coffer__sink_path_only(&sink, &job->info);
    }
    status = edit_fill_sink(job, &sink, err);
    if (status != COFFER_OK) {
        sink.ops->discard(&sink);
        return status;
    }
    return sink.ops->publish(&sink, err);
}

/* ---- bytes after the data ---------------------------------------------------------------------------------------- */

static uint64_t edit_trailing(const edit_job *job)
{
    return job->end < job->info.size ? job->info.size - job->end : 0;
}

/* What the bytes look like, as far as the first of them tell; only for zeros all are looked at. What cannot be read looks like
   nothing. */
static void edit_look_at_trailing(const edit_job *job, coffer__edit_reported *reported)
{
    uint8_t bytes[4096];
    uint64_t at = job->end;
    size_t done = 0;
    reported->trailing = edit_trailing(job);
    reported->looks = COFFER_OK;
    if (reported->trailing == 0 || coffer__os_read_at(job->fd, at, bytes, sizeof bytes, &done) != 0) {
        return;
    }
    reported->tensors = done > 8 && coffer__load_u64le(bytes) <= reported->trailing && bytes[8] == '{';
    reported->looks = coffer__sniff(bytes, done, NULL);
    bool zeros = true;
    while (zeros && done > 0) {
        for (size_t i = 0; i < done && zeros; i++) {
            zeros = bytes[i] == 0;
        }
        at += done;
        zeros = zeros && coffer__os_read_at(job->fd, at, bytes, sizeof bytes, &done) == 0;
    }
    reported->looks = zeros                                    ? COFFER_ERR_IS_ZEROS
                      : reported->looks == COFFER_ERR_IS_ZEROS ? COFFER_OK
                                                               : reported->looks;
}

/* Cuts the file where its data end. A crash leaves all tensors, and all, some or none of the bytes after them: so nothing has
   to be written down before. What is compared with the file from here on is the file as it is then. */
static coffer_status edit_cut(edit_job *job, coffer_error *err)
{
    if (edit_has_lost_its_place(job)) {
        return edit_lost_its_place("nothing was edited", err);
    }
    int os_error = coffer__os_truncate(job->fd, job->end);
    os_error = os_error == 0 ? coffer__os_sync(job->fd) : os_error;
    return os_error == 0 ? edit_look_again(job, err)
                         : coffer__errno_status(err, "cut the file where its data end", NULL, os_error);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* The sizes are those of the header without its frame, in bytes, as the limit counts them. */
static coffer_status edit_no_slack(const edit_job *job, coffer_error *err)
{
    const uint64_t wanted = edit_header_part(job, job->text.size);
    const uint64_t capacity = edit_header_part(job, job->old_size);
    coffer__fail(
        err, COFFER_ERR_NO_SLACK,
        "the new header needs %u bytes and the file has room for %u: allow a rewrite, which leaves room for the next "
        "edit, or remove other keys",
        wanted, capacity);
    return coffer__fail_sizes(err, COFFER_ERR_NO_SLACK, wanted, capacity);
}

/* The header has no space, or the file itself must not be written to. Sharing blocks is tried first
   because it copies no data. It may have made a head before it failed, whose size is not that of a
   rewrite, so that one is dropped. */
static coffer_status edit_with_more_capacity(edit_job *job, coffer_edit_way *way, coffer_error *err)
{
    if (job->options.mode == COFFER_EDIT_AUTO) {
        bool done = false;
        const coffer_status status = edit_by_shared_blocks(job, &done, err);
        if (done || status != COFFER_OK) {
            *way = COFFER_EDITED_CLONE;
            return status;
        }
        edit_forget_fresh(job);
    }
    *way = COFFER_EDITED_REWRITE;
    return edit_by_rewrite(job, err);
}

/* In bytes. Known once the text is planned. */
static uint64_t edit_lacking(const edit_job *job)
{
    return job->text.size > job->old_size ? job->text.size - job->old_size : 0;
}

/* Reads, plans, and tells what there is to do. Nothing is written. */
static coffer_status edit_read_and_tell(edit_job *job, const coffer_edit *edits, size_t count,
                                        coffer__edit_reported *reported, coffer_error *err)
{
    const coffer_status status = edit_read_and_plan(job, edits, count, err);
    reported->lacking = edit_lacking(job);
    reported->loose = job->loose;
    if (status == COFFER_OK) {
        edit_look_at_trailing(job, reported);
    }
    return status;
}

/* Chooses the way: see the top of this file for the order. A file that has these metadata already
   is not touched, unless a rewrite was asked for. `way` is set before the work is done, and
   coffer__edit_only hands it out only after success. */
static coffer_status edit_run(edit_job *job, const coffer_edit *edits, size_t count, coffer__edit_reported *reported,
                              coffer_error *err)
{
    coffer_edit_way *way = &reported->way;
    coffer_status status = edit_read_and_tell(job, edits, count, reported, err);
    if (status == COFFER_OK && edit_trailing(job) > 0 && job->by_new_file) {
        job->options.mode = COFFER_EDIT_REWRITE; /* which copies the data and no more */
    } else if (status == COFFER_OK && edit_trailing(job) > 0) {
        *way = COFFER_EDITED_IN_PLACE;
        status = edit_cut(job, err);
    }
    if (status != COFFER_OK || (job->text.same && !job->loose && job->options.mode != COFFER_EDIT_REWRITE)) {
        return status;
    }
    /* The new head fits where the old one is; the rest of it becomes padding. */
    const bool has_capacity = job->text.size <= job->old_size;
    if (has_capacity && job->options.mode != COFFER_EDIT_REWRITE && !job->by_new_file) {
        return edit_within_header(job, way, err);
    }
    if (job->options.insert && job->options.mode != COFFER_EDIT_REWRITE) {
        *way = COFFER_EDITED_INSERT;
        return edit_by_insert(job, edits, count, err);
    }
    return job->options.mode == COFFER_EDIT_IN_PLACE ? edit_no_slack(job, err) : edit_with_more_capacity(job, way, err);
}

/* An undo file beside the file means that an earlier edit was interrupted. The header may then
   be half old and half new, so an edit fails until that is repaired. It is looked for under the
   lock: before that, it might belong to an editor that is still at work. Every failure from
   edit_open on is reported with the path that the caller gave, which may be a link to the file
   that was edited. */
coffer_status coffer__edit_only(const char *path, const coffer__edit_wanted *wanted, const coffer_edit_options *options,
                                coffer__edit_reported *reported, coffer_error *err)
{
    edit_job job;
    *reported = (coffer__edit_reported){ .way = COFFER_EDITED_NOTHING };
    coffer_status status = edit_init(&job, path, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    job.only = wanted->only;
    job.renames = wanted->renames;
    job.aside = wanted->aside;
    job.fixes = wanted->fixes;
    status = edit_open(&job, path, err);
    if (status == COFFER_OK && coffer__undo_look(job.path.text) == COFFER__UNDO_COUNTS) {
        status = coffer__undo_fail(err, path);
    }
    if (status == COFFER_OK) {
        status = edit_run(&job, wanted->edits, wanted->count, reported, err);
    }
    edit_close(&job);
    return status == COFFER_OK ? COFFER_OK : coffer__fail_path(err, status, path);
}

/* The file is only read, and so need not be one that may be edited. */
static coffer_status edit_open_to_read(edit_job *job, const char *path, coffer_error *err)
{
    int os_error = coffer__os_open(path, COFFER__OS_READ, false, &job->fd);
    os_error = os_error == 0 ? coffer__os_inspect_fd(job->fd, &job->info) : os_error;
    if (os_error != 0) {
        return coffer__errno_status(err, "read the file's header", NULL, os_error);
    }
    return edit_is_wanted(job, err);
}

/* Without a lock an editor may come in between; then a later edit fails, or finds that it needs other room. */
coffer_status coffer__edit_measure(const char *path, const coffer__edit_wanted *wanted,
                                   const coffer_edit_options *options, coffer__edit_reported *reported,
                                   coffer_error *err)
{
    edit_job job;
    *reported = (coffer__edit_reported){ .way = COFFER_EDITED_NOTHING };
    coffer_status status = edit_init(&job, path, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    job.only = wanted->only;
    job.renames = wanted->renames;
    job.fixes = wanted->fixes;
    status = edit_open_to_read(&job, path, err);
    if (status == COFFER_OK) {
        status = edit_read_and_tell(&job, wanted->edits, wanted->count, reported, err);
    }
    edit_close(&job);
    return status == COFFER_OK ? COFFER_OK : coffer__fail_path(err, status, path);
}

/* The public entry: it edits whatever file has the name at that moment. */
coffer_status coffer_edit_metadata(const char *path, const coffer_edit *edits, size_t count,
                                   const coffer_edit_options *options, coffer_edit_way *way, coffer_error *err)
{
    coffer__edit_reported reported;
    const coffer__edit_wanted wanted = { .edits = edits, .count = count };
    const coffer_status status = coffer__edit_only(path, &wanted, options, &reported, err);
    if (status == COFFER_OK && way != NULL) {
        *way = reported.way;
    }
    return status;
}

/* Repeating it does no harm: each of the two recoveries finds out by itself what there is to do.
   Recovering a save needs no lock of a file, as the commit locks the folder; recovering an
   edit takes the lock that every editor takes. */
coffer_status coffer_recover(const char *path, const coffer_edit_options *options, coffer_error *err)
{
    edit_job job;
    coffer_status status = edit_init(&job, path, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    job.options.read_only = false; /* the old header goes back into the file itself */
    /* A save is recovered before an edit. A file with the name of a save that does not count is ignored only if
       there is an edit to recover; otherwise recovering the save reports it. */
    const coffer__interrupted interrupted = coffer__pending_save_interrupted(path);
    if (interrupted == COFFER__INTERRUPTED_SAVE ||
        (interrupted == COFFER__INTERRUPTED_STRANGE && coffer__undo_look(path) != COFFER__UNDO_COUNTS)) {
        return coffer__commit_recover(path, &job.allocator, err);
    }
    status = edit_open(&job, path, err);
    if (status == COFFER_OK) {
        status = coffer__patch_recover(job.fd, job.path.text, &job.allocator, err);
    }
    edit_close(&job);
    return status == COFFER_OK ? COFFER_OK : coffer__fail_path(err, status, path);
}
