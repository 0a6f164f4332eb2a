/* SPDX-License-Identifier: Apache-2.0 */
/* A set of ranges as a skip list; see spans.h. A sorted array would move half of itself for each
   range that is inserted in its middle, which is quadratic for a writer whose threads work all
   over the file; a balanced tree needs more code for the same bounds. Nothing here locks: the
   writer's mutex does. */
#include "spans.h"

#include "alloc.h"

/* A node of the skip list: one range that is not empty, and its pointer to the next node on each
   of its `levels`. Level 0 links all nodes in order of `begin`; each higher level skips some of
   them. */
struct coffer__span {
    uint64_t begin;
    uint64_t end;
    size_t levels;
    coffer__span *next[];
};

/* The size is computed again when a node is freed, because the allocator is told it. */
static size_t spans_node_size(size_t levels)
{
    return sizeof(coffer__span) + levels * sizeof(coffer__span *);
}

/* The seed is not zero, which xorshift could never leave. It need not be secret: a bad run costs
   time, and no correctness. */
void coffer__spans_init(coffer__spans *spans, const coffer_allocator *allocator)
{
    *spans = (coffer__spans){ .allocator = *allocator, .seed = UINT64_C(0x9E3779B97F4A7C15) };
}

/* Level 0 leads through every node. The set is unusable afterwards. */
void coffer__spans_free(coffer__spans *spans)
{
    coffer__span *node = spans->first[0];
    while (node != NULL) {
        coffer__span *next = node->next[0];
        coffer__free(&spans->allocator, node, spans_node_size(node->levels));
        node = next;
    }
}

/* A number of levels, each with a quarter of the probability of the one below (xorshift64). The
   seed is fixed, so that runs can be repeated. */
static size_t spans_draw_levels(coffer__spans *spans)
{
    uint64_t x = spans->seed;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    spans->seed = x;
    size_t levels = 1;
    while (levels < COFFER__SPANS_LEVELS && (x & 3) == 0) {
        levels++;
        x >>= 2;
    }
    return levels;
}

/* Finds the last range that begins before `begin`, NULL when there is none, and in links[i] the
   pointer of level i that leads beyond it. Walks from the sparsest level down and never back,
   hence the logarithmic time. The links are valid until the set changes. */
static coffer__span *spans_find(coffer__spans *spans, uint64_t begin, coffer__span **links[COFFER__SPANS_LEVELS])
{
    coffer__span *before = NULL;
    for (size_t i = COFFER__SPANS_LEVELS; i > 0; i--) {
        coffer__span **link = before == NULL ? &spans->first[i - 1] : &before->next[i - 1];
        while (*link != NULL && (*link)->begin < begin) {
            before = *link;
            link = &before->next[i - 1];
        }
        links[i - 1] = link;
    }
    return before;
}

/* Inserts a node. The links are those of spans_find for `begin`, so the order of the list is kept. Nothing has
   changed if there is no memory. */
static coffer_status spans_insert(coffer__spans *spans, uint64_t begin, uint64_t end, coffer__span **links[])
{
    /* The new node goes into the lowest levels, after what the links lead from. */
    const size_t levels = spans_draw_levels(spans);
    coffer__span *node = coffer__alloc(&spans->allocator, spans_node_size(levels));
    if (node == NULL) {
        return COFFER_ERR_MEMORY;
    }
    node->begin = begin;
    node->end = end;
    node->levels = levels;
    for (size_t i = 0; i < levels; i++) {
        node->next[i] = *links[i];
        *links[i] = node;
    }
    return COFFER_OK;
}

/* Ranges are kept maximal: a new range that touches the one before, or the one after, is joined to it. Only the
   neighbours can overlap it, since the ranges in the set are sorted and do not overlap each other. Moving the
   beginning of `after` down keeps the list sorted, because `before` ends at or before `begin`. */
coffer_status coffer__spans_add(coffer__spans *spans, uint64_t begin, uint64_t end)
{
    coffer__span **links[COFFER__SPANS_LEVELS];
    coffer__span *before = spans_find(spans, begin, links);
    coffer__span *after = *links[0];
    if ((before != NULL && before->end > begin) || (after != NULL && after->begin < end)) {
        return COFFER_ERR_WRITE_RANGE;
    }
    /* Nothing overlaps; only neighbours can touch. */
    const bool joins_before = before != NULL && before->end == begin;
    const bool joins_after = after != NULL && after->begin == end;
    /* Four cases: the range closes the gap between its neighbours, extends one of them, or
       touches neither. Only the last one needs memory. When the gap is closed, `after` is the
       next node on all of its levels, so the links of spans_find are those that lead to it. */
    if (joins_before && joins_after) {
        before->end = after->end;
        for (size_t i = 0; i < after->levels; i++) {
            *links[i] = after->next[i];
        }
        coffer__free(&spans->allocator, after, spans_node_size(after->levels));
    } else if (joins_before) {
        before->end = end;
    } else if (joins_after) {
        after->begin = begin;
    } else {
        return spans_insert(spans, begin, end, links);
    }
    return COFFER_OK;
}

uint64_t coffer__spans_gap(const coffer__spans *spans, uint64_t begin)
{
    /* Ranges that touch are one, so the first one ends at the gap. */
    const coffer__span *first = spans->first[0];
    return first != NULL && first->begin == begin ? first->end : begin;
}

/* Used for the message about a tensor that lacks bytes, so it may walk the list. */
uint64_t coffer__spans_covered(const coffer__spans *spans, uint64_t begin, uint64_t end)
{
    uint64_t covered = 0;
    for (const coffer__span *span = spans->first[0]; span != NULL && span->begin < end; span = span->next[0]) {
        /* The part of the range that is inside, which may be empty. */
        const uint64_t low = span->begin > begin ? span->begin : begin;
        const uint64_t high = span->end < end ? span->end : end;
        covered += low < high ? high - low : 0;
    }
    return covered;
}
