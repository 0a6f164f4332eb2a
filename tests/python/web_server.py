# SPDX-License-Identifier: Apache-2.0
"""Servers on the loopback interface for the tests of what is read over the network.

`Server` is small and obeys: it serves the files that it was given by ranges, as a good server would, and each test may put its
own behaviour in the place of that, down to the bytes and to how a connection ends. It keeps a log of all requests.
"""

import contextlib
import email.utils
import socket
import struct
import threading
import time


class Request:
    """One request, and the ways to answer it."""

    def __init__(self, server, connection, method, path, headers, number):
        self.server, self.connection = server, connection
        self.method, self.path, self.headers, self.number = method, path, headers, number
        self.closes = False

    @property
    def range(self):
        """(first, last) of the range that was asked for, or None."""
        text = self.headers.get("range")
        if text is None:
            return None
        first, last = text.removeprefix("bytes=").split("-")
        return int(first), int(last)

    def raw(self, content):
        self.connection.sendall(content)

    def head(self, status, headers=()):
        lines = ["HTTP/1.1 %d Whatever" % status, *("%s: %s" % pair for pair in dict(headers).items())]
        self.raw(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    def answer(self, status, headers=(), body=b""):
        self.head(status, {"Content-Length": len(body)} | dict(headers))
        self.raw(body)

    def redirect(self, location, status=302):
        self.answer(status, {"Location": location})

    def ranges(self, content, headers=()):
        """What a good server does."""
        if self.range is None:
            return self.answer(200, headers, content)
        first, last = self.range
        if first >= len(content):
            return self.answer(416, {"Content-Range": "bytes */%d" % len(content)})
        body = content[first : last + 1]
        said = {"Content-Range": "bytes %d-%d/%d" % (first, first + len(body) - 1, len(content))}
        return self.answer(206, {"ETag": '"1"'} | said | dict(headers), body)

    def part(self, content, size):
        """The right answer, of which only so many bytes come before the connection is closed."""
        first, last = self.range
        body = content[first : last + 1]
        self.head(206, {"Content-Length": len(body), "ETag": '"1"',
                        "Content-Range": "bytes %d-%d/%d" % (first, first + len(body) - 1, len(content))})  # fmt: skip
        self.raw(body[:size])
        self.closes = True

    def reset(self):
        """The connection breaks."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.closes = True

    def stall(self):
        """Nothing comes until the client goes away or the server is closed."""
        self.server.closed.wait()
        self.closes = True


class Server:
    """Serves `files`, by path, or calls `behave(request)`; the log has every request that was read."""

    def __init__(self, files=None, behave=None, latency=0.0):
        self.files = files or {}
        self.behave = behave or self.serve
        self.latency = latency
        self.log, self.lock, self.closed = [], threading.Lock(), threading.Event()
        self.connections = set()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        self.origin = "http://127.0.0.1:%d" % self.port
        threading.Thread(target=self.accept, daemon=True).start()

    def url(self, path):
        return self.origin + path

    def serve(self, request):
        content = self.files.get(request.path.partition("?")[0])
        return request.answer(404) if content is None else request.ranges(content)

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with self.lock:
                    self.connections.add(connection)
                threading.Thread(target=self.talk, args=(connection,), daemon=True).start()

    def talk(self, connection):
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as stream:
            while not self.closed.is_set():
                words = stream.readline().decode("latin-1").split()
                if len(words) != 3:
                    break
                headers = {}
                while (line := stream.readline().decode("latin-1").strip()) != "":
                    name, _, value = line.partition(":")
                    headers[name.strip().lower()] = value.strip()
                with self.lock:
                    request = Request(self, connection, words[0], words[1], headers, len(self.log))
                    self.log.append(request)
                if self.latency:
                    time.sleep(self.latency)
                self.behave(request)
                if request.closes:
                    break
        with self.lock:
            self.connections.discard(connection)

    def close(self):
        self.closed.set()
        self.listener.close()
        with self.lock:
            for connection in self.connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def paths(self):
        return [request.path for request in self.log]


def http_date(seconds_from_now):
    return email.utils.formatdate(time.time() + seconds_from_now, usegmt=True)
