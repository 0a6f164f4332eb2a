/* SPDX-License-Identifier: Apache-2.0 */
/* Small files, read whole: see cli_inputs.h for the contract. */
#include "cli_inputs.h"

#include "cli_interrupt.h"
#include "cli_report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INPUT_FIRST 65536

/* Reads to the end, but one byte more than `most` at most; false with errno set. */
static bool read_all(int fd, size_t most, cli_input *input)
{
    size_t room = 0;
    for (;;) {
        if (input->size == room) {
            room = room == 0 ? INPUT_FIRST : 2 * room;
            char *bytes = realloc(input->bytes, room + 1);
            if (bytes == NULL) {
                return false;
            }
            input->bytes = bytes;
        }
        const ssize_t got = read(fd, input->bytes + input->size, room - input->size);
        if (got < 0 && (errno != EINTR || cli_interrupted())) {
            return false;
        }
        input->size += got > 0 ? (size_t)got : 0;
        if (got == 0 || input->size > most) {
            input->bytes[input->size] = '\0';
            return true;
        }
    }
}

bool cli_input_read(cli *app, const char *path, size_t most, cli_input *input, int *code)
{
    const bool is_input = strcmp(path, "-") == 0;
    *input = (cli_input){ .size = 0 };
    const int fd = is_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    const bool fine = fd >= 0 && read_all(fd, most, input);
    const int error = errno;
    if (fd >= 0 && !is_input) {
        close(fd);
    }
    if (fine && input->size <= most) {
        return true;
    }
    cli_input_free(input);
    if (fine) {
        cli_say_path(app, path, "has more than %zu bytes, too many for this kind of file", most);
    } else if (!cli_interrupted()) {
        cli_say_path(app, path, "cannot read the file: %s", strerror(error));
    }
    *code = CLI_EXIT_UNREADABLE;
    return false;
}

void cli_input_free(cli_input *input)
{
    free(input->bytes);
    *input = (cli_input){ .size = 0 };
}
