/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a model fits into the memory of a device:
 *
 *     weights + cache of keys and values (cli_memory.h) + overhead
 *
 * The overhead is an estimate, since it is the program that decides about it: CLI_FIT_CONTEXT for the driver's context and
 * the code of kernels, and a CLI_FIT_SHARE-th part of the weights for activations, workspaces and fragments.
 */
#ifndef COFFER_CLI_FIT_H
#define COFFER_CLI_FIT_H

#include "cli_memory.h"

#define CLI_FIT_CONTEXT (UINT64_C(512) << 20)
#define CLI_FIT_SHARE 20

typedef struct cli_fit {
    const char *name; /* of a known device, or NULL: a size was given */
    uint64_t size;    /* bytes of memory */
} cli_fit;

/* What comes of it. */
typedef struct cli_fitting {
    uint64_t overhead;
    uint64_t total;
    bool fits;
    uint64_t most_context; /* tokens whose cache still fits; 0: none, or there is no cache */
} cli_fitting;

/* Reads a size ("24GB", "80GiB") or the name of a device ("H100", "rtx 4090"): case, spaces and hyphens do not matter. False
   for anything else. */
bool cli_fit_read(cli_fit *fit, const char *text);
/* Device number `i` that is known by name; NULL after the last. */
const char *cli_fit_device(size_t i);
/* `memory` is NULL where there is no estimate of a cache. */
cli_fitting cli_fit_judge(const cli_fit *fit, uint64_t weights, const cli_memory *memory);

#endif
