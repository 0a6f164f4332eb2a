# SPDX-License-Identifier: Apache-2.0
"""Files of NumPy, .npy and .npz, and torch.export's weights, which hide pickles or lie."""

import struct

from pickles_by_hand import call, name, stream, text
from zips_by_hand import Archive, Member, deflated


def npy(header, data=bytes(24), version=1):
    header = header.encode("latin-1") if isinstance(header, str) else header
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(header)) + header + data


def npy_attacks():
    def of(descr="'<f4'", order="False", shape="(2, 3)", data=bytes(24)):
        return npy(f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n", data)

    yield "empty-header", npy("")
    yield "not-a-dict", npy("[1]")
    yield "unended", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)")
    yield "behind", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} + 1")
    yield "twice", npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}")
    yield "unknown-key", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'x': 1}")
    yield "missing-key", npy("{'descr': '<f4', 'shape': (2, 3)}")
    yield "expression", of(shape="(__import__('os').system('x'),)")
    yield "nested", of(shape="(" * 3000 + ")" * 3000)
    yield "shape-int", of(shape="6")
    yield "shape-no-comma", of(shape="(6)")
    yield "shape-negative", of(shape="(-1, 6)")
    yield "shape-2^64", of(shape="(18446744073709551616,)")
    yield "product-wraps", of(shape="(4294967296, 4294967296, 6)")
    yield "product-wraps-to-size", of(shape="(6, 6148914691236517206)", data=bytes(16))
    yield "shape-65", of(shape="(" + "1, " * 65 + ")")
    yield "short", of(data=bytes(23))
    yield "long", of(data=bytes(25))
    yield "objects", of("'|O'", data=b"\x80\2N.")
    yield "objects-call", of("'|O'", data=stream(call(name("builtins", "eval"), text("called"))))
    yield "structure", of("[('a', '<f4')]")
    yield "text", of("'<U2'")
    yield "dates", of("'<M8[ns]'")
    yield "long-double", of("'<f16'", data=bytes(96))
    yield "void", of("'|V1'", data=bytes(6))
    yield "type-unknown", of("'<q9'")
    yield "type-empty", of("''")
    yield "type-escape", of("'\\x3cf4'")
    yield "order-int", of(order="1")
    yield "version-9", b"\x93NUMPY\x09\0" + bytes(100)
    yield "header-2^32", b"\x93NUMPY\2\0\xff\xff\xff\xff" + bytes(100)
    yield "header-long", npy("{" + " " * 20000 + "}", version=2)
    yield "header-beyond", b"\x93NUMPY\1\0\xff\x20{"
    good = of()
    for cut in range(7, len(good), 5):
        yield f"cut-{cut:03}", good[:cut]


def npz_attacks():
    """Pickles where arrays should be. NumPy loads those of objects when it is told to."""
    called = stream(call(name("builtins", "eval"), text("called")))
    objects = npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", called)
    plain = Member(b"x.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }"))
    yield "objects", Archive([plain, Member(b"o.npy", objects)]).bytes()
    yield "objects-deflated", Archive([plain, Member(b"o.npy", **deflated(objects))]).bytes()
    yield "pickle-member", Archive([plain, Member(b"hidden.pkl", called)]).bytes()
    yield "pickle-as-array", Archive([plain, Member(b"hidden.npy", called)]).bytes()
    yield "pickle-without-ending", Archive([plain, Member(b"hidden", called)]).bytes()
    yield "objects-without-ending", Archive([plain, Member(b"o", objects)]).bytes()
    yield "objects-as-storage", Archive([plain, Member(b"x/data/o", objects)]).bytes()
    yield "duplicate", Archive([plain, plain]).bytes()


def program_attacks():
    """What torch.export's loader unpickles where its description says so: weights and constants."""
    called = stream(call(name("builtins", "eval"), text("called")))
    old = b"c__builtin__\neval\n(S'called'\ntR."
    python2 = b"U\x08builtinsU\x04eval\x93U\x06called\x85R."
    kind = Member(b"a/archive_format", b"pt2")
    inner = Archive([Member(b"w/data.pkl", called), Member(b"w/version", b"3\n")]).bytes()
    yield "weight", Archive([kind, Member(b"a/data/weights/weight_0", called)]).bytes()
    yield "weight-protocol-0", Archive([kind, Member(b"a/data/weights/weight_0", old)]).bytes()
    yield "weight-of-strings", Archive([kind, Member(b"a/data/weights/weight_0", python2)]).bytes()
    yield "weight-deflated", Archive([kind, Member(b"a/data/weights/weight_0", **deflated(old))]).bytes()
    yield "weight-archive", Archive([kind, Member(b"a/data/weights/weight_0", inner)]).bytes()
    yield "constant", Archive([kind, Member(b"a/data/constants/opaque_obj_0", called)]).bytes()
