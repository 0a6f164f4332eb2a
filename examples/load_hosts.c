/* SPDX-License-Identifier: Apache-2.0 */
/* Two hosts load a model together; here they are processes with a pair of sockets between them. */
#include <coffer.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* Moves all of it; false where the other host has gone. */
static bool move(int fd, uint8_t *bytes, uint64_t size, bool sends)
{
    while (size > 0) {
        const size_t most = size < 1 << 20 ? (size_t)size : 1 << 20;
        const ssize_t n = sends ? write(fd, bytes, most) : read(fd, bytes, most);
        if (n <= 0) {
            return false;
        }
        bytes += n;
        size -= (uint64_t)n;
    }
    return true;
}

typedef struct link_to_other {
    int fd;
    uint32_t host;
} link_to_other;

/* One of the two sends first, while the other receives. */
static coffer_status carry(void *ctx, const coffer_parcels *parcels, coffer_error *err)
{
    const link_to_other *to = ctx;
    const uint32_t other = 1 - to->host;
    (void)err; /* the library fills it */
    for (int turn = 0; turn < 2; turn++) {
        const bool sends = to->host == (uint32_t)turn;
        uint8_t *bytes = sends ? (uint8_t *)parcels->send + parcels->send_offsets[other]
                               : (uint8_t *)parcels->receive + parcels->receive_offsets[other];
        if (!move(to->fd, bytes, sends ? parcels->send_sizes[other] : parcels->receive_sizes[other], sends)) {
            return COFFER_ERR_CONNECT;
        }
    }
    return COFFER_OK;
}

static coffer_status load(const coffer *model, link_to_other *to, coffer_error *err)
{
    coffer_plan *plans[2] = { NULL, NULL };
    coffer_exchange *exchange = NULL;
    coffer_loaded *loaded = calloc(coffer_count(model) + 1, sizeof *loaded);
    const coffer_transport transport = { .carry = carry, .ctx = to, .host = to->host, .world = 2 };
    coffer_status status = COFFER_OK;
    for (uint32_t i = 0; i < 2 && status == COFFER_OK; i++) {
        status = coffer_plan_new(&plans[i], model, NULL, err);
        if (status == COFFER_OK) {
            status = coffer_plan_add_all(plans[i], NULL, 0, i, 2, NULL, err); /* what rank i of 2 takes */
        }
    }
    if (status == COFFER_OK) {
        status = coffer_exchange_new(&exchange, (const coffer_plan *const *)plans, 2, NULL, err);
    }
    if (status == COFFER_OK) {
        status = coffer_exchange_run(exchange, &transport, NULL, loaded, err);
    } else {
        (void)coffer_exchange_refuse(&transport, err, NULL); /* or the other host would wait */
    }
    for (size_t i = 0; status == COFFER_OK && i < coffer_plan_count(plans[to->host]); i++) {
        if (to->host == 0) {
            printf("%s: %" PRIu64 " bytes\n", loaded[i].tensor->name, loaded[i].size);
        }
        coffer_memory_free(loaded[i].memory);
    }
    coffer_exchange_free(exchange);
    coffer_plan_free(plans[0]);
    coffer_plan_free(plans[1]);
    free(loaded);
    return status;
}

int main(void)
{
    int pair[2];
    int ended = 0;
    coffer *model;
    coffer_error err;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) {
        return 1;
    }
    const pid_t child = fork();
    link_to_other to = { .fd = pair[child == 0], .host = child == 0 };
    close(pair[child != 0]);
    coffer_status status = coffer_open(&model, "model.safetensors", NULL, &err);
    if (status == COFFER_OK) {
        status = load(model, &to, &err);
        coffer_close(model);
    }
    if (status != COFFER_OK) {
        fprintf(stderr, "host %u: %s\n", (unsigned)to.host, err.message);
    }
    if (child > 0) {
        (void)waitpid(child, &ended, 0);
    }
    return status == COFFER_OK && ended == 0 ? 0 : 1;
}
