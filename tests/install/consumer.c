/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of somebody else, built against Coffer in each way that is offered: it parses a header in memory and prints the
 * version. It fails when header and library are not of one version.
 */
#include <coffer.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    static const char file[] =
        "\x40\0\0\0\0\0\0\0{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}          ";
    coffer_parse_options options = COFFER_PARSE_OPTIONS_INIT;
    options.file_size = 8 + 64 + 8;
    coffer_table *table = NULL;
    coffer_error err;
    if (coffer_parse(&table, NULL, file, sizeof(file) - 1, coffer_libc_allocator(), &options, &err) != COFFER_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    const coffer_tensor *tensor = coffer_table_find(table, "x", 1);
    int found = tensor != NULL && tensor->size == 8;
    coffer_table_free(table);
    printf("coffer %s\n", coffer_version());
    return found && strcmp(coffer_version(), COFFER_VERSION_STRING) == 0 ? 0 : 1;
}
