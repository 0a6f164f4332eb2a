/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NeMo's archives (tar), as its save_restore_connector writes them:
 *
 *   ./model_weights.ckpt          what torch.save makes of the state_dict: the one member that is read
 *   ./model_config.yaml, …        the configuration, tokenizers and whatever else the model was made with
 *
 * Of models that were trained by several processes there are, in its place,
 *
 *   ./mp_rank_00/model_weights.ckpt, ./tp_rank_00_pp_rank_000/…     what each process had: not joined
 *   ./model_weights/.metadata, …                                   a distributed checkpoint: a folder, once it is unpacked
 *
 * The weights are an archive within the archive, and are read where they lie.
 */
#include "error.h"
#include "pickle_archive.h"
#include "readers.h"
#include "scan_contents.h"
#include "tar.h"
#include "text.h"
#include "torch.h"

#include <string.h>

/* Each costs a read. A model has a dozen; a folder of weights is refused at its first. */
#define NEMO_MAX_MEMBERS 1000

static const char nemo_weights[] = "model_weights.ckpt";
static const char nemo_of_rank[] = "/model_weights.ckpt";
static const char nemo_folder[] = "model_weights/";

typedef struct nemo_archive {
    coffer__tar_member weights;
    bool found;
    uint64_t others; /* plain files that are no weights */
} nemo_archive;

/* A name without the "./" that most begin with. */
static const char *nemo_plain(const char *name)
{
    return memcmp(name, "./", 2) == 0 ? name + 2 : name;
}

/* Refuses weights of several files, and says what to do with them. */
static coffer_status nemo_refuse_parts(const coffer__tar_member *member, coffer_error *err)
{
    const char *name = nemo_plain(member->name);
    const size_t len = coffer__text_len(name);
    if (memcmp(name, nemo_folder, sizeof nemo_folder - 1) == 0) {
        return coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, member->at,
                               "the weights are a folder of the archive, %q: unpack it (tar -xf), and convert that "
                               "folder",
                               nemo_folder, sizeof nemo_folder - 2);
    }
    if (coffer__text_ends(name, len, nemo_of_rank)) {
        return coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, member->at,
                               "the weights are divided among processes, as %q, and are not joined: let NeMo save the "
                               "model for one process, and convert that",
                               name, len);
    }
    return COFFER_OK;
}

static coffer_status nemo_meet(nemo_archive *archive, const coffer__tar_member *member, coffer_error *err)
{
    const coffer_status status = nemo_refuse_parts(member, err);
    if (status != COFFER_OK || !coffer__tar_is_named(member->name, nemo_weights)) {
        archive->others += member->plain;
        return status;
    }
    /* Of two with one name loaders take the last, and scanners perhaps the first. */
    if (archive->found || !member->plain) {
        return coffer__fail_at(err, COFFER_ERR_DAMAGED, member->at,
                               archive->found ? "the archive (tar) has %q twice"
                                              : "%q of the archive (tar) is no plain file",
                               nemo_weights, sizeof nemo_weights - 1);
    }
    archive->weights = *member;
    archive->found = true;
    return COFFER_OK;
}

static coffer_status nemo_find(nemo_archive *archive, const coffer__input_files *input,
                               const coffer_allocator *allocator, coffer_error *err)
{
    coffer__tar tar = { .input = input, .allocator = allocator, .size = input->size };
    bool more = true;
    for (size_t i = 0; more; i++) {
        coffer__tar_member member;
        coffer_status status = coffer__tar_next(&tar, &member, &more, err);
        if (status == COFFER_OK && i == NEMO_MAX_MEMBERS) {
            status = coffer__fail(err, COFFER_ERR_DAMAGED, "the archive (tar) has more than %u members", (uint64_t)i);
        }
        if (status == COFFER_OK && more) {
            status = nemo_meet(archive, &member, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return archive->found ? COFFER_OK
                          : coffer__fail(err, COFFER_ERR_DAMAGED,
                                         tar.ended ? "the archive (tar) has no %q, as models of NeMo have"
                                                   : "the archive (tar) has no %q, as models of NeMo have, and no "
                                                     "end: it was cut; get the file again",
                                         nemo_weights, sizeof nemo_weights - 1);
}

static coffer_status nemo_note_others(const nemo_archive *archive, coffer__import_plan *plan, coffer_error *err)
{
    char digits[21];
    const size_t len = coffer__write_u64(digits, archive->others);
    return archive->others == 0
               ? COFFER_OK
               : coffer__import_plan_put_finding(plan, COFFER_WEIGHT_NOTE, 0, UINT64_MAX, "",
                                                 "files of the archive that are no weights are left out: %q", digits,
                                                 len, err);
}

/* Whatever the weights are, all members are looked at. Weights that are not joined here are no reason to say less. */
static coffer_status nemo_scan(const coffer__reader_file *file, coffer_error *err)
{
    nemo_archive archive = { 0 };
    const coffer_status status = coffer__scan_tar(file, false, err);
    const coffer_status found =
        status == COFFER_OK ? nemo_find(&archive, file->input, file->plan->allocator, err) : status;
    return found == COFFER_ERR_UNSUPPORTED ? COFFER_OK : found;
}

static coffer_status nemo_reader(const coffer__input_files *input, const coffer__wants *wants,
                                 coffer__import_plan *plan, coffer_error *err)
{
    nemo_archive archive = { 0 };
    coffer__reader_file file = { .input = input, .wants = wants, .plan = plan, .size = input->size };
    if (wants->scan) {
        return nemo_scan(&file, err);
    }
    coffer_status status = coffer__pickle_file_put_format(plan, err);
    if (status == COFFER_OK) {
        status = nemo_find(&archive, input, plan->allocator, err);
    }
    if (status == COFFER_OK) {
        status = nemo_note_others(&archive, plan, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    file.embedded = true;
    file.at = archive.weights.at;
    file.part = archive.weights.size;
    return coffer__torch_read_zip(&file, err);
}

/* By the ending, or by members that are among the first of most. */
static bool nemo_sniff(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size, const char *path,
                       size_t path_len)
{
    (void)tail;
    (void)tail_size;
    return head_size >= COFFER__TAR_BLOCK && coffer__tar_is_head(head) &&
           (coffer__text_ends(path, path_len, ".nemo") || coffer__reader_has(head, head_size, "model_config.yaml") ||
            coffer__reader_has(head, head_size, nemo_weights));
}

const coffer__reader coffer__reader_nemo = { "nemo", "a model of NeMo", nemo_sniff, nemo_reader };
