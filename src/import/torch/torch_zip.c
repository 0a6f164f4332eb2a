/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints as torch.save writes them since 1.6, and TorchScript: archives in which everything is in one folder,
 *
 *   FOLDER/data.pkl     the object
 *   FOLDER/data/KEY     the storages, as they are in memory
 *   FOLDER/byteorder    "little" or "big", since 2.1; little before
 *   FOLDER/version      "3\n" and others
 *   FOLDER/constants.pkl, constants/KEY, code/…    TorchScript
 */
#include "alloc.h"
#include "error.h"
#include "pickle_archive.h"
#include "pickle_rows.h"
#include "readers.h"
#include "scan_contents.h"
#include "text.h"
#include "torch.h"

#include <string.h>

/* Of data.pkl when it has to be inflated. */
#define TORCH_ZIP_MAX_PICKLE ((uint64_t)64 << 20)

typedef struct coffer__torch_opened {
    const coffer__reader_file *file;
    coffer__reader_file own; /* of one that stays open: what `file` is then */
    coffer__pickle_archive archive;
    coffer__stores stores;
    coffer__graph graph;
    uint8_t *pickle; /* inflated, when it was deflated */
    size_t pickle_size;
} torch_zip;

/* torch opens versions 1 to 10. The number says nothing that is needed here, so another one is only noted. */
static coffer_status torch_zip_note_version(const torch_zip *t, coffer_error *err)
{
    char text[8];
    size_t len = 0;
    const coffer_status status = coffer__pickle_archive_peek(&t->archive, "version", text, sizeof text, &len, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* The file has the number as a line. */
    len -= len > 0 && text[len - 1] == '\n' ? 1 : 0;
    if ((len == 1 && text[0] >= '1' && text[0] <= '9') || (len == 2 && text[0] == '1' && text[1] == '0')) {
        return COFFER_OK;
    }
    return coffer__import_plan_put_finding(t->file->plan, COFFER_WEIGHT_NOTE, t->file->file, UINT64_MAX, "version",
                                           "the version of the archive is %q: PyTorch would not open it", text, len,
                                           err);
}

/* torch does not write deflated pickles, but loads them. */
static coffer_status torch_zip_read_pickle(torch_zip *t, coffer_error *err)
{
    coffer__zip_member *member = coffer__pickle_archive_find(&t->archive, "data.pkl");
    uint64_t end = 0;
    coffer_status status = COFFER_OK;
    if (member == NULL) {
        return coffer__fail(err, COFFER_ERR_DAMAGED, "the archive has no data.pkl: it is not one of PyTorch's");
    }
    /* The CRC is right before the first opcode is run: a damaged pickle may still be one, of other tensors. */
    if (member->coding != COFFER__CODING_STORED) {
        status =
            coffer__pickle_archive_load(&t->archive, member, TORCH_ZIP_MAX_PICKLE, &t->pickle, &t->pickle_size, err);
    } else {
        status = coffer__zip_check(&t->archive.zip, t->file->input, member, err);
    }
    /*
     * What the graph needs to find storages and to name places in messages. The pickle itself is read where it
     * lies, through a window, or from memory when it had to be inflated.
     */
    t->graph.member = member->name;
    t->graph.stores = &t->stores;
    t->graph.big_endian = t->archive.big_endian;
    if (status == COFFER_OK) {
        status = coffer__pickle_file_load(&t->graph, t->file, t->pickle, member->at, member->size, &end, err);
    }
    if (status != COFFER_OK || end == member->size) {
        return status;
    }
    return coffer__import_plan_put_finding(t->file->plan, COFFER_WEIGHT_DANGER, t->file->file, member->at + end,
                                           member->name, "there are bytes after the end of the pickle in %q",
                                           member->name, member->name_len, err);
}

/* Storages come before the object, whose tensors are looked up among them. Constants of TorchScript are put,
   too, so that no bytes of the file are lost silently. */
static coffer_status torch_zip_read_object(torch_zip *t, coffer_error *err)
{
    t->stores.allocator = t->file->plan->allocator;
    coffer_status status = coffer__pickle_archive_open(&t->archive, t->file, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = torch_zip_note_version(t, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__pickle_archive_put_storages(&t->archive, "data/", &t->stores, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__pickle_archive_put_storages(&t->archive, "constants/", NULL, err);
    if (status != COFFER_OK) {
        return status;
    }
    return torch_zip_read_pickle(t, err);
}

static void torch_zip_free(torch_zip *t)
{
    coffer__pickle_file_unload(&t->graph);
    coffer__stores_free(&t->stores);
    coffer__free_array(t->file->plan->allocator, t->pickle, t->pickle_size, 1);
    coffer__pickle_archive_free(&t->archive);
}

coffer_status coffer__torch_read_zip(const coffer__reader_file *file, coffer_error *err)
{
    torch_zip t = { .file = file };
    if (file->wants->scan) {
        return coffer__scan_zip(file, err);
    }
    coffer_status status = torch_zip_read_object(&t, err);
    if (status == COFFER_OK) {
        status = coffer__graph_put_rows(&t.graph, err);
    }
    torch_zip_free(&t);
    return status;
}

/* What saves shards writes each tensor as an archive of its own: what is pickled is the tensor itself. */
static coffer_status torch_zip_view(torch_zip *t, coffer__view *view, coffer_error *err)
{
    const coffer__value root = coffer__pickle_root(t->graph.pickle);
    const coffer__pickle_class role = coffer__graph_classify(&t->graph, root);
    if (role != COFFER__CLASS_TENSOR && role != COFFER__CLASS_LACKING) {
        return coffer__fail_at(err, COFFER_ERR_PICKLE, t->graph.at,
                               "the archive at byte %u has something else than a "
                               "tensor",
                               t->file->at);
    }
    return coffer__view_of(&t->graph, root, view, err);
}

coffer_status coffer__torch_read_tensor(const coffer__reader_file *file, uint32_t name, coffer__view *view,
                                        coffer_error *err)
{
    torch_zip t = { .file = file };
    coffer__import_plan *plan = file->plan;
    const size_t first = plan->storages.count;
    coffer_status status = torch_zip_read_object(&t, err);
    if (status == COFFER_OK) {
        status = torch_zip_view(&t, view, err);
    }
    torch_zip_free(&t);
    /* Each of thousands of archives has a "data/0". */
    for (size_t i = first; i < plan->storages.count; i++) {
        ((coffer__import_plan_storage *)plan->storages.items)[i].name = name;
    }
    return status;
}

coffer_status coffer__torch_zip_storage(const coffer__reader_file *file, coffer__within *within, bool *found,
                                        coffer_error *err)
{
    torch_zip t = { .file = file };
    coffer_status status = torch_zip_read_object(&t, err);
    *found = false;
    if (status == COFFER_OK) {
        status = coffer__graph_storage(&t.graph, within, found, err);
    }
    torch_zip_free(&t);
    return status;
}

coffer_status coffer__torch_open_zip(coffer__torch_opened **opened, const coffer__reader_file *file, coffer_error *err)
{
    *opened = coffer__alloc_array(file->plan->allocator, 1, sizeof **opened, err);
    if (*opened == NULL) {
        return COFFER_ERR_MEMORY;
    }
    (*opened)->own = *file;
    (*opened)->file = &(*opened)->own;
    return torch_zip_read_object(*opened, err);
}

coffer__graph *coffer__torch_opened_graph(coffer__torch_opened *opened)
{
    return &opened->graph;
}

void coffer__torch_opened_free(coffer__torch_opened *opened)
{
    if (opened != NULL) {
        const coffer_allocator *allocator = opened->file->plan->allocator;
        torch_zip_free(opened);
        coffer__free_array(allocator, opened, 1, sizeof *opened);
    }
}

/* An archive that names its pickle at its beginning, as torch's do, or in the end of its directory. TorchScript begins
   with the storages. */
static bool torch_zip_sniff(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size,
                            const char *path, size_t path_len)
{
    (void)path;
    (void)path_len;
    return head_size >= 4 && memcmp(head, "PK\3\4", 4) == 0 &&
           (coffer__reader_has(head, head_size, "/data.pkl") ||
            coffer__reader_has(head, head_size < 300 ? head_size : 300, "/data/") ||
            coffer__reader_has(tail, tail_size, "/data.pkl"));
}

static coffer_status torch_zip_reader(const coffer__input_files *input, const coffer__wants *wants,
                                      coffer__import_plan *plan, coffer_error *err)
{
    const coffer__reader_file file = { .input = input, .wants = wants, .plan = plan, .size = input->size };
    const coffer_status status = coffer__pickle_file_put_format(plan, err);
    return status == COFFER_OK ? coffer__torch_read_zip(&file, err) : status;
}

const coffer__reader coffer__reader_torch_zip = { "torch", "a PyTorch checkpoint", torch_zip_sniff, torch_zip_reader };
