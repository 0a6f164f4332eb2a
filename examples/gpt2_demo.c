/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpt2_demo OUT: writes a model with the names and shapes of GPT-2 small, about 490 MB, to try coffer on.
 *
 * It shows the writer at work: every tensor is declared, the header is then known, and several threads push the
 * bodies in pieces, in whatever order they come to them. No tensor is ever whole in memory, so a file larger than
 * memory is written in the same way. The values are pseudo-random and look like weights; they are the same on every
 * run.
 */
#include "coffer.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LAYERS 12
#define WIDTH UINT64_C(768)
#define CONTEXT UINT64_C(1024)
#define VOCABULARY UINT64_C(50257)
#define TENSOR_COUNT (4 + 13 * LAYERS)
#define PIECE_ELEMENTS (1u << 20)
#define THREADS 4

/* What a tensor's values look like. */
typedef enum fill {
    FILL_WEIGHT, /* around 0 */
    FILL_ONES,   /* around 1, as the gain of a norm is */
    FILL_MASK    /* 1 on and below the diagonal */
} fill;

typedef struct tensor_plan {
    char name[64];
    coffer_dtype dtype;
    fill fill;
    uint64_t shape[4];
    size_t rank;
    uint64_t elements;
} tensor_plan;

/* The work that the threads share: pieces are handed out in order, one at a time. */
typedef struct job {
    const tensor_plan *plans;
    coffer_writer *writer;
    pthread_mutex_t lock;
    size_t next_tensor;
    uint64_t next_element;
    coffer_status status; /* of the first piece that failed */
    coffer_error error;
} job;

typedef struct piece {
    size_t tensor;
    uint64_t first; /* element */
    uint64_t count;
} piece;

/* ---- The model ---- */

static void add_plan(tensor_plan *plans, size_t *count, const char *name, coffer_dtype dtype, fill kind, size_t rank,
                     const uint64_t *shape)
{
    tensor_plan *plan = &plans[(*count)++];
    snprintf(plan->name, sizeof plan->name, "%s", name);
    plan->dtype = dtype;
    plan->fill = kind;
    plan->rank = rank;
    plan->elements = 1;
    for (size_t i = 0; i < rank; i++) {
        plan->shape[i] = shape[i];
        plan->elements *= shape[i];
    }
}

/* The dtypes are mixed on purpose: the last two layers' large matrices are BF16, the masks are BOOL or U8. */
static void plan_layer(tensor_plan *plans, size_t *count, int layer)
{
    static const struct {
        const char *name;
        fill kind;
        size_t rank;
        uint64_t shape[4];
    } parts[] = {
        { "ln_1.weight", FILL_ONES, 1, { WIDTH } },
        { "ln_1.bias", FILL_WEIGHT, 1, { WIDTH } },
        { "attn.bias", FILL_MASK, 4, { 1, 1, CONTEXT, CONTEXT } },
        { "attn.c_attn.weight", FILL_WEIGHT, 2, { WIDTH, 3 * WIDTH } },
        { "attn.c_attn.bias", FILL_WEIGHT, 1, { 3 * WIDTH } },
        { "attn.c_proj.weight", FILL_WEIGHT, 2, { WIDTH, WIDTH } },
        { "attn.c_proj.bias", FILL_WEIGHT, 1, { WIDTH } },
        { "ln_2.weight", FILL_ONES, 1, { WIDTH } },
        { "ln_2.bias", FILL_WEIGHT, 1, { WIDTH } },
        { "mlp.c_fc.weight", FILL_WEIGHT, 2, { WIDTH, 4 * WIDTH } },
        { "mlp.c_fc.bias", FILL_WEIGHT, 1, { 4 * WIDTH } },
        { "mlp.c_proj.weight", FILL_WEIGHT, 2, { 4 * WIDTH, WIDTH } },
        { "mlp.c_proj.bias", FILL_WEIGHT, 1, { WIDTH } },
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char name[64];
        coffer_dtype dtype = COFFER_F32;
        if (parts[i].kind == FILL_MASK) {
            dtype = layer % 2 == 0 ? COFFER_BOOL : COFFER_U8;
        } else if (layer >= LAYERS - 2 && strncmp(parts[i].name, "mlp.", 4) == 0 && parts[i].rank == 2) {
            dtype = COFFER_BF16;
        }
        snprintf(name, sizeof name, "h.%d.%s", layer, parts[i].name);
        add_plan(plans, count, name, dtype, parts[i].kind, parts[i].rank, parts[i].shape);
    }
}

static size_t plan_model(tensor_plan *plans)
{
    size_t count = 0;
    add_plan(plans, &count, "wte.weight", COFFER_F32, FILL_WEIGHT, 2, (const uint64_t[]){ VOCABULARY, WIDTH });
    add_plan(plans, &count, "wpe.weight", COFFER_F16, FILL_WEIGHT, 2, (const uint64_t[]){ CONTEXT, WIDTH });
    for (int layer = 0; layer < LAYERS; layer++) {
        plan_layer(plans, &count, layer);
    }
    add_plan(plans, &count, "ln_f.weight", COFFER_F32, FILL_ONES, 1, (const uint64_t[]){ WIDTH });
    add_plan(plans, &count, "ln_f.bias", COFFER_F32, FILL_WEIGHT, 1, (const uint64_t[]){ WIDTH });
    return count;
}

/* ---- The values ---- */

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

/* The sum of four uniform numbers is near enough to a normal distribution; its deviation here is about 0.02. */
static float random_weight(uint64_t *state)
{
    const uint64_t bits = next_random(state);
    const int sum = (int)(bits & 0xFFFF) + (int)(bits >> 16 & 0xFFFF) + (int)(bits >> 32 & 0xFFFF) + (int)(bits >> 48);
    return (float)(sum - 2 * 65535) * (0.02f / 37837.0f);
}

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint16_t to_bf16(float value)
{
    const uint32_t bits = float_bits(value);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16); /* to the nearest, ties to even */
}

/* For finite values below 65,504; those too small for a normal half become 0, which weights do not miss. */
static uint16_t to_f16(float value)
{
    const uint32_t bits = float_bits(value);
    const uint32_t sign = bits >> 16 & 0x8000;
    const uint32_t rounded = (bits & 0x7FFFFFFF) + 0xFFF + (bits >> 13 & 1);
    const uint32_t smallest = (127 - 14) << 23;
    return (uint16_t)(rounded < smallest ? sign : sign | (rounded - ((127 - 15) << 23)) >> 13);
}

static void store_little_endian(unsigned char *out, uint32_t bits, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        out[i] = (unsigned char)(bits >> (8 * i));
    }
}

static void fill_floats(const tensor_plan *plan, const piece *part, unsigned char *out)
{
    /* A piece's values depend on its place alone, not on the thread that makes them. */
    uint64_t state = 0x9E3779B97F4A7C15u * (part->tensor * 4096 + part->first / PIECE_ELEMENTS + 1);
    const float center = plan->fill == FILL_ONES ? 1.0f : 0.0f;
    for (uint64_t i = 0; i < part->count; i++) {
        const float value = center + random_weight(&state);
        if (plan->dtype == COFFER_F32) {
            store_little_endian(out + i * 4, float_bits(value), 4);
        } else {
            store_little_endian(out + i * 2, plan->dtype == COFFER_F16 ? to_f16(value) : to_bf16(value), 2);
        }
    }
}

static void fill_mask(const piece *part, unsigned char *out)
{
    for (uint64_t i = 0; i < part->count; i++) {
        const uint64_t element = part->first + i;
        out[i] = element % CONTEXT <= element / CONTEXT;
    }
}

/* ---- The threads ---- */

/* Takes the next piece, or tells that there is none left or that writing failed. */
static bool take_piece(job *work, piece *part)
{
    pthread_mutex_lock(&work->lock);
    const bool taken = work->status == COFFER_OK && work->next_tensor < TENSOR_COUNT;
    if (taken) {
        const uint64_t left = work->plans[work->next_tensor].elements - work->next_element;
        part->tensor = work->next_tensor;
        part->first = work->next_element;
        part->count = left < PIECE_ELEMENTS ? left : PIECE_ELEMENTS;
        work->next_element += part->count;
        if (part->count == left) {
            work->next_tensor++;
            work->next_element = 0;
        }
    }
    pthread_mutex_unlock(&work->lock);
    return taken;
}

static void fail_job(job *work, coffer_status status, const coffer_error *err)
{
    pthread_mutex_lock(&work->lock);
    if (work->status == COFFER_OK) {
        work->status = status;
        work->error = *err;
    }
    pthread_mutex_unlock(&work->lock);
}

static void *write_pieces(void *argument)
{
    job *work = argument;
    piece part;
    coffer_error err = { .message = "out of memory" };
    unsigned char *buffer = coffer_buffer_new((size_t)PIECE_ELEMENTS * 4);
    if (buffer == NULL) {
        fail_job(work, COFFER_ERR_MEMORY, &err);
        return NULL;
    }
    while (take_piece(work, &part)) {
        const tensor_plan *plan = &work->plans[part.tensor];
        const uint64_t size = coffer_dtype_bits(plan->dtype) / 8;
        if (plan->fill == FILL_MASK) {
            fill_mask(&part, buffer);
        } else {
            fill_floats(plan, &part, buffer);
        }
        const coffer_status status =
            coffer_writer_write(work->writer, part.tensor, part.first * size, buffer, part.count * size, &err);
        if (status != COFFER_OK) {
            fail_job(work, status, &err);
        }
    }
    coffer_buffer_free(buffer, (size_t)PIECE_ELEMENTS * 4);
    return NULL;
}

static coffer_status write_bodies(const tensor_plan *plans, coffer_writer *writer, coffer_error *err)
{
    job work = { .plans = plans, .writer = writer };
    pthread_t threads[THREADS];
    int started = 0;
    pthread_mutex_init(&work.lock, NULL);
    while (started < THREADS && pthread_create(&threads[started], NULL, write_pieces, &work) == 0) {
        started++;
    }
    if (started == 0) {
        write_pieces(&work);
    }
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_mutex_destroy(&work.lock);
    *err = work.error;
    return work.status;
}

/* ---- The file ---- */

static coffer_status declare(coffer_header *header, const tensor_plan *plans, coffer_error *err)
{
    static const char *const metadata[][2] = {
        { "format", "pt" },
        { "model", "GPT-2 small, with made-up values" },
        { "config",
          "{\"n_layer\": 12, \"n_head\": 12, \"n_embd\": 768, \"n_positions\": 1024, \"vocab_size\": 50257}" },
        { "writer", "coffer " COFFER_VERSION_STRING },
    };
    coffer_status status = COFFER_OK;
    for (size_t i = 0; status == COFFER_OK && i < sizeof metadata / sizeof metadata[0]; i++) {
        const char *key = metadata[i][0];
        const char *value = metadata[i][1];
        status = coffer_header_set_metadata(header, key, strlen(key), value, strlen(value), err);
    }
    for (size_t i = 0; status == COFFER_OK && i < TENSOR_COUNT; i++) {
        const tensor_plan *plan = &plans[i];
        status = coffer_header_add(header, plan->name, strlen(plan->name), plan->dtype, plan->shape, plan->rank, err);
    }
    return status;
}

static coffer_status write_model(const char *path, const tensor_plan *plans, coffer_header *header, coffer_error *err)
{
    coffer_writer *writer = NULL;
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    options.alignment = 4096; /* the data begins on a page, */
    options.slack = 4096;     /* and the metadata has space to grow in place */
    coffer_status status = declare(header, plans, err);
    if (status == COFFER_OK) {
        status = coffer_writer_open(&writer, header, path, &options, err);
    }
    if (status == COFFER_OK) {
        status = write_bodies(plans, writer, err);
    }
    if (status == COFFER_OK) {
        status = coffer_writer_finish(writer, err);
    }
    coffer_writer_free(writer);
    return status;
}

static double seconds_now(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    static tensor_plan plans[TENSOR_COUNT];
    coffer_header *header = NULL;
    coffer_error err;
    if (argc != 2) {
        fprintf(stderr, "usage: gpt2_demo OUT.safetensors\n");
        return 2;
    }
    const double start = seconds_now();
    const size_t count = plan_model(plans);
    coffer_status status = coffer_header_new(&header, NULL, &err);
    if (status == COFFER_OK) {
        status = write_model(argv[1], plans, header, &err);
    }
    if (status != COFFER_OK) {
        fprintf(stderr, "gpt2_demo: %s: %s\n", argv[1], err.message);
        coffer_header_free(header);
        return 1;
    }
    uint64_t size = 0;
    for (size_t i = 0; i < count; i++) {
        size += coffer_header_at(header, i)->size;
    }
    const double seconds = seconds_now() - start;
    printf("%zu tensors, %.0f MB, written in %.2f s (%.0f MB/s)\n", count, (double)size / 1e6, seconds,
           (double)size / 1e6 / seconds);
    coffer_header_free(header);
    return 0;
}
