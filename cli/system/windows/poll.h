/* SPDX-License-Identifier: Apache-2.0 */
/* poll, for one descriptor that is read, or none. */
#ifndef COFFER_WINDOWS_POLL_H
#define COFFER_WINDOWS_POLL_H

#define POLLIN 1

struct pollfd {
    int fd;
    short events;
    short revents;
};

/* A pipe or a console is waited for; a file has something to say at once. */
int poll(struct pollfd *waiting, unsigned count, int milliseconds);

#endif
