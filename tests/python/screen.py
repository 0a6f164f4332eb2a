# SPDX-License-Identifier: Apache-2.0
"""A program in a terminal that can be looked at: a pseudo-terminal, and what pyte makes of the bytes that come out of it."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

import pyte

PATIENCE = float(os.environ.get("SCREEN_PATIENCE", "60"))  # seconds for what is waited for; no test comes near it unless it fails


def set_size(fd, columns, rows):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class Screen(pyte.Screen):
    """The modes that were asked for, and the other screen, which pyte has no place for."""

    def __init__(self, *size):
        super().__init__(*size)
        self.private = set()

    def set_mode(self, *modes, **how):
        if how.get("private"):
            self.private |= set(modes)
        super().set_mode(*modes, **how)

    def reset_mode(self, *modes, **how):
        if how.get("private"):
            self.private -= set(modes)
        super().reset_mode(*modes, **how)


def own_terminal():
    """In the new process. What starts the tests in the background may have them ignore signals, which programs inherit."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Program:
    """A program that runs in a terminal; as a context it is killed at its end, if it still runs."""

    def __init__(self, command, columns=80, rows=24, **options):
        self.master, self.slave = pty.openpty()
        set_size(self.slave, columns, rows)
        self.before = termios.tcgetattr(self.slave)
        self.screen = Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.said = b""
        self.process = subprocess.Popen(command, stdin=self.slave, stdout=self.slave, stderr=self.slave, start_new_session=True,
                                        preexec_fn=own_terminal, **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        with contextlib.suppress(OSError):
            os.close(self.slave)
        with contextlib.suppress(OSError):
            os.close(self.master)

    def read(self, seconds):
        """What comes within that time, as far as it is there; False at the end."""
        if select.select([self.master], [], [], seconds)[0]:
            try:
                part = os.read(self.master, 65536)
            except OSError:
                return False
            self.said += part
            self.stream.feed(part)
        return True

    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    def text(self):
        return "\n".join(self.lines())

    def wait(self, wanted, gone=False):
        """Until the screen has a text, or a predicate of its text holds."""
        holds = wanted if callable(wanted) else lambda text: (wanted in text) != gone
        end = time.monotonic() + PATIENCE
        while not holds(self.text()):
            assert time.monotonic() < end, f"never came: {wanted!r}\n{self.text()}"
            assert self.process.poll() is None or self.read(0), f"it ended ({self.process.returncode}) before {wanted!r}\n{self.text()}"
            self.read(0.05)
        return self

    def type(self, keys):
        os.write(self.master, keys if isinstance(keys, bytes) else keys.encode())
        return self

    def press(self, keys):
        """Types keys and waits until they have taken effect: Ctrl-L, typed after them, draws everything anew. A sequence that
        means nothing goes between, so that an escape character at the end of the keys is one."""
        before = self.said.count(b"\x1b[2J")
        self.type((keys if isinstance(keys, bytes) else keys.encode()) + b"\x1b[99~\x0c")
        return self.wait(lambda _: self.said.count(b"\x1b[2J") > before and self.said.endswith(b"\x1b[?2026l"))

    def resize(self, columns, rows):
        """Another size, and the frame that the program draws for it."""
        before = self.said.count(b"\x1b[2J")
        self.screen.resize(rows, columns)
        set_size(self.master, columns, rows)
        return self.wait(lambda _: self.said.count(b"\x1b[2J") > before and self.said.endswith(b"\x1b[?2026l"))

    def kill(self, number):
        self.process.send_signal(number)
        return self

    def end(self):
        """The exit code, once it has ended by itself."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it does not end\n{self.text()}"
            self.read(0.05)
        while select.select([self.master], [], [], 0)[0] and self.read(0):
            pass
        return self.process.returncode

    def is_restored(self):
        """The terminal is as it was: the old screen, no mouse, a cursor, and the settings of the line."""
        return not self.screen.private & {1049, 1000, 1006, 2004, 2026} and 25 in self.screen.private | {25} and \
            termios.tcgetattr(self.slave) == self.before

