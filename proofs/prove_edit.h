/* SPDX-License-Identifier: Apache-2.0 */
/* What is done to the header of a table that was read: other metadata and other names are put into it, and tensors are left out. */
#ifndef COFFER_PROOFS_PROVE_EDIT_H
#define COFFER_PROOFS_PROVE_EDIT_H

#include "declared.h"
#include "formats.h"
#include "prove.h"
#include "table.h"

/* `bytes` are the file's. The places that come out have to lie in the header. */
static void prove_splice(const coffer_table *table, const uint8_t *bytes, size_t count)
{
    const coffer__format_ops *format = coffer__format_at(coffer_table_format(table));
    coffer__splice splice;
    format->splice(&splice, table, bytes + format->header_at, count);
    //@ assert splice.head_end <= splice.tail_at;
    const size_t header_size = (size_t)coffer_table_data_offset(table) - format->header_at;
    //@ assert splice.tail_at <= header_size;
}

static void prove_rename(const coffer_table *table, const coffer_tensor *tensor, const uint8_t *bytes)
{
    const coffer__format_ops *format = coffer__format_at(coffer_table_format(table));
    char space[8];
    coffer__header_text text = { NULL, 0 };
    if (format->put_name == NULL) {
        return;
    }
    format->name_size(bytes + format->header_at, ((const coffer__entry *)(const void *)tensor)->position);
    format->put_name(&text, "a\n", 2);
    //@ assert text.size <= 8;
    text = (coffer__header_text){ space, 0 };
    format->put_name(&text, "a\n", 2);
}

/* Of every two tensors the first is left out, and sought by its name. */
static void prove_edit(coffer_table *table, const uint8_t *bytes)
{
    prove_splice(table, bytes, 0);
    prove_splice(table, bytes, 1);
    //@ loop unroll 80;
    for (size_t i = 0; i < coffer_table_count(table); i++) {
        coffer_tensor *tensor = (coffer_tensor *)coffer_table_at(table, i);
        prove_rename(table, tensor, bytes);
        tensor->shard = i % 2 == 0 ? COFFER__LEFT_OUT : 0;
    }
    const coffer_tensor *first = coffer_table_at(table, 0);
    coffer__table_leave_out(table);
    if (first != NULL) {
        coffer_table_find(table, first->name, first->name_len);
    }
}

#endif
