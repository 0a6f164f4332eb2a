/* SPDX-License-Identifier: Apache-2.0 */
/* POSIX systems: see cli_host.h for the contract. */
#include "cli_host.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

const char cli_host_separators[] = "/";

/* A file that we open must not get the number of a standard descriptor that somebody closed: what
   goes there, a message say, would end up in that file. Each is opened the wrong way round, so that
   using it fails as if it were closed. */
static void hold_standard_descriptors(void)
{
    static const int wrong_ways[] = { O_WRONLY, O_RDONLY, O_RDONLY };
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            (void)open("/dev/null", wrong_ways[fd]);
        }
    }
}

void cli_host_begin(void)
{
    hold_standard_descriptors();
    signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files is an error, as a full disk is */
}

bool cli_host_terminal(int fd)
{
    const char *terminal = getenv("TERM");
    return terminal != NULL && terminal[0] != '\0' && strcmp(terminal, "dumb") != 0 && isatty(fd);
}

size_t cli_host_width(int fd)
{
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

double cli_host_processor_seconds(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

uint64_t cli_host_peak_kib(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss : 0;
}
