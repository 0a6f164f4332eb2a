/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read_tensor FILE NAME [SLICE]: prints the numbers of a tensor, or of a slice of it such as "0, :4".
 *
 * It shows the two ways to a tensor's bytes. The whole tensor is used where the file is mapped, without a copy; a slice is
 * read into memory of our own, and only the bytes that it takes are read.
 */
#include "coffer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_INDICES 16
#define MAX_SHOWN 8

/* Says what is wrong as the library puts it, in one line that can be shown as it is. */
static int complain(const coffer_error *err)
{
    fprintf(stderr, "read_tensor: %s\n", err->message);
    return 1;
}

/* Decodes the first numbers, whatever the dtype, and prints them. */
static int print_numbers(coffer_dtype dtype, const void *bytes, uint64_t count)
{
    /* A complex element is two numbers. */
    double values[2 * MAX_SHOWN];
    const size_t shown = count < MAX_SHOWN ? (size_t)count : MAX_SHOWN;
    const size_t numbers = coffer_dtype_kind(dtype) == COFFER_KIND_COMPLEX ? 2 * shown : shown;
    if (coffer_decode(dtype, bytes, 0, shown, values) != COFFER_OK) {
        fprintf(stderr, "read_tensor: numbers of this dtype cannot be decoded\n");
        return 1;
    }
    for (size_t i = 0; i < numbers; i++) {
        printf("%s%g", i > 0 ? " " : "", values[i]);
    }
    printf("%s\n", count > shown ? " ..." : "");
    return 0;
}

static int print_whole(const coffer *model, const coffer_tensor *tensor)
{
    coffer_error err;
    const void *bytes = coffer_data(model, tensor, &err);
    if (bytes == NULL) {
        return complain(&err);
    }
    return print_numbers(tensor->dtype, bytes, coffer_tensor_elements(tensor));
}

static int print_slice(const coffer *model, const coffer_tensor *tensor, const char *text)
{
    coffer_error err;
    coffer_index indices[MAX_INDICES];
    size_t count = MAX_INDICES;
    uint64_t size = 0;
    coffer_status status = coffer_slice_parse(text, strlen(text), indices, &count, &err);
    if (status == COFFER_OK) {
        /* How many bytes the result has is known before anything is read. */
        status = coffer_slice_shape(tensor, indices, count, NULL, NULL, &size, &err);
    }
    if (status != COFFER_OK) {
        return complain(&err);
    }
    void *bytes = size < SIZE_MAX ? malloc((size_t)size + 1) : NULL;
    if (bytes == NULL) {
        fprintf(stderr, "read_tensor: no memory for a slice of %" PRIu64 " bytes\n", size);
        return 1;
    }
    status = coffer_read_slice(model, tensor, indices, count, bytes, size, NULL, &err);
    int result = 0;
    if (status == COFFER_OK) {
        result = print_numbers(tensor->dtype, bytes, size * 8 / coffer_dtype_bits(tensor->dtype));
    } else {
        result = complain(&err);
    }
    free(bytes);
    return result;
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: read_tensor FILE NAME [SLICE]\n");
        return 2;
    }
    coffer *model = NULL;
    coffer_error err;
    if (coffer_open(&model, argv[1], NULL, &err) != COFFER_OK) {
        return complain(&err);
    }
    int result = 1;
    const coffer_tensor *tensor = coffer_find(model, argv[2], strlen(argv[2]));
    if (tensor == NULL) {
        fprintf(stderr, "read_tensor: the file has no tensor of this name\n");
    } else if (argc == 3) {
        result = print_whole(model, tensor);
    } else {
        result = print_slice(model, tensor, argv[3]);
    }
    coffer_close(model);
    return result;
}
