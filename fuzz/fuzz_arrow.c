/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the reader of Arrow's IPC: what it accepts becomes a file that the parser takes, with the bytes of the input. */
#include "fuzz_import.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    import_all_ways(bytes, size, "m.arrow");
    return 0;
}
