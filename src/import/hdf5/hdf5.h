/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HDF5, the part of it that weights are written in, by the file format specification, version 3.0:
 *
 *   superblock (versions 0, 2, 3) → the root's object header
 *   object header: messages. Of a group: a symbol table, or links; of a dataset: dataspace, datatype, layout, filters
 *   symbol table: a tree of nodes ("TREE", "SNOD"), and names in a heap ("HEAP")
 *   attribute: a message with a name, a datatype, a dataspace and values; texts of any length are in "GCOL"
 *
 * What would lead to other files, or to other objects by their paths (external, soft and user-defined links, external
 * storage, virtual datasets), is not implemented and refused by name; so are dense groups and attributes, shared messages
 * and other versions. Addresses are 8 bytes wide, as every program writes them.
 *
 * Nothing is recursive. Cycles end because a group may not be its own ancestor, the levels of trees only go down, and all
 * that is read is counted: `work` has an end.
 */
#ifndef COFFER_HDF5_HDF5_H
#define COFFER_HDF5_HDF5_H

#include "bytes.h"
#include "reader.h"
#include "writing.h"

#define COFFER__HDF5_NOWHERE UINT64_MAX /* the address of what is not there */
#define COFFER__HDF5_MAX_RANK 32u
#define COFFER__HDF5_MAX_FILTERS 3u
#define COFFER__HDF5_MAX_PATH ((size_t)4096)
#define COFFER__HDF5_MAX_OBJECTS 1000000u

/* An object that was found: a group or a dataset, by the path that leads to it. */
typedef struct coffer__hdf5_node {
    uint64_t address; /* of its header */
    size_t path;      /* in the names; of the root "" */
    uint32_t path_len;
    uint32_t parent; /* the node's number; of the root its own */
    uint32_t depth;
    bool is_group;
} coffer__hdf5_node;

/* What is called for each link that leads to no object of the file, which else is refused: "a soft link". */
typedef coffer_status coffer__hdf5_on_link(void *ctx, const char *what, const char *name, size_t name_len, uint64_t at,
                                           coffer_error *err);

/* A file, or a member of an archive, that is being read. */
typedef struct coffer__hdf5 {
    const coffer__input_files *input;
    uint32_t file;
    uint64_t file_size;
    uint64_t start; /* where it begins in that file */
    uint64_t size;  /* bytes of the HDF5 part: addresses are below that */
    const coffer_allocator *allocator;
    uint64_t work;            /* what may still be read, in small units */
    uint8_t *blocks;          /* what was read lately */
    uint8_t *message;         /* the one that is being read; 64 KiB */
    uint64_t *tags;           /* which block each slot has */
    uint64_t root;            /* the address of the root's header */
    coffer__hdf5_node *nodes; /* in the order in which they were found, parents before children */
    size_t count;
    size_t capacity;
    coffer__writing names; /* paths of the nodes, one after another */
    coffer__hdf5_on_link *on_link;
    void *on_link_ctx;
} coffer__hdf5;

/* What a datatype is, as far as tensors can have it. */
typedef enum coffer__hdf5_class {
    COFFER__HDF5_OTHER,   /* `what` says which */
    COFFER__HDF5_NUMBER,  /* `dtype` */
    COFFER__HDF5_TEXT,    /* of `size` bytes */
    COFFER__HDF5_TEXT_ANY /* of any length */
} coffer__hdf5_class;

typedef struct coffer__hdf5_type {
    coffer__hdf5_class class_;
    coffer_dtype dtype; /* of a number */
    bool complex128;    /* a pair of F64: `dtype` is F64, its size 16 */
    bool from_opaque;   /* BF16, by the tag of two bytes */
    uint8_t swap;       /* bytes of a unit that is big-endian; else 0 */
    bool any_bytes;     /* lists of any length of single bytes */
    uint32_t size;      /* of an element, in bytes */
    const char *what;   /* "strings", for messages */
} coffer__hdf5_type;

typedef struct coffer__hdf5_space {
    uint32_t rank;
    bool none; /* a space without elements: H5S_NULL */
    uint64_t sizes[COFFER__HDF5_MAX_RANK];
    uint64_t elements;
} coffer__hdf5_space;

typedef enum coffer__hdf5_layout {
    COFFER__HDF5_COMPACT = 0,
    COFFER__HDF5_CONTIGUOUS = 1,
    COFFER__HDF5_CHUNKED = 2
} coffer__hdf5_layout;

/* A filter, by HDF5's number. */
enum { COFFER__HDF5_DEFLATE = 1, COFFER__HDF5_SHUFFLE = 2, COFFER__HDF5_FLETCHER32 = 3 };

/* What an object's header says. */
typedef struct coffer__hdf5_object {
    bool has_table; /* a group has a symbol table */
    uint64_t tree;
    uint64_t heap;
    bool has_links; /* a group has links among its messages */
    bool has_space; /* a dataset's */
    bool has_type;
    bool has_layout;
    coffer__hdf5_space space;
    coffer__hdf5_type type;
    coffer__hdf5_layout layout;
    uint64_t at;    /* of the bytes, or of the tree of chunks; COFFER__HDF5_NOWHERE: none were written */
    uint64_t bytes; /* stored, of what is not chunked */
    uint32_t chunk_rank;
    uint32_t chunk[COFFER__HDF5_MAX_RANK + 1]; /* elements, and then bytes of an element */
    uint32_t filter_count;
    uint16_t filters[COFFER__HDF5_MAX_FILTERS];
    uint32_t shuffled;   /* bytes of an element, for the filter */
    bool elsewhere;      /* the data are in other files, or may be */
    const char *refused; /* why the dataset cannot be read */
} coffer__hdf5_object;

/* Texts, one after another. */
typedef struct coffer__hdf5_texts {
    coffer__writing text;
    uint32_t *ends; /* of each in the text */
    size_t count;
    size_t capacity;
    bool found; /* there is such an attribute */
} coffer__hdf5_texts;

/* What one attribute says of itself. The name ends with a NUL, and is there as long as the call. */
typedef struct coffer__hdf5_attribute {
    const char *name;
    coffer__hdf5_type type;
    coffer__hdf5_space space;
    uint64_t at;   /* of its values */
    uint64_t size; /* bytes of them */
} coffer__hdf5_attribute;

/* What is called for each attribute of an object. */
typedef coffer_status coffer__hdf5_on_attribute(void *ctx, const coffer__hdf5_attribute *attribute, coffer_error *err);
/* What looks at each message of a header: its type, and `size` bytes, which are at byte `at` of the file's addresses. */
typedef coffer_status coffer__hdf5_look(void *ctx, unsigned type, const uint8_t *bytes, size_t size, uint64_t at,
                                        coffer_error *err);

/* Whether a file begins as one does. */
bool coffer__hdf5_is(const uint8_t *head, size_t head_size);
/* Opens what is in bytes [start, start + size) of a file: COFFER_ERR_UNSUPPORTED, COFFER_ERR_DAMAGED. coffer__hdf5_free
   follows also after a failure. */
coffer_status coffer__hdf5_open(coffer__hdf5 *h, const coffer__input_files *input, uint32_t file, uint64_t file_size,
                                uint64_t start, uint64_t size, const coffer_allocator *allocator, coffer_error *err);
void coffer__hdf5_free(coffer__hdf5 *h);
/* Finds all objects: fills the nodes. COFFER_ERR_UNSUPPORTED for links that are not followed. */
coffer_status coffer__hdf5_walk(coffer__hdf5 *h, coffer_error *err);
/* The path of a node, without a NUL. */
const char *coffer__hdf5_path(const coffer__hdf5 *h, const coffer__hdf5_node *node);
/* Reads the header of an object. */
coffer_status coffer__hdf5_object_read(coffer__hdf5 *h, uint64_t address, coffer__hdf5_object *object,
                                       coffer_error *err);
/* Calls for each attribute of an object. */
coffer_status coffer__hdf5_attributes(coffer__hdf5 *h, uint64_t address, coffer__hdf5_on_attribute *on_attribute,
                                      void *ctx, coffer_error *err);
/* Reads the texts that are the values of an attribute. COFFER_ERR_DAMAGED when it is of something else. */
coffer_status coffer__hdf5_attribute_texts(coffer__hdf5 *h, const coffer__hdf5_attribute *attribute,
                                           coffer__hdf5_texts *texts, coffer_error *err);
/* Reads the texts of an attribute of an object, where it has it. COFFER_ERR_DAMAGED when it is of something else. */
coffer_status coffer__hdf5_texts_read(coffer__hdf5 *h, uint64_t address, const char *name, coffer__hdf5_texts *texts,
                                      coffer_error *err);
void coffer__hdf5_texts_free(const coffer__hdf5 *h, coffer__hdf5_texts *texts);
const char *coffer__hdf5_text(const coffer__hdf5_texts *texts, size_t i, size_t *text_len);

/* Puts the chunks of a dataset that is chunked and has elements, and a storage with a grid of them, whose dimensions it also
   gives back. `name` is a text of the plan. COFFER_ERR_UNSUPPORTED for chunks that are missing or too large. */
coffer_status coffer__hdf5_chunks_put(coffer__hdf5 *h, const coffer__hdf5_object *object, coffer__import_plan *plan,
                                      uint32_t name, coffer__import_plan_dimension *dimensions, uint32_t *storage,
                                      coffer_error *err);

/* ---- between the files of HDF5 ----------------------------------------------------------------------------------- */

/* COFFER_ERR_DAMAGED at an address, and COFFER_ERR_UNSUPPORTED: `what` says what is there. */
coffer_status coffer__hdf5_fail(const coffer__hdf5 *h, uint64_t at, const char *what, coffer_error *err);
coffer_status coffer__hdf5_refuse(const coffer__hdf5 *h, uint64_t at, const char *what, coffer_error *err);
/* Reads bytes at an address, and counts that. */
coffer_status coffer__hdf5_read(coffer__hdf5 *h, uint64_t at, void *bytes, size_t size, coffer_error *err);
/* Reads bytes that begin with four letters. */
coffer_status coffer__hdf5_read_signed(coffer__hdf5 *h, uint64_t at, const char *signature, uint8_t *bytes, size_t size,
                                       coffer_error *err);
/* Compares `size` bytes with the checksum after them: COFFER_ERR_DAMAGED. */
coffer_status coffer__hdf5_verify(coffer__hdf5 *h, uint64_t at, uint64_t size, coffer_error *err);
/* Has each message of an object's header looked at. */
coffer_status coffer__hdf5_messages(coffer__hdf5 *h, uint64_t address, coffer__hdf5_look *look, void *ctx,
                                    coffer_error *err);
/* The next number of `size` bytes, at most 8, little-endian; false when there are fewer. */
bool coffer__hdf5_take(coffer__cursor *in, unsigned size, uint64_t *number);
/* Passes over bytes; false when there are fewer. */
bool coffer__hdf5_pass(coffer__cursor *in, uint64_t size);
/* Reads a datatype, which takes all bytes that it needs of `in`; false when it is cut or makes no sense. */
bool coffer__hdf5_type_read(coffer__cursor *in, coffer__hdf5_type *type);
/* Likewise a dataspace. */
bool coffer__hdf5_space_read(coffer__cursor *in, coffer__hdf5_space *space);

#endif
