/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that knows its size: see block.h for the contract. */
#include "block.h"

#include "alloc.h"

#include <stddef.h>
#include <string.h>

/* What lies before a block. The union is as large as the strictest alignment wants it. */
typedef union block_head {
    struct {
        const coffer_allocator *allocator;
        size_t size; /* with this head */
    } is;
    max_align_t aligned;
} block_head;

static void *block_of(block_head *head, const coffer_allocator *allocator, size_t size)
{
    if (head == NULL) {
        return NULL;
    }
    head->is.allocator = allocator;
    head->is.size = size;
    return head + 1;
}

void *coffer__block_new(const coffer_allocator *allocator, size_t size)
{
    if (size > SIZE_MAX - sizeof(block_head)) {
        return NULL;
    }
    size += sizeof(block_head);
    return block_of(coffer__alloc_zeroed(allocator, size), allocator, size);
}

void *coffer__block_resize(const coffer_allocator *allocator, void *block, size_t size)
{
    if (block == NULL) {
        return coffer__block_new(allocator, size);
    }
    if (size > SIZE_MAX - sizeof(block_head)) {
        return NULL;
    }
    size += sizeof(block_head);
    block_head *head = (block_head *)block - 1;
    return block_of(coffer__realloc(allocator, head, head->is.size, size), allocator, size);
}

void coffer__block_free(void *block)
{
    if (block != NULL) {
        block_head *head = (block_head *)block - 1;
        coffer__free(head->is.allocator, head, head->is.size);
    }
}
