/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes quantised layers: two bytes with the length of a configuration, little-endian, the configuration, and a file. Layers
 * that are recognised are decoded tile by tile, each part from memory of exactly the bytes that it says it needs, to each dtype.
 */
#include "coffer.h"
#include "fuzz_input.h"
#include "quantised.h"

#include <stdlib.h>
#include <string.h>

#define MOST_ELEMENTS ((uint64_t)1 << 16) /* of a layer that is decoded */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* The bytes of one part, in memory that ends where they do; NULL: there is none, or too much. */
static uint8_t *read_part(const coffer *model, const coffer_tensor *tensor, const coffer__quant_read *read)
{
    if (tensor == NULL || read->size > MOST_ELEMENTS || read->count > MOST_ELEMENTS / (read->size + 1)) {
        return NULL;
    }
    uint8_t *bytes = malloc(read->size * read->count + (read->size == 0));
    for (size_t i = 0; bytes != NULL && i < read->count; i++) {
        const uint64_t offset = read->offset + i * read->stride;
        expect(coffer_read_part(model, tensor, offset, bytes + i * read->size, read->size, NULL, NULL) == COFFER_OK,
               "a layer needs bytes of its tensors only");
    }
    return bytes;
}

static void decode_tile(const coffer *model, const coffer__quant_layer *layer, const coffer__quant_tile *tile,
                        coffer_dtype dtype)
{
    coffer__quant_read reads[COFFER__QUANT_ROLES];
    uint8_t *parts[COFFER__QUANT_ROLES];
    const uint8_t *bytes[COFFER__QUANT_ROLES];
    coffer__quant_odd odd = { .index = false };
    const uint64_t count = coffer__quant_tile_count(&layer->quant, tile);
    uint8_t *to = malloc((size_t)count * (coffer_dtype_bits(dtype) / 8));
    bool whole = to != NULL;
    coffer__quant_reads(&layer->quant, tile, reads);
    for (unsigned i = 0; i < COFFER__QUANT_ROLES; i++) {
        parts[i] = read_part(model, layer->parts[i], &reads[i]);
        bytes[i] = parts[i];
        whole = whole && (parts[i] != NULL || layer->parts[i] == NULL);
    }
    if (whole) {
        coffer__quant_decode(&layer->quant, tile, bytes, dtype, to, &odd);
    }
    for (unsigned i = 0; i < COFFER__QUANT_ROLES; i++) {
        free(parts[i]);
    }
    free(to);
}

static void decode_layer(const coffer *model, const coffer__quant_layer *layer)
{
    static const coffer_dtype dtypes[] = { COFFER_BF16, COFFER_F16, COFFER_F32 };
    const coffer__quant *quant = &layer->quant;
    uint64_t row = 0;
    uint64_t done = 0;
    if (quant->count > MOST_ELEMENTS) {
        return;
    }
    for (size_t i = 0; done < quant->count; i++) {
        const coffer__quant_tile tile = coffer__quant_tile_at(quant, row);
        expect(tile.rows > 0, "a tile has rows");
        decode_tile(model, layer, &tile, dtypes[i % 3]);
        done += coffer__quant_tile_count(quant, &tile);
        row += tile.rows;
    }
    expect(done == quant->count, "the tiles of a layer have each of its elements once");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    coffer *model = NULL;
    coffer__quant_layers found;
    const size_t config = size < 2 ? size : bytes[0] + 256u * bytes[1];
    if (size < 2 || config > size - 2 ||
        coffer_open_memory(&model, bytes + 2 + config, size - 2 - config, NULL, NULL) != COFFER_OK) {
        return 0;
    }
    const coffer__quant_wants wants = { config > 0 ? (const char *)bytes + 2 : NULL, config, false };
    memset(&found, 0, sizeof found);
    if (coffer__quant_layers_find(&found, model, &wants, coffer_libc_allocator(), NULL) == COFFER_OK) {
        for (size_t i = 0; i < found.count; i++) {
            decode_layer(model, &found.layers[i]);
        }
    }
    coffer__quant_layers_free(&found);
    coffer_close(model);
    return 0;
}
