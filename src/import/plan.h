/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a reader makes of a file of another program: a plan. It says which tensors there are, which bytes
 * of which file each of them is made of, and what else was found. Readers fill it (reader.h), and nothing
 * in it depends on what is written.
 *
 *   file      the input, number 0, and what the reader had opened beside it
 *   storage   bytes that tensors are views of: pieces of files, joined in order. A record of an archive,
 *             an array in a pickle. Or an array that is assembled of parts of other storages, each of which fills a
 *             box of it: what many processes have saved of one tensor
 *   row       a tensor: a view of a storage, and the change that its elements need
 *   finding   what the user should know: an odd archive, a call that a loader would have made
 *
 * A tensor's bytes come about in a fixed order: pieces, decoded and joined; gathered by strides; bytes of
 * each unit swapped; signs changed.
 *
 * A plan is plain data. It may come from a process that is not trusted (plan_bytes.c): coffer__import_plan_check
 * is the one judge of it, and whoever carries it out relies on what that has accepted, and on nothing else.
 */
#ifndef COFFER_IMPORT_PLAN_H
#define COFFER_IMPORT_PLAN_H

#include "box.h"
#include "coffer.h"

/* How the bytes of a piece are stored, and so which member of its `as` there is; most have none. */
typedef enum coffer__coding {
    COFFER__CODING_STORED = 0,
    COFFER__CODING_DEFLATED = 1, /* raw deflate, as in archives */
    COFFER__CODING_LATIN1 = 2,   /* UTF-8 of characters below U+0100, each of which is a byte: protocols 0 to 2 */
    COFFER__CODING_BLOCKS = 3,   /* GGUF's blocks of quantised elements, which become F32, F16 or BF16 */
    COFFER__CODING_FILTERED = 5, /* a chunk of HDF5, which went through filters */
    COFFER__CODING_NUMBERS = 4,  /* Protocol Buffers' numbers, which become elements of a dtype (decode_numbers.h) */
    COFFER__CODING_QUOTED = 6,   /* bytes as a string of Python 2 has them between its quotes: protocol 0 */
    COFFER__CODING_ESCAPED = 7   /* latin-1 with \uXXXX for some characters: protocol 0, too */
} coffer__coding;

/* Which checksum of the decoded bytes a piece has. */
typedef enum coffer__crc_kind {
    COFFER__CRC_NONE = 0,
    COFFER__CRC_32 = 1, /* as archives have it */
    COFFER__CRC_32C = 2 /* Castagnoli's, as TensorFlow has it */
} coffer__crc_kind;

typedef struct coffer__import_plan_piece {
    uint32_t file;
    coffer__coding coding;
    uint64_t offset;      /* in the file */
    uint64_t stored_size; /* bytes there; of a stored piece the same as `size` */
    uint64_t size;        /* bytes when decoded */
    coffer__crc_kind crc_kind;
    uint32_t crc; /* when there is one */
    union {
        struct {
            uint32_t type;      /* its number (gguf_blocks.h) */
            coffer_dtype dtype; /* what elements become */
            uint32_t scales; /* they are multiplied by these: a text of F32, little-endian, each for as many; 0: none */
        } blocks;            /* COFFER__CODING_BLOCKS */
        struct {
            uint32_t tag;       /* that each has, or 0 */
            coffer_dtype dtype; /* what they become */
        } numbers;              /* COFFER__CODING_NUMBERS */
        struct {
            uint32_t filters; /* two bits each, the first that was applied lowest (filters.h) */
            uint32_t unit;    /* bytes of an element, for shuffling */
        } chunk;              /* COFFER__CODING_FILTERED */
    } as;
} coffer__import_plan_piece;

/* What a storage is made of. */
typedef enum coffer__storage_kind {
    COFFER__STORAGE_JOINED = 0, /* pieces, one after another */
    COFFER__STORAGE_CHUNKED =
        1, /* pieces of one size: the chunks of an array, in the order of its grid, each with its elements
                                     in order. The storage is the array, filled up to whole chunks (grid.h) */
    COFFER__STORAGE_ASSEMBLED = 2 /* parts: boxes of an array, whose bytes lie in other storages */
} coffer__storage_kind;

typedef struct coffer__import_plan_storage {
    coffer__storage_kind kind;
    uint32_t first; /* in the plan's pieces, or of one that is assembled in its parts */
    uint32_t count; /* of these; without pieces it has no bytes, and without parts there is none */
    uint64_t size;  /* the sum of the pieces' sizes, or those of the parts */
    uint32_t name;  /* what messages call it, as "data/0"; see coffer__import_plan_text */
    bool viewed;    /* some row or part views it; else its bytes are unreferenced */
    union {
        struct {
            uint32_t rank;       /* at least 1 */
            uint32_t dimensions; /* sizes, how many chunks, and as `stride` the elements of a chunk */
            uint64_t item_size;  /* bytes of an element */
        } grid;                  /* COFFER__STORAGE_CHUNKED */
        struct {
            uint32_t rank;
            uint32_t
                extents; /* its sizes in items, the slowest first: the first of `rank` numbers in the plan's extents */
            uint64_t item_size; /* of its elements, in bytes: 1, 2, 4, 8 or 16 */
        } array;                /* COFFER__STORAGE_ASSEMBLED */
    } as;
} coffer__import_plan_storage;

/* What fills a box of an array that is assembled: bytes of a plain storage, which lie there one after another as in the
   box, row after row. The boxes of an array have each of its elements once, and have elements each. */
typedef struct coffer__import_plan_part {
    uint32_t storage;
    uint64_t offset; /* of the first byte in that storage */
    uint32_t box;    /* in the plan's extents: `rank` indices at which the box begins, and then its `rank` sizes */
} coffer__import_plan_part;

typedef enum coffer__sign {
    COFFER__SIGN_KEPT = 0,
    COFFER__SIGN_NEGATED = 1,   /* every element (of a complex one, both halves) */
    COFFER__SIGN_CONJUGATED = 2 /* the imaginary half of each complex element */
} coffer__sign;

#define COFFER__PLAN_MAX_RANK 64
#define COFFER__PLAN_NO_STORAGE UINT32_MAX
#define COFFER__PLAN_BUDGET ((uint64_t)256 << 20) /* for what people convert, in bytes */

typedef struct coffer__import_plan_row {
    uint32_t name; /* UTF-8; see coffer__import_plan_text */
    coffer_dtype dtype;
    uint32_t rank;
    uint32_t dimensions; /* first of `rank` in the plan's dimensions */
    uint32_t storage;    /* COFFER__PLAN_NO_STORAGE: a skipped row that views no bytes */
    uint64_t offset;     /* of the first element in the storage, in bytes */
    uint64_t item_size;  /* of what counts and strides count, in bytes; 1 where elements are less than that */
    uint8_t swap;        /* bytes of a unit whose order is reversed: 2, 4 or 8; 0: none */
    coffer__sign sign;
    coffer_fate fate;
    uint32_t alias_of; /* of an alias: the row's number */
    uint32_t reason;   /* of a skipped one; see coffer__import_plan_text */
} coffer__import_plan_row;

/* One dimension of a row. `size` is what is written; `count` indices of `stride` bytes are what is read. They differ only
   where elements are less than a byte: there items are bytes, which have as many bits in all dimensions together. */
typedef struct coffer__import_plan_dimension {
    uint64_t size;
    uint64_t count;
    int64_t stride;
} coffer__import_plan_dimension;

/* What is before GGUF's keys: four letters, the version, and the numbers of tensors and keys. */
#define COFFER__PLAN_MIN_KEYS 24u

/* The key under which the types of tensors are kept as bytes, an object of JSON with a member for each tensor. */
#define COFFER__PLAN_RECORD "gguf.tensors"

typedef struct coffer__import_plan_pair { /* of the metadata of what is written */
    uint32_t key;
    uint32_t value;
} coffer__import_plan_pair;

typedef struct coffer__import_plan_finding {
    coffer_weight weight;
    uint32_t file;
    uint64_t offset;  /* in the file; UINT64_MAX: of no byte */
    uint32_t member;  /* the archive's member, or "" */
    uint32_t subject; /* "os.system", a key, a name */
    uint32_t text;    /* the sentence for people, escaped already */
} coffer__import_plan_finding;

/* A growing array: `items` of `item_size` bytes each, `count` of them in use. */
typedef struct coffer__import_plan_array {
    void *items;
    size_t count;
    size_t capacity;
} coffer__import_plan_array;

typedef struct coffer__import_plan {
    const coffer_allocator *allocator;
    uint64_t budget;     /* bytes that the plan may still allocate: COFFER_ERR_MEMORY beyond */
    const char *noun;    /* as messages call the input: "a PyTorch checkpoint" */
    uint32_t file_count; /* the input counted */
    uint32_t keys_file;  /* the file that has GGUF's keys */
    uint64_t keys_size;  /* its first bytes, which are GGUF's keys and may be kept in a file of their own; 0: none */
    coffer__import_plan_array file_names; /* uint32_t: texts; of the input "" */
    coffer__import_plan_array pieces;     /* coffer__import_plan_piece */
    coffer__import_plan_array storages;   /* coffer__import_plan_storage */
    coffer__import_plan_array parts;      /* coffer__import_plan_part */
    coffer__import_plan_array extents;    /* uint64_t */
    coffer__import_plan_array rows;       /* coffer__import_plan_row, in the order in which they were found */
    coffer__import_plan_array dimensions; /* coffer__import_plan_dimension */
    coffer__import_plan_array pairs;      /* coffer__import_plan_pair */
    coffer__import_plan_array findings;   /* coffer__import_plan_finding */
    coffer__import_plan_array texts; /* char: each text is a u32 length, little-endian, the bytes and a NUL. A text's
                                      number is the byte at which its length is; text 0 is "" */
} coffer__import_plan;

/* ---- filling: COFFER_ERR_MEMORY when the budget or the allocator has no more ------------------------------------ */

/* An empty plan of one file. `budget`: bytes it may take, COFFER__PLAN_BUDGET where no other is wanted. The allocator
   is borrowed until coffer__import_plan_free, which may be called after a failure, too. */
coffer_status coffer__import_plan_begin(coffer__import_plan *plan, const coffer_allocator *allocator, uint64_t budget,
                                        coffer_error *err);
void coffer__import_plan_free(coffer__import_plan *plan);
/* Adds a file beside the input; its number. */
coffer_status coffer__import_plan_put_file(coffer__import_plan *plan, const char *name, size_t name_len,
                                           uint32_t *number, coffer_error *err);
/* Copies bytes, which may contain NULs, and gives their number. */
coffer_status coffer__import_plan_put_text(coffer__import_plan *plan, const char *text, size_t text_len,
                                           uint32_t *number, coffer_error *err);
/* A text, NUL-terminated, valid until the next one is put. Number 0 is ""; so is every number that is no text's.
   `text_len` may be NULL. */
const char *coffer__import_plan_text(const coffer__import_plan *plan, uint32_t number, size_t *text_len);
/* Whether it is the number of a text. */
bool coffer__import_plan_has_text(const coffer__import_plan *plan, uint32_t number);
/* The pieces of a storage are put before it, one after another; `piece_count` of the last ones are its own. */
coffer_status coffer__import_plan_put_piece(coffer__import_plan *plan, const coffer__import_plan_piece *piece,
                                            coffer_error *err);
coffer_status coffer__import_plan_put_storage(coffer__import_plan *plan, uint32_t piece_count, uint32_t name,
                                              uint32_t *number, coffer_error *err);
/* The same of chunks, whose dimensions follow each other as coffer__import_plan_storage has them. */
coffer_status coffer__import_plan_put_grid(coffer__import_plan *plan, uint32_t piece_count, uint32_t name,
                                           uint32_t rank, const coffer__import_plan_dimension *dimensions,
                                           uint64_t item_size, uint32_t *number, coffer_error *err);
/* The parts of an array are put before it, one after another, as pieces are (plan_parts.c). `starts` and `sizes` have `rank`
   numbers each, in elements; the storage of the part is marked as viewed. */
coffer_status coffer__import_plan_put_part(coffer__import_plan *plan, uint32_t storage, uint64_t offset, uint32_t rank,
                                           const uint64_t *starts, const uint64_t *sizes, coffer_error *err);
/* A storage that is assembled of the last `part_count` parts, at least one. What sizes multiply to is checked later. */
coffer_status coffer__import_plan_put_assembled(coffer__import_plan *plan, uint32_t part_count, uint32_t rank,
                                                const uint64_t *sizes, uint64_t item_size, uint32_t name,
                                                uint32_t *number, coffer_error *err);
/* Puts a row with its `rank` dimensions, and marks its storage as viewed. What row->dimensions says is not read. */
coffer_status coffer__import_plan_put_row(coffer__import_plan *plan, const coffer__import_plan_row *row,
                                          const coffer__import_plan_dimension *dimensions, coffer_error *err);
coffer_status coffer__import_plan_put_pair(coffer__import_plan *plan, const char *key, size_t key_len,
                                           const char *value, size_t value_len, coffer_error *err);
/* `subject` is escaped in the text of the finding: `sentence` has %q where it goes, as coffer__fail's formats. */
coffer_status coffer__import_plan_put_finding(coffer__import_plan *plan, coffer_weight weight, uint32_t file,
                                              uint64_t offset, const char *member, const char *sentence,
                                              const char *subject, size_t subject_len, coffer_error *err);

/* Appends items to one of the arrays as they are; for whoever puts a plan together again (plan_bytes.c). */
coffer_status coffer__import_plan_extend(coffer__import_plan *plan, coffer__import_plan_array *array, const void *items,
                                         size_t count, size_t item_size, coffer_error *err);

/* ---- judging ----------------------------------------------------------------------------------------------------- */

/*
 * Whether every number of the plan is in its range, given the sizes of the files (`file_count` of them): pieces lie
 * within them, views within their storages, products do not overflow, dtypes fit item sizes, names are UTF-8, unique
 * among what is written and not reserved. Strides that lead to the same bytes again make tensors larger than their
 * storages; all of them together by 64 MiB at most, unless `may_expand`. Arrays that are assembled have each element
 * once. No I/O; memory for the order of the names, or of the parts of an array.
 * COFFER_ERR_VIEW, COFFER_ERR_NAME, COFFER_ERR_DUPLICATE_NAME, COFFER_ERR_DUPLICATE_KEY, COFFER_ERR_DAMAGED for pieces
 * beyond the file, COFFER_ERR_PLAN for what no reader makes.
 */
coffer_status coffer__import_plan_check(const coffer__import_plan *plan, const uint64_t *file_sizes, bool may_expand,
                                        coffer_error *err);

/* The part of that which is about arrays that are assembled, storage number `i` of `all` parts before it (plan_parts.c).
   *comparisons is what may still be spent on looking for boxes that overlap. COFFER_ERR_VIEW, with the name of the storage
   as that of the tensor, when boxes leave a gap or overlap; COFFER_ERR_PLAN. */
coffer_status coffer__import_plan_check_parts(const coffer__import_plan *plan, size_t i, uint64_t *comparisons,
                                              coffer_error *err);

/* ---- what a plan says: all of these rely on coffer__import_plan_check, but for the order and the names of texts --------- */

const coffer__import_plan_piece *coffer__import_plan_pieces(const coffer__import_plan *plan);
const coffer__import_plan_storage *coffer__import_plan_storages(const coffer__import_plan *plan);
const coffer__import_plan_part *coffer__import_plan_parts(const coffer__import_plan *plan);
/* `count` numbers from `first` on; NULL when there are none. */
const uint64_t *coffer__import_plan_extents(const coffer__import_plan *plan, uint32_t first, size_t count);
/* Writes "[3, 0]", cut when it gets longer than `size` bytes, which are at least 32. */
void coffer__import_plan_write_place(char *text, size_t size, const uint64_t *place, size_t rank);
/* How many pieces a storage is made of, and of how many parts it is assembled: one of the two is 0. */
uint32_t coffer__import_plan_piece_count(const coffer__import_plan_storage *storage);
uint32_t coffer__import_plan_part_count(const coffer__import_plan_storage *storage);
/* Bytes of a part of a storage. */
uint64_t coffer__import_plan_part_size(const coffer__import_plan *plan, const coffer__import_plan_storage *storage,
                                       const coffer__import_plan_part *part);
/* A piece of a storage, or, if it is assembled, of that of its first part: it says in which file. It has one. */
const coffer__import_plan_piece *coffer__import_plan_first_piece(const coffer__import_plan *plan,
                                                                 const coffer__import_plan_storage *storage);
const coffer__import_plan_row *coffer__import_plan_rows(const coffer__import_plan *plan);
const coffer__import_plan_dimension *coffer__import_plan_dimensions(const coffer__import_plan *plan,
                                                                    const coffer__import_plan_row *row);
const coffer__import_plan_pair *coffer__import_plan_pairs(const coffer__import_plan *plan);
const coffer__import_plan_finding *coffer__import_plan_findings(const coffer__import_plan *plan);
/* Names the row's tensor in an error that was filled; returns `status`. */
coffer_status coffer__import_plan_fail_row(const coffer__import_plan *plan, const coffer__import_plan_row *row,
                                           coffer_status status, coffer_error *err);
/* The order of two texts by their bytes: below 0, 0 or above 0, as memcmp has it. */
int coffer__import_plan_compare_texts(const coffer__import_plan *plan, uint32_t a, uint32_t b);
/* Whether pair `a` comes before pair `b` by key; for coffer__sort, whose `ctx` is the plan. */
bool coffer__import_plan_pair_before(const void *plan, uint32_t a, uint32_t b);
/* Whether all bytes of a storage are in one place of one file, as they are. */
bool coffer__import_plan_is_plain(const coffer__import_plan *plan, const coffer__import_plan_storage *storage);
/* Whether a row is all of its storage, in the order of its bytes. */
bool coffer__import_plan_is_whole(const coffer__import_plan *plan, const coffer__import_plan_row *row);
/* Bytes of a row as it is written. */
uint64_t coffer__import_plan_row_size(const coffer__import_plan *plan, const coffer__import_plan_row *row);
/* The box that gathers a row from its storage. It fails for a view that coffer__import_plan_check would refuse. */
coffer_status coffer__import_plan_box(const coffer__import_plan *plan, const coffer__import_plan_row *row,
                                      coffer__box *box, coffer_error *err);

/*
 * Where the bytes of storages go. They add up: total = written + aliased + skipped + unreferenced, where a byte that
 * several rows view counts once, as the first of the four that it can be. It is exact but for views that lie between
 * each other's elements in more than 2^24 pieces, which count as if they had all bytes from their first to their last.
 */
typedef struct coffer__import_plan_account {
    uint64_t total;
    uint64_t written;
    uint64_t aliased;
    uint64_t skipped;
    uint64_t unreferenced;
    uint64_t output; /* bytes of tensors that will be written: more than `written` where views overlap */
} coffer__import_plan_account;
coffer_status coffer__import_plan_add_up(const coffer__import_plan *plan, coffer__import_plan_account *account,
                                         coffer_error *err);
/*
 * Ties: of the rows from `first_row` on that are written and are the same view, the one whose name comes first is kept,
 * and the others become aliases of it, as the ecosystem's own writer chooses and records it. Views that only overlap are
 * all written. A name that is a key of the metadata already stays a tensor.
 */
coffer_status coffer__import_plan_tie(coffer__import_plan *plan, size_t first_row, coffer_error *err);

#endif
