# SPDX-License-Identifier: Apache-2.0
"""A server for what downloads: files of a folder, by ranges, from some distance and at a bounded rate.

    fetch_server.py FOLDER DELAY_MS RATE ALL    RATE: bytes a second of a connection, ALL: of all together; 0: unbounded

/FOLDER/FILE is a file; /owner/FOLDER/resolve/REVISION/FILE is the same as the Hub has it, /api/models/owner/FOLDER/revision/REVISION its
listing, with the SHA-256 of the tensors' files. A connection is made, and each request answered, that much later. Prints the port, and serves until standard input ends.
"""

import hashlib
import json
import os
import re
import socket
import sys
import threading
import time
from pathlib import Path

COMMIT = "89abcdef0123456789abcdef0123456789abcdef"
STEP = 128 << 10  # bytes that are sent at a time where the rate is bounded
HUB = re.compile(r"/owner/([^/]+)/resolve/[^/]+/([^?]+)")
LISTING = re.compile(r"/api/models/owner/([^/]+)/(revision|tree)/[^/?]+(?:\?.*)?")


class Rate:
    """Lets bytes pass at a rate, whoever sends them."""

    def __init__(self, rate):
        self.rate, self.next, self.lock = rate, 0.0, threading.Lock()

    def wait(self, size):
        if self.rate == 0:
            return
        with self.lock:
            now = time.monotonic()
            self.next = max(self.next, now - 0.01) + size / self.rate
            pause = self.next - now
        if pause > 0:
            time.sleep(pause)


class Server:
    def __init__(self, folder, delay, rate, whole):
        self.folder, self.delay, self.rate, self.whole = Path(folder), delay / 1000, rate, Rate(whole)
        self.digests = {str(file): hashlib.file_digest(file.open("rb"), "sha256").hexdigest() for file in self.folder.glob("*/*.safetensors")}
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)

    def serve(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.talk, args=(connection,), daemon=True).start()

    def talk(self, connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        rate = Rate(self.rate)
        try:
            time.sleep(self.delay)
            with connection, connection.makefile("rb") as stream:
                while words := stream.readline().split():
                    headers = {}
                    while (line := stream.readline().strip()) != b"":
                        name, _, value = line.partition(b":")
                        headers[name.lower()] = value.strip()
                    time.sleep(self.delay)
                    self.answer(connection, rate, words[0].decode(), words[1].decode(), headers)
        except OSError:
            pass

    def answer(self, connection, rate, method, path, headers):
        said = {"Accept-Ranges": "bytes"}
        if listing := LISTING.fullmatch(path):
            return self.list(connection, *listing.groups())
        if hub := HUB.match(path):
            path = "/%s/%s" % hub.groups()
            said["X-Repo-Commit"] = COMMIT
            linked = self.digests.get(str(self.folder / path.lstrip("/")))
            said |= {"X-Linked-Etag": '"%s"' % linked} if linked else {}
        file = self.folder / path.lstrip("/")
        if not file.is_file():
            return connection.sendall(b"HTTP/1.1 404 No\r\nX-Error-Code: EntryNotFound\r\nContent-Length: 0\r\n\r\n")
        size = file.stat().st_size
        first, last, status = 0, size - 1, "200 OK"
        asked = headers.get(b"range", b"").removeprefix(b"bytes=").decode()
        if asked and size > 0:
            begin, _, end = asked.partition("-")
            first, last, status = int(begin), min(int(end or last), last), "206 Partial Content"
            said["Content-Range"] = "bytes %d-%d/%d" % (first, last, size)
        said |= {"ETag": '"%s-%d"' % (file.name, size), "Content-Length": last + 1 - first}
        head = "HTTP/1.1 %s\r\n%s\r\n" % (status, "".join("%s: %s\r\n" % pair for pair in said.items()))
        connection.sendall(head.encode())
        if method != "HEAD":
            self.send(connection, rate, file, first, last + 1)
        return None

    def send(self, connection, rate, file, at, end):
        bounded = self.rate or self.whole.rate
        with file.open("rb") as content:
            while at < end:
                size = min(end - at, STEP) if bounded else end - at
                rate.wait(size)
                self.whole.wait(size)
                while size > 0:
                    sent = os.sendfile(connection.fileno(), content.fileno(), at, size)
                    if sent == 0:
                        raise OSError("the file has become shorter")
                    at, size = at + sent, size - sent

    def list(self, connection, name, how):
        files = sorted((self.folder / name).iterdir())
        if how == "tree":
            said = [{"type": "file", "oid": "0" * 40, "size": file.stat().st_size, "path": file.name} for file in files]
        else:
            said = {"id": "owner/" + name, "sha": COMMIT, "siblings": [{"rfilename": file.name} for file in files]}
        body = json.dumps(said).encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        connection.sendall(head + body)


def main():
    server = Server(sys.argv[1], *map(int, sys.argv[2:5]))
    threading.Thread(target=server.serve, daemon=True).start()
    print(server.listener.getsockname()[1], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
