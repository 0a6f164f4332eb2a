/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layouts: text that grows, and the places in it at which tensors belong. layout.h has the
 * contract. A tensor is never copied here; only its size counts.
 */
#include "layout.h"

#include "alloc.h"
#include "checked.h"
#include "error.h"

void coffer__layout_init(coffer__layout *layout, const coffer_allocator *allocator)
{
    *layout = (coffer__layout){ .text = { .allocator = allocator } };
}

/* The text's allocator is the one of all: a layout is begun with a single one. */
void coffer__layout_free(coffer__layout *layout)
{
    coffer__free(layout->text.allocator, layout->leaves, layout->capacity * sizeof *layout->leaves);
    coffer__writing_free(&layout->text);
    layout->leaves = NULL;
}

/* Text and tensors together: it does not matter for the size how they alternate. No wrap, as
   coffer__layout_end_leaf bounds the tensors' sum. */
uint64_t coffer__layout_size(const coffer__layout *layout)
{
    return layout->data + layout->text.used;
}

/* Space for one more leaf. The caller's message says what there was no memory for. */
static bool layout_grow(coffer__layout *layout)
{
    coffer__leaf *leaves = coffer__grow_array(layout->text.allocator, layout->leaves, layout->count, &layout->capacity,
                                              sizeof *leaves, NULL);
    layout->leaves = leaves != NULL ? leaves : layout->leaves;
    return leaves != NULL;
}

/* The sum is kept so far below 2^64 that text, and padding before it, can always be added to it. */
coffer_status coffer__layout_end_leaf(coffer__layout *layout, const coffer_tensor *tensor, coffer_error *err)
{
    if (layout->text.failed || !layout_grow(layout)) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to plan a file of %u tensors", (uint64_t)layout->count);
    }
    if (tensor != NULL && (!coffer__add_u64(layout->data, tensor->size, &layout->data) || layout->data > INT64_MAX)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the tensors are larger together than any file can be");
    }
    layout->leaves[layout->count++] =
        (coffer__leaf){ .text = layout->begun, .tensor = tensor, .crc_at = { COFFER__NO_CRC, COFFER__NO_CRC } };
    layout->begun = layout->text.used;
    return COFFER_OK;
}
