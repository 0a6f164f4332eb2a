/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What GGUF files consist of before their data: numbers, texts, and keys with values of a type. They are read one after
 * another through a window, since each may be a byte and a file may have a million of them.
 */
#ifndef COFFER_GGUF_GGUF_VALUES_H
#define COFFER_GGUF_GGUF_VALUES_H

#include "reader.h"
#include "writing.h"

#define COFFER__GGUF_MAX_KEY 65535u
#define COFFER__GGUF_MAX_ITEMS 64u   /* of an array that becomes metadata */
#define COFFER__GGUF_MAX_TEXT 65536u /* bytes of a text that does */
#define COFFER__GGUF_WINDOW 262144u

/* A place in one file, which only goes on. */
typedef struct coffer__gguf_in {
    const coffer__input_files *input;
    uint32_t file;
    uint64_t file_size;
    bool swapped;    /* the file is big-endian */
    uint64_t at;     /* of the window's first byte in the file */
    size_t size;     /* of the window's bytes */
    size_t position; /* in the window; never beyond `size` */
    uint8_t *window; /* COFFER__GGUF_WINDOW bytes, the caller's */
    char *key;       /* COFFER__GGUF_MAX_KEY bytes, the caller's */
    coffer__writing json;
} coffer__gguf_in;

/* A key and its value. Pointers are dead after the next read. */
typedef struct coffer__gguf_value {
    const char *key;
    size_t key_len;
    uint64_t at;      /* of the value in the file */
    const char *json; /* the value as JSON text */
    size_t json_len;  /* bytes of `json`; 0: it is too long to be metadata */
    uint32_t type;    /* of the value, or of its elements (gguf_keys.h) */
    bool is_unsigned; /* the value is an integer of at least 0 */
    uint64_t number;  /* the value of such an integer */
} coffer__gguf_value;

/* The place in the file, and the bytes after it. */
uint64_t coffer__gguf_at(const coffer__gguf_in *in);
uint64_t coffer__gguf_left(const coffer__gguf_in *in);
/* Each fails with COFFER_ERR_DAMAGED where the file ends, or a text is longer than `most`. */
coffer_status coffer__gguf_skip(coffer__gguf_in *in, uint64_t size, coffer_error *err);
coffer_status coffer__gguf_number(coffer__gguf_in *in, unsigned size, uint64_t *number, coffer_error *err);
/* What a file begins with. The numbers are bounded by the bytes that are left, and the order of bytes is known from
   here on. COFFER_ERR_UNSUPPORTED for a version that is not 2 or 3. */
coffer_status coffer__gguf_head(coffer__gguf_in *in, uint64_t *tensors, uint64_t *pairs, coffer_error *err);
/* A text, at most COFFER__GGUF_MAX_TEXT bytes, in the window. */
coffer_status coffer__gguf_text(coffer__gguf_in *in, uint64_t most, const char **text, size_t *text_len,
                                coffer_error *err);
coffer_status coffer__gguf_read_value(coffer__gguf_in *in, coffer__gguf_value *value, coffer_error *err);

#endif
