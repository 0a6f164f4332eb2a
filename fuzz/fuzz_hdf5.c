/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the readers of HDF5 and of Keras' files: what they accept becomes a file that the parser takes, with the bytes of the
   input. The checksums of a superblock and of object headers are put right, so that a changed one is not all that is ever
   found. */
#include "fuzz_import.h"

#include "hdf5_checksum.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Writes the checksum after a block, if the bytes have space for it. */
static void fix(uint8_t *bytes, size_t size, size_t begin, size_t block)
{
    coffer__lookup3 state;
    if (begin > size || block > size - begin || 4 > size - begin - block) {
        return;
    }
    coffer__lookup3_begin(&state, block);
    coffer__lookup3_add(&state, bytes + begin, block);
    const uint32_t sum = coffer__lookup3_end(&state);
    for (unsigned i = 0; i < 4; i++) {
        bytes[begin + block + i] = (uint8_t)(sum >> (8 * i));
    }
}

/* The header at `begin`, whose messages are of at most 64 KiB. */
static void fix_header(uint8_t *bytes, size_t size, size_t begin)
{
    const unsigned flags = begin + 6 <= size ? bytes[begin + 5] : 0;
    const size_t at = begin + 6 + (flags & 32 ? 16 : 0) + (flags & 16 ? 4 : 0);
    const size_t width = (size_t)1 << (flags & 3);
    size_t messages = 0;
    if (at > size || width > size - at) {
        return;
    }
    for (size_t i = 0; i < width && i < 2; i++) {
        messages |= (size_t)bytes[at + i] << (8 * i);
    }
    fix(bytes, size, begin, at + width + messages - begin);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint8_t *fixed = malloc(size + 1);
    expect(fixed != NULL, "there is memory");
    memcpy(fixed, bytes, size);
    for (size_t at = 0; at + 4 <= size; at++) {
        if (memcmp(fixed + at, "OHDR", 4) == 0) {
            fix_header(fixed, size, at);
        }
    }
    fix(fixed, size, 0, 44);
    import_all_ways(fixed, size, "m.weights.json");
    free(fixed);
    import_all_ways(bytes, size, "m.weights.json");
    return 0;
}
