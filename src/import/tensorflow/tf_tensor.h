/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an entry of a checkpoint's index says of a tensor, and the keys of slices. Pure.
 *
 *   tensor      dtype 1 | shape 2 { dimension 2 { size 1 } } | file 3 | offset 4 | size 5 | CRC-32C 6, masked, 4 bytes |
 *               slices 7 { extent 1 { start 1 | length 2 } }; what is 0 is left out       (protobuf: field numbers)
 *   slice key   00 | the name, "00" as "00 ff" and "ff" as "ff 00" | 00 01 | rank: its length 1, and as many bytes |
 *               start, length, …, numbers of which the first byte says how long they are
 */
#ifndef COFFER_TENSORFLOW_TF_TENSOR_H
#define COFFER_TENSORFLOW_TF_TENSOR_H

#include "bytes.h"
#include "plan.h"
#include "writing.h"

/* A field of a message: a number, or bytes. */
typedef struct coffer__tf_field {
    uint64_t number;
    unsigned wire;
    uint64_t value; /* of a varint, or of four bytes */
    coffer__cursor bytes;
} coffer__tf_field;

/* What an entry says. */
typedef struct coffer__tf_tensor {
    uint64_t dtype;
    uint32_t rank;
    uint64_t shape[COFFER__PLAN_MAX_RANK];
    bool unknown_rank;
    uint64_t file;
    uint64_t offset;
    uint64_t size;
    uint32_t crc;
    bool has_crc;
    coffer__cursor slices; /* the message from the first of them on */
    uint32_t slice_count;
} coffer__tf_tensor;

/* One slice of a tensor, as a box of it; -1 as a length is all there is. */
typedef struct coffer__tf_box {
    uint32_t rank;
    int64_t starts[COFFER__PLAN_MAX_RANK];
    int64_t lengths[COFFER__PLAN_MAX_RANK];
} coffer__tf_box;

/* The next field; false when the message is cut, or has a field of a kind that is no more. */
bool coffer__tf_next_field(coffer__cursor *in, coffer__tf_field *field);
/* Reads the value of an entry. False when it is cut, or says something twice. */
bool coffer__tf_tensor_read(coffer__cursor in, coffer__tf_tensor *tensor);
/* The next of tensor->slices; false when there is none, or it is cut. */
bool coffer__tf_next_slice(coffer__cursor *in, coffer__tf_box *box);
/* Writes the key of the entry that a slice has of its own. */
void coffer__tf_slice_key(coffer__writing *out, const uint8_t *name, size_t name_len, const coffer__tf_box *box);

#endif
