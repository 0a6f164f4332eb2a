# SPDX-License-Identifier: Apache-2.0
"""Pickles that call, that no program writes, or that are to fill memory."""

import struct

from attacks_numpy import npy
from pickles_by_hand import call, checkpoint, dict_of, name, stream, tensor, text, tuple_of
from zips_by_hand import Archive, Member, members, torch_file


def plain_pickle_attacks():
    """Streams that a loader would refuse, or that no program writes."""
    yield "empty", b""
    yield "only-proto", b"\x80\2"
    yield "proto-9", b"\x80\x09N."
    yield "no-stop", b"\x80\2N"
    yield "stop-on-empty", b"\x80\2."
    yield "mark-left", b"\x80\2(."
    for opcode in b"0123aestlud\x85\x86\x87\x81\x90\x91\x92\x93\x94RbQqr":
        argument = {ord("q"): b"\0", ord("r"): b"\0\0\0\0"}.get(opcode, b"")
        yield f"underflow-{opcode:02x}", b"\x80\4" + bytes([opcode]) + argument + b"."
        yield f"mark-below-{opcode:02x}", b"\x80\4N(" + bytes([opcode]) + argument + b"N0."
    yield "memo-missing", b"\x80\2h\7."
    yield "memo-huge-missing", b"\x80\2j\xff\xff\xff\xff."
    yield "text-2^63", b"\x80\4\x8d" + struct.pack("<Q", 2**63) + b"x."
    yield "text-2^64-1", b"\x80\4\x8d" + struct.pack("<Q", 2**64 - 1) + b"x."
    yield "bytes-2^32-1", b"\x80\4B" + struct.pack("<I", 2**32 - 1) + b"x."
    yield "bytearray-2^63", b"\x80\5\x96" + struct.pack("<Q", 2**63) + b"x."
    yield "long-2^31", b"\x80\2\x8b" + struct.pack("<I", 2**31) + b"x."
    yield "long-2^31-1", b"\x80\2\x8b" + struct.pack("<I", 2**31 - 1) + b"x."
    yield "string-negative", b"\x80\2T" + struct.pack("<i", -1) + b"x."
    yield "frame-past-end", b"\x80\4\x95" + struct.pack("<Q", 100) + b"N."
    yield "frame-2^64-1", b"\x80\4\x95" + struct.pack("<Q", 2**64 - 1) + b"N."
    yield "frame-nested", b"\x80\4\x95" + struct.pack("<Q", 11) + b"\x95" + struct.pack("<Q", 2) + b"N."
    yield "frame-crossed", b"\x80\4\x95" + struct.pack("<Q", 3) + b"X\3\0\0\0abc."
    yield "utf8", b"\x80\2X\1\0\0\0\xff."
    yield "ext1", b"\x80\2\x82\1."
    yield "ext2", b"\x80\2\x83\1\0."
    yield "ext4", b"\x80\2\x84\1\0\0\0."
    yield "buffer", b"\x80\5\x97."
    yield "readonly", b"\x80\5N\x98."
    yield "unknown-opcode", b"\x80\2\xff."
    yield "build-on-int", b"\x80\2K\1}b."
    yield "reduce-text", b"\x80\2" + text("os") + b")R."
    yield "reduce-none", b"\x80\2" + name("builtins", "print") + b"NR."
    yield "append-to-dict", b"\x80\2}K\1a."
    yield "items-to-tuple", b"\x80\2)K\1K\2s."
    yield "odd-dict", b"\x80\2}(K\1K\2K\3u."
    yield "global-nul", b"\x80\2cos\0x\nsystem\n."
    yield "global-not-utf8", b"\x80\2c\xff\nsystem\n."
    yield "global-long", b"\x80\2c" + b"a" * 70000 + b"\nx\n."
    yield "stack-global-bytes", b"\x80\4C\2osC\6system\x93."
    yield "stack-global-computed", b"\x80\4" + call(name("builtins", "str"), text("os")) + text("system") + b"\x93."
    yield "stack-global-nul", b"\x80\4" + text("os\0") + text("system") + b"\x93."
    yield "latin1-above-255", b"\x80\2" + call(name("_codecs", "encode"), text("Ā"), text("latin1")) + b"."
    yield "integer-words", b"Ione\n."
    yield "float-words", b"Fone\n."
    yield "put-negative", b"Np-1\n."
    yield "put-2^40", b"Np1099511627776\n."


def calls():
    """Ways to call what should not be called. `print` stands for it."""
    hello = tuple_of(text("called"))
    yield "global", name("builtins", "print") + hello + b"R"
    yield "python2", name("__builtin__", "eval") + hello + b"R"
    yield "stack-global", text("builtins") + text("eval") + b"\x93" + hello + b"R"
    yield "memo", text("eval") + b"q\1" + b"0" + text("builtins") + b"h\1\x93" + hello + b"R"
    yield "inst", b"(" + text("called") + b"ibuiltins\neval\n"
    yield "obj", b"(" + name("builtins", "eval") + text("called") + b"o"
    yield "newobj", name("builtins", "eval") + hello + b"\x81"
    yield "newobj-ex", name("builtins", "eval") + hello + b"}\x92"
    yield "dotted", text("builtins") + text("object.__subclasses__") + b"\x93)R"
    yield "look-alike", name("torch._utiIs", "_rebuild_tensor_v2") + hello + b"R"
    yield "homograph", name("tоrch._utils", "_rebuild_tensor_v2") + hello + b"R"
    yield "newline", text("os\n") + text("system") + b"\x93" + hello + b"R"
    yield "build", name("some.place", "Thing") + b")\x81" + dict_of((text("__setstate__"), name("builtins", "eval"))) + b"b"
    yield "module-attribute", name("builtins", "__dict__") + text("len") + text("called") + b"s"
    yield "environment", name("os", "environ") + text("A") + text("B") + b"s"
    yield "changed-function", name("torch._utils", "_rebuild_tensor_v2") + b"N" + dict_of((text("__defaults__"), b"N")) + b"\x86b"
    yield "changed-class", name("argparse", "Namespace") + b"N" + dict_of((text("__init__"), b"N")) + b"\x86b"
    yield "changed-items", name("torch", "Size") + b"K\1a"
    yield "popped", name("builtins", "eval") + hello + b"R0" + text("harmless")
    yield "arguments-computed", name("builtins", "eval") + call(name("builtins", "tuple"), b"](" + text("x") + b"e") + b"R"
    yield "paddle-eval", call(name("builtins", "eval"), text("data"), dict_of((text("data"), text("no array"))))
    yield "paddle-eval-other", call(name("builtins", "eval"), text("data "), dict_of((text("data"), text("no array"))))
    yield "bytes-inside", call(name("torch.storage", "_load_from_bytes"), b"C\3abc")


def graphs():
    """Shapes that grow, and are legal."""
    laughs = b"]" + b"".join(b"q" + bytes([i]) + b"](h" + bytes([i]) + b"h" + bytes([i]) + b"e" for i in range(60))
    yield "laughs", laughs
    yield "dup-laughs", b"]" + b"".join(b"2\x86" for _ in range(60))
    yield "cycle", b"]q\0h\0a"
    yield "cycle-of-dict", dict_of((text("w"), tensor()), (text("self"), b"h\0")).replace(b"}", b"}q\0", 1)
    yield "depth", b"](" * 100000 + b"e" * 100000
    yield "depth-of-tuples", b")" + b"\x85" * 100000
    yield "memo-sparse", b"".join(b"Nr" + struct.pack("<I", i * 0x01010101 & 0xFFFFFFFF) + b"0" for i in range(20000)) + b"N"
    yield "memo-largest", b"Nr\xff\xff\xff\xff0j\xff\xff\xff\xff"
    yield "names", dict_of(*[(text(f"k{i}"), tensor()) for i in range(2000)])


def pickle_attacks():
    yield from ((f"plain-{called}", bytes_) for called, bytes_ in plain_pickle_attacks())
    yield from ((f"call-{called}", stream(body, 4)) for called, body in calls())
    yield from ((f"call-inside-{called}", torch_file(stream(dict_of((text("w"), tensor()), (text("x"), body)), 4)))
                for called, body in calls())
    yield "second", stream(text("harmless")) + stream(call(name("builtins", "eval"), text("called")))
    objects = npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
                  stream(call(name("builtins", "eval"), text("called"))))
    yield "array-beside", Archive([*members(), Member(b"a/x.npy", objects)]).bytes()
    yield "array-without-ending-beside", Archive([*members(), Member(b"a/x", objects)]).bytes()
    yield "behind-stop", torch_file(checkpoint() + stream(call(name("builtins", "eval"), text("called"))))


def graph_attacks():
    yield from ((called, torch_file(stream(body))) for called, body in graphs())


def polyglot_attacks():
    """Pickles that do not begin as one, or that are called otherwise: pickle.load runs them all the same."""
    system = name("os", "system") + tuple_of(text("id")) + b"R"
    yield "without-proto", system + b"."
    yield "protocol-0", b"cos\nsystem\n(S'id'\ntR."
    yield "proto-0", b"\x80\0" + system + b"."
    yield "proto-1", b"\x80\1" + system + b"."
    yield "after-values", b"N(K\1K\2t0" + system + b"."
    yield "after-64-kib", b"N0" * 40000 + system + b"."
    yield "framed", b"\x95" + struct.pack("<Q", 8000 + len(system)) + b"N0" * 4000 + system + b"."
    yield "without-stop", system
    yield "before-an-archive", system + b"." + torch_file()
    yield "before-an-array", system + b"." + npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n")
    yield "before-text", system + b".\n# a text that nobody would take for a program\n"


def script_attacks():
    """Classes of __torch__, which only the loader of TorchScript takes out of the archive."""
    script = stream(name("__torch__.model", "Net") + b")\x81}b")
    yield "plain", script
    yield "without-code", Archive([Member(b"a/data.pkl", script), Member(b"a/version", b"3\n")]).bytes()
    yield "other-folder", Archive([Member(b"a/data.pkl", script), Member(b"a/b/constants.pkl", stream(b")"))]).bytes()
