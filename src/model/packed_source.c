/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of the original's bytes become reads of the packed file's: those of its front come from memory, those of plain tensors
 * from where they are stored, and those of packed ones from chunks that are decoded. A chunk that is wanted whole is decoded to
 * its place. Another one is decoded beside it, and kept until the work area is used for another, for reads that go on in it.
 *
 * Work areas come from malloc whatever the model's allocator is, since several threads read at once.
 */
#include "packed_source.h"

#include "alloc.h"
#include "error.h"

#include <string.h>

#define PACKED_SOURCE_ELEMENTS_SIZE (COFFER__PACKED_CHUNK * (size_t)COFFER__PLANES_MAX)
/* Every chunk fits, by the number of its length. */
#define PACKED_SOURCE_STORED_SIZE ((size_t)1 << 20)
#define PACKED_SOURCE_ZEROS (COFFER__PACKED_END_ZEROS + COFFER__PACKED_ALIGNMENT)

struct coffer__packed_index {
    coffer__packed_head head;
    size_t block_size; /* of this block, with its bytes and offsets */
    uint64_t *starts;  /* of chunks, in the packed tensor; and where the last ends */
    uint8_t *bytes;    /* tables and records */
};

struct coffer__packed_area {
    coffer__packed_area *next;
    coffer__unpacker unpacker;
    const coffer__packed_tensor *tensor; /* whose chunk is in `elements`; NULL: none */
    uint64_t chunk;
    uint8_t elements[PACKED_SOURCE_ELEMENTS_SIZE];
    uint8_t stored[PACKED_SOURCE_STORED_SIZE + PACKED_SOURCE_ZEROS + COFFER__CODE_SLACK];
};

/* One read: of whom, and who asks whether to go on. */
typedef struct packed_request {
    coffer__packed_view *view;
    const coffer__watch *watch;
    coffer_error *err;
} packed_request;

coffer__packed_view *coffer__packed_view_new(const coffer__byte_source *of, const coffer_allocator *allocator,
                                             coffer_error *err)
{
    coffer__packed_view *view = coffer__alloc_zeroed(allocator, sizeof *view);
    if (view == NULL || coffer__os_mutex_init(&view->lock) != 0) {
        coffer__free(allocator, view, sizeof *view);
        (void)coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a packed file");
        return NULL;
    }
    view->allocator = *allocator;
    view->of = *of;
    return view;
}

void coffer__packed_view_free(coffer__packed_view *view)
{
    const coffer_allocator allocator = view->allocator;
    for (size_t i = 0; i < view->count; i++) {
        coffer__packed_index *index = atomic_load_explicit(&view->tensors[i].index, memory_order_relaxed);
        coffer__free(coffer_libc_allocator(), index, index == NULL ? 0 : index->block_size);
        coffer__free(coffer_libc_allocator(), atomic_load_explicit(&view->tensors[i].data, memory_order_relaxed),
                     (size_t)view->tensors[i].size);
    }
    while (view->areas != NULL) {
        coffer__packed_area *area = view->areas;
        view->areas = area->next;
        coffer__free(coffer_libc_allocator(), area, sizeof *area);
    }
    coffer__free_array(&allocator, view->tensors, view->capacity, sizeof *view->tensors);
    coffer__free(&allocator, view->front, view->front_size);
    coffer__os_mutex_close(&view->lock);
    coffer__free(&allocator, view, sizeof *view);
}

/* ---- what is known of a packed tensor ------------------------------------------------------------------------------ */

static coffer_status packed_source_stored(const packed_request *request, uint64_t offset, void *to, size_t size)
{
    return coffer__source_read_watched(&request->view->of, offset, to, size, request->watch, request->err);
}

/* A block for what a head says, which was compared with the sizes of tensor and file. NULL without memory. */
static coffer__packed_index *packed_source_new_index(const coffer__packed_head *head)
{
    const uint64_t bytes = coffer__packed_index_size(head);
    const uint64_t starts = ((uint64_t)head->chunks + 1) * sizeof(uint64_t);
    if (bytes > SIZE_MAX / 4 || starts > SIZE_MAX / 4) {
        return NULL;
    }
    const size_t size = sizeof(coffer__packed_index) + (size_t)starts + (size_t)bytes;
    coffer__packed_index *index = coffer__alloc(coffer_libc_allocator(), size);
    if (index != NULL) {
        index->head = *head;
        index->block_size = size;
        index->starts = (uint64_t *)(void *)(index + 1);
        index->bytes = (uint8_t *)(index->starts + head->chunks + 1);
    }
    return index;
}

static coffer_status packed_source_read_index(const packed_request *request, const coffer__packed_tensor *tensor,
                                              coffer__packed_index **made)
{
    uint8_t first[COFFER__PACKED_HEAD_SIZE];
    coffer__packed_head head;
    if (tensor->stored_size < sizeof first) {
        return coffer__fail_at(request->err, COFFER_ERR_PACK_HEAD, tensor->stored_offset,
                               "a packed tensor is shorter than its head; get the file again");
    }
    coffer_status status = packed_source_stored(request, tensor->stored_offset, first, sizeof first);
    if (status == COFFER_OK) {
        status = coffer__packed_read_head(first, tensor->dtype, tensor->size, tensor->stored_offset,
                                          tensor->stored_size, &head, request->err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    coffer__packed_index *index = packed_source_new_index(&head);
    if (index == NULL) {
        return coffer__fail(request->err, COFFER_ERR_MEMORY, "no memory for the index of a packed tensor");
    }
    status = packed_source_stored(request, tensor->stored_offset + sizeof first, index->bytes,
                                  (size_t)coffer__packed_index_size(&head));
    if (status == COFFER_OK) {
        status = coffer__packed_check_index(&head, first, index->bytes, request->err);
    }
    if (status != COFFER_OK) {
        coffer__free(coffer_libc_allocator(), index, index->block_size);
        return status;
    }
    index->starts[0] = COFFER__PACKED_HEAD_SIZE + coffer__packed_index_size(&head);
    for (uint64_t i = 0; i < head.chunks; i++) {
        index->starts[i + 1] = index->starts[i] + coffer__packed_read_record(&head, index->bytes, i).size;
    }
    *made = index;
    return COFFER_OK;
}

/* The index of a tensor, read if it was not. Two threads may read it at once; then the first one's is kept. */
static coffer_status packed_source_index(const packed_request *request, coffer__packed_tensor *tensor,
                                         const coffer__packed_index **index)
{
    coffer__packed_index *known = atomic_load_explicit(&tensor->index, memory_order_acquire);
    if (known == NULL) {
        coffer__packed_index *made = NULL;
        const coffer_status status = packed_source_read_index(request, tensor, &made);
        if (status != COFFER_OK) {
            return status;
        }
        if (atomic_compare_exchange_strong(&tensor->index, &known, made)) {
            known = made;
        } else {
            coffer__free(coffer_libc_allocator(), made, made->block_size);
        }
    }
    *index = known;
    return COFFER_OK;
}

/* ---- chunks -------------------------------------------------------------------------------------------------------- */

/* The one that was used last, as its chunk is likely to be wanted again. NULL without memory. */
static coffer__packed_area *packed_source_take_area(coffer__packed_view *view)
{
    coffer__os_mutex_lock(&view->lock);
    coffer__packed_area *area = view->areas;
    if (area != NULL) {
        view->areas = area->next;
    }
    coffer__os_mutex_unlock(&view->lock);
    if (area == NULL) {
        area = coffer__alloc(coffer_libc_allocator(), sizeof *area);
        if (area != NULL) {
            area->tensor = NULL;
        }
    }
    return area;
}

static void packed_source_give_area(coffer__packed_view *view, coffer__packed_area *area)
{
    coffer__os_mutex_lock(&view->lock);
    area->next = view->areas;
    view->areas = area;
    coffer__os_mutex_unlock(&view->lock);
}

/* What is wanted of a packed tensor: `size` bytes from its byte `at` on. */
typedef struct packed_part {
    const coffer__packed_tensor *tensor;
    const coffer__packed_index *index;
    uint64_t at;
    size_t size;
    uint8_t *to;
} packed_part;

/* Decodes one chunk from where its bytes were read to, and takes what is wanted of it. */
static coffer_status packed_source_chunk(const packed_part *part, coffer__packed_area *area, uint64_t chunk,
                                         const uint8_t *stored, coffer_error *err)
{
    const coffer__packed_head *head = &part->index->head;
    const uint64_t first = chunk * COFFER__PACKED_CHUNK * head->layout.element_size;
    const size_t whole = coffer__packed_chunk_elements(head, chunk) * head->layout.element_size;
    if (first >= part->at && whole <= part->size && first - part->at <= part->size - whole) {
        return coffer__unpack_chunk(&area->unpacker, chunk, stored, part->to + (first - part->at), err);
    }
    area->tensor = NULL;
    const coffer_status status = coffer__unpack_chunk(&area->unpacker, chunk, stored, area->elements, err);
    if (status == COFFER_OK) {
        area->tensor = part->tensor;
        area->chunk = chunk;
    }
    return status;
}

/* Copies what is wanted of the chunk in the area. */
static void packed_source_copy(const packed_part *part, const coffer__packed_area *area)
{
    const coffer__packed_head *head = &part->index->head;
    const uint64_t first = area->chunk * COFFER__PACKED_CHUNK * head->layout.element_size;
    const size_t whole = coffer__packed_chunk_elements(head, area->chunk) * head->layout.element_size;
    const uint64_t begin = first > part->at ? first : part->at;
    const uint64_t part_end = part->at + part->size;
    const uint64_t end = first + whole < part_end ? first + whole : part_end;
    memcpy(part->to + (begin - part->at), area->elements + (begin - first), (size_t)(end - begin));
}

/* Reads as many of the chunks from *chunk to `last` as fit, with one read, and decodes them; *chunk becomes the next. */
static coffer_status packed_source_chunks(const packed_request *request, const packed_part *part,
                                          coffer__packed_area *area, uint64_t *chunk, uint64_t last)
{
    const coffer__packed_index *index = part->index;
    const uint64_t begin = index->starts[*chunk];
    uint64_t next = *chunk + 1;
    while (next <= last && index->starts[next + 1] - begin <= PACKED_SOURCE_STORED_SIZE) {
        next++;
    }
    uint64_t end = index->starts[next];
    const bool to_end = next == index->head.chunks;
    const size_t zeros = to_end ? (size_t)(part->tensor->stored_size - end) : 0;
    const size_t size = (size_t)(end - begin) + zeros;
    coffer_status status = packed_source_stored(request, part->tensor->stored_offset + begin, area->stored, size);
    memset(area->stored + size, 0, COFFER__CODE_SLACK);
    if (status == COFFER_OK && to_end) {
        status = coffer__packed_check_zeros(&index->head, area->stored + (end - begin), zeros, request->err);
    }
    for (; status == COFFER_OK && *chunk < next; (*chunk)++) {
        status = packed_source_chunk(part, area, *chunk, area->stored + (index->starts[*chunk] - begin), request->err);
        if (status == COFFER_OK && area->tensor == part->tensor && area->chunk == *chunk) {
            packed_source_copy(part, area);
        }
    }
    return status;
}

static coffer_status packed_source_unpack(const packed_request *request, const packed_part *part,
                                          coffer__packed_area *area)
{
    const uint64_t chunk_size = (uint64_t)COFFER__PACKED_CHUNK * part->index->head.layout.element_size;
    const uint64_t last = (part->at + part->size - 1) / chunk_size;
    uint64_t chunk = part->at / chunk_size;
    if (chunk == last && area->tensor == part->tensor && area->chunk == chunk) {
        packed_source_copy(part, area);
        return COFFER_OK;
    }
    coffer__unpacker_init(&area->unpacker, &part->index->head, part->index->bytes);
    coffer_status status = COFFER_OK;
    while (status == COFFER_OK && chunk <= last) {
        status = packed_source_chunks(request, part, area, &chunk, last);
    }
    return status;
}

/* NOLINTBEGIN(readability-non-const-parameter): it is read to */
static coffer_status packed_source_read_packed(const packed_request *request, coffer__packed_tensor *tensor,
                                               uint64_t at, uint8_t *to, size_t size)
/* NOLINTEND(readability-non-const-parameter) */
{
    packed_part part = { .tensor = tensor, .at = at, .size = size, .to = to };
    coffer_status status = packed_source_index(request, tensor, &part.index);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__packed_area *area = packed_source_take_area(request->view);
    if (area == NULL) {
        return coffer__fail(request->err, COFFER_ERR_MEMORY, "no memory to unpack a tensor");
    }
    status = packed_source_unpack(request, &part, area);
    packed_source_give_area(request->view, area);
    return status;
}

/* ---- the source ---------------------------------------------------------------------------------------------------- */

coffer__packed_tensor *coffer__packed_source_find(const coffer__packed_view *view, uint64_t offset)
{
    size_t low = 0;
    size_t high = view->count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (view->tensors[middle].offset <= offset) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &view->tensors[low];
}

static coffer__packed_view *packed_source_own(const coffer__byte_source *source)
{
    return source->state.kept;
}

/* Tensors cover all that follows the front, without a gap, as the parser has seen to it. */
static coffer_status packed_source_read_at(const coffer__byte_source *source, uint64_t offset, void *buffer,
                                           size_t size, const coffer__watch *watch, coffer_error *err)
{
    const packed_request request = { packed_source_own(source), watch, err };
    const coffer__packed_view *view = request.view;
    uint8_t *to = buffer;
    coffer_status status = COFFER_OK;
    if (offset < view->front_size) {
        const size_t left = view->front_size - (size_t)offset;
        const size_t now = size < left ? size : left;
        memcpy(to, view->front + (size_t)offset, now);
        to += now;
        offset += now;
        size -= now;
    }
    while (size > 0 && status == COFFER_OK) {
        coffer__packed_tensor *tensor = coffer__packed_source_find(view, offset);
        const uint64_t at = offset - tensor->offset;
        const size_t now = size < tensor->size - at ? size : (size_t)(tensor->size - at);
        status = tensor->packed ? packed_source_read_packed(&request, tensor, at, to, now)
                                : packed_source_stored(&request, tensor->stored_offset + at, to, now);
        to += now;
        offset += now;
        size -= now;
    }
    return status;
}

/* ---- in place ------------------------------------------------------------------------------------------------------ */

/* Takes bytes of the limit, or gives them back. */
static bool packed_source_reserve(coffer__packed_view *view, uint64_t size)
{
    coffer__os_mutex_lock(&view->lock);
    const bool fits = size <= view->unpacked_left;
    view->unpacked_left -= fits ? size : 0;
    coffer__os_mutex_unlock(&view->lock);
    return fits;
}

static void packed_source_give_back(coffer__packed_view *view, uint8_t *data, uint64_t size)
{
    coffer__free(coffer_libc_allocator(), data, (size_t)size);
    coffer__os_mutex_lock(&view->lock);
    view->unpacked_left += size;
    coffer__os_mutex_unlock(&view->lock);
}

/* Two threads may decode it at once; then the first one's is kept. */
uint8_t *coffer__packed_source_data(const coffer__byte_source *source, uint64_t offset, coffer_error *err)
{
    coffer__packed_view *view = packed_source_own(source);
    coffer__packed_tensor *tensor = coffer__packed_source_find(view, offset);
    uint8_t *known = atomic_load_explicit(&tensor->data, memory_order_acquire);
    if (known != NULL) {
        return known;
    }
    if (tensor->size > SIZE_MAX || !packed_source_reserve(view, tensor->size)) {
        coffer__fail(
            err, COFFER_ERR_NOT_MAPPED,
            "the file is packed, and this tensor is more than may be unpacked in place: read the tensor instead, "
            "or raise unpacked_limit");
        return NULL;
    }
    uint8_t *data = coffer__alloc(coffer_libc_allocator(), (size_t)tensor->size);
    const coffer_status status = data == NULL
                                     ? coffer__fail(err, COFFER_ERR_MEMORY, "no memory to unpack a tensor")
                                     : coffer__source_read(source, tensor->offset, data, (size_t)tensor->size, err);
    if (status == COFFER_OK && atomic_compare_exchange_strong(&tensor->data, &known, data)) {
        return data;
    }
    packed_source_give_back(view, data, tensor->size);
    return known;
}

static void packed_source_close(coffer__byte_source *source)
{
    coffer__packed_view *view = packed_source_own(source);
    view->of.ops->close(&view->of);
    coffer__packed_view_free(view);
}

static const coffer__os_info *packed_source_seen(const coffer__byte_source *source)
{
    return coffer__source_seen(&packed_source_own(source)->of);
}

static bool packed_source_is_still(coffer__byte_source *source)
{
    return coffer__source_is_still(&packed_source_own(source)->of);
}

static bool packed_source_is_edited(const coffer__byte_source *source, const char *path)
{
    const coffer__byte_source *of = &packed_source_own(source)->of;
    return of->ops->is_edited != NULL && of->ops->is_edited(of, path);
}

static bool packed_source_identity(const coffer__byte_source *source, char *text)
{
    return coffer__source_identity(&packed_source_own(source)->of, text);
}

static const char *packed_source_commit(const coffer__byte_source *source)
{
    return coffer__source_commit(&packed_source_own(source)->of);
}

static const coffer__source_ops packed_source_ops = { .kind = "a packed file",
                                                      .read_at = packed_source_read_at,
                                                      .close = packed_source_close,
                                                      .seen = packed_source_seen,
                                                      .is_still = packed_source_is_still,
                                                      .is_edited = packed_source_is_edited,
                                                      .identity = packed_source_identity,
                                                      .commit = packed_source_commit };

void coffer__packed_source_init(coffer__byte_source *source, coffer__packed_view *view)
{
    coffer__source_traits traits = view->of.is;
    traits.maps = false;
    traits.lends = false;
    traits.streams = false;
    coffer__source_init(source, &packed_source_ops, view->size, traits);
    source->state.kept = view;
}

coffer__packed_view *coffer__packed_source_view(const coffer__byte_source *source)
{
    return source->ops == &packed_source_ops ? packed_source_own(source) : NULL;
}
