# SPDX-License-Identifier: Apache-2.0
"""Files behind URLs: what is asked of a server, how many times, and what is made of its answers, good and hostile ones.

All servers are on the loopback interface. Nothing waits longer than a tenth of a second: the environment makes time-outs and
pauses short.
"""

import ctypes
import os
import subprocess
from ctypes import byref

import pytest

import coffer_ctypes as coffer
from network import FIRST, LARGE, LARGE_BODY, SMALL, SMALL_BODY, Model, file_with_header, quick, refused  # noqa: F401
from web_server import Server, http_date

# ---- How much is asked ---------------------------------------------------------------------------------------------


def test_one_request_opens_a_file():
    with Server({"/m": SMALL}) as server, Model(server.url("/m")) as model:
        assert model.code == "OK", model.message
        assert [request.range for request in server.log] == [(0, FIRST - 1)]
        assert server.log[0].headers["accept-encoding"] == "identity"
        # What came with the header is not asked for again.
        assert model.read("t0") + model.read("t1") == SMALL_BODY
        assert len(server.log) == 1


@pytest.mark.parametrize("header_len", [FIRST - 1, FIRST, FIRST + 1, 3 * FIRST, 99_993, 100_000, 100_001])
def test_a_header_that_is_longer_takes_one_more(header_len):
    content, body = file_with_header(header_len)
    with Server({"/m": content}) as server, Model(server.url("/m")) as model:
        assert model.code == "OK", model.message
        longer = header_len > FIRST
        assert [request.range for request in server.log] == [(0, FIRST - 1)] + longer * [(FIRST, header_len - 1)]
        assert model.read("t0") == body


def test_a_tensor_is_read_in_pieces_at_once():
    with Server({"/m": LARGE}) as server, Model(server.url("/m")) as model:
        assert model.read("t1") == LARGE_BODY[3 << 20 : 6 << 20]
        asked = sorted(request.range for request in server.log[1:])
        first, last = asked[0][0], asked[-1][1]
        assert (first, last) == (1000 + (3 << 20), 1000 + (6 << 20) - 1)
        assert sum(b - a + 1 for a, b in asked) == 3 << 20
        # The validator that the first answer stated goes along.
        assert {request.headers.get("if-range") for request in server.log[1:]} == {'"1"'}


@pytest.mark.parametrize(
    ("slice_", "ranges"),
    [
        ("1000000:1000100", [(1_000_000, 1_000_099)]),
        # A gap that is shorter than a journey is read through, in windows …
        ("1000000:1100000:1000", [(1_000_000, 1_099_000)]),
        ("500000:3100000:50000", [(500_000, 2_500_000), (2_550_000, 3_050_000)]),
        # … and a longer one is not.
        ("1000000:2000000:300000", [(1_000_000 + i * 300_000,) * 2 for i in range(4)]),
        ("2000000:1000000:-500000", [(1_500_000,) * 2, (2_000_000,) * 2]),
        ("5:10", []),
    ],
)
def test_slices_fetch_their_runs(slice_, ranges, tmp_path):
    with Server({"/m": LARGE}) as server:
        command = [os.environ["COFFER_CLI"], "get", server.url("/m"), "t0[%s]" % slice_, "--format", "raw", "-o", tmp_path / "out.raw"]
        subprocess.run(command, check=True)
        assert (tmp_path / "out.raw").read_bytes() == eval("LARGE_BODY[: 3 << 20][%s]" % slice_)
        assert sorted(request.range for request in server.log[1:]) == [(1000 + a, 1000 + b) for a, b in ranges]


class ReadTarget(ctypes.Structure):
    _fields_ = [("tensor", ctypes.POINTER(coffer.Tensor)), ("buffer", ctypes.c_void_p), ("size", ctypes.c_uint64)]


class ReadOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("progress", ctypes.c_void_p), ("ctx", ctypes.c_void_p), ("threads", ctypes.c_uint32)]


def test_neighbours_come_together():
    content, body = file_with_header(FIRST + 10_000, 100, 1000)
    with Server({"/m": content}) as server, Model(server.url("/m")) as model:
        assert model.code == "OK", model.message
        names = ["t%d" % i for i in range(100) if i % 10 != 5]
        buffers = [ctypes.create_string_buffer(1000) for _ in names]
        find = coffer.LIB.coffer_find
        find.restype, find.argtypes = ctypes.POINTER(coffer.Tensor), (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)
        targets = (ReadTarget * len(names))()
        for target, name, buffer in zip(targets, names, buffers):
            target.tensor, target.buffer, target.size = find(model.handle, name.encode(), len(name)), ctypes.addressof(buffer), 1000
        asked = len(server.log)
        assert coffer.LIB.coffer_read_many(model.handle, targets, ctypes.c_size_t(len(names)), None, None) == 0
        for name, buffer in zip(names, buffers):
            at = 1000 * int(name[1:])
            assert buffer.raw == body[at : at + 1000]
        assert len(server.log) == asked + 1


PROGRESS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64)


def read_and_cancel(server, size, least=1):
    """Reads a tensor of so many bytes and asks to stop when so many pieces were asked for and nothing more comes."""
    told = []

    def progress(_, done, total):
        told.append(done)
        return told[-1:] == told[-2:-1] and len(server.log) > least

    with Model(server.url("/m")) as model:
        find = coffer.LIB.coffer_find
        find.restype, find.argtypes = ctypes.POINTER(coffer.Tensor), (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)
        stop = PROGRESS(progress)
        options = ReadOptions(ctypes.sizeof(ReadOptions), ctypes.cast(stop, ctypes.c_void_p), None, 0)
        buffer = ctypes.create_string_buffer(size)
        status = coffer._read(model.handle, find(model.handle, b"t0", 2), buffer, size, byref(options), byref(model.err))
        assert coffer.CODE_NAMES[status] == "CANCELLED", model.message


@pytest.fixture
def patient(monkeypatch):
    """The servers of these tests hold their answers back: who waits for them gets TIMEOUT in the end, and not CANCELLED."""
    monkeypatch.setenv("COFFER_NET_TIMEOUT", "60")
    monkeypatch.setenv("COFFER_NET_RETRIES", "0")


@pytest.mark.parametrize("answered", [0, 1, 7])
def test_waiting_for_several_pieces_can_be_cancelled(patient, answered):
    content, _ = file_with_header(1000, 1, 32 << 20)
    with Server() as server:
        # The header's request is the first one.
        server.behave = lambda request: request.ranges(content) if request.number <= answered else request.stall()
        read_and_cancel(server, 32 << 20, 8)


def test_waiting_for_the_rest_of_an_answer_can_be_cancelled(patient):
    def behave(request):
        if request.number == 0:
            return request.ranges(LARGE)
        request.part(LARGE, 1000)
        return request.stall()

    with Server(behave=behave) as server:
        read_and_cancel(server, 3 << 20)


def test_waiting_as_a_server_asks_can_be_cancelled():
    def behave(request):
        return request.ranges(LARGE) if request.number == 0 else request.answer(503, {"Retry-After": "60"})

    with Server(behave=behave) as server:
        read_and_cancel(server, 3 << 20)
        assert len(server.log) == 2


def test_connections_are_kept():
    opened = []
    with Server({"/m": LARGE}, lambda request: (opened.append(id(request.connection)), server.serve(request))) as server:
        with Model(server.url("/m")) as model:
            for _ in range(5):
                assert model.read("t0") == LARGE_BODY[: 3 << 20]
        assert len(set(opened)) <= 3 < len(opened)


def test_an_empty_file():
    with Server({"/m": b""}) as server:
        refused(server, "EMPTY", "empty", requests=1)


@pytest.mark.parametrize("said", [{}, {"Content-Range": "bytes */0"}])
def test_416_is_an_empty_file(said):
    with Server(behave=lambda request: request.answer(416, said)) as server:
        refused(server, "EMPTY", "empty", requests=1)


def test_416_of_a_file_with_bytes():
    with Server(behave=lambda request: request.answer(416, {"Content-Range": "bytes */5"})) as server:
        refused(server, "ANSWER", "outside", requests=1)


# ---- Answers that are not what was asked for -----------------------------------------------------------------------


def test_a_small_file_may_come_whole():
    with Server(behave=lambda request: request.answer(200, {}, SMALL)) as server, Model(server.url("/m")) as model:
        assert model.code == "OK", model.message
        assert model.read("t1") == SMALL_BODY[300:]
        assert len(server.log) == 1


def test_a_large_file_may_not():
    with Server(behave=lambda request: request.answer(200, {}, LARGE)) as server:
        refused(server, "ANSWER", "does not serve ranges", http_status=200, requests=1)


def test_a_large_file_of_unknown_length_may_not_either():
    def behave(request):
        request.head(200)
        request.closes = True
        request.raw(LARGE)

    with Server(behave=behave) as server:
        refused(server, "ANSWER", "does not serve ranges", requests=1)


def test_a_small_file_of_unknown_length():
    def behave(request):
        request.head(200)
        request.raw(SMALL)
        request.closes = True

    with Server(behave=behave) as server, Model(server.url("/m")) as model:
        assert model.code == "OK", model.message
        assert model.read("t0") == SMALL_BODY[:300]


@pytest.mark.parametrize(
    ("content_range", "words"),
    [
        (None, "no Content-Range"),
        ("bytes 0-99", "unusable Content-Range"),
        ("bytes 0-98303/*", "how long"),
        ("bytes */1000", "unusable Content-Range"),
        ("bytes 1-98304/10000000", "bytes 1 to 98304 where 0 to 98303"),
        ("bytes 0-98304/10000000", "bytes 0 to 98304 where 0 to 98303"),
        ("bytes 0-99/10000000", "bytes 0 to 99 where 0 to 98303"),
        ("bytes 0-98302/98303", "98304 bytes and calls them bytes 0 to 98302"),
    ],
)
def test_a_range_that_was_not_asked_for(content_range, words):
    said = {} if content_range is None else {"Content-Range": content_range}
    with Server(behave=lambda request: request.answer(206, said, LARGE[:FIRST])) as server:
        refused(server, "ANSWER", words, http_status=206, requests=1)


def test_a_body_longer_than_its_range():
    def behave(request):
        request.head(206, {"Content-Range": "bytes 0-9/10", "Connection": "close"})
        request.raw(b"x" * 20)
        request.closes = True

    with Server(behave=behave) as server:
        refused(server, "ANSWER", "more bytes than it says", requests=1)


def test_a_compressed_range():
    with Server(behave=lambda request: request.ranges(LARGE, {"Content-Encoding": "gzip"})) as server:
        refused(server, "ANSWER", "compressed", requests=1)


# ---- Files that change ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [
    lambda request: request.ranges(LARGE, {"ETag": '"2"'}),
    lambda request: request.ranges(LARGE + b"x"),
    lambda request: request.answer(200, {"ETag": '"2"'}, LARGE),
    lambda request: request.answer(416, {"Content-Range": "bytes */5"}),
])  # fmt: skip
def test_a_file_that_changes_is_an_error(change):
    def behave(request):
        return change(request) if request.number > 0 else request.ranges(LARGE)

    with Server(behave=behave) as server, Model(server.url("/m")) as model:
        assert model.read("t0") == "CHANGED"
        assert "changed on the server" in model.message
        assert model.err.tensor == b"t0"
        assert model.err.path.decode() == server.url("/m")


def test_a_date_serves_where_there_is_no_etag():
    def behave(request):
        request.ranges(LARGE, {"ETag": "", "Last-Modified": "Sun, 06 Nov 1994 08:49:3%d GMT" % min(request.number, 1)})

    with Server(behave=behave) as server, Model(server.url("/m")) as model:
        assert model.read("t0") == "CHANGED"


def test_a_weak_etag_is_compared_but_not_sent():
    def behave(request):
        assert "if-range" not in request.headers
        request.ranges(LARGE, {"ETag": 'W/"1"' if request.number < 2 else 'W/"2"'})

    with Server(behave=behave) as server, Model(server.url("/m")) as model:
        assert model.read("t0") == LARGE_BODY[: 3 << 20]
        assert model.read("t1") == "CHANGED"


LONG = '"' + "e" * 300 + '"'
DATE = "Sun, 06 Nov 1994 08:49:37 GMT"


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ({"ETag": '"1"'}, {"ETag": ""}),
        ({"ETag": ""}, {"ETag": '"1"'}),
        ({"ETag": '"1"', "Last-Modified": DATE}, {"ETag": '"1"'}),
        ({"ETag": '"1"'}, {"ETag": '"1"', "Last-Modified": DATE}),
        ({"ETag": '"1"', "Last-Modified": DATE}, {"ETag": '"1"', "Last-Modified": DATE.replace("37", "38")}),
        ({"ETag": '"1"'}, {"ETag": LONG}),
        ({"ETag": LONG}, {"ETag": LONG.replace("ee", "xe", 1)}),
        ({"ETag": LONG}, {"ETag": LONG.replace('e"', 'x"')}),
        ({"ETag": LONG}, {"ETag": LONG.replace("e", "ee")}),
        ({"ETag": "", "Last-Modified": "x" * 70}, {"ETag": "", "Last-Modified": "x" * 69 + "y"}),
    ],
)
def test_whatever_changes_of_the_validators_is_an_error(first, later):
    """Also when one of them only now appears, or does no more; and beyond what is kept of a long one."""

    def behave(request):
        request.ranges(LARGE, first if request.number == 0 else later)

    with Server(behave=behave) as server, Model(server.url("/m")) as model:
        assert model.code == "OK", model.message
        assert model.read("t0") == "CHANGED"


@pytest.mark.parametrize("said", [{"ETag": LONG}, {"ETag": ""}, {"ETag": "", "Last-Modified": DATE}, {"ETag": LONG, "Last-Modified": "x" * 70}])
def test_validators_that_stay_the_same(said):
    with Server(behave=lambda request: request.ranges(LARGE, said)) as server, Model(server.url("/m")) as model:
        assert model.read("t0") == LARGE_BODY[: 3 << 20]
        # A long one is compared, and not sent.
        assert {request.headers.get("if-range") for request in server.log} == {None}


def test_an_answer_that_breaks_off_goes_on_with_the_same_file():
    """What the very first answer stated holds from its first byte on."""

    def behave(request):
        return request.part(LARGE, 1000) if request.number == 0 else request.ranges(LARGE, {"ETag": ""})

    with Server(behave=behave) as server:
        refused(server, "CHANGED", "changed on the server", requests=2)


# ---- Trouble that passes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_passing_trouble_is_waited_for(status):
    def behave(request):
        return request.answer(status) if request.number < 3 else request.ranges(SMALL)

    with Server(behave=behave) as server, Model(server.url("/m")) as model:
        assert model.code == "OK", model.message
        assert len(server.log) == 4


@pytest.mark.parametrize("after", ["0", http_date(-100)])
def test_retry_after_is_obeyed(after, monkeypatch):
    monkeypatch.setenv("COFFER_NET_PAUSE", "60")  # which is not waited then

    def behave(request):
        return request.answer(503, {"Retry-After": after}) if request.number < 1 else request.ranges(SMALL)

    with Server(behave=behave) as server, Model(server.url("/m")) as model:
        assert model.code == "OK", model.message


@pytest.mark.parametrize("after", ["3600", "18446744073709551615", "18446744073709551616", "9" * 60])
def test_retry_after_has_a_bound(after):
    with Server(behave=lambda request: request.answer(429, {"Retry-After": after})) as server:
        refused(server, "HTTP", "too many requests", http_status=429, requests=1)


def test_tries_are_bounded():
    with Server(behave=lambda request: request.answer(503)) as server:
        refused(server, "HTTP", "status 503: the server is in trouble", http_status=503, requests=4)


@pytest.mark.parametrize(
    ("status", "code"), [(400, "HTTP"), (401, "ACCESS"), (403, "ACCESS"), (404, "NOT_FOUND"), (410, "NOT_FOUND"), (501, "HTTP")]
)
def test_what_will_not_change_is_not_asked_again(status, code):
    with Server(behave=lambda request: request.answer(status, {}, b"no" * 1000)) as server:
        refused(server, code, str(status), http_status=status, requests=1)


def test_a_reset_is_gone_on_from():
    def behave(request):
        if request.number in (1, 2):
            request.part(LARGE, 1 << 20)
        elif request.number in (0, 3):
            request.reset()
        else:
            request.ranges(LARGE)

    with Server(behave=behave) as server, Model(server.url("/m")) as model:
        # The first request is reset, then the answer breaks off within the header's bytes; the rest is asked for.
        assert model.code == "OK", model.message
        assert model.read("t0") == LARGE_BODY[: 3 << 20]


def test_an_answer_that_breaks_off_is_resumed():
    def behave(request):
        return request.part(LARGE, 500_000) if 1 <= request.number <= 2 else request.ranges(LARGE)

    with Server(behave=behave) as server, Model(server.url("/m")) as model:
        assert model.read("t0") == LARGE_BODY[: 3 << 20]
        asked = [request.range for request in server.log]
        begins = {first for first, _ in asked}
        # Not a byte is asked for twice.
        assert {first + 500_000 for first, _ in asked[1:3]} <= begins


def test_answers_that_always_break_off():
    with Server(behave=lambda request: request.part(LARGE, 10)) as server:
        refused(server, "CONNECT", "127.0.0.1", requests=4)


def test_a_server_that_says_nothing():
    with Server(behave=lambda request: request.stall()) as server:
        os.environ["COFFER_NET_RETRIES"] = "1"
        refused(server, "TIMEOUT", "sent nothing for 300 ms", requests=2)


def test_a_server_that_stops_in_the_middle():
    def behave(request):
        if request.number > 1:
            return request.ranges(LARGE)
        request.part(LARGE, 1000)
        return request.stall()

    with Server(behave=behave) as server, Model(server.url("/m")) as model:
        assert model.code == "OK", model.message
        assert server.log[1].range == (1000, FIRST - 1)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n" % len(SMALL)


@pytest.mark.parametrize("part", [b"HTTP/1.1 200 OK", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nETag: \"1\"\r\n", HEAD,
                                  b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nA: b\r\n"])  # fmt: skip
def test_a_head_that_ends_early_is_asked_for_again(part):
    def behave(request):
        if request.number > 1:
            return request.ranges(SMALL)
        request.raw(part)
        request.closes = True

    with Server(behave=behave) as server, Model(server.url("/m")) as model:
        assert model.code == "OK", model.message
        assert len(server.log) == 3


def test_heads_that_always_end_early():
    def behave(request):
        request.raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n")
        request.closes = True

    with Server(behave=behave) as server:
        refused(server, "CONNECT", "ended within its head", requests=4)


def drip(request, before, piece, pause=0.02):
    """Sends something for ever, little by little."""
    request.raw(before)
    while not request.server.closed.wait(pause):
        request.raw(piece)
    request.closes = True


OF_LARGE = b"HTTP/1.1 206 OK\r\nETag: \"1\"\r\nContent-Length: %d\r\nContent-Range: bytes 0-%d/%d\r\n\r\n" % (FIRST, FIRST - 1, len(LARGE))
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("before", "piece"),
    [
        (OF_LARGE, LARGE[:1]),
        (CHUNKED, b"1\r\n\0\r\n"),
        (CHUNKED + b"1\r\n\0\r\n0\r\n", b"Trailer: more\r\n"),
        (b"HTTP/1.1 200 OK\r\n", b"Field: more\r\n"),
        (b"HTTP/1.1 200 OK\r\nField: ", b"x"),
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
    ],
)
def test_a_server_that_never_ends(before, piece, monkeypatch):
    """Enough has to come in each time-out, and the whole head in one."""
    monkeypatch.setenv("COFFER_NET_RETRIES", "0")
    with Server(behave=lambda request: drip(request, before, piece)) as server:
        refused(server, "TIMEOUT", "too little for 300 ms", requests=1)


def test_lines_that_never_end_and_come_fast(monkeypatch):
    monkeypatch.setenv("COFFER_NET_RETRIES", "0")
    monkeypatch.setenv("COFFER_NET_TIMEOUT", "60")

    def behave(request):
        request.raw(b"HTTP/1.1 200 OK\r\n")
        while True:
            request.raw((b"Field: " + b"x" * 1000 + b"\r\n") * 10)

    with Server(behave=behave) as server:
        refused(server, "CONNECT", "the answer's head is longer than 256 KiB", requests=1)


def test_a_slow_server_that_sends_enough(monkeypatch):
    """Far longer than the time-out, and never quite enough for a reader who counts only what comes at once."""
    monkeypatch.setenv("COFFER_NET_TIMEOUT", "0.2")

    def behave(request):
        request.head(200, {"Content-Length": len(SMALL)})
        for at in range(0, len(SMALL), 40):
            request.raw(SMALL[at : at + 40])
            request.server.closed.wait(0.05)

    with Server(behave=behave) as server, Model(server.url("/m")) as model:
        assert model.code == "OK", model.message
        assert len(server.log) == 1


def test_trailers_say_nothing_of_the_body():
    def behave(request):
        request.raw(CHUNKED.replace(b"\r\n\r\n", b'\r\nETag: "1"\r\n\r\n') + b"%x\r\n" % len(SMALL) + SMALL + b"\r\n0\r\n")
        request.raw(b'ETag: "2"\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\nHTTP/1.1: 404\r\n\r\n')

    with Server(behave=behave) as server, Model(server.url("/m")) as model:
        assert model.code == "OK", model.message
        assert model.read("t0") == SMALL_BODY[:300]


def test_nobody_there():
    with Server() as server:
        server.close()
        refused(server, "CONNECT", "cannot be reached", requests=0)


# ---- Redirects -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed_once(status):
    def behave(request):
        return request.redirect("/there?signed=1", status) if request.path == "/m" else request.ranges(LARGE)

    with Server(behave=behave) as server, Model(server.url("/m")) as model:
        assert model.read("t0") == LARGE_BODY[: 3 << 20]
        # Later requests go where the first one was led.
        assert server.paths[:2] == ["/m", "/there?signed=1"]
        assert set(server.paths[2:]) == {"/there?signed=1"}


def test_an_address_that_expires_is_asked_for_again():
    expired = []

    def behave(request):
        if request.path == "/m":
            return request.redirect("/there?signed=%d" % request.number)
        if request.path == "/there?signed=0" and request.number > 1:
            expired.append(request)
            return request.answer(403)
        return request.ranges(LARGE)

    with Server(behave=behave) as server, Model(server.url("/m")) as model:
        assert model.read("t0") == LARGE_BODY[: 3 << 20]
        assert expired


def test_redirects_in_a_circle():
    with Server(behave=lambda request: request.redirect("/m")) as server:
        refused(server, "REDIRECT", "more than 10 times", requests=11)


def test_a_redirect_to_nowhere():
    with Server(behave=lambda request: request.answer(302)) as server:
        refused(server, "REDIRECT", "without saying where", http_status=302, requests=1)


@pytest.mark.parametrize("location", ["file:///etc/passwd", "http://a b/", "s3://a/b", "http://", "/" + "a" * 8190, "http://u:p@127.0.0.1/", "hf://a/b", "\x7f"])
def test_a_redirect_to_something_else(location):
    """What a server writes is no mistake of the user's."""
    with Server(behave=lambda request: request.redirect(location)) as server, Model(server.url("/m")) as model:
        assert model.code == "REDIRECT", model.message
        assert len(server.log) == 1


def test_netrc_goes_to_its_host_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".netrc").write_text("machine localhost login ann password secret\n")
    with Server({"/m": SMALL}) as other:

        def behave(request):
            return request.redirect(other.url("/m"))

        with Server(behave=behave) as server, Model("http://localhost:%d/m" % server.port) as model:
            assert model.code == "OK", model.message
            assert server.log[0].headers["authorization"].startswith("Basic ")
            assert "authorization" not in other.log[0].headers


# ---- URLs and settings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "words"), [("ftp://a/b", '"ftp" is no scheme'), ("http://u:secret@127.0.0.1/m", "~/.netrc"), ("http://", "no host")]
)
def test_urls_that_cannot_be_opened(url, words):
    with Model(url) as model:
        assert model.code == "URL"
        assert words in model.message


@pytest.mark.parametrize(
    ("name", "value"), [("COFFER_NET_TIMEOUT", "soon"), ("COFFER_NET_PAUSE", "1.2345"), ("COFFER_NET_RETRIES", "-1")]
)
def test_settings_that_are_wrong(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    with Model("http://127.0.0.1:1/m") as model:
        assert model.code == "ARGUMENT"
        assert name in model.message


def test_a_proxy_is_used(monkeypatch):
    with Server(behave=lambda request: request.ranges(SMALL)) as proxy:
        monkeypatch.setenv("http_proxy", proxy.origin)
        with Model("http://files.invalid/m") as model:
            assert model.code == "OK", model.message
        assert proxy.paths == ["http://files.invalid/m"]
