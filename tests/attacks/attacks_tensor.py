# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of torch whose tensors lie about their storages."""

from pickles_by_hand import call, checkpoint, dict_of, name, number, storage, stream, tensor, text, tuple_of
from zips_by_hand import torch_file


def tensor_attacks():
    def one(value):
        return torch_file(checkpoint(value))

    yield "beyond", one(tensor((2, 3), (3, 1)))
    yield "offset", one(tensor(offset=1))
    yield "offset-2^62", one(tensor(offset=2**62))
    yield "size-negative", one(tensor((-2, 2)))
    yield "stride-negative", one(tensor(strides=(-2, 1)))
    yield "size-2^62", one(tensor((2**62, 4), (0, 1)))
    yield "product-wraps", one(tensor((2**32, 2**32), (1, 1)))
    yield "stride-wraps", one(tensor((2, 2), (2**62, 2**62)))
    yield "expanded", one(tensor((2**20, 2**20), (0, 0)))
    yield "ranks-differ", one(tensor((2, 2), (1,)))
    yield "count-negative", one(tensor(of=storage(count=-4)))
    yield "count-2^62", one(tensor(of=storage(count=2**62)))
    yield "key-up", one(tensor(of=storage("../../etc")))
    yield "key-empty", one(tensor(of=storage("")))
    yield "key-absolute", one(tensor(of=storage("/etc/passwd")))
    yield "id-a-text", one(tensor(of=text("storage") + b"Q"))
    yield "id-short", one(tensor(of=tuple_of(text("storage")) + b"Q"))
    yield "id-other", one(tensor(of=tuple_of(text("module"), text("x")) + b"Q"))
    yield "storage-unknown", one(tensor(of=storage(kind="SecretStorage")))
    yield "rebuild-few", one(call(name("torch._utils", "_rebuild_tensor_v2"), storage()))
    yield "sizes-texts", one(call(name("torch._utils", "_rebuild_tensor_v2"), storage(), number(0), tuple_of(text("2")),
                                  tuple_of(text("1")), b"\x89", b"N"))
    yield "name-empty-and-collision", torch_file(stream(dict_of(
        (text("a.b"), tensor()), (text("a"), dict_of((text("b"), tensor()))))))
    yield "name-surrogate", torch_file(stream(dict_of((b"X\3\0\0\0\xed\xa0\x80", tensor()))))
    yield "name-metadata", torch_file(stream(dict_of((text("__metadata__"), tensor()))))
