/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storages within pickles. pickle.dump of a tensor, a state dict or a module knows no place for storages beside the
 * pickle, so each of them is saved by torch.save into bytes, and the pickle has
 *
 *   torch.storage._load_from_bytes(bytes)
 *
 * which loads them again. The bytes are a checkpoint of one storage, of the older kind, or an archive. They stay where they
 * are: what comes before the storage is read here, and the storage is a piece of the file, as in a checkpoint of its own.
 * Checkpoints of anything else within bytes are left alone.
 */
#include "alloc.h"
#include "error.h"
#include "torch.h"
#include "torch_text.h"

#include <string.h>

/* The bytes that a call would load, if it is such a call. */
static coffer__value within_bytes(const coffer__graph *graph, coffer__value call)
{
    coffer__value arguments[1] = { 0 };
    if (coffer__graph_known_call(graph, call).meaning != COFFER__MEANS_LOAD ||
        coffer__graph_items(graph, coffer__graph_arguments(graph, call), arguments, 1) != 1) {
        return 0;
    }
    return coffer__pickle_node(graph->pickle, arguments[0])->kind == COFFER__VALUE_BYTES ? arguments[0] : 0;
}

static coffer_status within_read_stored(const coffer__reader_file *file, coffer__within *within, bool *found,
                                        coffer_error *err)
{
    uint8_t head[4] = { 0 };
    const size_t size = file->part < sizeof head ? (size_t)file->part : sizeof head;
    const coffer_status status =
        coffer__input_files_read(file->input, file->file, file->size, file->at, head, size, err);
    if (status != COFFER_OK) {
        return status;
    }
    return memcmp(head, "PK\3\4", sizeof head) == 0 ? coffer__torch_zip_storage(file, within, found, err)
                                                    : coffer__torch_stream_storage(file, NULL, within, found, err);
}

static coffer_status within_read_text(const coffer__reader_file *file, const coffer__import_plan_piece *piece,
                                      coffer__within *within, bool *found, coffer_error *err)
{
    coffer__torch_text text;
    coffer_status status = coffer__torch_text_open(&text, file, piece, err);
    if (status == COFFER_OK) {
        status = coffer__torch_stream_storage(file, &text, within, found, err);
    }
    coffer__torch_text_free(&text);
    return status;
}

/* Reads what the bytes are a checkpoint of. */
static coffer_status within_read(const coffer__graph *graph, const coffer__reader_file *file, coffer__value bytes,
                                 coffer__within *within, bool *found, coffer_error *err)
{
    const bool latin1 = coffer__pickle_node(graph->pickle, bytes)->as.bytes.latin1;
    const coffer__import_plan_piece piece = coffer__graph_piece(graph, bytes, latin1);
    coffer__reader_file inner = *file;
    inner.embedded = true;
    inner.at = piece.offset;
    inner.part = piece.stored_size;
    return piece.coding == COFFER__CODING_STORED ? within_read_stored(&inner, within, found, err)
                                                 : within_read_text(&inner, &piece, within, found, err);
}

static coffer_status within_add(coffer__graph *graph, const coffer__within *within, coffer_error *err)
{
    coffer__within *grown = coffer__grow_array(graph->allocator, graph->within, graph->within_count,
                                               &graph->within_capacity, sizeof *grown, err);
    if (grown == NULL) {
        return COFFER_ERR_MEMORY;
    }
    graph->within = grown;
    graph->within[graph->within_count++] = *within;
    return COFFER_OK;
}

/* torch.save makes new bytes for each storage; bytes that two calls load are read for the first of them. */
coffer_status coffer__torch_find_within(coffer__graph *graph, const coffer__reader_file *file, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    for (coffer__value call = 1; call < graph->marks && status == COFFER_OK; call++) {
        const coffer__value bytes = within_bytes(graph, call);
        coffer__within within = { .call = call };
        bool found = false;
        if (bytes == 0 || graph->reached[bytes] != 0) {
            continue;
        }
        graph->reached[bytes] = 1;
        status = within_read(graph, file, bytes, &within, &found, err);
        if (status == COFFER_OK && found) {
            status = within_add(graph, &within, err);
        }
    }
    return status;
}
