/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feed_engine FILE: loads a model into the tensors of an engine that is built as llama.cpp is.
 *
 * Such an engine has its own tensors, made before anything is loaded. Those of the CPU have memory: the plan gives
 * their addresses as places, and the bytes are read straight to them. Those of another backend are filled by a function
 * of that backend: they are loaded into memory that Coffer makes, handed over as they become ready, and released. A
 * budget bounds how many bytes wait for that, so a model of any size passes through little memory.
 */
#include "coffer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAITING (UINT64_C(64) << 20) /* bytes that may wait for a backend */

/* ---- The engine -------------------------------------------------------------------------------------------------- */

/* As ggml has them: where `data` is NULL, the tensor is in a backend's memory. */
typedef struct engine_tensor {
    const char *name; /* the model's, which stays open meanwhile */
    uint64_t size;
    void *data;
    unsigned char *backend; /* what nobody but the backend may touch */
} engine_tensor;

typedef struct engine {
    engine_tensor *tensors;
    size_t count;
} engine;

/* What ggml_backend_tensor_set is: it copies into a tensor, and returns when the source may be released. */
static void backend_set(engine_tensor *tensor, const void *bytes, uint64_t size)
{
    memcpy(tensor->backend, bytes, (size_t)size);
}

/* An engine with every tensor of the model: matrices are the backend's, all else is the CPU's. */
static bool engine_make(engine *made, const coffer *model)
{
    made->count = coffer_count(model);
    made->tensors = calloc(made->count, sizeof *made->tensors);
    for (size_t i = 0; made->tensors != NULL && i < made->count; i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        engine_tensor *own = &made->tensors[i];
        own->name = tensor->name;
        own->size = tensor->size;
        void *memory = malloc(tensor->size > 0 ? (size_t)tensor->size : 1);
        if (tensor->rank > 1) {
            own->backend = memory;
        } else {
            own->data = memory;
        }
        if (memory == NULL) {
            return false;
        }
    }
    return made->tensors != NULL;
}

static void engine_free(engine *made)
{
    for (size_t i = 0; made->tensors != NULL && i < made->count; i++) {
        free(made->tensors[i].data);
        free(made->tensors[i].backend);
    }
    free(made->tensors);
}

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

/* One item for each of the engine's tensors, in the same order, so that an item's number is that of its tensor. */
static coffer_status plan_engine(coffer_plan *plan, const coffer *model, const engine *into, coffer_error *err)
{
    for (size_t i = 0; i < into->count; i++) {
        const engine_tensor *own = &into->tensors[i];
        const coffer_destination place = { .address = (uint64_t)(uintptr_t)own->data, .size = own->size };
        const coffer_tensor *tensor = coffer_find(model, own->name, strlen(own->name));
        if (coffer_plan_add(plan, tensor, NULL, 0, own->data != NULL ? &place : NULL, NULL, err) != COFFER_OK) {
            return err->code;
        }
    }
    return COFFER_OK;
}

/* Hands each tensor to its backend when it is there. */
static coffer_status hand_over(coffer_load *load, engine *into, coffer_error *err)
{
    coffer_loaded loaded;
    while (coffer_load_next(load, UINT64_MAX, &loaded, err) == COFFER_OK) {
        if (loaded.item == SIZE_MAX) {
            return COFFER_OK;
        }
        if (loaded.memory != NULL) {
            backend_set(&into->tensors[loaded.item], (const void *)(uintptr_t)loaded.address, loaded.size);
            coffer_memory_free(loaded.memory);
        }
    }
    return err->code;
}

static uint64_t largest(const engine *of)
{
    uint64_t found = WAITING;
    for (size_t i = 0; i < of->count; i++) {
        found = of->tensors[i].size > found ? of->tensors[i].size : found;
    }
    return found;
}

static coffer_status load_engine(const coffer *model, engine *into, coffer_error *err)
{
    coffer_plan *plan = NULL;
    coffer_load *load = NULL;
    coffer_status status = coffer_plan_new(&plan, model, NULL, err);
    if (status == COFFER_OK) {
        status = plan_engine(plan, model, into, err);
    }
    if (status == COFFER_OK) {
        coffer_load_options options = COFFER_LOAD_OPTIONS_INIT;
        options.host_budget = largest(into);
        status = coffer_load_start(&load, plan, NULL, &options, err);
    }
    if (status == COFFER_OK) {
        status = hand_over(load, into, err);
    }
    coffer_load_free(load);
    coffer_plan_free(plan);
    return status;
}

/* ---- Showing that it is there ------------------------------------------------------------------------------------ */

static void show(const engine *loaded)
{
    for (size_t i = 0; i < loaded->count; i++) {
        const engine_tensor *own = &loaded->tensors[i];
        const unsigned char *bytes = own->data != NULL ? own->data : own->backend;
        uint64_t sum = 0;
        for (uint64_t at = 0; at < own->size; at++) {
            sum += bytes[at];
        }
        printf("%-22s %-7s %5" PRIu64 " bytes, sum %" PRIu64 "\n", own->name, own->data != NULL ? "CPU" : "backend",
               own->size, sum);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: feed_engine FILE\n");
        return 2;
    }
    coffer *model = NULL;
    coffer_error err = { 0 };
    engine made = { 0 };
    coffer_status status = coffer_open(&model, argv[1], NULL, &err);
    if (status == COFFER_OK && !engine_make(&made, model)) {
        fprintf(stderr, "feed_engine: there is not enough memory\n");
        status = COFFER_ERR_MEMORY;
    } else if (status == COFFER_OK) {
        status = load_engine(model, &made, &err);
    }
    if (status == COFFER_OK) {
        show(&made);
    } else if (err.code != COFFER_OK) {
        fprintf(stderr, "feed_engine: %s\n", err.message);
    }
    engine_free(&made);
    coffer_close(model);
    return status == COFFER_OK ? 0 : 1;
}
