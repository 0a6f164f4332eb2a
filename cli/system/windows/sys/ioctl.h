/* SPDX-License-Identifier: Apache-2.0 */
/* ioctl, for the size of a terminal. */
#ifndef COFFER_WINDOWS_IOCTL_H
#define COFFER_WINDOWS_IOCTL_H

#define TIOCGWINSZ 1

struct winsize {
    unsigned short ws_row;
    unsigned short ws_col;
};

int ioctl(int fd, unsigned long request, struct winsize *size);

#endif
