/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpirun -np N mpi_load MODEL: loads a model with N processes, each its part as in tensor parallelism, so that every
 * byte leaves the storage once.
 *
 * It shows what carries an exchange: one function, which brings messages from host to host. Here that is MPI; with
 * another transport only `carry` differs. This example is built where CMake finds an MPI.
 */
#include "coffer.h"

#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST_MESSAGE ((uint64_t)1 << 30) /* MPI counts bytes with an int */

/* Posts what goes one way between this process and another, in parts that MPI can count. Parts between two processes
   arrive in the order in which they are posted, so one tag serves all. */
static int post(uint8_t *bytes, uint64_t size, int peer, bool sends, MPI_Request **next)
{
    int result = MPI_SUCCESS;
    for (uint64_t at = 0; at < size && result == MPI_SUCCESS; at += LARGEST_MESSAGE) {
        const int count = (int)(size - at < LARGEST_MESSAGE ? size - at : LARGEST_MESSAGE);
        result = sends ? MPI_Isend(bytes + at, count, MPI_BYTE, peer, 0, MPI_COMM_WORLD, (*next)++)
                       : MPI_Irecv(bytes + at, count, MPI_BYTE, peer, 0, MPI_COMM_WORLD, (*next)++);
    }
    return result;
}

static uint64_t messages_of(uint64_t size)
{
    return (size + LARGEST_MESSAGE - 1) / LARGEST_MESSAGE;
}

/* All receives are posted before the first send, so that bytes can go right to where they belong. */
static int carry_all(const coffer_parcels *parcels, int world, MPI_Request *requests)
{
    MPI_Request *next = requests;
    int result = MPI_SUCCESS;
    for (int i = 0; i < world && result == MPI_SUCCESS; i++) {
        result =
            post((uint8_t *)parcels->receive + parcels->receive_offsets[i], parcels->receive_sizes[i], i, false, &next);
    }
    for (int i = 0; i < world && result == MPI_SUCCESS; i++) {
        result = post((uint8_t *)parcels->send + parcels->send_offsets[i], parcels->send_sizes[i], i, true, &next);
    }
    return result == MPI_SUCCESS ? MPI_Waitall((int)(next - requests), requests, MPI_STATUSES_IGNORE) : result;
}

/* When a process dies, mpirun ends the others; so none waits for ever. */
static coffer_status carry(void *ctx, const coffer_parcels *parcels, coffer_error *err)
{
    const int world = *(const int *)ctx;
    uint64_t count = 1;
    for (int i = 0; i < world; i++) {
        count += messages_of(parcels->receive_sizes[i]) + messages_of(parcels->send_sizes[i]);
    }
    MPI_Request *requests = malloc((size_t)count * sizeof(MPI_Request));
    if (requests == NULL) {
        snprintf(err->message, sizeof err->message, "no memory for %" PRIu64 " messages", count);
        return err->code = COFFER_ERR_MEMORY;
    }
    const int result = carry_all(parcels, world, requests);
    free(requests);
    if (result != MPI_SUCCESS) {
        int length = 0;
        char text[MPI_MAX_ERROR_STRING];
        MPI_Error_string(result, text, &length);
        snprintf(err->message, sizeof err->message, "MPI: %.300s", text);
        return err->code = COFFER_ERR_PEER;
    }
    return COFFER_OK;
}

/* The plans of all processes, of which each makes all: so none has to be sent. */
static coffer_status make_plans(coffer_plan **plans, uint32_t world, const coffer *model, coffer_error *err)
{
    for (uint32_t i = 0; i < world; i++) {
        coffer_status status = coffer_plan_new(&plans[i], model, NULL, err);
        if (status == COFFER_OK) {
            status = coffer_plan_add_all(plans[i], NULL, 0, i, world, NULL, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* What has arrived, as one number, so that a test can compare it. */
static void show(const coffer_exchange *exchange, const coffer_transport *transport, const coffer_loaded *loaded,
                 size_t count)
{
    uint64_t size = 0;
    uint64_t sum = 0;
    uint64_t read = 0;
    coffer_exchange_chunk piece;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *bytes = (const uint8_t *)(uintptr_t)loaded[i].address;
        for (uint64_t k = 0; k < loaded[i].size; k++) {
            sum += bytes[k];
        }
        size += loaded[i].size;
    }
    for (size_t i = 0; coffer_exchange_at(exchange, i, &piece); i++) {
        read += piece.host == transport->host ? piece.read : 0;
    }
    printf("rank %" PRIu32 " of %" PRIu32 " has %zu tensors, %" PRIu64 " bytes that add up to %" PRIu64
           ", and has read %" PRIu64 " bytes\n",
           transport->host, transport->world, count, size, sum, read);
}

static coffer_status load(const coffer_exchange *exchange, const coffer_plan *plan, const coffer_transport *transport,
                          coffer_error *err)
{
    const size_t count = coffer_plan_count(plan);
    coffer_loaded *loaded = calloc(count + 1, sizeof *loaded);
    if (loaded == NULL) {
        snprintf(err->message, sizeof err->message, "no memory for a list of %zu tensors", count);
        err->code = COFFER_ERR_MEMORY;
        (void)coffer_exchange_refuse(transport, err, NULL);
        return err->code;
    }
    const coffer_status status = coffer_exchange_run(exchange, transport, NULL, loaded, err);
    if (status == COFFER_OK) {
        show(exchange, transport, loaded, count);
    }
    for (size_t i = 0; i < count; i++) {
        coffer_memory_free(loaded[i].memory);
    }
    free(loaded);
    return status;
}

/* Whoever cannot even begin tells the others, which would wait for it otherwise. */
static coffer_status load_model(const char *path, const coffer_transport *transport, coffer_plan **plans,
                                coffer_error *err)
{
    coffer *model = NULL;
    coffer_exchange *exchange = NULL;
    coffer_status status = coffer_open(&model, path, NULL, err);
    if (status == COFFER_OK) {
        status = make_plans(plans, transport->world, model, err);
    }
    if (status == COFFER_OK) {
        status = coffer_exchange_new(&exchange, (const coffer_plan *const *)plans, transport->world, NULL, err);
    }
    if (status == COFFER_OK) {
        status = load(exchange, plans[transport->host], transport, err);
    } else {
        (void)coffer_exchange_refuse(transport, err, NULL);
    }
    coffer_exchange_free(exchange);
    for (uint32_t i = 0; i < transport->world; i++) {
        coffer_plan_free(plans[i]);
    }
    coffer_close(model);
    return status;
}

int main(int argc, char **argv)
{
    int world = 1;
    int rank = 0;
    coffer_error err;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const coffer_transport transport = {
        .carry = carry, .ctx = &world, .host = (uint32_t)rank, .world = (uint32_t)world
    };
    coffer_plan **plans = calloc((size_t)world, sizeof *plans);
    if (argc != 2 || plans == NULL) {
        fprintf(stderr, "usage: mpirun -np N mpi_load MODEL\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const coffer_status status = load_model(argv[1], &transport, plans, &err);
    if (status != COFFER_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, err.message);
    }
    free(plans);
    MPI_Finalize();
    return status == COFFER_OK ? 0 : 1;
}
