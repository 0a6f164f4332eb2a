/* SPDX-License-Identifier: Apache-2.0 */
/* Where Windows starts the command. The arguments come in UTF-16; the C library has put files in place of `*` and `?`, which
   the shells of Windows do not. */
#include "cli_host.h"

#include "cli_windows_text.h"

#include <stdio.h>

int wmain(int argc, wchar_t **argv);

int wmain(int argc, wchar_t **argv)
{
    char **words = calloc((size_t)argc + 1, sizeof *words);
    bool fine = words != NULL;
    for (int i = 0; i < argc && fine; i++) {
        words[i] = cli_windows_utf8(argv[i]);
        fine = words[i] != NULL;
    }
    if (!fine) {
        fputs("coffer: out of memory\n", stderr);
        return 1;
    }
    return cli_main(argc, words); /* the process ends with them */
}
