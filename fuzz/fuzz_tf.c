/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the reader of TensorFlow's checkpoints: what it accepts becomes a file that the parser takes, with the bytes of the
   files. The CRC-32C of the first block is put right, so that a changed block is not all that is ever found. */
#include "fuzz_import.h"

#include "crc32.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* As the first block of a small table ends: at the byte that the input's first one says. */
static void fix(uint8_t *bytes, size_t size, size_t begin, size_t entries)
{
    coffer__crc32 crc32c;
    const size_t end = begin + entries + 1;
    if (end + 4 > size || end < begin) {
        return;
    }
    coffer__crc32c_open(&crc32c, false);
    const uint32_t crc = coffer__crc32_update(&crc32c, 0, bytes + begin, entries + 1);
    const uint32_t masked = (crc >> 15 | crc << 17) + 0xa282ead8u;
    for (unsigned i = 0; i < 4; i++) {
        bytes[end + i] = (uint8_t)(masked >> (8 * i));
    }
}

/* The input is a table after two numbers of two bytes each: the bytes of its block of data, and of the block of its index,
   which comes after an empty one of eight bytes, as in tables that are written. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 4 || size > 65536) {
        import_all_ways(bytes, size, "m.index");
        return 0;
    }
    const size_t data = (size_t)(bytes[0] | bytes[1] << 8);
    const size_t index = (size_t)(bytes[2] | bytes[3] << 8);
    uint8_t *fixed = malloc(size);
    expect(fixed != NULL, "there is memory");
    memcpy(fixed, bytes, size);
    fix(fixed + 4, size - 4, 0, data);
    fix(fixed + 4, size - 4, data + 5 + 13, index);
    import_all_ways(fixed + 4, size - 4, "m.index");
    free(fixed);
    import_all_ways(bytes, size, "m.index");
    return 0;
}
