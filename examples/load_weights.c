/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load_weights FILE: loads the weights of a small engine, which computes in 32-bit floats, from a model's file.
 *
 * It shows what an engine does at its start: it knows its tensors by name and shape and finds them all before it loads the
 * first, so that a wrong file is refused at once and with a clear message. Then it takes one block of memory for everything.
 * All of F32 is read from the file straight into its places, in one call, whose threads go from tensor to tensor; F16 and BF16
 * are decoded on the way, from the map.
 */
#include "coffer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PLACE_ALIGNMENT 64 /* bytes; what vector code likes */
#define MAX_RANK 2

/* What the engine wants to have. A 0 in the shape stands for any size: the file decides how large the model is. */
typedef struct weight {
    const char *name;
    size_t rank;
    uint64_t shape[MAX_RANK];
    const coffer_tensor *tensor; /* where it is in the file */
    size_t place;                /* where it goes in the engine's memory, in floats */
} weight;

static weight weights[] = {
    { .name = "wte.weight", .rank = 2 },
    { .name = "wpe.weight", .rank = 2 },
    { .name = "ln_f.weight", .rank = 1 },
};

#define WEIGHT_COUNT (sizeof weights / sizeof weights[0])

static bool has_shape(const coffer_tensor *tensor, const weight *wanted)
{
    bool same = tensor->rank == wanted->rank;
    for (size_t i = 0; same && i < wanted->rank; i++) {
        same = wanted->shape[i] == 0 || tensor->shape[i] == wanted->shape[i];
    }
    return same;
}

/* Finds every tensor and gives it a place. Returns how many floats they take in all, 0 when one is missing or unfit. */
static size_t plan_weights(const coffer *model)
{
    size_t floats = 0;
    for (size_t i = 0; i < WEIGHT_COUNT; i++) {
        weight *wanted = &weights[i];
        wanted->tensor = coffer_find(model, wanted->name, strlen(wanted->name));
        if (wanted->tensor == NULL || !has_shape(wanted->tensor, wanted)) {
            fprintf(stderr, "load_weights: %s is %s\n", wanted->name,
                    wanted->tensor == NULL ? "missing" : "of another shape");
            return 0;
        }
        const coffer_dtype dtype = wanted->tensor->dtype;
        if (dtype != COFFER_F32 && dtype != COFFER_F16 && dtype != COFFER_BF16) {
            fprintf(stderr, "load_weights: %s is %s, which this engine does not compute with\n", wanted->name,
                    coffer_dtype_name(dtype));
            return 0;
        }
        const size_t step = PLACE_ALIGNMENT / sizeof(float);
        wanted->place = floats;
        /* No overflow: so many elements lie in a file, and a file has fewer than 2^63 bytes. */
        floats += ((size_t)coffer_tensor_elements(wanted->tensor) + step - 1) / step * step;
    }
    return floats;
}

/* Called by the thread that reads, with the bytes of all tensors together; an answer other than 0 would cancel. */
static int show_progress(void *ctx, uint64_t done, uint64_t total)
{
    const size_t *count = ctx;
    if (done == total) {
        printf("read %zu tensors, %" PRIu64 " bytes\n", *count, total);
    }
    return 0;
}

static coffer_status load_decoded(const coffer *model, const coffer_tensor *tensor, float *place, coffer_error *err)
{
    double values[256];
    const void *bytes = coffer_data(model, tensor, err);
    if (bytes == NULL) {
        return err->code;
    }
    const uint64_t count = coffer_tensor_elements(tensor);
    for (uint64_t first = 0; first < count; first += 256) {
        const size_t piece = count - first < 256 ? (size_t)(count - first) : 256;
        coffer_decode(tensor->dtype, bytes, first, piece, values);
        for (size_t i = 0; i < piece; i++) {
            place[first + i] = (float)values[i];
        }
    }
    printf("decoded %s from %s\n", tensor->name, coffer_dtype_name(tensor->dtype));
    return COFFER_OK;
}

/* The bytes of a file are little-endian; on another machine F32 has to be decoded, too. */
static bool is_little_endian(void)
{
    const uint16_t one = 1;
    return *(const uint8_t *)&one == 1;
}

static coffer_status load_weights(const coffer *model, float *memory, coffer_error *err)
{
    coffer_read_target targets[WEIGHT_COUNT];
    size_t count = 0;
    for (size_t i = 0; i < WEIGHT_COUNT; i++) {
        const coffer_tensor *tensor = weights[i].tensor;
        float *place = memory + weights[i].place;
        if (tensor->dtype == COFFER_F32 && is_little_endian()) {
            targets[count++] = (coffer_read_target){ .tensor = tensor, .buffer = place, .buffer_size = tensor->size };
        } else if (load_decoded(model, tensor, place, err) != COFFER_OK) {
            return err->code;
        }
    }
    coffer_read_options options = COFFER_READ_OPTIONS_INIT;
    options.progress = show_progress;
    options.progress_ctx = &count;
    return coffer_read_many(model, targets, count, &options, err);
}

static int load_model(const coffer *model)
{
    coffer_error err;
    const size_t floats = plan_weights(model);
    float *memory = floats > 0 ? coffer_buffer_new(floats * sizeof(float)) : NULL;
    if (memory == NULL) {
        fprintf(stderr, "load_weights: nothing was loaded\n");
        return 1;
    }
    const coffer_status status = load_weights(model, memory, &err);
    if (status == COFFER_OK) {
        printf("%s begins with %g %g %g\n", weights[0].name, memory[0], memory[1], memory[2]);
    } else {
        fprintf(stderr, "load_weights: %s\n", err.message);
    }
    coffer_buffer_free(memory, floats * sizeof(float));
    return status == COFFER_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: load_weights FILE\n");
        return 2;
    }
    coffer *model = NULL;
    coffer_error err;
    if (coffer_open(&model, argv[1], NULL, &err) != COFFER_OK) {
        fprintf(stderr, "%s: %s\n", argv[1], err.message);
        return 1;
    }
    const int result = load_model(model);
    coffer_close(model);
    return result;
}
