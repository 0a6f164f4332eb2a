/* SPDX-License-Identifier: Apache-2.0 */
/* Small files, read whole: see cli_inputs.h for the contract. */
#include "cli_inputs.h"

#include "cli_interrupt.h"
#include "cli_report.h"
#include "cli_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INPUT_FIRST 65536

/* Reads to the end, but one byte more than `most` at most. Returns an errno, or 0; EFBIG when there is more than that. */
static int read_all(int fd, size_t most, cli_input *input)
{
    size_t capacity = 0;
    for (;;) {
        if (input->size == capacity) {
            capacity = capacity == 0 ? INPUT_FIRST : 2 * capacity;
            char *bytes = realloc(input->bytes, capacity + 1);
            if (bytes == NULL) {
                return ENOMEM;
            }
            input->bytes = bytes;
        }
        const ssize_t got = read(fd, input->bytes + input->size, capacity - input->size);
        if (got < 0 && (errno != EINTR || cli_interrupted())) {
            return errno;
        }
        input->size += got > 0 ? (size_t)got : 0;
        if (got == 0 || input->size > most) {
            input->bytes[input->size] = '\0';
            return input->size > most ? EFBIG : 0;
        }
    }
}

bool cli_input_read(cli *app, const char *path, size_t most, cli_input *input, int *code)
{
    const bool is_input = strcmp(path, "-") == 0;
    *input = (cli_input){ .size = 0 };
    const int fd = is_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    const int error = fd >= 0 ? read_all(fd, most, input) : errno;
    if (fd >= 0 && !is_input) {
        close(fd);
    }
    if (error == 0) {
        return true;
    }
    cli_input_free(input);
    if (error == EFBIG) {
        cli_say_path(app, path, "has more than %zu bytes, too many for this kind of file", most);
    } else if (!cli_interrupted()) {
        cli_say_path(app, path, "cannot read the file: %s", strerror(error));
    }
    *code = CLI_EXIT_UNREADABLE;
    return false;
}

int cli_input_read_regular(const char *path, size_t most, cli_input *input)
{
    struct stat about;
    *input = (cli_input){ .size = 0 };
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    int error = fstat(fd, &about) != 0 ? errno : S_ISREG(about.st_mode) ? 0 : EINVAL;
    error = error == 0 && (uint64_t)about.st_size > most ? EFBIG : error;
    error = error == 0 ? read_all(fd, most, input) : error;
    close(fd);
    if (error != 0) {
        cli_input_free(input);
    }
    return error;
}

int cli_input_read_beside(const coffer *model, const char *name, size_t most, cli_input *input)
{
    const char *file = coffer_shard_path(model, 0);
    *input = (cli_input){ .size = 0 };
    if (file[0] == '\0' || strstr(file, "://") != NULL) {
        return ENOENT;
    }
    const char *slash = cli_last_slash(file);
    const size_t folder_len = slash != NULL ? (size_t)(slash - file) + 1 : 0;
    char *path = malloc(folder_len + strlen(name) + 1);
    if (path == NULL) {
        return ENOMEM;
    }
    memcpy(path, file, folder_len);
    memcpy(path + folder_len, name, strlen(name) + 1);
    const int error = cli_input_read_regular(path, most, input);
    free(path);
    return error;
}

void cli_input_free(cli_input *input)
{
    free(input->bytes);
    *input = (cli_input){ .size = 0 };
}
