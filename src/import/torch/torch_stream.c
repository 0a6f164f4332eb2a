/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints as torch.save wrote them from 0.1.10 to 1.5, and writes them still when it is asked to
 * (_use_new_zipfile_serialization=False): pickles, one after another, and then the storages.
 *
 *   pickle    0x1950a86a20f9469cfc6c
 *   pickle    1001
 *   pickle    {"protocol_version": 1001, "little_endian": True, "type_sizes": …}
 *   pickle    the object
 *   pickle    [key, …]
 *   for each key, in this order: its number of elements (i64), then their bytes
 *
 * How large an element is, only the ids in the object say. Numbers and bytes are little-endian, whichever machine wrote
 * them: big-endian ones swap them when they write and when they read.
 *
 * There is no table of places: each pickle begins where the one before it ended, and each storage after the sizes of
 * all before it. So the object is run before the storages are placed, and a storage whose size is not known from it
 * makes everything after it unreachable.
 */
#include "alloc.h"
#include "bytes.h"
#include "checked.h"
#include "error.h"
#include "pickle_rows.h"
#include "pickle_scan.h"
#include "pickle_views.h"
#include "readers.h"
#include "text.h"
#include "torch.h"
#include "torch_text.h"

#include <string.h>

/* The number, as a pickle has it after the opcode that says that it has ten bytes. */
static const uint8_t torch_stream_magic[] = { 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19 };
/* The same by protocols 0 and 1, which have neither PROTO nor binary integers of that length. */
static const char torch_stream_magic_line[] = "L119547037146038801333356L\n.";
/* Before it: PROTO and, from protocol 4 on, FRAME. */
#define TORCH_STREAM_MAX_BEFORE 11

/* Those before the storages, and before the object. */
#define TORCH_STREAM_PICKLES 5
#define TORCH_STREAM_PICKLES_BEFORE 3

typedef struct torch_stream {
    const coffer__reader_file *file;
    const coffer__torch_text
        *text; /* NULL: the stream is in the file as it is; else from `begin` on what this decodes */
    uint64_t begin;
    uint64_t end;
    uint64_t at; /* of what comes next */
    coffer__graph object;
    coffer__graph keys;
    coffer__stores stores; /* in the order of the file */
} torch_stream;

/* The magic number as a pickle writes it: of protocol 2 to 5 after PROTO, else as the first thing in the file. */
static bool torch_stream_is(const uint8_t *head, size_t head_size)
{
    const size_t line_len = sizeof torch_stream_magic_line - 1;
    if (head_size >= line_len && memcmp(head, torch_stream_magic_line, line_len) == 0) {
        return true;
    }
    for (size_t at = 0; at <= TORCH_STREAM_MAX_BEFORE && at + sizeof torch_stream_magic <= head_size; at++) {
        if (memcmp(head + at, torch_stream_magic, sizeof torch_stream_magic) == 0) {
            return head[0] == 0x80;
        }
    }
    return false;
}

/* Reads the next pickle; the graph stays loaded. */
static coffer_status torch_stream_next(torch_stream *t, coffer__graph *graph, coffer_error *err)
{
    uint64_t end = 0;
    graph->member = "";
    const uint8_t *bytes = t->text != NULL ? t->text->bytes + (size_t)(t->at - t->begin) : NULL;
    const coffer_status status = coffer__pickle_file_load(graph, t->file, bytes, t->at, t->end - t->at, &end, err);
    /* Also after a failure, where it is the byte after the last opcode that was read. */
    t->at += end;
    return status;
}

/* The pickles before the object: only their being there counts. */
static coffer_status torch_stream_read_head(torch_stream *t, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < TORCH_STREAM_PICKLES_BEFORE && status == COFFER_OK; i++) {
        coffer__graph graph = { 0 };
        status = torch_stream_next(t, &graph, err);
        coffer__pickle_file_unload(&graph);
    }
    return status;
}

/* The list of keys, in the order of the bytes. The keys are texts of this pickle, so its graph stays until the
   end. */
static coffer_status torch_stream_read_keys(torch_stream *t, coffer_error *err)
{
    coffer_status status = torch_stream_next(t, &t->keys, err);
    if (status != COFFER_OK) {
        return status;
    }
    const coffer__value root = coffer__pickle_root(t->keys.pickle);
    const coffer__node *list = coffer__pickle_node(t->keys.pickle, root);
    /* An object that is no list would be walked over as one, and its items are no keys. */
    if (list->kind != COFFER__VALUE_LIST) {
        return coffer__fail_at(err, COFFER_ERR_PICKLE, t->keys.at, "the checkpoint has no list of storages");
    }
    for (uint32_t link = list->first; link != 0;) {
        /* Its size and place are not known yet; UINT32_MAX says so until the object was searched. */
        coffer__stored stored = { .storage = UINT32_MAX };
        stored.key =
            coffer__pickle_bytes_of(t->keys.pickle, coffer__pickle_item(t->keys.pickle, &link), &stored.key_len);
        if (stored.key == NULL) {
            return coffer__fail_at(err, COFFER_ERR_PICKLE, t->keys.at, "a key of the list of storages is no text");
        }
        status = coffer__stores_add(&t->stores, &stored, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return coffer__stores_seal(&t->stores, err);
}

/* Sizes of the storages by what the object says of them: elements as `storage`, bytes as `size`. Where ids of one storage
   differ, the first counts, and the others are found out when their tensors are read. */
static coffer_status torch_stream_size(torch_stream *t, uint64_t *elements, coffer_error *err)
{
    for (coffer__value value = 1; value < t->object.marks; value++) {
        coffer__storage_id id;
        if (coffer__graph_classify(&t->object, value) != COFFER__CLASS_STORAGE) {
            continue;
        }
        const coffer_status status = coffer__storage_id_of(&t->object, value, &id, err);
        if (status != COFFER_OK) {
            return status;
        }
        /*
         * A storage that the object names and the list does not have is no error here: the tensor that views it
         * will be one.
         */
        const coffer__stored *found = coffer__stores_find(&t->stores, id.key, id.key_len);
        /* 0 is no number yet; it tells that the size is known. The number comes when the storage is put. */
        if (found != NULL && found->storage == UINT32_MAX) {
            coffer__stored *stored = &t->stores.items[found - t->stores.items];
            stored->storage = 0;
            stored->size = id.size;
            elements[found - t->stores.items] = id.elements;
        }
    }
    return COFFER_OK;
}

/* The eight bytes before a storage. */
static coffer_status torch_stream_count(const torch_stream *t, uint8_t count[8], coffer_error *err)
{
    if (8 > t->end - t->at) {
        return coffer__fail_at(err, COFFER_ERR_DAMAGED, t->end, "the checkpoint ends before its storages do");
    }
    if (t->text == NULL) {
        return coffer__input_files_read(t->file->input, t->file->file, t->file->size, t->at, count, 8, err);
    }
    memcpy(count, t->text->bytes + (size_t)(t->at - t->begin), 8);
    return COFFER_OK;
}

/* The piece of a storage of so many bytes. Of text it is all the rest, since only decoding it tells where it ends. */
static coffer__import_plan_piece torch_stream_piece(const torch_stream *t, uint64_t size)
{
    if (t->text != NULL) {
        coffer__import_plan_piece piece = coffer__torch_text_rest(t->text, (size_t)(t->at - t->begin));
        piece.size = size;
        return piece;
    }
    return (coffer__import_plan_piece){ .file = t->file->file, .offset = t->at, .stored_size = size, .size = size };
}

/* Goes to the bytes of the next storage. Compares the count before them with what the object says: when they differ, this is
   not where the storage begins, or the object is of another file. */
static coffer_status torch_stream_find_storage(torch_stream *t, const coffer__stored *stored, uint64_t elements,
                                               coffer_error *err)
{
    uint8_t count[8];
    if (stored->storage == UINT32_MAX) {
        return coffer__fail_at(err, COFFER_ERR_DAMAGED, t->at,
                               "storage %q belongs to no tensor, so its size is not known", stored->key,
                               stored->key_len);
    }
    const coffer_status status = torch_stream_count(t, count, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (coffer__load_u64le(count) != elements) {
        coffer__fail_at(err, COFFER_ERR_DAMAGED, t->at, "storage %q has %u elements, and the pickle says %u",
                        stored->key, stored->key_len, coffer__load_u64le(count), elements);
        return coffer__fail_sizes(err, COFFER_ERR_DAMAGED, elements, coffer__load_u64le(count));
    }
    t->at += sizeof count;
    /* Text is longer than its bytes, and the rest of it was not decoded: what fits into it is found out then. */
    const coffer__import_plan_piece piece = torch_stream_piece(t, stored->size);
    const uint64_t left = t->text != NULL ? piece.stored_size : t->end - t->at;
    if (stored->size > left) {
        coffer__fail_at(err, COFFER_ERR_DAMAGED, t->at,
                        "storage %q is cut off: the file ends within it; get the file again", stored->key,
                        stored->key_len);
        return coffer__fail_sizes(err, COFFER_ERR_DAMAGED, stored->size, left);
    }
    return COFFER_OK;
}

/* The bytes stay where they are. What is read of a storage is its count alone, so a stream of any size is planned with a
   read for each. A scan only goes past them. */
static coffer_status torch_stream_put_storage(torch_stream *t, coffer__stored *stored, uint64_t elements,
                                              coffer_error *err)
{
    const coffer_status status = torch_stream_find_storage(t, stored, elements, err);
    if (status != COFFER_OK) {
        return status;
    }
    const coffer__import_plan_piece piece = torch_stream_piece(t, stored->size);
    t->at = t->text != NULL ? t->end : t->at + stored->size;
    return t->file->wants->scan ? COFFER_OK
                                : coffer__pickle_file_put_storage(t->file, &piece, "storage ", stored->key,
                                                                  stored->key_len, &stored->storage, err);
}

/* In the order of the file, since each one's place follows from those before it. */
static coffer_status torch_stream_put_storages(torch_stream *t, coffer_error *err)
{
    uint64_t *elements = coffer__alloc_array(t->stores.allocator, t->stores.count, sizeof *elements, err);
    if (elements == NULL) {
        return COFFER_ERR_MEMORY;
    }
    coffer_status status = torch_stream_size(t, elements, err);
    for (size_t i = 0; i < t->stores.count && status == COFFER_OK; i++) {
        status = torch_stream_put_storage(t, &t->stores.items[i], elements[i], err);
    }
    coffer__free_array(t->stores.allocator, elements, t->stores.count, sizeof *elements);
    return status;
}

/* What nobody reads is told, but is no error: torch does not look at it either. */
static coffer_status torch_stream_note_rest(const torch_stream *t, coffer_error *err)
{
    if (t->at == t->end) {
        return COFFER_OK;
    }
    return coffer__import_plan_put_finding(t->file->plan, COFFER_WEIGHT_NOTE, t->file->file, t->at, "",
                                           "there are bytes after the last storage", "", 0, err);
}

/* To the byte after the last storage, with the object loaded. */
static coffer_status torch_stream_read_parts(torch_stream *t, coffer_error *err)
{
    t->stores.allocator = t->file->plan->allocator;
    t->object.stores = &t->stores;
    coffer_status status = torch_stream_read_head(t, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = torch_stream_next(t, &t->object, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = torch_stream_read_keys(t, err);
    return status == COFFER_OK ? torch_stream_put_storages(t, err) : status;
}

/*
 * Five pickles, of which a loader runs each, and then bytes, which it takes for numbers. What comes after those another
 * load of the same file would read, so it is looked at as what may be a pickle. Where it begins only the five say: if they
 * cannot be read as a converter reads them, that is told.
 */
static coffer_status torch_stream_scan(torch_stream *t, coffer_error *err)
{
    const coffer__scan_range range = {
        .member = "", .size = t->file->size, .expected = TORCH_STREAM_PICKLES, .more = true
    };
    coffer_status status = coffer__scan_pickles(t->file, &range, NULL, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer_error trouble;
    coffer__error_clear(&trouble);
    status = torch_stream_read_parts(t, &trouble);
    if (status == COFFER_ERR_PICKLE || status == COFFER_ERR_DAMAGED || status == COFFER_ERR_VIEW) {
        return coffer__import_plan_put_finding(t->file->plan, COFFER_WEIGHT_OPAQUE, t->file->file, t->at, "",
                                               "nobody can tell where the storages end, and what follows them: %p",
                                               trouble.message, coffer__text_len(trouble.message), err);
    }
    if (status != COFFER_OK) {
        if (err != NULL) {
            *err = trouble;
        }
        return status;
    }
    const coffer__scan_range rest = { .member = "", .at = t->at, .size = t->file->size - t->at, .unsure = true };
    status = torch_stream_note_rest(t, err);
    return status == COFFER_OK ? coffer__scan_pickles(t->file, &rest, NULL, err) : status;
}

static coffer_status torch_stream_read(torch_stream *t, coffer_error *err)
{
    if (t->file->wants->scan) {
        return torch_stream_scan(t, err);
    }
    coffer_status status = torch_stream_read_parts(t, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = torch_stream_note_rest(t, err);
    return status == COFFER_OK ? coffer__graph_put_rows(&t->object, err) : status;
}

static void torch_stream_free(torch_stream *t)
{
    coffer__pickle_file_unload(&t->object);
    coffer__pickle_file_unload(&t->keys);
    coffer__stores_free(&t->stores);
}

coffer_status coffer__torch_read_stream(const coffer__reader_file *file, coffer_error *err)
{
    torch_stream t = { .file = file, .end = file->size };
    const coffer_status status = torch_stream_read(&t, err);
    torch_stream_free(&t);
    return status;
}

coffer_status coffer__torch_stream_storage(const coffer__reader_file *file, const coffer__torch_text *text,
                                           coffer__within *within, bool *found, coffer_error *err)
{
    torch_stream t = { .file = file, .text = text, .begin = file->at, .at = file->at };
    const uint64_t size = text != NULL ? text->size : file->part;
    uint8_t head[TORCH_STREAM_MAX_BEFORE + sizeof torch_stream_magic_line];
    const size_t head_size = size < sizeof head ? (size_t)size : sizeof head;
    coffer_status status = COFFER_OK;
    *found = false;
    t.end = file->at + size;
    if (text != NULL) {
        memcpy(head, text->bytes, head_size);
    } else {
        status = coffer__input_files_read(file->input, file->file, file->size, file->at, head, head_size, err);
    }
    if (status == COFFER_OK && torch_stream_is(head, head_size)) {
        status = torch_stream_read_parts(&t, err);
        if (status == COFFER_OK) {
            status = torch_stream_note_rest(&t, err);
        }
        if (status == COFFER_OK) {
            status = coffer__graph_storage(&t.object, within, found, err);
        }
    }
    torch_stream_free(&t);
    return status;
}

static bool torch_stream_sniff(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size,
                               const char *path, size_t path_len)
{
    (void)tail;
    (void)tail_size;
    (void)path;
    (void)path_len;
    return torch_stream_is(head, head_size);
}

static coffer_status torch_stream_reader(const coffer__input_files *input, const coffer__wants *wants,
                                         coffer__import_plan *plan, coffer_error *err)
{
    const coffer__reader_file file = { .input = input, .wants = wants, .plan = plan, .size = input->size };
    const coffer_status status = coffer__pickle_file_put_format(plan, err);
    return status == COFFER_OK ? coffer__torch_read_stream(&file, err) : status;
}

const coffer__reader coffer__reader_torch_stream = { "torch-stream", "a PyTorch checkpoint of the older kind",
                                                     torch_stream_sniff, torch_stream_reader };
