/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What hosts say to each other. Each message begins with COFFER__EXCHANGE_SAID bytes about its sender; integers are of
 * 64 bits and little-endian:
 *
 *     0   8  "CofferEx"
 *     8   8  the number of the exchange: hosts that differ in it do not do the same
 *    16   8  how many messages were before this one: hosts that differ in it have lost each other
 *    24   8  the sender
 *    32   8  its status; COFFER_OK: it has not failed
 *    40 384  the message of its failure, with zeros after it
 *
 * A message always has the length that the schedule says, also when its sender has nothing to put into it: so a failure
 * needs no way of its own, and arrives with the messages of the round.
 */
#include "exchange.h"

#include "alloc.h"
#include "bytes.h"
#include "errno_status.h"
#include "error.h"

#include <string.h>

#define PEERS_MAGIC "CofferEx"
#define PEERS_TEXT 40
#define PEERS_TEXT_SIZE sizeof(((coffer_error *)NULL)->message)

_Static_assert(PEERS_TEXT + PEERS_TEXT_SIZE <= COFFER__EXCHANGE_SAID, "a failure's message does not fit");

/* ---- sizes and memory -------------------------------------------------------------------------------------------- */

/* Adds up what goes between this host and the others in a round. */
static void peers_add_sizes(const coffer__mail *mail, const coffer_exchange *exchange, uint64_t round, uint64_t *send,
                            uint64_t *receive)
{
    const uint32_t host = mail->transport->host;
    for (uint32_t i = 0; i < exchange->world; i++) {
        size_t count = 0;
        const uint32_t *reading = coffer__exchange_reads(exchange, round, i, &count);
        for (size_t k = 0; k < count; k++) {
            const coffer__host_chunk *chunk = &exchange->chunks[reading[k]];
            for (size_t p = 0; p < chunk->part_count; p++) {
                const coffer__exchange_part *part = &exchange->parts[chunk->first_part + p];
                if (i == host && part->host != host) {
                    send[part->host] += coffer__exchange_part_size(exchange, part);
                } else if (i != host && part->host == host) {
                    receive[i] += coffer__exchange_part_size(exchange, part);
                }
            }
        }
    }
}

/* Fills the lists of sizes and offsets. Returns what the longer of the two buffers needs. */
static uint64_t peers_sizes(coffer__mail *mail, const coffer_exchange *exchange, uint64_t round)
{
    const uint32_t world = mail->transport->world;
    uint64_t *send = mail->sizes;
    uint64_t *receive = send + 2 * (size_t)world;
    uint64_t sent = 0;
    uint64_t received = 0;
    for (uint32_t i = 0; i < world; i++) {
        send[i] = receive[i] = i == mail->transport->host ? 0 : COFFER__EXCHANGE_SAID;
    }
    if (exchange != NULL) {
        peers_add_sizes(mail, exchange, round, send, receive);
    }
    for (uint32_t i = 0; i < world; i++) {
        send[world + i] = sent;
        receive[world + i] = received;
        sent += send[i];
        received += receive[i];
    }
    return sent > received ? sent : received;
}

/* Buffers of at least `size` bytes. What the old ones had is lost. */
static coffer_status peers_grow(coffer__mail *mail, uint64_t size, coffer_error *err)
{
    if (size <= mail->capacity) {
        return COFFER_OK;
    }
    uint8_t *send = size > SIZE_MAX ? NULL : coffer_buffer_new((size_t)size);
    uint8_t *receive = send == NULL ? NULL : coffer_buffer_new((size_t)size);
    if (receive == NULL) {
        coffer_buffer_free(send, (size_t)size);
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the messages of a round, twice %z", size);
    }
    coffer_buffer_free(mail->send, (size_t)mail->capacity);
    coffer_buffer_free(mail->receive, (size_t)mail->capacity);
    mail->send = send;
    mail->receive = receive;
    mail->capacity = size;
    return COFFER_OK;
}

coffer_status coffer__mail_begin(coffer__mail *mail, const coffer_transport *transport, uint64_t number,
                                 const coffer_allocator *allocator, coffer_error *err)
{
    *mail = (coffer__mail){ .allocator = allocator, .transport = transport, .number = number };
    mail->sizes = coffer__alloc_array(allocator, transport->world, 4 * sizeof *mail->sizes, err);
    if (mail->sizes == NULL) {
        return COFFER_ERR_MEMORY;
    }
    return peers_grow(mail, (uint64_t)transport->world * COFFER__EXCHANGE_SAID, err);
}

coffer_status coffer__mail_reserve(coffer__mail *mail, const coffer_exchange *exchange, coffer_error *err)
{
    uint64_t most = 0;
    for (uint64_t round = 0; round < exchange->rounds; round++) {
        const uint64_t size = peers_sizes(mail, exchange, round);
        most = size > most ? size : most;
    }
    return peers_grow(mail, most, err);
}

void coffer__mail_end(coffer__mail *mail)
{
    coffer__free_array(mail->allocator, mail->sizes, mail->transport->world, 4 * sizeof *mail->sizes);
    coffer_buffer_free(mail->send, (size_t)mail->capacity);
    coffer_buffer_free(mail->receive, (size_t)mail->capacity);
}

void coffer__mail_address(coffer__mail *mail, const coffer_exchange *exchange, uint64_t round)
{
    const uint32_t world = mail->transport->world;
    (void)peers_sizes(mail, exchange, round);
    mail->parcels = (coffer_parcels){ .send = mail->send,
                                      .send_sizes = mail->sizes,
                                      .send_offsets = mail->sizes + world,
                                      .receive = mail->receive,
                                      .receive_sizes = mail->sizes + 2 * (size_t)world,
                                      .receive_offsets = mail->sizes + 3 * (size_t)world };
}

/* ---- how hosts are ----------------------------------------------------------------------------------------------- */

static void peers_say(const coffer__mail *mail, uint8_t *said, coffer_status status, const coffer_error *err)
{
    memset(said, 0, COFFER__EXCHANGE_SAID);
    memcpy(said, PEERS_MAGIC, 8);
    coffer__store_u64le(said + 8, mail->number);
    coffer__store_u64le(said + 16, mail->call);
    coffer__store_u64le(said + 24, mail->transport->host);
    coffer__store_u64le(said + 32, (uint64_t)status);
    if (status != COFFER_OK) {
        memcpy(said + PEERS_TEXT, err->message, PEERS_TEXT_SIZE);
    }
}

/* What one of the others says. Its text is not trusted. */
static coffer_status peers_judge(const coffer__mail *mail, uint32_t peer, const uint8_t *said, coffer_error *err)
{
    const char *text = (const char *)said + PEERS_TEXT;
    const char *end = memchr(text, 0, PEERS_TEXT_SIZE);
    if (memcmp(said, PEERS_MAGIC, 8) != 0 || coffer__load_u64le(said + 24) != peer) {
        return coffer__fail(err, COFFER_ERR_PEER,
                            "what came from host %u is no message of it: the transport brings other bytes than were "
                            "sent, or hosts are numbered in two ways",
                            (uint64_t)peer);
    }
    if (coffer__load_u64le(said + 32) != COFFER_OK) {
        return coffer__fail(err, COFFER_ERR_PEER, "host %u of %u failed: %p", (uint64_t)peer,
                            (uint64_t)mail->transport->world, text,
                            end == NULL ? PEERS_TEXT_SIZE : (size_t)(end - text));
    }
    if (coffer__load_u64le(said + 8) != mail->number || coffer__load_u64le(said + 16) != mail->call) {
        return coffer__fail(err, COFFER_ERR_PEER,
                            "hosts %u and %u do not load the same tensors of the same model in the same way",
                            (uint64_t)mail->transport->host, (uint64_t)peer);
    }
    return COFFER_OK;
}

/* The own failure counts most: the others have it from here. */
coffer_status coffer__mail_carry(coffer__mail *mail, coffer_status status, coffer_error *err)
{
    const coffer_transport *transport = mail->transport;
    coffer_error carrying;
    for (uint32_t i = 0; i < transport->world; i++) {
        if (i != transport->host) {
            peers_say(mail, mail->send + mail->parcels.send_offsets[i], status, err);
        }
    }
    coffer__error_clear(&carrying);
    const coffer_status carried = transport->carry(transport->ctx, &mail->parcels, &carrying);
    if (status == COFFER_OK && carried != COFFER_OK) {
        status = coffer__callback_status(&carrying, carried, "carry messages between hosts", COFFER_NO_OFFSET);
        *err = carrying;
    }
    for (uint32_t i = 0; i < transport->world && status == COFFER_OK; i++) {
        if (i != transport->host) {
            status = peers_judge(mail, i, mail->receive + mail->parcels.receive_offsets[i], err);
        }
    }
    mail->call++;
    return status;
}
