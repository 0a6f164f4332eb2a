/* SPDX-License-Identifier: Apache-2.0 */
/* The grids of GGUF's IQ types, as gguf_grids.c packs them. IQ1_M uses that of IQ1_S. */
#ifndef COFFER_CODEC_GGUF_GRIDS_H
#define COFFER_CODEC_GGUF_GRIDS_H

#include <stdint.h>

extern const uint16_t coffer__gguf_grid_iq2_xxs[256];
extern const uint16_t coffer__gguf_grid_iq2_xs[512];
extern const uint16_t coffer__gguf_grid_iq2_s[1024];
extern const uint16_t coffer__gguf_grid_iq3_xxs[256];
extern const uint16_t coffer__gguf_grid_iq3_s[512];
extern const uint16_t coffer__gguf_grid_iq1_s[2048];

#endif
