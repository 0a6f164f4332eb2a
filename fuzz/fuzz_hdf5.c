/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the readers of HDF5 and of Keras' files: what they accept becomes a file that the parser takes, with the bytes of the
   input. */
#include "fuzz_import.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    import_all_ways(bytes, size, "m.weights.json");
    return 0;
}
