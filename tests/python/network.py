# SPDX-License-Identifier: Apache-2.0
"""What the tests of the network share: an environment in which nothing leads elsewhere or takes long, files, and models."""

import ctypes
import os
import struct
from ctypes import byref

import pytest

import coffer_ctypes as coffer

FIRST = 96 << 10  # bytes that the first request asks for, as docs/network.md says


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Short times, and an environment in which nothing leads elsewhere."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy") or name.startswith(("HF_", "AWS_"))]:
        monkeypatch.delenv(name)
    for name in ("CURL_CA_BUNDLE", "SSL_CERT_FILE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setenv("COFFER_NET_TIMEOUT", "0.3")
    monkeypatch.setenv("COFFER_NET_PAUSE", "0.001")
    monkeypatch.setenv("COFFER_NET_RETRIES", "3")


def file_with_header(header_len, tensors=1, size=64, names=None):
    """A file whose header, with its length, has exactly so many bytes."""
    names = names or ["t%d" % i for i in range(tensors)]
    entry = '"%s":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}'
    entries = [entry % (name, size, i * size, (i + 1) * size) for i, name in enumerate(names)]
    text = ("{" + ",".join(entries) + "}").encode()
    text += b" " * (header_len - 8 - len(text))
    assert len(text) == header_len - 8
    block = bytes((i * 7 + i // 256) % 256 for i in range(1 << 16))
    body = (block * (tensors * size // len(block) + 1))[: tensors * size]
    return struct.pack("<Q", len(text)) + text + body, body


SMALL, SMALL_BODY = file_with_header(200, 2, 300)
LARGE, LARGE_BODY = file_with_header(1000, 3, 3 << 20)


class Model:
    """A model opened by the C library."""

    def __init__(self, url, **options):
        self.handle, self.err = ctypes.c_void_p(), coffer.Error()
        given = coffer.OpenOptions(struct_size=ctypes.sizeof(coffer.OpenOptions), **options)
        self.status = coffer._open(byref(self.handle), url.encode(), byref(given), byref(self.err))
        self.code = coffer.CODE_NAMES[self.status]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        coffer._close(self.handle)

    def read(self, name):
        """A tensor's bytes, or the name of the failure."""
        tensor = coffer.LIB.coffer_find
        tensor.restype, tensor.argtypes = ctypes.POINTER(coffer.Tensor), (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)
        found = tensor(self.handle, name.encode(), len(name.encode()))
        size = found.contents.size
        buffer = ctypes.create_string_buffer(size)
        status = coffer._read(self.handle, found, buffer, size, None, byref(self.err))
        return buffer.raw if status == 0 else coffer.CODE_NAMES[status]

    @property
    def message(self):
        return self.err.message.decode()


def refused(server, code, words, path="/m", http_status=None, requests=None):
    """Opening fails with this code and these words."""
    with Model(server.url(path)) as model:
        assert model.code == code, model.message
        assert words in model.message
        assert model.err.path.decode() == server.url(path)
        if http_status is not None:
            assert model.err.http_status == http_status
    if requests is not None:
        assert len(server.log) == requests, server.paths
