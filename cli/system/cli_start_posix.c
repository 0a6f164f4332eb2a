/* SPDX-License-Identifier: Apache-2.0 */
/* Where POSIX systems start the command: their arguments are bytes, and taken to be UTF-8. */
#include "cli_host.h"

int main(int argc, char **argv)
{
    return cli_main(argc, argv);
}
