# SPDX-License-Identifier: Apache-2.0
"""A terminal of any width for a program to run in: standard output and standard error are one pseudo-terminal."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time


def run(command, columns, timeout=60, keys=None, **options):
    """Runs `command` and returns its exit code and all that came to the terminal. `keys` maps a text that is waited for to
    bytes that are then typed, such as b"\\x03" for Ctrl-C."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    # The terminal becomes the program's own, so that Ctrl-C typed there is a signal to it.
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                               preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), **options)
    os.close(slave)
    said = b""
    keys = dict(keys or {})
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        ready, _, _ = select.select([master], [], [], 0.1)
        if ready:
            try:
                part = os.read(master, 65536)
            except OSError:  # how Linux says that the last program has left the terminal
                part = b""
            if not part:
                break
            said += part
        for text in [text for text in keys if text in said]:
            os.write(master, keys.pop(text))
    os.close(master)
    try:
        code = process.wait(timeout=max(1.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise
    return code, said.decode("utf-8").replace("\r\n", "\n")
