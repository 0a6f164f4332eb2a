/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the counting of parameters by a config.json, which comes with a model and so from a stranger. The input is that text, at
 * the edge of what may be touched; the model is always the same one, with tensors as each kind of quantisation names them. The
 * plain count never depends on the configuration, nothing counts more than 32 weights in an element, and what was assumed is a
 * text for people.
 */
#define _DEFAULT_SOURCE /* guarded.h */

#include "coffer.h"
#include "fuzz_input.h"
#include "guarded.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const struct {
    const char *name;
    coffer_dtype dtype;
} tensors[] = {
    { "a.qweight", COFFER_I32 },       { "a.qzeros", COFFER_I32 },        { "a.scales", COFFER_F16 },
    { "b.weight", COFFER_U32 },        { "b.scales", COFFER_F16 },        { "b.biases", COFFER_F16 },
    { "b.c.weight", COFFER_U32 },      { "b.c.scales", COFFER_F16 },      { "c.weight_packed", COFFER_I32 },
    { "c.weight_scale", COFFER_F16 },  { "d_blocks", COFFER_U8 },         { "d_scales", COFFER_U8 },
    { "e.weight", COFFER_U8 },         { "e.weight.absmax", COFFER_F32 }, { "f.weight", COFFER_F8_E8M0 },
    { "lm_head.weight", COFFER_BF16 },
};
#define TENSORS (sizeof tensors / sizeof tensors[0])
#define ELEMENTS 12u

static coffer *make_model(void)
{
    static uint8_t image[8192];
    const uint64_t shape[] = { 3, ELEMENTS / 3 };
    const void *head = NULL;
    uint64_t head_size = 0;
    const coffer_table *table = NULL;
    coffer_header *header = NULL;
    coffer *model = NULL;
    expect(coffer_header_new(&header, coffer_libc_allocator(), NULL) == COFFER_OK, "a header");
    for (size_t i = 0; i < TENSORS; i++) {
        expect(coffer_header_add(header, tensors[i].name, strlen(tensors[i].name), tensors[i].dtype, shape, 2, NULL) ==
                   COFFER_OK,
               "with tensors");
    }
    expect(coffer_header_build(header, NULL, &head, &head_size, &table, NULL) == COFFER_OK, "is built");
    const uint64_t size = head_size + coffer_table_data_size(table);
    expect(size <= sizeof image, "and fits");
    memcpy(image, head, (size_t)head_size);
    coffer_header_free(header);
    expect(coffer_open_memory(&model, image, (size_t)size, NULL, NULL) == COFFER_OK, "a model");
    return model;
}

static void check(const coffer_parameters *counts)
{
    uint64_t plain = 0;
    for (size_t i = 0; i < sizeof counts->plain / sizeof counts->plain[0]; i++) {
        plain += counts->plain[i];
        expect(counts->trained[i] <= 32 * counts->plain[i], "an element holds 32 weights at most");
        expect(counts->compatible[i] <= counts->trained[i], "and no fraction of one, if it is to be compatible");
    }
    expect(plain == TENSORS * ELEMENTS, "the plain count is that of the tensors");
    expect(counts->plain[COFFER_F8_E8M0] == ELEMENTS && counts->trained[COFFER_F8_E8M0] == 0, "scales do not count");
    const char *end = memchr(counts->assumed, '\0', sizeof counts->assumed);
    expect(end != NULL, "what was assumed ends");
    for (const char *c = counts->assumed; c < end; c++) {
        expect((unsigned char)*c >= 0x20 && *c != 0x7F, "and has no control characters");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static coffer *model;
    if (size > GUARDED_LARGEST) {
        return 0;
    }
    if (model == NULL) {
        model = make_model();
    }
    coffer_parameters counts;
    const char *text = (const char *)guarded_copy(bytes, size);
    expect(coffer_count_parameters(model, text, size, &counts, NULL) == COFFER_OK,
           "a configuration cannot make counting fail");
    check(&counts);
    return 0;
}
