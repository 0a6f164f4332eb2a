/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the reader of GGUF: what it accepts becomes a file that the parser takes, with the bytes of the input, or with the
   numbers that its blocks are, in each dtype that they may become. */
#include "fuzz_import.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const coffer_dtype dtypes[] = { COFFER_F32, COFFER_F16, COFFER_BF16 };
    import_all_ways(bytes, size, "m.gguf");
    const uint8_t *edge = guarded_copy(bytes, size);
    coffer_import_options options = COFFER_IMPORT_OPTIONS_INIT;
    options.max_metadata = (uint64_t)4 << 20;
    for (size_t i = 0; edge != NULL && i < sizeof dtypes / sizeof dtypes[0]; i++) {
        options.blocks_as = dtypes[i];
        import_bytes(edge, size, "m.gguf", &options);
    }
    options.blocks_as = COFFER_UNKNOWN_DTYPE;
    options.raw_blocks = true;
    if (edge != NULL) {
        import_bytes(edge, size, "m.gguf", &options);
    }
    return 0;
}
