/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source: random-access bytes of a size that is known. It knows nothing of tensors, and whoever uses one does not
 * know its kind: a source says of itself what matters (coffer__source_traits), and whoever reads decides by that alone.
 * A new kind is one file with a table of functions and one function that fills a coffer__byte_source. Nothing that reads has
 * to be touched.
 *
 *   source.c          what all kinds share: ranges are checked here, abilities asked here
 *   source_memory.c   bytes in memory
 *   source_file.c     a regular file or block device, by path, descriptor or pool
 *   source_range.c    a range of any other source: a member of an archive
 *   source_custom.c   the caller's functions
 *   source_http.c     (in net) bytes at a URL
 *
 * A source may be copied as long as only one copy is closed. Any number of threads may use it at once, but for
 * coffer__source_is_still and close. Failures do not carry a path: who opened the source knows it. Their offset counts
 * from the source's own byte 0.
 */
#ifndef COFFER_IO_SOURCE_H
#define COFFER_IO_SOURCE_H

#include "coffer.h"
#include "os.h"
#include "pool.h"

typedef struct coffer__byte_source coffer__byte_source;

/* A watch is asked whether something is still wanted, by the thread that waits for it, at least once every
   COFFER__WATCH_MS milliseconds. */
#define COFFER__WATCH_MS 100
typedef struct coffer__watch {
    bool (*stop)(void *ctx); /* true: the read fails with COFFER_ERR_CANCELLED */
    void *ctx;
} coffer__watch;

/* Takes bytes in order, as they arrive; false: no more of them are wanted. */
typedef struct coffer__taker {
    bool (*take)(void *ctx, const uint8_t *bytes, size_t size);
    void *ctx;
} coffer__taker;

/*
 * What a source says of itself. It is set when the source is opened and does not change.
 *
 * `far` has this one meaning wherever it is asked: each read costs a round trip, however small it is. Such a source is
 * read in few and large pieces with the gaps between them, many at a time whatever the number of processors, and the
 * user is asked in the meantime whether to continue. Whether its bytes can be trusted is another question: `unstable`.
 *
 * A source that lends its descriptor is a file of this system, so small reads of it are cheap: its header comes through
 * a small window, where any other source is asked for the rest of the header at once.
 */
typedef struct coffer__source_traits {
    bool far;        /* each read costs a round trip */
    bool maps;       /* it can show its bytes in memory */
    bool lends;      /* it has a descriptor to copy from */
    bool streams;    /* it hands a range on as it arrives */
    bool unstable;   /* a range may read differently another time: nothing is trusted because it was verified once */
    bool foreign;    /* reading runs other code than the library's: a caller's functions, libcurl */
    bool sequential; /* each read begins at byte 0: what is skipped costs as much as what is read */
    bool untrusted;  /* a program that this user need not trust may be editing it */
    bool in_order;   /* bytes are decoded from first to last: one thread that goes on is quicker than several */
} coffer__source_traits;

/*
 * The functions of a kind. They are called through those below, which have checked that the range lies within the
 * source, that it is not empty, and that the source has the ability. read_at and close are always there.
 *
 * read_at fills all of `size` bytes or fails. Where that can take long it asks the watch (NULL: nobody) while it waits.
 * A file that has become shorter is COFFER_ERR_CHANGED. map puts the range in memory and returns its address, valid
 * until *map is unmapped and the source closed; NULL, with *err filled, when that cannot be done. borrow gives a
 * descriptor and where the source's byte 0 is in it, until give_back. stream hands the range on as it comes, each byte
 * once and in order, so that it may be of any length. A taker that wants no more makes it COFFER_ERR_CANCELLED.
 */
typedef struct coffer__source_ops {
    const char *kind; /* in words, for messages: "… cannot be mapped" */
    coffer_status (*read_at)(const coffer__byte_source *source, uint64_t offset, void *buffer, size_t size,
                             const coffer__watch *watch, coffer_error *err);
    void (*close)(coffer__byte_source *source);

    /* Called only where the traits say that it can: else they may be NULL. */
    void *(*map)(const coffer__byte_source *source, uint64_t offset, uint64_t size, coffer_access access, bool populate,
                 coffer__os_map *map, coffer_error *err);
    coffer_status (*borrow)(const coffer__byte_source *source, int *fd, uint64_t *offset, coffer_error *err);
    void (*give_back)(const coffer__byte_source *source);
    coffer_status (*stream)(const coffer__byte_source *source, uint64_t offset, uint64_t size,
                            const coffer__taker *taker, const coffer__watch *watch, coffer_error *err);

    /* Which version of the bytes it is: see the functions of the same names. NULL: nothing is known of that. */
    const coffer__os_info *(*seen)(const coffer__byte_source *source);
    bool (*is_still)(coffer__byte_source *source);
    bool (*is_edited)(const coffer__byte_source *source, const char *path);
    bool (*identity)(const coffer__byte_source *source, char *text);
    const char *(*commit)(const coffer__byte_source *source);
    const void *(*kept)(const coffer__byte_source *source);
    bool (*stated_sha256)(const coffer__byte_source *source, uint8_t digest[32]);

    /* Of a source that is made of files' bytes, some of which are there as they are: NULL of any other. `lies` says that
       a range is, and where in its file. lend gives the address of such a range, valid until the source is closed; any
       number of threads may ask. Of a range that is not, it fails with COFFER_ERR_NOT_MAPPED. */
    bool (*lies)(const coffer__byte_source *source, uint64_t offset, uint64_t size, uint64_t *at);
    void *(*lend)(const coffer__byte_source *source, uint64_t offset, uint64_t size, coffer_access access,
                  bool populate, coffer_error *err);
    /* Bytes of files that a range is made of; of all of the source those of its files. */
    uint64_t (*stored_size)(const coffer__byte_source *source, uint64_t offset, uint64_t size);
} coffer__source_ops;

/* Bytes that a kind may keep within the source, so that opening a file allocates nothing. A kind that needs more
   allocates it and keeps the address. They are characters, since those alone may be read and copied as whatever type
   the kind puts there. */
#define COFFER__SOURCE_CAPACITY 128

struct coffer__byte_source {
    const coffer__source_ops *ops;
    uint64_t size; /* in bytes */
    coffer__source_traits is;
    union {
        void *kept; /* what the kind has allocated */
        uint64_t aligned;
        unsigned char capacity[COFFER__SOURCE_CAPACITY]; /* all that the kind needs, where it has allocated nothing */
    } state;                                             /* the kind's alone to look at */
};

/* ---- kinds: each fills *source; close it with source->ops->close(source) ----------------------------------------- */

/* A source of a kind, all zero but for this. */
void coffer__source_init(coffer__byte_source *source, const coffer__source_ops *ops, uint64_t size,
                         coffer__source_traits traits);

void coffer__source_memory(coffer__byte_source *source, const void *bytes, size_t size);
void coffer__source_custom(coffer__byte_source *source, const coffer_source *custom);
/* Opens a regular file or block device to read. Says what the path is when it is something else, and fails with
   COFFER_ERR_UNDO while the undo file of an edit lies beside it. */
coffer_status coffer__source_path(coffer__byte_source *source, const char *path, coffer_error *err);
/* The same for a file whose descriptor belongs to a pool. The path is absolute and not a symbolic link. `pooled` must
   stay where it is until the source is closed. */
coffer_status coffer__source_pooled(coffer__byte_source *source, coffer__pool *pool, coffer__pooled *pooled,
                                    const char *path, coffer_error *err);
/* The file of a descriptor, which is duplicated. */
coffer_status coffer__source_fd(coffer__byte_source *source, int fd, coffer_error *err);
/* `size` bytes of another source from `offset` on; `size` UINT64_MAX: to its end. It can do what the other one can. The
   other one stays where it is, open, until the range is closed, and is not closed by that. COFFER_ERR_ARGUMENT when it
   does not lie within the other one. */
coffer_status coffer__source_range(coffer__byte_source *range, coffer__byte_source *of, uint64_t offset, uint64_t size,
                                   coffer_error *err);
/* Turns a source into a range of itself, which closes it. On failure it is closed. */
coffer_status coffer__source_narrow(coffer__byte_source *source, uint64_t offset, uint64_t size,
                                    const coffer_allocator *allocator, coffer_error *err);

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

/* Fills all of `size` bytes, after checking the range. */
coffer_status coffer__source_read(const coffer__byte_source *source, uint64_t offset, void *buffer, size_t size,
                                  coffer_error *err);
/* The same for a read that may be given up; `watch` may be NULL. */
coffer_status coffer__source_read_watched(const coffer__byte_source *source, uint64_t offset, void *buffer, size_t size,
                                          const coffer__watch *watch, coffer_error *err);
/* The address in memory of a range; NULL, with *err filled, when there is none. *map is zero before, and the caller's
   to unmap while the source is open, whether there was a failure or not. With COFFER_MAP_PRIVATE the bytes may be
   changed. */
void *coffer__source_map(const coffer__byte_source *source, uint64_t offset, uint64_t size, coffer_access access,
                         bool populate, coffer__os_map *map, coffer_error *err);

/* For a kind's map: the address of memory that the caller lends to be read. It loses its const here, where
   COFFER_MAP_PRIVATE is refused; with any other access nobody writes. */
void *coffer__source_lent_memory(const void *bytes, coffer_access access, coffer_error *err);

/* ---- which version of the bytes it is ---------------------------------------------------------------------------- */

/* The file as it was looked at; NULL: the source is none. */
const coffer__os_info *coffer__source_seen(const coffer__byte_source *source);
/* Whether it is that file, by device and inode: a path may lead to one by another name or a link. */
bool coffer__source_is_file(const coffer__byte_source *source, const coffer__os_info *file);
/* Whether the file was changed so shortly before it was looked at that its times will not show another change. */
bool coffer__source_is_fresh(const coffer__byte_source *source);
/* Whether the source is in a file with holes, as far as the file system says. */
bool coffer__source_has_holes(const coffer__byte_source *source);
/* How many, and where the first begins, which is not touched where there is none. */
uint64_t coffer__source_holes(const coffer__byte_source *source, uint64_t *first);
/* Whether the file's times show that nobody wrote to it since it was opened, or since this was asked last; what they
   are now is kept, and the size of a file. A source that is no regular file never changes. */
bool coffer__source_is_still(coffer__byte_source *source);
/* Looks for the undo file once more, after the header was read. COFFER_ERR_UNDO if there is one: an edit began in the
   meantime, and may have been seen half done. COFFER_OK proves nothing, since an edit may have begun and ended: see
   coffer__source_is_still. The source may be closed already. */
coffer_status coffer__source_path_again(const coffer__byte_source *source, const char *path, coffer_error *err);

/* Where the bytes come from and which version of them they are, as text of lines. False, and "", when that is not
   known. */
#define COFFER__SOURCE_IDENTITY 9216
bool coffer__source_identity(const coffer__byte_source *source, char text[COFFER__SOURCE_IDENTITY]);
/* The commit of the repository that it came from; "" when there is none. Borrowed. */
const char *coffer__source_commit(const coffer__byte_source *source);
/* All bytes, when they came with the first answer; NULL when more has to be asked for. Borrowed. */
const void *coffer__source_kept(const coffer__byte_source *source);
/* The SHA-256 that a server states of the whole; false when none is stated. A server may have to be asked for it, once.
   Not to be called by several threads for one source. */
bool coffer__source_stated_sha256(const coffer__byte_source *source, uint8_t digest[32]);

#endif
