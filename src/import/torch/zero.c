/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints of DeepSpeed's ZeRO, stages 1 to 3, whose parameters in F32 lie in pieces in the files of the ranks:
 *
 *   [zero_pp_rank_R_]mp_rank_00_model_states.pt          shapes and names; with a rank in stage 3
 *   [bf16_]zero_pp_rank_R_mp_rank_00_optim_states.pt     flat vectors of F32, one for each group of parameters
 *
 * Stages 1 and 2: the vectors of a group, of all ranks after each other, are one vector, in which the parameters of the
 * group follow each other. Its end is padded to a multiple of twice the ranks.
 *
 * Stage 3: the vectors of all groups of a rank are one. Of each parameter every rank has the same number of elements, one
 * after another from the same place on, the last rank perhaps padding.
 *
 *   rank 0   | a 0..3 | b 0..1 | …        a has 10 elements of 3 ranks: 4, 4, and 2 with padding
 *   rank 1   | a 4..7 | b 2..3 | …
 *   rank 2   | a 8..9 _ _ | b 4 _ | …
 *
 * A parameter becomes a row over its pieces. Nothing else of an optimiser's file is read. Frozen parameters are tensors of
 * the model's files, in stage 3 in pieces as well; buffers are tensors there; shared parameters have several names.
 */
#include "alloc.h"
#include "checked.h"
#include "error.h"
#include "model_dir_name.h"
#include "paths.h"
#include "pickle_archive.h"
#include "pickle_rows.h"
#include "readers.h"
#include "text.h"
#include "torch.h"

#include <string.h>

#define ZERO_MAX_RANKS 65536
#define ZERO_MAX_GROUPS 4096
#define ZERO_MAX_NAME 96
#define ZERO_MP_RANK "mp_rank_"

/* A file that stays open. */
typedef struct zero_file {
    coffer__reader_file file;
    coffer__torch_opened *opened;
} zero_file;

/* A flat vector: where its elements of 4 bytes lie. */
typedef struct zero_flat {
    uint32_t storage;
    uint64_t offset;
    uint64_t count;
} zero_flat;

typedef struct zero_reading {
    const coffer__input_files *input;
    const coffer__wants *wants;
    coffer__import_plan *plan;
    const char *own; /* the name of the input */
    size_t own_len;
    bool bf16; /* in the names of the optimisers' files */
    uint64_t stage;
    uint64_t world;
    size_t groups;     /* of each rank */
    zero_flat *flats;  /* world * groups */
    zero_file *optims; /* of each rank */
    zero_file *models; /* of each rank in stage 3; else one */
    size_t model_count;
    size_t first_row;
} zero_reading;

/* A parameter whose pieces are being put together. */
typedef struct zero_parameter {
    const char *name;
    size_t name_len;
    uint32_t text;
    coffer__element element;
    uint64_t sizes[COFFER__PLAN_MAX_RANK];
    size_t rank;
    uint64_t elements;
    uint64_t done;
    zero_flat first; /* the first piece; it is all if there are no others */
    uint32_t parts;
} zero_parameter;

/* ---- files --------------------------------------------------------------------------------------------------------- */

/* "zero_pp_rank_3_mp_rank_00_optim_states.pt", without a NUL; `text` has space for ZERO_MAX_NAME bytes. */
static size_t zero_write_name(const char *prefix, uint64_t rank, const char *ending, char *text)
{
    static const char pp[] = "zero_pp_rank_";
    size_t len = coffer__text_len(prefix);
    memcpy(text, prefix, len);
    memcpy(text + len, pp, sizeof pp - 1);
    len += sizeof pp - 1;
    len += coffer__write_u64(text + len, rank);
    memcpy(text + len, ending, coffer__text_len(ending));
    return len + coffer__text_len(ending);
}

/* Opens a file by its name; the input is file 0. */
static coffer_status zero_open(const zero_reading *in, const char *name, size_t name_len, zero_file *file,
                               coffer_error *err)
{
    uint32_t number = 0;
    file->file =
        (coffer__reader_file){ .input = in->input, .wants = in->wants, .plan = in->plan, .size = in->input->size };
    if (name_len == in->own_len && memcmp(name, in->own, name_len) == 0) {
        return coffer__torch_open_zip(&file->opened, &file->file, err);
    }
    coffer_status status = in->input->open(in->input->ctx, name, name_len, &file->file.file, &file->file.size, err);
    if (status == COFFER_OK) {
        status = coffer__import_plan_put_file(in->plan, name, name_len, &number, err);
    }
    if (status == COFFER_OK && number != file->file.file) {
        status = coffer__fail(err, COFFER_ERR_PLAN, "the files of the checkpoint are not numbered as they were opened");
    }
    return status == COFFER_OK ? coffer__torch_open_zip(&file->opened, &file->file, err) : status;
}

static coffer_status zero_open_optim(zero_reading *in, uint64_t rank, coffer_error *err)
{
    char name[ZERO_MAX_NAME];
    const size_t len = zero_write_name(in->bf16 ? "bf16_" : "", rank, "_mp_rank_00_optim_states.pt", name);
    return zero_open(in, name, len, &in->optims[rank], err);
}

static coffer_status zero_open_model(zero_reading *in, uint64_t rank, coffer_error *err)
{
    static const char single[] = "mp_rank_00_model_states.pt";
    char name[ZERO_MAX_NAME];
    if (in->stage < 3) {
        return zero_open(in, single, sizeof single - 1, &in->models[0], err);
    }
    const size_t len = zero_write_name("", rank, "_mp_rank_00_model_states.pt", name);
    return zero_open(in, name, len, &in->models[rank], err);
}

/* ---- graphs -------------------------------------------------------------------------------------------------------- */

static coffer__graph *zero_graph(const zero_file *file)
{
    return coffer__torch_opened_graph(file->opened);
}

/* What the object of a file has under a key; 0: nothing. */
static coffer__value zero_get(const zero_file *file, coffer__value of, const char *key)
{
    const coffer__pickle *pickle = zero_graph(file)->pickle;
    return coffer__pickle_get(pickle, of, key);
}

static coffer__value zero_top(const zero_file *file, const char *key)
{
    return zero_get(file, coffer__pickle_root(zero_graph(file)->pickle), key);
}

/* For what DeepSpeed does not write. */
static coffer_status zero_malformed(const zero_file *file, coffer__value value, const char *what, coffer_error *err)
{
    return coffer__fail_at(err, COFFER_ERR_PICKLE, coffer__graph_place(zero_graph(file), value),
                           "this is no checkpoint as DeepSpeed writes them: %s", what);
}

/* The characters of a key that is a text; NULL else. */
static const char *zero_text(const zero_file *file, coffer__value value, size_t *len)
{
    const coffer__node *node = coffer__pickle_node(zero_graph(file)->pickle, value);
    return node != NULL && node->kind == COFFER__VALUE_TEXT
               ? coffer__pickle_bytes_of(zero_graph(file)->pickle, value, len)
               : NULL;
}

/* Stages, and how many ranks there are: one number, or one for each group, which differ where experts lie elsewhere. */
static coffer_status zero_read_partitions(zero_reading *in, coffer__value state, uint64_t *world, coffer_error *err)
{
    const zero_file *file = &in->optims[0];
    const coffer__graph *graph = zero_graph(file);
    const coffer__value count = zero_get(file, state, "partition_count");
    const coffer__node *node = coffer__pickle_node(graph->pickle, count);
    bool same = true;
    if (!coffer__graph_u64(graph, zero_get(file, state, "zero_stage"), &in->stage) || in->stage > 3 || node == NULL) {
        return zero_malformed(file, state, "no stage, or no number of ranks", err);
    }
    if (node->kind == COFFER__VALUE_LIST) {
        for (uint32_t link = node->first; link != 0;) {
            uint64_t ranks = 0;
            const bool known = coffer__graph_u64(graph, coffer__pickle_item(graph->pickle, &link), &ranks);
            same = same && known && (*world == 0 || ranks == *world);
            *world = ranks;
        }
    } else if (!coffer__graph_u64(graph, count, world)) {
        *world = 0;
    }
    if (!same) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                            "the groups of this checkpoint are of several numbers of "
                            "ranks, as those of experts are: that is not put together");
    }
    return *world > 0 && *world <= ZERO_MAX_RANKS ? COFFER_OK : zero_malformed(file, count, "no number of ranks", err);
}

/* One flat vector, which is all in one place. */
static coffer_status zero_read_flat(const zero_file *file, coffer__value value, zero_flat *flat, coffer_error *err)
{
    coffer__view view;
    const coffer__pickle_class role = coffer__graph_classify(zero_graph(file), value);
    if (role != COFFER__CLASS_TENSOR) {
        return zero_malformed(file, value, "a group is no tensor", err);
    }
    const coffer_status status = coffer__view_of(zero_graph(file), value, &view, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (view.lack != NULL || view.element != COFFER__ELEMENT_F32 || view.row.rank != 1 || view.row.swap != 0 ||
        view.row.sign != COFFER__SIGN_KEPT || (view.dimensions[0].count > 1 && view.dimensions[0].stride != 4) ||
        !coffer__import_plan_is_plain(file->file.plan,
                                      coffer__import_plan_storages(file->file.plan) + view.row.storage)) {
        return zero_malformed(file, value, "a group is no vector of F32 in one piece", err);
    }
    *flat = (zero_flat){ view.row.storage, view.row.offset, view.dimensions[0].count };
    return COFFER_OK;
}

/* The vectors of a rank, as many as of the others. */
static coffer_status zero_read_flats(zero_reading *in, uint64_t rank, coffer_error *err)
{
    coffer__entries entries;
    coffer__graph_entry entry;
    const zero_file *file = &in->optims[rank];
    const char *key = in->stage < 3 ? "single_partition_of_fp32_groups" : "fp32_flat_groups";
    const coffer__value list = zero_get(file, zero_top(file, "optimizer_state_dict"), key);
    const coffer__node *node = coffer__pickle_node(zero_graph(file)->pickle, list);
    size_t group = 0;
    if (node == NULL || coffer__graph_classify(zero_graph(file), list) != COFFER__CLASS_SEQUENCE || node->count == 0 ||
        node->count > ZERO_MAX_GROUPS || (rank > 0 && node->count != in->groups)) {
        return zero_malformed(file, list, "a rank has no groups, or others than the ranks before it", err);
    }
    if (rank == 0) {
        in->groups = node->count;
        in->flats = coffer__alloc_array(in->plan->allocator, (size_t)in->world * in->groups, sizeof *in->flats, err);
    }
    if (in->flats == NULL) {
        return COFFER_ERR_MEMORY;
    }
    coffer__entries_begin(&entries, zero_graph(file), list);
    while (group < in->groups && coffer__entries_next(&entries, zero_graph(file), &entry)) {
        const coffer_status status =
            zero_read_flat(file, entry.value, &in->flats[(size_t)rank * in->groups + group++], err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* ---- parameters ---------------------------------------------------------------------------------------------------- */

static coffer_status zero_fail(const zero_parameter *parameter, coffer_status status, const char *sentence,
                               coffer_error *err)
{
    coffer__fail(err, status, sentence, parameter->name, parameter->name_len);
    return coffer__fail_tensor(err, status, parameter->name, parameter->name_len);
}

/* A parameter of a name and a shape. */
static coffer_status zero_begin(const zero_reading *in, const zero_file *file, const coffer__graph_entry *entry,
                                zero_parameter *parameter, coffer_error *err)
{
    const size_t prefix_len = coffer__text_len(in->wants->strip_prefix);
    memset(parameter, 0, sizeof *parameter);
    parameter->element = COFFER__ELEMENT_F32;
    parameter->elements = 1;
    parameter->name = zero_text(file, entry->key, &parameter->name_len);
    if (parameter->name == NULL ||
        !coffer__view_numbers(zero_graph(file), entry->value, parameter->sizes, &parameter->rank)) {
        return zero_malformed(file, entry->value, "a parameter without a name or a shape", err);
    }
    if (prefix_len > 0 && parameter->name_len > prefix_len &&
        memcmp(parameter->name, in->wants->strip_prefix, prefix_len) == 0) {
        parameter->name += prefix_len;
        parameter->name_len -= prefix_len;
    }
    for (size_t i = 0; i < parameter->rank; i++) {
        if (!coffer__mul_u64(parameter->elements, parameter->sizes[i], &parameter->elements)) {
            return zero_fail(parameter, COFFER_ERR_VIEW, "the sizes of tensor %q multiply to more than 2^64-1", err);
        }
    }
    return coffer__import_plan_put_text(in->plan, parameter->name, parameter->name_len, &parameter->text, err);
}

static coffer_status zero_put_part(const zero_reading *in, zero_parameter *parameter, const zero_flat *piece,
                                   uint64_t start, coffer_error *err)
{
    parameter->parts++;
    return coffer__import_plan_put_part(in->plan, piece->storage, piece->offset, 1, &start, &piece->count, err);
}

/* The next elements: as many as are wanted of a piece. The first piece waits, since it may be all. */
static coffer_status zero_add(const zero_reading *in, zero_parameter *parameter, const zero_flat *piece,
                              coffer_error *err)
{
    coffer_status status = COFFER_OK;
    const uint64_t left = parameter->elements - parameter->done;
    const zero_flat taken = { piece->storage, piece->offset, piece->count < left ? piece->count : left };
    if (taken.count == 0) {
        return COFFER_OK;
    }
    if (parameter->done == 0) {
        parameter->first = taken;
    } else {
        status = parameter->parts == 0 ? zero_put_part(in, parameter, &parameter->first, 0, err) : COFFER_OK;
        if (status == COFFER_OK) {
            status = zero_put_part(in, parameter, &taken, parameter->done, err);
        }
    }
    parameter->done += taken.count;
    return status;
}

/* Puts the row, over one piece or several. */
static coffer_status zero_end(const zero_reading *in, const zero_parameter *parameter, coffer_error *err)
{
    coffer__import_plan_dimension dimensions[COFFER__PLAN_MAX_RANK];
    const coffer__element_facts *facts = coffer__element_facts_of(parameter->element);
    coffer__import_plan_row row = {
        .name = parameter->text, .dtype = facts->dtype, .rank = (uint32_t)parameter->rank, .item_size = facts->size
    };
    uint64_t step = facts->size;
    coffer_status status = COFFER_OK;
    if (parameter->done < parameter->elements) {
        return zero_fail(parameter, COFFER_ERR_VIEW, "the files have fewer elements than tensor %q", err);
    }
    if (parameter->parts > 0) {
        status = coffer__import_plan_put_assembled(in->plan, parameter->parts, 1, &parameter->elements, facts->size,
                                                   parameter->text, &row.storage, err);
    } else if (parameter->elements == 0) {
        status = coffer__import_plan_put_storage(in->plan, 0, parameter->text, &row.storage, err);
    } else {
        row.storage = parameter->first.storage;
        row.offset = parameter->first.offset;
    }
    for (size_t i = parameter->rank; i > 0; i--) {
        const uint64_t size = parameter->sizes[i - 1];
        const bool stepped = size > 1 && parameter->elements > 0;
        dimensions[i - 1] =
            (coffer__import_plan_dimension){ .size = size, .count = size, .stride = stepped ? (int64_t)step : 0 };
        step = parameter->elements > 0 ? step * size : step;
    }
    return status == COFFER_OK ? coffer__import_plan_put_row(in->plan, &row, dimensions, err) : status;
}

/* ---- stages -------------------------------------------------------------------------------------------------------- */

/* Elements [at, at + count) of the vectors of one group of all ranks (stages 1 and 2), or of all groups of one rank. */
static coffer_status zero_take(const zero_reading *in, zero_parameter *parameter, const zero_flat *flats, size_t count,
                               size_t step, uint64_t at, uint64_t elements, coffer_error *err)
{
    for (size_t i = 0; i < count && elements > 0; i++) {
        const zero_flat *flat = &flats[i * step];
        if (at >= flat->count) {
            at -= flat->count;
            continue;
        }
        const uint64_t most = flat->count - at;
        const zero_flat piece = { flat->storage, flat->offset + 4 * at, elements < most ? elements : most };
        const coffer_status status = zero_add(in, parameter, &piece, err);
        if (status != COFFER_OK) {
            return status;
        }
        elements -= piece.count;
        at = 0;
    }
    return COFFER_OK;
}

/* One parameter at *at of its group (of the rank, in stage 3); *at moves on. */
static coffer_status zero_put_parameter(const zero_reading *in, const coffer__graph_entry *entry, size_t group,
                                        uint64_t *at, coffer_error *err)
{
    zero_parameter parameter;
    coffer_status status = zero_begin(in, &in->models[0], entry, &parameter, err);
    if (status != COFFER_OK) {
        return status;
    }
    const size_t ranks = (size_t)in->world;
    uint64_t each = parameter.elements;
    if (in->stage < 3) {
        status = zero_take(in, &parameter, in->flats + group, ranks, in->groups, *at, each, err);
    } else {
        each = parameter.elements / in->world + (parameter.elements % in->world > 0 ? 1 : 0);
        for (size_t r = 0; r < ranks && status == COFFER_OK; r++) {
            status = zero_take(in, &parameter, in->flats + r * in->groups, in->groups, 1, *at, each, err);
        }
    }
    if (status == COFFER_OK) {
        status = zero_end(in, &parameter, err);
    }
    if (status == COFFER_OK && !coffer__add_u64(*at, each, at)) {
        status = zero_fail(&parameter, COFFER_ERR_VIEW, "tensor %q has more elements than a file can have", err);
    }
    return status;
}

/* The elements that vectors have together; they lie in files, so no sum wraps. */
static uint64_t zero_sum(const zero_flat *flats, size_t count, size_t step)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += flats[i * step].count;
    }
    return sum;
}

/* What a group has left over, or in stage 3 a rank, has to be padding: what is too little was told by a parameter. */
static coffer_status zero_check_end(const zero_reading *in, size_t which, uint64_t at, coffer_error *err)
{
    const uint64_t align = 2 * in->world;
    const uint64_t have = in->stage < 3 ? zero_sum(in->flats + which, (size_t)in->world, in->groups)
                                        : zero_sum(in->flats + which * in->groups, in->groups, 1);
    const bool fits = in->stage < 3 ? (at + align - 1) / align == (have + align - 1) / align : at == have;
    if (fits) {
        return COFFER_OK;
    }
    coffer__fail(err, COFFER_ERR_VIEW,
                 "the parameters of a group have %u elements, and the files %u: they do not belong together", at, have);
    return coffer__fail_sizes(err, COFFER_ERR_VIEW, at, have);
}

/* The groups, each a dict of names and shapes. In stage 3 their parameters follow each other as if they were one. */
static coffer_status zero_put_trained(const zero_reading *in, coffer_error *err)
{
    coffer__entries groups;
    coffer__graph_entry group;
    const zero_file *file = &in->models[0];
    coffer__graph *graph = zero_graph(file);
    const coffer__value list = zero_top(file, "param_shapes");
    uint64_t at = 0;
    size_t number = 0;
    if (coffer__graph_classify(graph, list) != COFFER__CLASS_SEQUENCE) {
        return zero_malformed(file, list, "no shapes of parameters", err);
    }
    coffer__entries_begin(&groups, graph, list);
    for (; coffer__entries_next(&groups, graph, &group); number++) {
        coffer__entries entries;
        coffer__graph_entry entry;
        if (coffer__graph_classify(graph, group.value) != COFFER__CLASS_MAPPING ||
            (in->stage < 3 && number == in->groups)) {
            return zero_malformed(file, group.value, "more groups of shapes than groups of elements", err);
        }
        at = in->stage < 3 ? 0 : at;
        coffer__entries_begin(&entries, graph, group.value);
        while (coffer__entries_next(&entries, graph, &entry)) {
            const coffer_status status = zero_put_parameter(in, &entry, number, &at, err);
            if (status != COFFER_OK) {
                return status;
            }
        }
        const coffer_status status = in->stage < 3 ? zero_check_end(in, number, at, err) : COFFER_OK;
        if (status != COFFER_OK) {
            return status;
        }
    }
    coffer_status status = COFFER_OK;
    for (size_t r = 0; in->stage == 3 && r < in->world && status == COFFER_OK; r++) {
        status = zero_check_end(in, r, at, err);
    }
    return status;
}

/* ---- tensors of the model's files ---------------------------------------------------------------------------------- */

/* A tensor as it is: a buffer, or a frozen parameter of stages 1 and 2. */
static coffer_status zero_put_whole(const zero_reading *in, coffer__value key, coffer__value value, coffer_error *err)
{
    coffer__view view;
    size_t len = 0;
    const zero_file *file = &in->models[0];
    const char *name = zero_text(file, key, &len);
    const coffer__pickle_class role = coffer__graph_classify(zero_graph(file), value);
    if (name == NULL || (role != COFFER__CLASS_TENSOR && role != COFFER__CLASS_LACKING)) {
        return zero_malformed(file, value, "a buffer or a frozen parameter is no tensor", err);
    }
    const size_t prefix_len = coffer__text_len(in->wants->strip_prefix);
    if (prefix_len > 0 && len > prefix_len && memcmp(name, in->wants->strip_prefix, prefix_len) == 0) {
        name += prefix_len;
        len -= prefix_len;
    }
    const coffer_status status = coffer__view_of(zero_graph(file), value, &view, err);
    return status == COFFER_OK ? coffer__graph_put_model_view(zero_graph(file), &view, name, len, err) : status;
}

/* Those of the module that are named as buffers. */
static coffer_status zero_put_buffers(const zero_reading *in, coffer_error *err)
{
    coffer__entries entries;
    coffer__graph_entry entry;
    const zero_file *file = &in->models[0];
    coffer__graph *graph = zero_graph(file);
    const coffer__value module = zero_top(file, "module");
    coffer_status status = COFFER_OK;
    coffer__entries_begin(&entries, graph, zero_top(file, "buffer_names"));
    while (status == COFFER_OK && coffer__entries_next(&entries, graph, &entry)) {
        size_t len = 0;
        const char *name = zero_text(file, entry.value, &len);
        const coffer__value value = name == NULL ? 0 : zero_get(file, module, name);
        status = value == 0 ? COFFER_OK : zero_put_whole(in, entry.value, value, err);
    }
    return status;
}

/* A frozen parameter of stage 3: a fragment of each rank, the last one perhaps with padding. */
static coffer_status zero_put_fragments(const zero_reading *in, const coffer__graph_entry *entry, coffer_error *err)
{
    zero_parameter parameter;
    size_t len = 0;
    const char *name = zero_text(&in->models[0], entry->key, &len);
    coffer_status status = zero_begin(in, &in->models[0], entry, &parameter, err);
    for (size_t r = 0; r < in->model_count && status == COFFER_OK; r++) {
        coffer__view view;
        const zero_file *file = &in->models[r];
        const coffer__value value = zero_get(file, zero_top(file, "frozen_param_fragments"), name);
        if (coffer__graph_classify(zero_graph(file), value) != COFFER__CLASS_TENSOR) {
            return zero_fail(&parameter, COFFER_ERR_VIEW, "a rank has no fragment of the frozen tensor %q", err);
        }
        status = coffer__view_of(zero_graph(file), value, &view, err);
        if (status != COFFER_OK) {
            return status;
        }
        const bool alike = r == 0 || view.element == parameter.element;
        parameter.element = view.element;
        if (view.lack != NULL || !alike || view.row.rank != 1 || view.row.swap != 0 ||
            (view.dimensions[0].count > 1 && (uint64_t)view.dimensions[0].stride != view.row.item_size) ||
            !coffer__import_plan_is_plain(in->plan, coffer__import_plan_storages(in->plan) + view.row.storage)) {
            return zero_fail(&parameter, COFFER_ERR_UNSUPPORTED, "a fragment of the frozen tensor %q is no vector",
                             err);
        }
        const zero_flat piece = { view.row.storage, view.row.offset, view.dimensions[0].count };
        status = zero_add(in, &parameter, &piece, err);
    }
    return status == COFFER_OK ? zero_end(in, &parameter, err) : status;
}

static coffer_status zero_put_frozen(const zero_reading *in, coffer_error *err)
{
    coffer__entries entries;
    coffer__graph_entry entry;
    const zero_file *file = &in->models[0];
    coffer__graph *graph = zero_graph(file);
    const coffer__value shapes = zero_top(file, "frozen_param_shapes");
    coffer_status status = COFFER_OK;
    if (coffer__graph_classify(graph, shapes) != COFFER__CLASS_MAPPING) {
        return COFFER_OK;
    }
    coffer__entries_begin(&entries, graph, shapes);
    while (status == COFFER_OK && coffer__entries_next(&entries, graph, &entry)) {
        size_t len = 0;
        const char *name = zero_text(file, entry.key, &len);
        const coffer__value whole = name == NULL ? 0 : zero_get(file, zero_top(file, "frozen_param_fragments"), name);
        status = in->stage < 3 ? zero_put_whole(in, entry.key, whole, err) : zero_put_fragments(in, &entry, err);
    }
    return status;
}

/* A parameter's other name: a second row of the same view, which ties then find. */
static coffer_status zero_put_shared(const zero_reading *in, coffer_error *err)
{
    coffer__entries entries;
    coffer__graph_entry entry;
    const zero_file *file = &in->models[0];
    coffer__graph *graph = zero_graph(file);
    const coffer__value pairs = zero_top(file, "shared_params");
    coffer_status status = COFFER_OK;
    if (coffer__graph_classify(graph, pairs) != COFFER__CLASS_MAPPING) {
        return COFFER_OK;
    }
    coffer__entries_begin(&entries, graph, pairs);
    while (status == COFFER_OK && coffer__entries_next(&entries, graph, &entry)) {
        size_t len = 0;
        size_t of_len = 0;
        const char *name = zero_text(file, entry.key, &len);
        const char *of = zero_text(file, entry.value, &of_len);
        for (size_t i = in->first_row; name != NULL && of != NULL && i < in->plan->rows.count; i++) {
            size_t row_len = 0;
            coffer__import_plan_row row = coffer__import_plan_rows(in->plan)[i];
            const char *text = coffer__import_plan_text(in->plan, row.name, &row_len);
            if (row_len != of_len || memcmp(text, of, of_len) != 0) {
                continue;
            }
            coffer__import_plan_dimension dimensions[COFFER__PLAN_MAX_RANK];
            memcpy(dimensions, coffer__import_plan_dimensions(in->plan, &row), row.rank * sizeof *dimensions);
            status = coffer__import_plan_put_text(in->plan, name, len, &row.name, err);
            if (status == COFFER_OK) {
                status = coffer__import_plan_put_row(in->plan, &row, dimensions, err);
            }
            break;
        }
    }
    return status;
}

/* ---- layouts that are not put together ----------------------------------------------------------------------------- */

/* By what a file is called: experts have files of their own, and the parts of a model that was cut for tensor parallelism
   have numbers. */
static coffer_status zero_check_name(const char *name, size_t len, coffer_error *err)
{
    static const char mp_rank[] = ZERO_MP_RANK;
    const size_t mp_len = sizeof mp_rank - 1;
    if (coffer__reader_has((const uint8_t *)name, len, "expert_") ||
        coffer__reader_has((const uint8_t *)name, len, "expp_rank_")) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                            "%q is a file of experts (expert parallelism): they are not put together with the others",
                            name, len);
    }
    for (size_t i = 0; i + mp_len + 2 < len; i++) {
        if (memcmp(name + i, mp_rank, mp_len) == 0 && memcmp(name + i + mp_len, "00_", 3) != 0) {
            return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                                "%q is a part of a model that was cut in several (tensor parallelism): they are not "
                                "put together",
                                name, len);
        }
    }
    return COFFER_OK;
}

/* Whether an object says of a number or a list of numbers that there are more than `most`. */
static bool zero_exceeds(const zero_file *file, coffer__value value, uint64_t most)
{
    coffer__entries entries;
    coffer__graph_entry entry;
    uint64_t number = 0;
    coffer__graph *graph = zero_graph(file);
    if (coffer__graph_u64(graph, value, &number)) {
        return number > most;
    }
    if (coffer__graph_classify(graph, value) != COFFER__CLASS_SEQUENCE) {
        return false;
    }
    coffer__entries_begin(&entries, graph, value);
    while (coffer__entries_next(&entries, graph, &entry)) {
        if (coffer__graph_u64(graph, entry.value, &number) && number > most) {
            return true;
        }
    }
    return false;
}

/* By what the model's file says. Its other parts lie in files that no rank's file names, so what is here would be taken for
   the whole. */
static coffer_status zero_check_layout(const zero_reading *in, coffer_error *err)
{
    const zero_file *file = &in->models[0];
    if (zero_exceeds(file, zero_top(file, "num_experts"), 0)) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                            "this checkpoint has experts in files of their own (num_experts): they are not put "
                            "together with the others");
    }
    if (zero_exceeds(file, zero_top(file, "mp_world_size"), 1)) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                            "the model of this checkpoint was cut in several parts for tensor parallelism "
                            "(mp_world_size): they are not put together");
    }
    return COFFER_OK;
}

/* ---- the whole ----------------------------------------------------------------------------------------------------- */

/* The optimisers' files of all ranks, and then the model's. */
static coffer_status zero_open_all(zero_reading *in, uint64_t world, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    const coffer_allocator *allocator = in->plan->allocator;
    const zero_file first = in->optims[0];
    zero_file *optims = coffer__alloc_array(allocator, (size_t)world, sizeof *optims, err);
    if (optims == NULL) {
        return COFFER_ERR_MEMORY;
    }
    coffer__free_array(allocator, in->optims, 1, sizeof *in->optims);
    in->optims = optims;
    in->optims[0] = first;
    in->world = world;
    for (uint64_t r = 0; r < in->world && status == COFFER_OK; r++) {
        status = r == 0 ? COFFER_OK : zero_open_optim(in, r, err);
        if (status == COFFER_OK) {
            status = zero_read_flats(in, r, err);
        }
    }
    in->model_count = in->stage < 3 ? 1 : (size_t)in->world;
    in->models = coffer__alloc_array(allocator, in->model_count, sizeof *in->models, err);
    if (in->models == NULL) {
        in->model_count = 0;
        return COFFER_ERR_MEMORY;
    }
    for (size_t r = 0; r < in->model_count && status == COFFER_OK; r++) {
        status = zero_open_model(in, r, err);
    }
    return status;
}

static coffer_status zero_read_rows(const zero_reading *in, coffer_error *err)
{
    coffer_status status = zero_put_buffers(in, err);
    if (status == COFFER_OK) {
        status = zero_put_frozen(in, err);
    }
    if (status == COFFER_OK) {
        status = zero_put_trained(in, err);
    }
    if (status == COFFER_OK) {
        status = zero_put_shared(in, err);
    }
    return status == COFFER_OK && in->wants->ties != COFFER_TIES_KEEP
               ? coffer__import_plan_tie(in->plan, in->first_row, err)
               : status;
}

/* Without the optimiser's files a model's file is one like any other. */
static coffer_status zero_read_model(zero_reading *in, coffer_error *err)
{
    in->models = coffer__alloc_array(in->plan->allocator, 1, sizeof *in->models, err);
    in->model_count = in->models == NULL ? 0 : 1;
    coffer_status status = in->models == NULL ? COFFER_ERR_MEMORY : COFFER_OK;
    if (status == COFFER_OK) {
        status = zero_open(in, in->own, in->own_len, &in->models[0], err);
    }
    if (status == COFFER_OK) {
        status = zero_check_layout(in, err);
    }
    return status == COFFER_OK ? coffer__graph_put_rows(zero_graph(&in->models[0]), err) : status;
}

static coffer_status zero_read_all(zero_reading *in, coffer_error *err)
{
    coffer_status status = coffer__pickle_file_put_format(in->plan, err);
    if (status != COFFER_OK) {
        return status;
    }
    in->optims = coffer__alloc_array(in->plan->allocator, 1, sizeof *in->optims, err);
    in->world = in->optims == NULL ? 0 : 1;
    if (in->optims == NULL) {
        return COFFER_ERR_MEMORY;
    }
    status = zero_open_optim(in, 0, err);
    if (status == COFFER_ERR_SHARD_MISSING) {
        in->bf16 = true;
        status = zero_open_optim(in, 0, err);
    }
    if (status == COFFER_ERR_SHARD_MISSING) {
        return zero_read_model(in, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    uint64_t world = 0;
    status = zero_read_partitions(in, zero_top(&in->optims[0], "optimizer_state_dict"), &world, err);
    if (status == COFFER_OK) {
        status = zero_open_all(in, world, err);
    }
    if (status == COFFER_OK) {
        status = zero_check_layout(in, err);
    }
    in->first_row = in->plan->rows.count;
    return status == COFFER_OK ? zero_read_rows(in, err) : status;
}

static void zero_free_files(const zero_reading *in, zero_file *files, size_t count)
{
    for (size_t i = 0; files != NULL && i < count; i++) {
        coffer__torch_opened_free(files[i].opened);
    }
    coffer__free_array(in->plan->allocator, files, count, sizeof *files);
}

static const char *zero_own_name(const coffer__input_files *input, size_t *len)
{
    const size_t first = coffer__path_name_at(input->path);
    *len = input->path_len - first;
    return input->path + first;
}

static coffer_status zero_reader(const coffer__input_files *input, const coffer__wants *wants,
                                 coffer__import_plan *plan, coffer_error *err)
{
    zero_reading in = { .input = input, .wants = wants, .plan = plan };
    const coffer__reader_file own = { .input = input, .wants = wants, .plan = plan, .size = input->size };
    if (wants->scan) {
        return coffer__torch_read_zip(&own, err);
    }
    in.own = zero_own_name(input, &in.own_len);
    coffer_status status = zero_check_name(in.own, in.own_len, err);
    if (status == COFFER_OK) {
        status = zero_read_all(&in, err);
    }
    zero_free_files(&in, in.optims, (size_t)in.world);
    zero_free_files(&in, in.models, in.model_count);
    coffer__free_array(plan->allocator, in.flats, (size_t)in.world * in.groups, sizeof *in.flats);
    return status;
}

/* By the name, of an archive that torch has written. What is called alike and cannot be put together is refused by the
   reader, with the reason. */
static bool zero_sniff(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size, const char *path,
                       size_t path_len)
{
    return (coffer__text_ends(path, path_len, "_model_states.pt") ||
            coffer__text_ends(path, path_len, "_optim_states.pt")) &&
           coffer__reader_has((const uint8_t *)path, path_len, ZERO_MP_RANK) &&
           coffer__reader_torch_zip.sniff(head, head_size, tail, tail_size, path, path_len);
}

const coffer__reader coffer__reader_zero = { "deepspeed", "a checkpoint of DeepSpeed", zero_sniff, zero_reader };
