/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the readers of checkpoints that lie in several files: distributed checkpoints, files of ranks, DeepSpeed's. The
 * first two bytes are the size of the input, little-endian; what follows it is every file beside it.
 */
#include "fuzz_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const char *const paths[] = { ".metadata", "a_world_size_2_rank_1.pt", "mp_rank_00_model_states.pt",
                                         "zero_pp_rank_0_mp_rank_00_model_states.pt" };
    static const coffer__wants wants[] = {
        { .root = "auto", .strip_prefix = "" },
        { .root = "all", .strip_prefix = "w", .skip_unsupported = true, .complex128_as_f64 = true },
        { .root = "auto", .strip_prefix = "", .scan = true },
    };
    if (size < 2) {
        return 0;
    }
    const size_t wanted = (size_t)(bytes[0] | bytes[1] << 8);
    const uint8_t *edge = guarded_copy(bytes + 2, size - 2);
    const size_t own = wanted < size - 2 ? wanted : size - 2;
    const fuzz_folder folder = { .bytes = edge, .own = own, .others = size - 2 - own, .most = FUZZ_MAX_FILES };
    for (size_t i = 0; edge != NULL && i < sizeof paths / sizeof paths[0]; i++) {
        for (size_t k = 0; k < sizeof wants / sizeof wants[0]; k++) {
            read_as(folder, paths[i], &wants[k]);
        }
    }
    return 0;
}
