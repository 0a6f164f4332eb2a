/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes all readers of other programs' files, as they are chosen, with no file beside the input; and a scan of the same file
 * ends as well.
 */
#include "fuzz_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const coffer__wants wants[] = {
        { .root = "auto", .strip_prefix = "", .blocks_as = COFFER_BF16 },
        { .root = "all",
          .strip_prefix = "w",
          .scalars = COFFER_SCALARS_METADATA,
          .skip_unsupported = true,
          .complex128_as_f64 = true,
          .raw_blocks = true,
          .bytes_as = COFFER_F8_E4M3,
          .ties = COFFER_TIES_KEEP },
        { .root = "auto", .strip_prefix = "", .scan = true },
    };
    const uint8_t *edge = guarded_copy(bytes, size);
    const fuzz_folder folder = { .bytes = edge, .own = size, .most = 1 };
    for (size_t i = 0; edge != NULL && i < sizeof wants / sizeof wants[0]; i++) {
        read_as(folder, "file.npz", &wants[i]);
    }
    return 0;
}
