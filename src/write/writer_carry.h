/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors that come into writers by rows of the transfer, and not from opened models: contiguous or gathered by
 * strides, with their elements changed, from any source. All else is as coffer_writer_copy has it: the account of what
 * was written, the rules for threads, and that the first failure is final.
 */
#ifndef COFFER_WRITE_WRITER_CARRY_H
#define COFFER_WRITE_WRITER_CARRY_H

#include "coffer.h"
#include "transfer.h"

/* One whole tensor. */
typedef struct coffer__carry {
    size_t to;               /* its number in the declaration */
    coffer__transfer_op row; /* of as many bytes as the tensor has; `at`, `to` and `digest` are not read */
} coffer__carry;

/*
 * Writes the tensors. Rows without a box, change or checksum are copied by the system where it can. `options` are known
 * to be whole; `progress` counts the bytes of these tensors. `failed` is set to the number of the carry that could not
 * be read, when that was it; else it stays. Digests are computed from the sink when the file is finished, so where it
 * cannot be read back they are COFFER_ERR_UNSUPPORTED.
 */
coffer_status coffer__writer_carry(coffer_writer *writer, const coffer__carry *carries, size_t count,
                                   const coffer_read_options *options, size_t *failed, coffer_error *err);
/* The same for tensors that go to one file of a model, `shard`. Their numbers become those in that file. */
coffer_status coffer__model_writer_carry(coffer_model_writer *writer, size_t shard, coffer__carry *carries,
                                         size_t count, const coffer_read_options *options, size_t *failed,
                                         coffer_error *err);

#endif
