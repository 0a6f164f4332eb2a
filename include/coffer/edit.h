/* SPDX-License-Identifier: Apache-2.0 */
/* coffer/edit.h - metadata of a file changed in place, and what an interrupted change left. */
#ifndef COFFER_EDIT_H
#define COFFER_EDIT_H

#include "write.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A key of the metadata and what becomes of it. */
typedef struct coffer_edit {
    const char *key; /* UTF-8; of no bytes, NULL too */
    size_t key_len;
    const char *value; /* NULL: remove the key, which need not exist */
    size_t value_len;
} coffer_edit;

/* How an edit may be done. */
typedef enum coffer_edit_mode {
    COFFER_EDIT_AUTO =
        0, /* in place when it fits in the header's slack, else by sharing the data's blocks, else by a rewrite */
    COFFER_EDIT_IN_PLACE = 1, /* in place or COFFER_ERR_NO_SLACK */
    COFFER_EDIT_REWRITE = 2   /* always by a rewrite, which leaves slack for the next edit */
} coffer_edit_mode;

/* How an edit was done. */
typedef enum coffer_edit_way {
    COFFER_EDITED_NOTHING = 0, /* the file already said so */
    COFFER_EDITED_CLONE =
        1, /* a clone by reflink was edited and renamed; without slack the data moved by whole blocks */
    COFFER_EDITED_IN_PLACE = 2, /* the header was overwritten, with an undo file next to it until that was done */
    COFFER_EDITED_REWRITE = 3,  /* a new file was written and renamed */
    COFFER_EDITED_INSERT = 4    /* space was put in before the data, where they are: see coffer_edit_options */
} coffer_edit_way;

/* How a file is edited. */
typedef struct coffer_edit_options {
    size_t struct_size;
    const coffer_allocator *allocator; /* as in coffer_open_options */
    uint64_t max_header_size;          /* as in coffer_parse_options */
    uint64_t slack;                    /* what a rewrite leaves; 0: 4096 */
    coffer_edit_mode mode;
    bool follow_links;        /* edit what a symbolic link points to, and files that have several names */
    coffer_sync sync;         /* of a clone or rewrite; an edit in place is always durable */
    coffer_progress progress; /* of a rewrite, in bytes of the file, first before anything is copied; NULL: none */
    void *progress_ctx;
    /* Where the new header does not fit, have the file system put blocks in before the data instead of rewriting:
       milliseconds for any size, on ext4 and XFS of Linux. The data move to another place in the file, so nobody else
       may have it open, and none can open it meanwhile: COFFER_ERR_LOCKED. COFFER_ERR_UNSUPPORTED where the file system
       cannot do it, or the file is not the user's. A kill is recovered from, as in place; a power cut in those
       milliseconds may cost the data. */
    bool insert;
    bool read_only; /* edit a file that must not be written, too: by a new file in its place, of the same mode */
} coffer_edit_options;
#define COFFER_EDIT_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(coffer_edit_options), NULL, 0, 0, COFFER_EDIT_AUTO, false, COFFER_SYNC_REPLACE, NULL, NULL, false,      \
            false                                                                                                      \
    }

/*
 * Sets and removes keys of a file's metadata; where a key comes twice, the last edit counts. The first metadata of a
 * file of safetensors get format=pt, too, unless an edit names "format". Everything else in the header keeps its
 * bytes. In place, neither the header's length nor the data change, regardless of the file's size; until it is done
 * `PATH.coffer-undo` holds the old header, and opening the file fails with COFFER_ERR_UNDO. Editors exclude each other
 * by a lock on the file (COFFER_ERR_LOCKED); docs/editing.md says what readers may see. What somebody saves there
 * meanwhile stays, and the edit fails with COFFER_ERR_CHANGED. *way (when not NULL) says how it was done. Where
 * digests are recorded, that of the metadata is kept true, and goes when those of the tensors are removed; metadata
 * that it does not fit fail with COFFER_ERR_METADATA_DIGEST. COFFER_ERR_NO_SLACK, COFFER_ERR_LINKED, and what
 * coffer_parse says of a file that does not conform. Any thread may call it.
 */
COFFER_API coffer_status coffer_edit_metadata(const char *path, const coffer_edit *edits, size_t count,
                                              const coffer_edit_options *options, coffer_edit_way *way,
                                              coffer_error *err);
/* Finishes what an interrupted edit left: puts the old header back and removes the undo file. COFFER_ERR_NO_UNDO when
   there is none, or when it is not this file's, or belongs to another user (then nothing is changed). Only allocator
   and follow_links of the options count. When it was a coffer_model_writer for that path that was interrupted, its save
   is finished or undone. Any thread may call it. */
COFFER_API coffer_status coffer_recover(const char *path, const coffer_edit_options *options, coffer_error *err);
/* What was wrong with a file, and how it was fixed. The caller sets struct_size, by the initialiser. Since 0.2. */
typedef struct coffer_fixed_file {
    size_t struct_size;
    coffer_edit_way way; /* COFFER_EDITED_NOTHING: nothing was wrong, or `dry_run` */
    bool metadata;       /* values of the metadata were no strings */
    uint64_t trailing;   /* bytes that follow the tensors and belong to none */
    coffer_status looks; /* what these look like: COFFER_ERR_IS_ZEROS if all are zeros, another COFFER_ERR_IS_...;
                             COFFER_OK: that is not known */
    bool tensors;        /* whether the trailing bytes begin as a file of tensors does */
} coffer_fixed_file;
#define COFFER_FIXED_FILE_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(coffer_fixed_file), COFFER_EDITED_NOTHING, false, 0, COFFER_OK, false                                   \
    }

/*
 * Fixes what keeps a file of tensors from being opened though all tensors are there:
 *
 *   - bytes after the data are cut off, in place; after a crash all, some or none of them are left
 *   - values of the metadata that are no strings become strings, their JSON text, by an edit as coffer_edit_metadata
 *     makes it
 *
 * The file is otherwise what coffer_parse accepts, or this fails as that does; so no byte that is cut belongs to a
 * tensor. With `dry_run` nothing is written, and `fixed` says what would be. What else is said of coffer_edit_metadata
 * is true of this. `fixed` may be NULL. Since 0.2.
 */
COFFER_API coffer_status coffer_fix_file(const char *path, const coffer_edit_options *options, bool dry_run,
                                         coffer_fixed_file *fixed, coffer_error *err);
/* What the bytes after the tensors look like, in words: "a zip archive"; "" where that is not known. Static. Since
   0.2. */
COFFER_API const char *coffer_fixed_looks(const coffer_fixed_file *fixed);

/* What was made of an index. The caller sets struct_size, by the initialiser. Since 0.2. */
typedef struct coffer_fixed_index {
    size_t struct_size;
    coffer_edit_way way; /* COFFER_EDITED_REWRITE: it was written, or would be; COFFER_EDITED_NOTHING: it was right */
    char name[256];      /* of the index, without its folder */
    size_t file_count;   /* of the model */
    size_t tensor_count;
    uint64_t total_size;  /* of the tensors, in bytes */
    size_t missing_count; /* tensors that the old index names and no file has: they are lost, or of another model */
    bool damaged;         /* the old index breaks a rule, so that nothing was taken from it */
} coffer_fixed_index;
#define COFFER_FIXED_INDEX_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(coffer_fixed_index), COFFER_EDITED_NOTHING, "", 0, 0, 0, 0, false                                       \
    }

/*
 * Writes or fixes the index of a sharded model, from their headers: which file each tensor is in, and the
 * total_size. What else the metadata of a readable index say stays, byte for byte. No other file is touched, and the
 * index takes its place when it is complete. `path` is the index, a folder, or one of several files that are named as a
 * set.
 *
 * The files of the model are those that the index names, if all of them exist, together with the rest of a complete set
 * (PREFIX-00001-of-00003.safetensors) that they belong to; else those of the only complete set. Fails where it is not
 * certain which files are the model: COFFER_ERR_AMBIGUOUS where there are several sets, or the index names another file
 * that exists (the path of one of the files then says that its set is meant), COFFER_ERR_SHARD_MISSING,
 * COFFER_ERR_TWO_SHARDS, and what coffer_open says of a file. COFFER_ERR_ARGUMENT for a model of one file, which needs
 * no index.
 *
 * With `dry_run` nothing is written. Of the options allocator, max_header_size, follow_links and sync count. `fixed`
 * may be NULL. Any thread may call it. Since 0.2.
 */
COFFER_API coffer_status coffer_fix_index(const char *path, const coffer_edit_options *options, bool dry_run,
                                          coffer_fixed_index *fixed, coffer_error *err);
/* For files that a program writes itself: gives the new file that is open in `fd` the rights of the file at `path`,
   whose place it is to take, as every writer here does: owner, group, mode and access control list. What is not
   permitted is left out, and then nobody may do more with the new file than with the old one. COFFER_ERR_NOT_FOUND,
   COFFER_ERR_IO. Any thread may call it. Since 0.2. */
COFFER_API coffer_status coffer_take_rights(int fd, const char *path, coffer_error *err);

#ifdef __cplusplus
}
#endif

#endif
