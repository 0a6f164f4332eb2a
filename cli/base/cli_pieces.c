/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of tensors: see cli_pieces.h for the contract. */
#include "cli_pieces.h"

#include "cli_report.h"

#include <stdlib.h>

cli_piece *cli_cut(const uint64_t *elements, size_t items, size_t *count)
{
    size_t all = 0;
    *count = 0;
    for (size_t i = 0; i < items; i++) {
        all += (size_t)((elements[i] + CLI_PIECE_ELEMENTS - 1) / CLI_PIECE_ELEMENTS);
    }
    cli_piece *pieces = calloc(all + 1, sizeof *pieces);
    for (size_t i = 0; i < items && pieces != NULL; i++) {
        for (uint64_t first = 0; first < elements[i]; first += CLI_PIECE_ELEMENTS) {
            const uint64_t left = elements[i] - first;
            pieces[(*count)++] =
                (cli_piece){ i, first, (size_t)(left < CLI_PIECE_ELEMENTS ? left : CLI_PIECE_ELEMENTS) };
        }
    }
    return pieces;
}

uint64_t cli_elements_size(coffer_dtype dtype, uint64_t elements)
{
    const uint64_t bits = coffer_dtype_bits(dtype);
    return elements / 8 * bits + elements % 8 * bits / 8;
}

void *cli_read_piece(const coffer *model, const coffer_tensor *tensor, const cli_piece *piece, coffer_error *err)
{
    coffer_read_options options = COFFER_READ_OPTIONS_INIT;
    options.threads = 1;
    const uint64_t size = cli_elements_size(tensor->dtype, piece->count);
    void *bytes = malloc((size_t)size);
    if (bytes == NULL) {
        cli_no_memory(err);
        return NULL;
    }
    const uint64_t offset = cli_elements_size(tensor->dtype, piece->first);
    if (coffer_read_part(model, tensor, offset, bytes, size, &options, err) != COFFER_OK) {
        free(bytes);
        return NULL;
    }
    return bytes;
}
