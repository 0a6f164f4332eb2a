/* SPDX-License-Identifier: Apache-2.0 */
/* The types of GGUF's keys, and the way back from values of JSON to keys of a type. No I/O. */
#ifndef COFFER_GGUF_GGUF_KEYS_H
#define COFFER_GGUF_GGUF_KEYS_H

#include "coffer.h"
#include "writing.h"

/* The numbers of types in files. */
enum {
    COFFER__GGUF_U8 = 0,
    COFFER__GGUF_I8 = 1,
    COFFER__GGUF_U16 = 2,
    COFFER__GGUF_I16 = 3,
    COFFER__GGUF_U32 = 4,
    COFFER__GGUF_I32 = 5,
    COFFER__GGUF_F32 = 6,
    COFFER__GGUF_BOOL = 7,
    COFFER__GGUF_TEXT = 8,
    COFFER__GGUF_ARRAY = 9,
    COFFER__GGUF_U64 = 10,
    COFFER__GGUF_I64 = 11,
    COFFER__GGUF_F64 = 12,
    COFFER__GGUF_VALUE_TYPES = 13 /* none of them: how many there are */
};

/* Bytes of a value; of a text or an array the least. */
extern const uint8_t coffer__gguf_sizes[COFFER__GGUF_VALUE_TYPES];
bool coffer__gguf_is_signed(uint32_t type);
/* As JSON, "u8" or "f64" with quotes; so types are told beside values whose own JSON does not tell them. */
const char *coffer__gguf_value_name(uint32_t type);
/* The type of that JSON; COFFER__GGUF_VALUE_TYPES when there is none. */
uint32_t coffer__gguf_value_type(const char *name, size_t name_len);

/* The type that the JSON of a value tells, or that of an array's elements: true and false are bool; integers u32, i32,
   u64 or i64, the first that holds them, but i32 comes first in an array; other numbers f32; a string text. Any other
   value is one text as it is: COFFER__GGUF_VALUE_TYPES. */
uint32_t coffer__gguf_reported_type(const char *json, size_t json_len);
/* Writes a key and its value, as `type` if the value fits in it, else as the type that its JSON tells. Texts of "NaN",
   "Infinity" and "-Infinity" fit in f32 and f64. */
void coffer__gguf_write_key(coffer__writing *out, const char *key, size_t key_len, const char *json, size_t json_len,
                            uint32_t type);
/* Writes a key whose value is this text, whatever is in it. */
void coffer__gguf_write_text_key(coffer__writing *out, const char *key, size_t key_len, const char *text,
                                 size_t text_len);

#endif
