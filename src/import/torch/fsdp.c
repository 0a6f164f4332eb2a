/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints of which each process has saved its own file, with torch.save:
 *
 *   model_world_size_8_rank_0.pt … model_world_size_8_rank_7.pt
 *
 * The same names are in all of them. A tensor is a DTensor, which has the process's part and how the whole was cut: along
 * one dimension (Shard), in the order of the ranks, or not at all (Replicate). Anything else, as on a mesh of several
 * dimensions, is refused with what it is. Other tensors are each process's own copy, of which the first is taken.
 *
 * All graphs are walked at once, step by step, so that the parts of a tensor are found together; they stay in memory, and
 * no tensor does.
 */
#include "alloc.h"
#include "assembly.h"
#include "error.h"
#include "paths.h"
#include "pickle_rows.h"
#include "pickle_walk.h"
#include "readers.h"
#include "text.h"
#include "torch.h"

#include <string.h>

#define FSDP_MAX_RANKS 4096
#define FSDP_MAX_NAME 255

static const char fsdp_world[] = "_world_size_";
static const char fsdp_rank_word[] = "_rank_";

/* One process's file. */
typedef struct fsdp_rank {
    coffer__reader_file file;
    coffer__torch_opened *opened;
    coffer__graph_walk walk;
    bool walking;
    coffer__value found; /* the tensor that the walk is at; 0: it is at its end */
} fsdp_rank;

/* The parts of a file's name. */
typedef struct fsdp_name {
    const char *begin; /* what is before the number of processes, with the word */
    size_t begin_len;
    const char *end; /* what is after the rank */
    size_t end_len;
    uint64_t world;
    uint64_t rank;
} fsdp_name;

typedef struct fsdp_reading {
    const coffer__input_files *input;
    const coffer__wants *wants;
    coffer__import_plan *plan;
    fsdp_name name;
    fsdp_rank *ranks;
    uint32_t same; /* a text: why the copy of another rank is left out */
    bool copied;   /* a tensor that is no DTensor was taken from the first rank */
} fsdp_reading;

/* ---- names --------------------------------------------------------------------------------------------------------- */

/* A number of at most 6 digits at *at; false when there is none. */
static bool fsdp_number(const char *text, size_t len, size_t *at, uint64_t *number)
{
    const size_t first = *at;
    *number = 0;
    while (*at < len && *at - first < 6 && text[*at] >= '0' && text[*at] <= '9') {
        *number = *number * 10 + (uint64_t)(text[(*at)++] - '0');
    }
    return *at > first;
}

static bool fsdp_word(const char *text, size_t len, size_t *at, const char *word)
{
    const size_t word_len = coffer__text_len(word);
    if (len - *at < word_len || memcmp(text + *at, word, word_len) != 0) {
        return false;
    }
    *at += word_len;
    return true;
}

/* Takes "…_world_size_8_rank_0…" apart, which comes last in a path. */
static bool fsdp_read_name(const char *path, size_t path_len, fsdp_name *name)
{
    const size_t first = coffer__path_name_at(path);
    const char *text = path + first;
    const size_t len = path_len - first;
    for (size_t i = 0; i < len && len <= FSDP_MAX_NAME; i++) {
        size_t at = i;
        if (!fsdp_word(text, len, &at, fsdp_world)) {
            continue;
        }
        name->begin = text;
        name->begin_len = at;
        if (fsdp_number(text, len, &at, &name->world) && fsdp_word(text, len, &at, fsdp_rank_word) &&
            fsdp_number(text, len, &at, &name->rank)) {
            name->end = text + at;
            name->end_len = len - at;
            return name->rank < name->world && name->world <= FSDP_MAX_RANKS;
        }
    }
    return false;
}

/* The name of another rank's file, without a NUL; `text` has space for 300 bytes. */
static size_t fsdp_write_name(const fsdp_name *name, uint64_t rank, char *text)
{
    size_t len = name->begin_len;
    memcpy(text, name->begin, len);
    len += coffer__write_u64(text + len, name->world);
    memcpy(text + len, fsdp_rank_word, sizeof fsdp_rank_word - 1);
    len += sizeof fsdp_rank_word - 1;
    len += coffer__write_u64(text + len, rank);
    memcpy(text + len, name->end, name->end_len);
    return len + name->end_len;
}

/* ---- opening ------------------------------------------------------------------------------------------------------- */

/* Opens the file of a rank; the input is that of its own. */
static coffer_status fsdp_open_file(fsdp_reading *in, uint64_t rank, coffer_error *err)
{
    char text[FSDP_MAX_NAME + 48];
    coffer__reader_file *file = &in->ranks[rank].file;
    uint32_t number = 0;
    *file = (coffer__reader_file){ .input = in->input, .wants = in->wants, .plan = in->plan, .size = in->input->size };
    if (rank == in->name.rank) {
        return COFFER_OK;
    }
    const size_t len = fsdp_write_name(&in->name, rank, text);
    coffer_status status = in->input->open(in->input->ctx, text, len, &file->file, &file->size, err);
    if (status == COFFER_OK) {
        status = coffer__import_plan_put_file(in->plan, text, len, &number, err);
    }
    if (status == COFFER_OK && number != file->file) {
        status = coffer__fail(err, COFFER_ERR_PLAN, "the files of the ranks are not numbered as they were opened");
    }
    return status;
}

/* Opens a rank's file and begins to walk over its model, which is the same part of each file. */
static coffer_status fsdp_open_rank(fsdp_reading *in, uint64_t rank, coffer_error *err)
{
    char path[256];
    coffer__value start = 0;
    fsdp_rank *one = &in->ranks[rank];
    coffer_status status = fsdp_open_file(in, rank, err);
    if (status == COFFER_OK) {
        status = coffer__torch_open_zip(&one->opened, &one->file, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    coffer__graph *graph = coffer__torch_opened_graph(one->opened);
    status = coffer__graph_find_root(graph, &start, path, sizeof path, err);
    if (status != COFFER_OK) {
        return status;
    }
    one->walking = true;
    return coffer__graph_walk_begin(&one->walk, graph, start, false, err);
}

/* The next tensor of a rank. */
static coffer_status fsdp_next(fsdp_rank *one, coffer_error *err)
{
    coffer__graph *graph = coffer__torch_opened_graph(one->opened);
    for (;;) {
        const coffer_status status = coffer__graph_walk_next(&one->walk, &one->found, err);
        const coffer__pickle_class role = coffer__graph_classify(graph, one->found);
        if (status != COFFER_OK || one->found == 0 || role == COFFER__CLASS_TENSOR || role == COFFER__CLASS_LACKING) {
            return status;
        }
    }
}

/* ---- tensors ------------------------------------------------------------------------------------------------------- */

/* An error that names the tensor. `sentence` has %q for it, and perhaps another for `what`. */
static coffer_status fsdp_fail(const fsdp_reading *in, coffer_status status, const char *sentence, const char *what,
                               coffer_error *err)
{
    const coffer__graph_walk *walk = &in->ranks[0].walk;
    coffer__fail(err, status, sentence, walk->path, walk->path_len, what, coffer__text_len(what));
    return coffer__fail_tensor(err, status, walk->path, walk->path_len);
}

/* An attribute of an object; 0: none. */
static coffer__value fsdp_attribute(const coffer__graph *graph, coffer__value object, const char *name)
{
    const coffer__node *of = coffer__pickle_node(graph->pickle, object);
    const coffer__value state = of != NULL ? coffer__node_state(of) : 0;
    const coffer__node *node = coffer__pickle_node(graph->pickle, state);
    const bool small = node != NULL && node->kind == COFFER__VALUE_DICT && node->count <= 64;
    return small ? coffer__pickle_get(graph->pickle, state, name) : 0;
}

/* The name of an object's class; "" of what is none. */
static const char *fsdp_class(const coffer__graph *graph, coffer__value object)
{
    const coffer__value callable = coffer__graph_callable(graph, object);
    const coffer__node *node = coffer__pickle_node(graph->pickle, callable);
    return node != NULL && node->kind == COFFER__VALUE_GLOBAL ? coffer__pickle_name(graph->pickle, callable) : "";
}

/* How a DTensor was cut: *sharded along *dim, or not at all. */
static coffer_status fsdp_placement(const fsdp_reading *in, const coffer__graph *graph, coffer__value spec,
                                    bool *sharded, uint64_t *dim, coffer_error *err)
{
    coffer__value placements[2] = { 0 };
    const size_t count = coffer__graph_items(graph, fsdp_attribute(graph, spec, "placements"), placements, 2);
    const char *class = fsdp_class(graph, placements[0]);
    *sharded = coffer__same_text(class, "Shard");
    if (count != 1) {
        return fsdp_fail(in, COFFER_ERR_UNSUPPORTED,
                         "tensor %q lies on a mesh of several dimensions, and its first placement is %q: only one "
                         "Shard or Replicate is understood",
                         class, err);
    }
    if ((*sharded && !coffer__graph_u64(graph, fsdp_attribute(graph, placements[0], "dim"), dim)) ||
        (!*sharded && !coffer__same_text(class, "Replicate"))) {
        return fsdp_fail(in, COFFER_ERR_UNSUPPORTED,
                         "tensor %q is placed by %q: only Shard along one dimension and Replicate are understood",
                         class, err);
    }
    return COFFER_OK;
}

/* Each file knows the place of its process on the mesh, which has to be that of its name. */
static coffer_status fsdp_check_place(const fsdp_reading *in, uint64_t rank, coffer__value spec, coffer_error *err)
{
    coffer__value places[1] = { 0 };
    uint64_t place = 0;
    const coffer__graph *graph = coffer__torch_opened_graph(in->ranks[rank].opened);
    const coffer__value mesh = fsdp_attribute(graph, spec, "mesh");
    coffer__graph_items(graph, fsdp_attribute(graph, mesh, "_coordinate_on_dim"), places, 1);
    return !coffer__graph_u64(graph, places[0], &place) || place == rank
               ? COFFER_OK
               : fsdp_fail(in, COFFER_ERR_DAMAGED,
                           "the parts of tensor %q are of other ranks than the files' names say", "", err);
}

/* Adds a rank's part after those of the ranks before it. */
static coffer_status fsdp_add_part(const fsdp_reading *in, coffer__assembly *assembly, uint64_t rank, size_t dim,
                                   uint64_t *starts, coffer__element *element, coffer_error *err)
{
    coffer__view view;
    coffer__distributed part;
    bool sharded = false;
    uint64_t other_dim = 0;
    coffer__graph *graph = coffer__torch_opened_graph(in->ranks[rank].opened);
    if (!coffer__view_is_distributed(graph, in->ranks[rank].found, &part)) {
        return fsdp_fail(in, COFFER_ERR_DAMAGED, "tensor %q is distributed in some of the files only", "", err);
    }
    coffer_status status = fsdp_placement(in, graph, part.spec, &sharded, &other_dim, err);
    if (status == COFFER_OK) {
        status = fsdp_check_place(in, rank, part.spec, err);
    }
    if (status == COFFER_OK && (!sharded || other_dim != dim)) {
        status = fsdp_fail(in, COFFER_ERR_DAMAGED, "tensor %q is placed differently in each file", "", err);
    }
    if (status == COFFER_OK) {
        status = coffer__view_of(graph, part.local, &view, err);
    }
    if (status == COFFER_OK) {
        status = coffer__assembly_add(assembly, starts, &view, err);
    }
    if (status == COFFER_OK) {
        starts[dim] += view.dimensions[dim].count;
        *element = view.element;
    }
    return status;
}

/* A tensor that was cut along one dimension. */
static coffer_status fsdp_put_sharded(const fsdp_reading *in, const coffer__distributed *first, uint64_t dim,
                                      const char *name, size_t name_len, coffer_error *err)
{
    coffer__assembly assembly;
    uint64_t sizes[COFFER__PLAN_MAX_RANK] = { 0 };
    uint64_t starts[COFFER__PLAN_MAX_RANK] = { 0 };
    size_t rank = 0;
    coffer__element element = COFFER__ELEMENT_NONE;
    const coffer__graph *graph = coffer__torch_opened_graph(in->ranks[0].opened);
    if (!coffer__view_numbers(graph, first->sizes, sizes, &rank) || dim >= rank) {
        return fsdp_fail(in, COFFER_ERR_VIEW, "tensor %q is cut along a dimension that it does not have", "", err);
    }
    coffer_status status = coffer__assembly_begin(&assembly, in->plan, in->wants, name, name_len, rank, sizes, err);
    for (uint64_t i = 0; i < in->name.world && status == COFFER_OK; i++) {
        status = fsdp_add_part(in, &assembly, i, (size_t)dim, starts, &element, err);
    }
    return status == COFFER_OK ? coffer__assembly_end(&assembly, element, err) : status;
}

/* A tensor of which each rank has all: the first one's is written, and the copies of the others are left out. */
static coffer_status fsdp_put_copies(fsdp_reading *in, const char *name, size_t name_len, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    for (uint64_t i = 0; i < in->name.world && status == COFFER_OK; i++) {
        coffer__view view;
        coffer__distributed part;
        coffer__graph *graph = coffer__torch_opened_graph(in->ranks[i].opened);
        coffer__value value = in->ranks[i].found;
        if (coffer__view_is_distributed(graph, value, &part)) {
            value = part.local;
        } else {
            in->copied = true;
        }
        status = coffer__view_of(graph, value, &view, err);
        if (status == COFFER_OK && i == 0) {
            status = coffer__graph_put_model_view(graph, &view, name, name_len, err);
        } else if (status == COFFER_OK) {
            status = coffer__graph_put_view(graph, &view, name, name_len, COFFER_FATE_SKIPPED, in->same, err);
        }
    }
    return status;
}

/* The tensor at which all walks are. */
static coffer_status fsdp_put_tensor(fsdp_reading *in, coffer_error *err)
{
    coffer__distributed first;
    bool sharded = false;
    uint64_t dim = 0;
    const coffer__graph_walk *walk = &in->ranks[0].walk;
    const coffer__graph *graph = coffer__torch_opened_graph(in->ranks[0].opened);
    const size_t prefix_len = coffer__text_len(in->wants->strip_prefix);
    const bool stripped =
        prefix_len > 0 && walk->path_len > prefix_len && memcmp(walk->path, in->wants->strip_prefix, prefix_len) == 0;
    const char *name = walk->path + (stripped ? prefix_len : 0);
    const size_t name_len = walk->path_len - (stripped ? prefix_len : 0);
    coffer_status status = COFFER_OK;
    if (coffer__view_is_distributed(graph, in->ranks[0].found, &first)) {
        status = fsdp_placement(in, graph, first.spec, &sharded, &dim, err);
    }
    if (status == COFFER_OK) {
        status =
            sharded ? fsdp_put_sharded(in, &first, dim, name, name_len, err) : fsdp_put_copies(in, name, name_len, err);
    }
    return status == COFFER_OK || err == NULL || err->tensor[0] != '\0'
               ? status
               : coffer__fail_tensor(err, status, name, name_len);
}

/* Moves all walks on; *more is false at the end of all. They have to be at the same name. */
static coffer_status fsdp_step(fsdp_reading *in, bool *more, coffer_error *err)
{
    const coffer__graph_walk *first = &in->ranks[0].walk;
    for (uint64_t i = 0; i < in->name.world; i++) {
        const coffer_status status = fsdp_next(&in->ranks[i], err);
        const coffer__graph_walk *walk = &in->ranks[i].walk;
        if (status != COFFER_OK) {
            return status;
        }
        const bool ends = in->ranks[0].found == 0;
        if ((in->ranks[i].found == 0) != ends ||
            (!ends && (walk->path_len != first->path_len || memcmp(walk->path, first->path, first->path_len) != 0))) {
            return fsdp_fail(in, COFFER_ERR_DAMAGED, "tensor %q is not in all of the files, in the same order", "",
                             err);
        }
    }
    *more = in->ranks[0].found != 0;
    return COFFER_OK;
}

/* ---- the reader ---------------------------------------------------------------------------------------------------- */

static coffer_status fsdp_read_all(fsdp_reading *in, coffer_error *err)
{
    static const char same[] = "each rank has it: that of rank 0 is taken";
    bool more = true;
    coffer_status status = coffer__pickle_file_put_format(in->plan, err);
    if (status == COFFER_OK) {
        status = coffer__import_plan_put_text(in->plan, same, sizeof same - 1, &in->same, err);
    }
    for (uint64_t i = 0; i < in->name.world && status == COFFER_OK; i++) {
        status = fsdp_open_rank(in, i, err);
    }
    while (status == COFFER_OK && more) {
        status = fsdp_step(in, &more, err);
        if (status == COFFER_OK && more) {
            status = fsdp_put_tensor(in, err);
        }
    }
    if (status != COFFER_OK || !in->copied) {
        return status;
    }
    return coffer__import_plan_put_finding(
        in->plan, COFFER_WEIGHT_NOTE, 0, UINT64_MAX, "",
        "some tensors do not say how they were distributed: those of rank 0 are taken", "", 0, err);
}

static coffer_status fsdp_reader(const coffer__input_files *input, const coffer__wants *wants,
                                 coffer__import_plan *plan, coffer_error *err)
{
    fsdp_reading in = { .input = input, .wants = wants, .plan = plan };
    const coffer__reader_file own = { .input = input, .wants = wants, .plan = plan, .size = input->size };
    if (wants->scan) {
        return coffer__torch_read_zip(&own, err);
    }
    if (!fsdp_read_name(input->path, input->path_len, &in.name)) {
        return coffer__fail(err, COFFER_ERR_UNKNOWN_INPUT, "this is no file of one of several ranks");
    }
    in.ranks = coffer__alloc_array(plan->allocator, (size_t)in.name.world, sizeof *in.ranks, err);
    if (in.ranks == NULL) {
        return COFFER_ERR_MEMORY;
    }
    const coffer_status status = fsdp_read_all(&in, err);
    for (uint64_t i = 0; i < in.name.world; i++) {
        if (in.ranks[i].walking) {
            coffer__graph_walk_free(&in.ranks[i].walk);
        }
        coffer__torch_opened_free(in.ranks[i].opened);
    }
    coffer__free_array(plan->allocator, in.ranks, (size_t)in.name.world, sizeof *in.ranks);
    return status;
}

/* By the name, of an archive that torch has written. */
static bool fsdp_sniff(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size, const char *path,
                       size_t path_len)
{
    fsdp_name name;
    return fsdp_read_name(path, path_len, &name) &&
           coffer__reader_torch_zip.sniff(head, head_size, tail, tail_size, path, path_len);
}

const coffer__reader coffer__reader_fsdp = { "fsdp", "a checkpoint of several ranks of PyTorch", fsdp_sniff,
                                             fsdp_reader };
