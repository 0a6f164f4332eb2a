/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pickle machine: runs the opcodes of a pickle, protocols 0 to 5, and builds a graph of what they
 * describe. It calls nothing and looks nothing up: a global is its two names, and a call is a node that
 * holds the callable and the arguments.
 *
 * Values are numbers of nodes, so that the memo and the stack cost four bytes for each use: what a pickle
 * repeats is never copied. Cycles are legal. Nothing here recurses, and whoever walks the graph must not
 * either.
 *
 * Strings and bytes above COFFER__PICKLE_INLINE are not kept: their node says where they lie in the stream.
 *
 * Pure: the bytes come through a window that the caller fills (coffer__pickle_bytes).
 */
#ifndef COFFER_PICKLE_PICKLE_H
#define COFFER_PICKLE_PICKLE_H

#include "coffer.h"

typedef uint32_t coffer__value; /* the number of a node; 0: none */

typedef enum coffer__value_kind {
    COFFER__VALUE_NONE = 1, /* None */
    COFFER__VALUE_BOOL,
    COFFER__VALUE_INT, /* of at most 8 bytes */
    COFFER__VALUE_BIG, /* a larger integer, whose value is not kept */
    COFFER__VALUE_FLOAT,
    COFFER__VALUE_TEXT,  /* str: UTF-8, where lone surrogates may be encoded as Python does */
    COFFER__VALUE_BYTES, /* bytes, bytearray; str of Python 2 (SHORT_BINSTRING and its kin) */
    COFFER__VALUE_TUPLE,
    COFFER__VALUE_LIST,
    COFFER__VALUE_DICT,      /* items come in pairs: key, value; in order, keys may repeat */
    COFFER__VALUE_SET,       /* and frozenset */
    COFFER__VALUE_GLOBAL,    /* a name that a loader would have imported */
    COFFER__VALUE_CALL,      /* what a loader would have called or constructed: items are callable, arguments and, if
                                there are any, keywords. Arguments are a TUPLE, or what a call or name would have given;
                                keywords a DICT, or the same */
    COFFER__VALUE_PERSISTENT /* what the loader is asked for by an id: item 0 is the id */
} coffer__value_kind;

/* How a call came about. */
typedef enum coffer__call_kind { COFFER__CALL_REDUCE, COFFER__CALL_NEW } coffer__call_kind;

#define COFFER__PICKLE_INLINE ((size_t)64 * 1024)

/* 48 bytes: a tensor of a checkpoint is about ten nodes, so their size decides how many tensors fit in the budget. */
typedef struct coffer__node {
    uint64_t
        offset;     /* of the opcode, in the stream. None, True, False, () and integers from 0 to 255 are one node each,
                        which has the first place */
    uint8_t kind;   /* coffer__value_kind */
    uint8_t call;   /* coffer__call_kind */
    bool python2;   /* BYTES: by an opcode of Python 2's str */
    uint32_t first; /* containers, CALL, PERSISTENT: the first of its links; 0: none */
    uint32_t last;
    uint32_t count; /* items; of a DICT twice the pairs */
    union {
        int64_t integer; /* BOOL, too */
        double real;
        struct {
            uint64_t at;             /* TEXT, BYTES: where the bytes lie in the stream */
            uint64_t size;           /* TEXT, BYTES: bytes as they are stored */
            uint32_t kept;           /* their place in the machine's texts; UINT32_MAX: not kept, since they are long */
            unsigned kept_size : 30; /* bytes there: those of the value */
            bool latin1 : 1;         /* BYTES, stored as the UTF-8 of latin-1 text (a decoded call of _codecs.encode) */
            bool escaped : 1;        /* stored with escapes (protocol 0): only the kept bytes are the value's */
        } bytes;
        struct {             /* GLOBAL, CALL, PERSISTENT: what only a loader would have */
            uint32_t module; /* GLOBAL: places of its names in the machine's texts */
            uint32_t name;
            coffer__value state;      /* what BUILD gave it; of several the last. 0: none */
            coffer__value attributes; /* items set on it afterwards, as LIST or DICT; 0: none. The pairs of an
                                         OrderedDict, which is a CALL, are here */
        } object;
    } as;
} coffer__node;

/* Whether a node stands for something that only a loader would have, which may turn out to be anything. */
static inline bool coffer__node_is_object(const coffer__node *node)
{
    return node->kind == COFFER__VALUE_CALL || node->kind == COFFER__VALUE_GLOBAL ||
           node->kind == COFFER__VALUE_PERSISTENT;
}

/* The state and the attributes of a node of any kind; 0: none. */
static inline coffer__value coffer__node_state(const coffer__node *node)
{
    return coffer__node_is_object(node) ? node->as.object.state : 0;
}

static inline coffer__value coffer__node_attributes(const coffer__node *node)
{
    return coffer__node_is_object(node) ? node->as.object.attributes : 0;
}

typedef struct coffer__pickle coffer__pickle;

/* The stream: `size` bytes, of which a read may be of any part, all of it or failure. */
typedef struct coffer__pickle_bytes {
    void *ctx;
    coffer_status (*read)(void *ctx, uint64_t offset, void *bytes, size_t size, coffer_error *err);
    uint64_t size;
} coffer__pickle_bytes;

/* What happens on the way, for scans; may be NULL. Called in the order of the stream, also before a failure, with the
   GLOBAL that is imported, the CALL that is made, and the value that gets
   a state or, when it is a GLOBAL or PERSISTENT, items. _codecs.encode, when it is decoded, is not told as a call. */
typedef struct coffer__pickle_watch {
    void *ctx;
    /* May be NULL. */
    coffer_status (*seen)(void *ctx, const coffer__pickle *pickle, coffer__value value, coffer_error *err);
    /* Asked after a value got a state: how many bytes from `position` on are no opcodes but its own. May be NULL: none. */
    coffer_status (*own_bytes)(void *ctx, const coffer__pickle *pickle, coffer__value value, uint64_t position,
                               uint64_t *size, coffer_error *err);
} coffer__pickle_watch;

/*
 * Runs the stream from `offset` to its STOP. *end is the byte after that. COFFER_ERR_PICKLE, with the offset of the
 * opcode, for what is damaged or refused (EXT*, NEXT_BUFFER, READONLY_BUFFER, unknown bytes, an empty stack);
 * COFFER_ERR_MEMORY beyond `budget` bytes of nodes or 64 M opcodes. After a failure what was built so far may be looked
 * at: the root is then the oldest value on the stack. *pickle is NULL only when there was no memory for it at all. Free it
 * in any case.
 */
coffer_status coffer__pickle_run(coffer__pickle **pickle, const coffer__pickle_bytes *bytes, uint64_t offset,
                                 const coffer_allocator *allocator, uint64_t budget, const coffer__pickle_watch *watch,
                                 uint64_t *end, coffer_error *err);
void coffer__pickle_free(coffer__pickle *pickle);
/* Whether a byte is an opcode of protocols 0 to 5. */
bool coffer__pickle_is_opcode(uint8_t byte);

coffer__value coffer__pickle_root(const coffer__pickle *pickle);
size_t coffer__pickle_count(const coffer__pickle *pickle); /* nodes; values are 1 … count */
/* Whether it failed because of the budget or the number of opcodes, which is no fault of the stream. */
bool coffer__pickle_over_budget(const coffer__pickle *pickle);
const coffer__node *coffer__pickle_node(const coffer__pickle *pickle, coffer__value value); /* NULL for 0 */
/* Walking over items: a link is a place in a list. coffer__pickle_item gives the value at it and moves *link on; 0 past
   the last: `for (uint32_t link = node->first; link != 0;) { value = coffer__pickle_item(pickle, &link); … }` */
coffer__value coffer__pickle_item(const coffer__pickle *pickle, uint32_t *link);
/* Kept bytes of a TEXT or BYTES, NUL-terminated; NULL when they were not kept. */
const char *coffer__pickle_bytes_of(const coffer__pickle *pickle, coffer__value value, size_t *size);
/* The names of a GLOBAL after Python 2's renamings, NUL-terminated. */
const char *coffer__pickle_module(const coffer__pickle *pickle, coffer__value value);
const char *coffer__pickle_name(const coffer__pickle *pickle, coffer__value value);
/* The value of a key (a TEXT, or a str of Python 2) in a DICT, or among the pairs that were set on a CALL, as on an
   OrderedDict; the last one. 0: none. */
coffer__value coffer__pickle_get(const coffer__pickle *pickle, coffer__value dict, const char *key);

#endif
