/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write_streaming FILE [MIB]: writes a checkpoint of about MIB mebibytes (4 if not said) through 64 KiB of memory.
 *
 * It shows how a file larger than memory is written: all tensors are declared first, so the header, and with it every
 * tensor's place, is known before the first byte of data; then the data come in pieces. Until coffer_writer_finish nothing
 * is seen under the file's name, and when anything fails nothing is left behind.
 */
#include "coffer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 512
#define PIECE_SIZE ((size_t)64 << 10)
#define LAYER_SIZE ((uint64_t)WIDTH * WIDTH * 4)

/* Stands for whatever the values really come from: a network, a conversion, the optimiser's state. */
static void make_values(uint8_t *bytes, uint64_t offset)
{
    for (size_t i = 0; i < PIECE_SIZE; i += 4) {
        const float value = (float)((offset + i) / 4 % 1000) / 1000.0f;
        uint32_t bits = 0;
        memcpy(&bits, &value, sizeof bits);
        /* Files are little-endian, whatever the machine is. */
        for (size_t k = 0; k < 4; k++) {
            bytes[i + k] = (uint8_t)(bits >> (8 * k));
        }
    }
}

static coffer_status declare(coffer_header *header, uint64_t layers, coffer_error *err)
{
    static const uint64_t shape[] = { WIDTH, WIDTH };
    coffer_status status = coffer_header_set_metadata(header, "format", 6, "pt", 2, err);
    for (uint64_t i = 0; i < layers && status == COFFER_OK; i++) {
        char name[64];
        const int length = snprintf(name, sizeof name, "layers.%" PRIu64 ".weight", i);
        status = coffer_header_add(header, name, (size_t)length, COFFER_F32, shape, 2, err);
    }
    return status;
}

/* Pieces may come in any order and from any thread; one thread in order is the simplest. */
static coffer_status write_layers(coffer_writer *writer, uint64_t layers, uint8_t *piece, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    for (uint64_t i = 0; i < layers; i++) {
        for (uint64_t offset = 0; offset < LAYER_SIZE && status == COFFER_OK; offset += PIECE_SIZE) {
            make_values(piece, offset);
            /* A tensor goes by its number in the order of declaration. */
            status = coffer_writer_write(writer, (size_t)i, offset, piece, PIECE_SIZE, err);
        }
    }
    return status;
}

static coffer_status write_checkpoint(const char *path, coffer_header *header, uint64_t layers, uint8_t *piece,
                                      coffer_error *err)
{
    coffer_writer_options options = COFFER_WRITER_OPTIONS_INIT;
    options.alignment = 4096; /* the data begin on a page */
    options.slack = 4096;     /* later edits of the metadata find space in the header */
    coffer_writer *writer = NULL;
    coffer_status status = declare(header, layers, err);
    if (status == COFFER_OK) {
        status = coffer_writer_open(&writer, header, path, &options, err);
    }
    if (status == COFFER_OK) {
        status = write_layers(writer, layers, piece, err);
    }
    if (status == COFFER_OK) {
        status = coffer_writer_finish(writer, err);
    }
    coffer_writer_free(writer);
    return status;
}

int main(int argc, char **argv)
{
    const uint64_t layers = argc == 3 ? strtoull(argv[2], NULL, 10) : 4;
    if (argc < 2 || argc > 3 || layers == 0) {
        fprintf(stderr, "usage: write_streaming FILE [MIB]\n");
        return 2;
    }
    uint8_t *piece = malloc(PIECE_SIZE);
    if (piece == NULL) {
        fprintf(stderr, "write_streaming: no memory\n");
        return 1;
    }
    coffer_header *header = NULL;
    coffer_error err;
    coffer_status status = coffer_header_new(&header, NULL, &err);
    if (status == COFFER_OK) {
        status = write_checkpoint(argv[1], header, layers, piece, &err);
    }
    if (status == COFFER_OK) {
        printf("wrote %" PRIu64 " tensors, %" PRIu64 " bytes of data, %zu bytes at a time\n", layers,
               layers * LAYER_SIZE, PIECE_SIZE);
    } else {
        fprintf(stderr, "%s: %s\n", argv[1], err.message);
    }
    coffer_header_free(header);
    free(piece);
    return status == COFFER_OK ? 0 : 1;
}
