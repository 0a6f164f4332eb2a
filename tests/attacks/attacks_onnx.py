# SPDX-License-Identifier: Apache-2.0
"""ONNX models that lie."""

from wire_by_hand import varint, wire


def onnx_tensor(called="w", dims=(3, 2), kind=1, data=bytes(24), more=b""):
    """`data`: its raw_data; None: none."""
    return b"".join(wire(1, d) for d in dims) + wire(2, kind) + wire(8, called) + (b"" if data is None else wire(9, data)) + more


def onnx_graph(*tensors, more=b""):
    return b"".join(wire(5, tensor) for tensor in tensors) + more


def onnx_file(*tensors, graph=b"", more=b"", version=10):
    return wire(1, version) + wire(2, "test") + wire(7, onnx_graph(*(tensors or [onnx_tensor()]), more=graph)) + more


def onnx_external(*pairs, dims=(3, 2), kind=1):
    entries = b"".join(wire(13, wire(1, key) + wire(2, value)) for key, value in pairs)
    return onnx_tensor("x", dims, kind, None, entries + wire(14, 1))


def onnx_numbers(packed, count=6, field=5, kind=6, **fields):
    return onnx_file(onnx_tensor("w", (count,), kind, None, wire(field, packed), **fields))


def onnx_attacks():
    good = onnx_file()
    for cut in range(1, len(good), 9):
        yield f"cut-{cut:02}", good[:cut]
    yield "more", good + b"\0"
    yield "varint-11", wire(1, 10) + b"\x38" + b"\x80" * 10 + b"\1" + good[2:]
    yield "varint-2^64", wire(1, 10) + b"\x28" + b"\xff" * 9 + b"\2" + good[2:]
    yield "tag-0", good + b"\2\0"
    yield "group", good + b"\x7b\x7c"
    yield "kind-6", good + b"\x7e\0"
    yield "length-2^63", good + b"\x72" + varint(2**63)
    yield "graph-twice", good + wire(7, onnx_graph(onnx_tensor("x")))
    yield "version-twice", good + wire(1, 11)
    yield "graph-of-number", wire(1, 10) + wire(2, "t") + wire(7, onnx_graph(onnx_tensor())) + wire(25, 7)
    graph = onnx_graph(onnx_tensor())
    for _ in range(30):
        graph = wire(1, wire(2, "o") + wire(5, wire(1, "g") + wire(6, graph)))
    yield "depth", wire(1, 10) + wire(2, "t") + wire(7, graph)
    yield "sparse", onnx_file(graph=wire(15, wire(1, onnx_tensor("s"))))
    yield "name-twice", onnx_file(onnx_tensor(), onnx_tensor())
    yield "name-none", onnx_file(onnx_tensor(""))
    yield "name-no-utf-8", onnx_file(onnx_tensor(b"\xff\xfe"))
    yield "name-long", onnx_file(onnx_tensor("n" * 9000))
    yield "name-reserved", onnx_file(onnx_tensor("__metadata__"))
    yield "name-two", onnx_file(onnx_tensor(more=wire(8, "v")))
    yield "type-two", onnx_file(onnx_tensor(more=wire(2, 6)))
    yield "type-none", onnx_file(wire(1, 6) + wire(8, "w") + wire(9, bytes(24)))
    yield "type-0", onnx_file(onnx_tensor(kind=0))
    yield "type-29", onnx_file(onnx_tensor(kind=29))
    yield "type-2^32", onnx_file(onnx_tensor(kind=2**32 + 1))
    yield "type-text", onnx_file(onnx_tensor(kind=1, more=wire(2, b"\1")))
    yield "raw-two", onnx_file(onnx_tensor(more=wire(9, bytes(24))))
    yield "raw-short", onnx_file(onnx_tensor(data=bytes(23)))
    yield "raw-long", onnx_file(onnx_tensor(data=bytes(25)))
    yield "raw-none", onnx_file(onnx_tensor(data=None))
    yield "raw-and-numbers", onnx_file(onnx_tensor(more=wire(4, bytes(24))))
    yield "raw-and-external", onnx_file(onnx_tensor(more=wire(13, wire(1, "location") + wire(2, "d")) + wire(14, 1)))
    yield "raw-and-text", onnx_file(onnx_tensor(more=wire(6, b"a")))
    yield "segment", onnx_file(onnx_tensor(more=wire(3, wire(1, 0) + wire(2, 3))))
    yield "dims-negative", onnx_file(onnx_tensor(dims=(-3, -2)))
    yield "dims-wrap", onnx_file(onnx_tensor(dims=(2**62, 4), data=b""))
    yield "dims-65", onnx_file(onnx_tensor(dims=(1,) * 65, data=bytes(4)))
    yield "dims-cut", onnx_file(wire(1, b"\x03\x82") + wire(2, 1) + wire(8, "w") + wire(9, bytes(24)))
    yield "dims-fixed", onnx_file(wire(1, bytes(8), 1) + onnx_tensor())
    yield "complex128", onnx_file(onnx_tensor(dims=(1,), kind=15, data=bytes(16)))
    yield "int4", onnx_file(onnx_tensor(dims=(2,), kind=22, data=b"a"))
    yield "float4-odd", onnx_file(onnx_tensor(dims=(3,), kind=23, data=b"ab"))
    yield "numbers-field", onnx_numbers(b"\1" * 6, field=7)
    yield "numbers-parts", onnx_file(onnx_tensor("w", (6,), 6, None, wire(5, b"\1\2\3") * 2))
    yield "numbers-apart", onnx_file(onnx_tensor("w", (2,), 6, None, wire(5, 1) + wire(12, "doc") + wire(5, 2)))
    yield "numbers-mixed", onnx_file(onnx_tensor("w", (3,), 6, None, wire(5, 1) + wire(5, b"\1\2")))
    yield "numbers-tag-long", onnx_file(onnx_tensor("w", (1,), 6, None, b"\xa8\0\1"))
    yield "numbers-fields", onnx_file(onnx_tensor("w", (6,), 6, None, wire(5, b"\1" * 3) + wire(7, b"\1" * 3)))
    yield "numbers-few", onnx_numbers(b"\1" * 5)
    yield "numbers-single-few", onnx_file(onnx_tensor("w", (3,), 6, None, wire(5, 1) * 2))
    yield "numbers-single-many", onnx_file(onnx_tensor("w", (3,), 6, None, wire(5, 1) * 4))
    yield "floats-few", onnx_numbers(bytes(20), field=4, kind=1)
    yield "floats-kind", onnx_file(onnx_tensor("w", (3,), 1, None, wire(4, bytes(8), 1) * 3))
    yield "external-parent", onnx_file(onnx_external(("location", "../w.bin")))
    yield "external-absolute", onnx_file(onnx_external(("location", "/etc/passwd")))
    yield "external-folder", onnx_file(onnx_external(("location", "a/../../w")))
    yield "external-empty-name", onnx_file(onnx_external(("location", "a//w")))
    yield "external-ends-in-slash", onnx_file(onnx_external(("location", "a/")))
    yield "external-escape-below", onnx_file(onnx_external(("location", "a/%252e%252e/w")))
    yield "external-url", onnx_file(onnx_external(("location", "https://host/w")))
    yield "external-escape", onnx_file(onnx_external(("location", "%2e%2e")))
    yield "external-missing", onnx_file(onnx_external(("location", "no-such-file")))
    yield "external-none", onnx_file(onnx_external(("offset", "0")))
    yield "external-empty", onnx_file(onnx_external(("location", "")))
    yield "external-twice", onnx_file(onnx_external(("location", "a"), ("location", "b")))
    yield "external-offset-twice", onnx_file(onnx_external(("location", "a"), ("offset", "0"), ("offset", "4")))
    yield "external-offset-text", onnx_file(onnx_external(("location", "a"), ("offset", "0x10")))
    yield "external-offset-negative", onnx_file(onnx_external(("location", "a"), ("offset", "-1")))
    yield "external-offset-2^64", onnx_file(onnx_external(("location", "a"), ("offset", str(2**64))))
    yield "external-length", onnx_file(onnx_external(("location", "a"), ("length", "20")))
    yield "external-location-2", onnx_file(onnx_tensor(more=wire(14, 2)))
    yield "external-key-twice", onnx_file(onnx_tensor(data=None, more=wire(14, 1) + wire(13, wire(1, "location") * 2 + wire(2, "a"))))
