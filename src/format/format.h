/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a format is: facts, and functions that read, spell and splice headers. Each format is one
 * `coffer__format_ops` in a file of its own, and one row of the table in formats.c; whoever wants something
 * of a format takes it from there (formats.h). No file outside this room asks which format it has: a
 * new one changes its own file and that table.
 *
 * What all formats have in common is a file of two parts. The head, a frame and the header, says what
 * the tensors are; the data are the tensors' bytes, one after the other. A format that is only read
 * leaves `put` and `check` NULL and names its successor.
 */
#ifndef COFFER_FORMAT_FORMAT_H
#define COFFER_FORMAT_FORMAT_H

#include "coffer.h"
#include "intake.h"

struct coffer__header_order;
struct coffer__header_text;

/* Bytes of a reader's state, for which its caller has space, so that reading takes no memory but the
   table's. Each reader asserts that its state fits. */
#define COFFER__READER_SIZE 320u

/* Which bytes of a header go when its metadata change, and what joins the new ones to the rest. Places are within the
   header. */
typedef struct coffer__splice {
    size_t head_end;   /* the old header stays up to here */
    size_t tail_at;    /* the old header stays from here on */
    const char *joint; /* written after the new metadata */
} coffer__splice;

typedef struct coffer__format_ops {
    const char *id;          /* for options and programs; never changes */
    const char *name;        /* for people */
    const char *endings[4];  /* of names of files, with their dots, the usual one first, NULL after the last */
    uint32_t header_at;      /* where the header begins in the file: as long as the frame is */
    bool has_indices;        /* sharded models, with an index, are made of it */
    bool wants_framework;    /* programs refuse metadata that do not name the framework (declared.h) */
    coffer_format successor; /* of a format that is not written: what its files are written as instead */

    /* Whether a file that begins so is one; 16 bytes are enough. NULL: the format is read only when it is asked for. */
    bool (*sniff)(const uint8_t *bytes, size_t size);

    /*
     * Reads a head as it comes in, up to a table with data_offset and data_size set; what the file's size has to be
     * is for its caller to check. `reader` are COFFER__READER_SIZE bytes, zeros at first. After COFFER_NEED_MORE, the
     * intake's answer, it is called again when those bytes are here. `free` ends every reading, also one that was
     * given up.
     */
    coffer_status (*read)(void *reader, coffer__intake *in, const coffer_parse_options *options, coffer_table **table,
                          coffer_error *err);
    void (*free)(void *reader);

    /* Whether the format can say all that was declared, in a header of at most `limit` bytes. NULL:
       it can say whatever can be declared. */
    coffer_status (*check)(const coffer_header *header, const struct coffer__header_order *order, uint64_t limit,
                           coffer_error *err);
    /* The header, without padding. It is called twice, to measure and to write, and gives the same
       text both times. */
    void (*put)(struct coffer__header_text *text, const coffer_header *header,
                const struct coffer__header_order *order);

    /* The metadata alone, as `put` spells them; `present`: with a place for them even when there
       are none. */
    void (*put_metadata)(struct coffer__header_text *text, const coffer_pair *pairs, size_t count, bool present);
    /* Where `count` new pairs would go in the header that the table was read from, all of it at
       `header`. The rest stays as it is, byte for byte. */
    void (*splice)(coffer__splice *splice, const coffer_table *table, const uint8_t *header, size_t count);

    /* How many bytes spell the name that stands at `at` in a header which was read, and the same for another name. Both
       NULL: names cannot be replaced where they stand. */
    size_t (*name_size)(const uint8_t *header, size_t at);
    void (*put_name)(struct coffer__header_text *text, const char *name, size_t name_len);

    /* Makes a head of `size` bytes of one whose header ends at `used`: fills in the frame and the
       padding. */
    void (*seal)(uint8_t *head, size_t used, size_t size);
} coffer__format_ops;

#endif
