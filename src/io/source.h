/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source: random-access bytes, and for some the ability to show them in memory. It knows nothing of tensors.
 * One file each: source_memory.c, source_file.c, source_custom.c, and in net source_http.c.
 *
 * read_at fills all of `size` bytes or fails; the range lies within the source (coffer__source_read sees to it). It may be
 * called from any number of threads at once. A file that has become shorter is COFFER_ERR_CHANGED. map returns the address of
 * the source's byte 0, valid until close, and is called at most once, for any access but COFFER_READ; never NULL, except with
 * *err filled when it cannot be done. Failures do not carry the path: who opened the source knows it. borrow and give_back are
 * NULL but for files: a descriptor to copy from, and where the source's byte 0 is in it, until it is given back.
 * read_watched is NULL where a read cannot take long; else it is read_at, and asks the watch while it waits. Such a source is read
 * in few and large pieces. stream is there where read_watched is: it hands the range on as it comes, each byte once and in order, so
 * that it may be of any length; a taker that wants no more makes it COFFER_ERR_CANCELLED.
 */
#ifndef COFFER_IO_SOURCE_H
#define COFFER_IO_SOURCE_H

#include "coffer.h"
#include "os.h"
#include "pool.h"

typedef struct coffer__source coffer__source;

/* Asked now and then, by the thread that waits, whether what it waits for is still wanted: every so many milliseconds, at least. */
#define COFFER__WATCH_MS 100
typedef struct coffer__watch {
    bool (*stop)(void *ctx); /* true: the read fails with COFFER_ERR_CANCELLED */
    void *ctx;
} coffer__watch;

/* Takes bytes in their order, as they come; false: no more of them are wanted. */
typedef struct coffer__taker {
    bool (*take)(void *ctx, const uint8_t *bytes, size_t size);
    void *ctx;
} coffer__taker;

typedef struct coffer__source_ops {
    coffer_status (*read_at)(const coffer__source *source, uint64_t offset, void *buffer, size_t size,
                             coffer_error *err);
    void *(*map)(coffer__source *source, coffer_access access, bool populate, coffer_error *err);
    void (*close)(coffer__source *source);
    coffer_status (*borrow)(const coffer__source *source, int *fd, uint64_t *offset, coffer_error *err);
    void (*give_back)(const coffer__source *source);
    bool far; /* a read may be a journey, however little it asks for: better one than many */
    coffer_status (*read_watched)(const coffer__source *source, uint64_t offset, void *buffer, size_t size,
                                  const coffer__watch *watch, coffer_error *err);
    coffer_status (*stream)(const coffer__source *source, uint64_t offset, uint64_t size, const coffer__taker *taker,
                            const coffer__watch *watch, coffer_error *err);
} coffer__source_ops;

typedef struct coffer__source_file {
    int fd;
    coffer__pooled *pooled; /* whose descriptor it is; NULL: it is the source's own */
    uint64_t offset;        /* of the source's byte 0 in the file */
    coffer__os_info seen;   /* the whole file, when it was opened */
    coffer__os_map map;
    bool through_link; /* the path was a symbolic link */
    bool doubted;      /* a stranger's undo file lies beside it: the times alone tell whether it is being edited */
} coffer__source_file;

struct coffer__source {
    const coffer__source_ops *ops;
    uint64_t size; /* in bytes */
    union {
        const void *memory;
        coffer__source_file file;
        coffer_source custom;
        struct coffer__source_http *http;
    } as;
};

/* Each fills *source. Close with source->ops->close(source), also after a failure of anything later. */
void coffer__source_memory(coffer__source *source, const void *bytes, size_t size);
void coffer__source_custom(coffer__source *source, const coffer_source *custom);
/* Opens a regular file or block device to read. Says what the path is when it is something else, and fails with
   COFFER_ERR_UNDO while the undo file of an edit lies beside it. */
coffer_status coffer__source_path(coffer__source *source, const char *path, coffer_error *err);
/* The same for a file whose descriptor a pool looks after. The path is absolute and no link. `file` stays where it is until
   the source is closed. */
coffer_status coffer__source_pooled(coffer__source *source, coffer__pool *pool, coffer__pooled *file, const char *path,
                                    coffer_error *err);
/* Looks for the undo file once more, when the header was read: an edit that began meanwhile may have been seen half-done. The
   source may be closed by then. That is no proof of the contrary: see coffer__source_is_still. */
coffer_status coffer__source_path_again(const coffer__source *source, const char *path, coffer_error *err);
/* Whether the file's times show that nobody wrote to it since it was opened, or since this was asked last; what they are now is
   kept, and the size of a file that is read as a whole. A source that is no regular file never changes. */
bool coffer__source_is_still(coffer__source *source);
/* The file as it was looked at; NULL: the source is none. */
const coffer__os_info *coffer__source_seen(const coffer__source *source);
/* Whether the file was changed so shortly before it was looked at that its times will not show another change. */
bool coffer__source_is_fresh(const coffer__source *source);
/* Whether somebody whom this user need not believe may be editing the file. */
bool coffer__source_is_doubted(const coffer__source *source);
/* Whether the source is a file with holes, as far as that can be told without reading it. */
bool coffer__source_has_holes(const coffer__source *source);
/* A range of a descriptor, which is duplicated; `size` UINT64_MAX: to its end. */
coffer_status coffer__source_fd(coffer__source *source, int fd, uint64_t offset, uint64_t size, coffer_error *err);
/* read_at, after checking the range. */
coffer_status coffer__source_read(const coffer__source *source, uint64_t offset, void *buffer, size_t size,
                                  coffer_error *err);
/* The same for a read that may be given up; `watch` may be NULL. */
coffer_status coffer__source_read_watched(const coffer__source *source, uint64_t offset, void *buffer, size_t size,
                                          const coffer__watch *watch, coffer_error *err);

#endif
