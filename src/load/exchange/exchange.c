/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carrying out an exchange. Hosts call the transport
 *
 *   once                  to learn whether all of them are ready, and do the same
 *   once for each round   with what was read; the next round is read meanwhile
 *   once                  to learn whether all have what they wanted
 *
 * whatever happens, until one says that it has failed: then all stop after the same call.
 */
#include "exchange.h"

#include "alloc.h"
#include "destinations.h"
#include "error.h"
#include "load_memory.h"
#include "options.h"
#include "staging.h"

#include <string.h>

typedef struct exchange_run {
    const coffer_exchange *exchange;
    const coffer_plan *plan; /* this host's */
    coffer_exchange_run_options options;
    coffer_staging *staging;
    bool own_staging;
    uint32_t host;
    coffer__round_read readings[2]; /* one is sent while the other is read */
    coffer__mail mail;
    coffer_loaded *loaded;
    uint64_t done; /* bytes of the results */
} exchange_run;

/* ---- before anything is read ------------------------------------------------------------------------------------- */

static coffer_status exchange_check_transport(const coffer_transport *transport, coffer_error *err)
{
    if (transport == NULL || transport->carry == NULL || transport->host >= transport->world) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT,
                            "a transport was given that is NULL, has no function, or is of a host that does not exist");
    }
    return COFFER_OK;
}

static coffer_status exchange_check_run(const coffer_exchange *exchange, const coffer_transport *transport,
                                        const coffer_loaded *loaded, coffer_error *err)
{
    const coffer_status status = exchange_check_transport(transport, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (exchange == NULL || exchange->world != transport->world ||
        (loaded == NULL && exchange->hosts[transport->host].plan->item_count > 0)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT,
                            "coffer_exchange_run was called with a NULL that it does not allow, or with a transport "
                            "for another number of hosts");
    }
    return COFFER_OK;
}

/* Memory for what has no destination. */
static coffer_status exchange_destinations(exchange_run *run, coffer_error *err)
{
    const coffer_plan *plan = run->plan;
    coffer__store store = { .device = NULL };
    coffer_status status = coffer__destinations_apart(plan, &plan->allocator, err);
    for (uint32_t i = 0; i < plan->item_count && status == COFFER_OK; i++) {
        const coffer__load_item *item = &plan->items[i];
        coffer__allocation allocation = { .address = item->address };
        if (item->device != NULL) {
            coffer__fail(err, COFFER_ERR_UNSUPPORTED, "an exchange brings tensors to host memory, not to a device");
            status = coffer__fail_tensor(err, COFFER_ERR_UNSUPPORTED, item->tensor->name, item->tensor->name_len);
        } else if (!item->given) {
            status = coffer__store_row(&store, plan, &i, 1, NULL, &allocation, err);
        }
        run->loaded[i] = (coffer_loaded){ .item = i,
                                          .tensor = item->tensor,
                                          .address = allocation.address,
                                          .size = item->size,
                                          .memory = allocation.memory };
    }
    coffer__store_release(&store);
    return status;
}

static coffer_status exchange_staging(exchange_run *run, coffer_error *err)
{
    run->staging = run->options.staging;
    if (run->staging != NULL && run->staging->options.ranks > 1) {
        return coffer__fail(
            err, COFFER_ERR_ARGUMENT,
            "an exchange reads through a staging buffer without ranks: its hosts share what they read in "
            "another way");
    }
    run->own_staging = run->staging == NULL;
    return run->own_staging ? coffer_staging_new(&run->staging, NULL, err) : COFFER_OK;
}

static coffer_status exchange_prepare(exchange_run *run, const coffer_exchange_run_options *options, coffer_error *err)
{
    coffer_status status = coffer__options_copy(&run->options, sizeof run->options, options, err);
    if (status == COFFER_OK) {
        status = exchange_destinations(run, err);
    }
    if (status == COFFER_OK) {
        status = exchange_staging(run, err);
    }
    for (int i = 0; i < 2 && status == COFFER_OK; i++) {
        status = coffer__round_read_begin(&run->readings[i], run->exchange, run->host, err);
    }
    return status == COFFER_OK ? coffer__mail_reserve(&run->mail, run->exchange, err) : status;
}

/* ---- round by round ---------------------------------------------------------------------------------------------- */

static void exchange_pack(exchange_run *run, const coffer__round_read *reading, uint64_t round)
{
    const coffer_parcels *parcels = &run->mail.parcels;
    for (uint32_t i = 0; i < run->exchange->world; i++) {
        if (i != run->host) {
            coffer__parcel_pack(reading, round, run->host, i,
                                (uintptr_t)run->mail.send + parcels->send_offsets[i] + COFFER__EXCHANGE_SAID);
        }
    }
}

static void exchange_unpack(exchange_run *run, const coffer__round_read *reading, uint64_t round)
{
    const coffer_parcels *parcels = &run->mail.parcels;
    for (uint32_t i = 0; i < run->exchange->world; i++) {
        if (i != run->host) {
            coffer__parcel_unpack(run->exchange, round, i, run->host,
                                  run->mail.receive + parcels->receive_offsets[i] + COFFER__EXCHANGE_SAID, run->loaded);
            run->done += parcels->receive_sizes[i] - COFFER__EXCHANGE_SAID;
        }
    }
    coffer__parcel_own(reading, round, run->host, run->loaded);
    run->done += coffer_exchange_size(run->exchange, round, run->host, run->host);
}

static coffer_status exchange_tell(const exchange_run *run, coffer_error *err)
{
    if (run->options.progress == NULL ||
        run->options.progress(run->options.progress_ctx, run->done, run->plan->size) == 0) {
        return COFFER_OK;
    }
    return coffer__fail(err, COFFER_ERR_CANCELLED, "cancelled by the progress function");
}

/* What went wrong after the last call is told in this one. */
static coffer_status exchange_round(exchange_run *run, uint64_t round, coffer_status status, coffer_error *err)
{
    coffer__round_read *reading = &run->readings[round % 2];
    if (status == COFFER_OK) {
        status = coffer__round_read_wait(reading, err);
    }
    if (status == COFFER_OK && round + 1 < run->exchange->rounds) {
        coffer__round_read_start(&run->readings[(round + 1) % 2], round + 1, run->host, run->staging);
    }
    coffer__mail_address(&run->mail, run->exchange, round);
    if (status == COFFER_OK) {
        exchange_pack(run, reading, round);
    }
    status = coffer__mail_carry(&run->mail, status, err);
    if (status == COFFER_OK) {
        exchange_unpack(run, reading, round);
    }
    return status;
}

/* A failure is known to all after the call that tells it, so nobody calls the transport any more. */
static coffer_status exchange_rounds_run(exchange_run *run, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    if (run->exchange->rounds > 0) {
        coffer__round_read_start(&run->readings[0], 0, run->host, run->staging);
    }
    for (uint64_t round = 0; round < run->exchange->rounds; round++) {
        const coffer_status reported = exchange_tell(run, err);
        status = exchange_round(run, round, reported, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    status = exchange_tell(run, err);
    coffer__mail_address(&run->mail, NULL, 0);
    return coffer__mail_carry(&run->mail, status, err);
}

static void exchange_run_free(exchange_run *run, coffer_status status)
{
    for (int i = 0; i < 2; i++) {
        coffer__round_read_close(&run->readings[i]);
    }
    if (run->own_staging) {
        coffer_staging_free(run->staging);
    }
    for (size_t i = 0; status != COFFER_OK && i < run->plan->item_count; i++) {
        coffer_memory_free(run->loaded[i].memory);
        run->loaded[i] = (coffer_loaded){ .item = 0 };
    }
}

coffer_status coffer_exchange_run(const coffer_exchange *exchange, const coffer_transport *transport,
                                  const coffer_exchange_run_options *options, coffer_loaded *loaded, coffer_error *err)
{
    coffer_error failure;
    coffer__error_clear(&failure);
    coffer_status status = exchange_check_run(exchange, transport, loaded, err);
    if (status != COFFER_OK) {
        return status;
    }
    exchange_run run = {
        .exchange = exchange, .plan = exchange->hosts[transport->host].plan, .host = transport->host, .loaded = loaded
    };
    for (size_t i = 0; i < run.plan->item_count; i++) {
        loaded[i] = (coffer_loaded){ .item = 0 };
    }
    status = coffer__mail_begin(&run.mail, transport, exchange->number, &run.plan->allocator, &failure);
    if (status == COFFER_OK) {
        status = exchange_prepare(&run, options, &failure);
        coffer__mail_address(&run.mail, NULL, 0);
        status = coffer__mail_carry(&run.mail, status, &failure);
    }
    if (status == COFFER_OK) {
        status = exchange_rounds_run(&run, &failure);
    }
    exchange_run_free(&run, status);
    coffer__mail_free(&run.mail);
    if (status != COFFER_OK && err != NULL) {
        *err = failure;
    }
    return status;
}

/* The exchange that it could not make has a number that it does not know; its failure counts before that. */
coffer_status coffer_exchange_refuse(const coffer_transport *transport, const coffer_error *why, coffer_error *err)
{
    coffer__mail mail;
    coffer_status status = exchange_check_transport(transport, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (why == NULL || why->code == COFFER_OK) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "coffer_exchange_refuse was called without a failure");
    }
    coffer_error failure = *why;
    status = coffer__mail_begin(&mail, transport, 0, coffer_libc_allocator(), err);
    if (status == COFFER_OK) {
        coffer__mail_address(&mail, NULL, 0);
        (void)coffer__mail_carry(&mail, failure.code, &failure);
    }
    coffer__mail_free(&mail);
    return status;
}
