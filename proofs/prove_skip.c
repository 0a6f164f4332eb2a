/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passing over values that are skipped. Keys are measured and then stored, so the bytes have to stand still here: texts
 * in which a question mark stands for any byte at all.
 */
#include "json.h"
#include "prove.h"

#include <string.h>

static const char *const prove_texts[] = {
    "{\"b\":1,\"b\":2}",
    "{\"ab\":[]}",
    "[[1,{}],",
    "[-1.5e1",
    "[-1.5x1",
    "1e?9",
    "18446744073709551615e289",
    "123456e-12",
    "17976931348623157000e291",
    "{\"b\":{\"c\":1,\"d\":2},\"a\":1}",
    "true",
    "false",
    "{\"c\":1,\"b\":1,\"a\":1,\"b\":1}",
    "1.234567890123456789012e308",
    "1e300",
    /* as many keys as fill the first block, so that their order needs another one */
    "{\"a\":0,\"b\":0,\"c\":0,\"d\":0,\"e\":0,\"f\":0,\"g\":0,\"h\":0,\"i\":0,\"j\":0,\"k\":0,\"l\":0,\"m\":0,\"n\":0,"
    "\"o\":0,\"p\":0,\"q\":0,\"r\":0,\"s\":0,\"t\":0,\"u\":0,\"v\":0}",
};

static void prove_skip(uint8_t *bytes, size_t size, size_t depth)
{
    coffer_error err;
    coffer__scratch scratch = { &prove_allocator, NULL, 0, 0 };
    coffer__json json = { .in = { bytes, size, 0 }, .origin = 8, .err = &err };
    coffer__json_skip(&json, depth, &scratch);
    //@ assert json.in.position <= size;
    coffer__scratch_free(&scratch);
    free(bytes);
}

static void prove_text(const char *text)
{
    const size_t size = strlen(text);
    prove_skip(prove_template(text, size, 0), size, 2);
}

int main(void)
{
    prove_skip(prove_still_bytes(1), 1, 2);
    prove_skip(prove_template("[[", 2, 0), 2, 126);
    //@ loop unroll 100;
    for (size_t i = 0; i < sizeof prove_texts / sizeof prove_texts[0]; i++) {
        prove_text(prove_texts[i]);
    }
    return 0;
}
