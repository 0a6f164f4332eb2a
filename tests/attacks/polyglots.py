#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random pickles over all opcodes and spellings that Python reads, plain and as the beginning of other files, against the scan:
what Python would import something from, the scan does not call clean.

    tests/attacks/polyglots.py PROGRAM [--seconds N] [--cases N] [--seed N]

PROGRAM is tests/attacks/scan_verdicts.c, compiled. Both of Python's unpicklers run each case, with an import that says so and
gives something harmless. Ends with 1 at the first case that is missed, and writes it to a file.
"""

import argparse
import codecs
import collections
import io
import json
import pathlib
import pickle
import random
import resource
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings

from pickles_by_hand import call, dict_of, name, number, stream, text, tuple_of
from wire_by_hand import varint

BATCH = 2000
MODULES = ("os", "posix", "builtins", "__builtin__", "subprocess", "sys", "torch.hub", "importlib.util", "my_module", "copy_reg")


# ---- what Python does with a case --------------------------------------------------------------------------------------


class Imported(Exception):
    pass


class Dtype:
    """NumPy's, as far as joblib asks."""

    def __init__(self, kind, *_):
        self.kind, self.itemsize, self.hasobject = kind[0], int(kind[1:]) * (4 if kind[0] == "U" else 1), kind[0] == "O"

    def __setstate__(self, state):
        self.hasobject = bool(state[7] & 1)
        self.itemsize = state[5] if self.kind in "SUV" else self.itemsize


class Wrapper:
    """NumpyArrayWrapper of joblib."""

    def read(self, unpickler):
        count = 1
        for size in self.shape:
            count *= size
        if self.dtype.hasobject:
            return PythonTrap(unpickler.opened).load()
        if unpickler.pads and getattr(self, "numpy_array_alignment_bytes", None) is not None:
            unpickler.opened.read(unpickler.opened.read(1)[0])
        wanted = count * self.dtype.itemsize
        if wanted < 0 or wanted > 1 << 20 or len(unpickler.opened.read(wanted)) < wanted:
            raise ValueError
        return []


def load_from_bytes(data):
    """torch.load of a file of the older kind."""
    opened = io.BytesIO(data)
    for _ in range(5):
        Given(opened).load()


HARMLESS = {("collections", "OrderedDict"): collections.OrderedDict, ("joblib.numpy_pickle", "NumpyArrayWrapper"): Wrapper,
            ("numpy", "dtype"): Dtype, ("numpy", "ndarray"): collections.OrderedDict,
            ("torch.storage", "_load_from_bytes"): load_from_bytes, ("_codecs", "encode"): codecs.encode}  # fmt: skip


def find_class(self, module, name):
    if (module, name) in HARMLESS:
        return HARMLESS[module, name]
    if module in MODULES:
        raise Imported
    raise ModuleNotFoundError


class CTrap(pickle.Unpickler):
    find_class = find_class


class PythonTrap(pickle._Unpickler):
    find_class = find_class


class Given(PythonTrap):
    """A program that has something for persistent ids."""

    def persistent_load(self, pid):
        return pid


class Joblib(PythonTrap):
    """Of today; before 1.2 it knows no padding."""

    pads = True
    dispatch = pickle._Unpickler.dispatch.copy()

    def __init__(self, opened):
        self.opened = opened
        super().__init__(opened)

    def load_build(self):
        super().load_build()
        if isinstance(self.stack[-1], Wrapper):
            self.stack.append(self.stack.pop().read(self))

    dispatch[pickle.BUILD[0]] = load_build


class OldJoblib(Joblib):
    pads = False


def looking_ahead(data):
    """As files are that are opened: the C unpickler reads them in another way."""
    return io.BufferedReader(io.BytesIO(data))


def imports(data):
    """Whether one of them comes to an import."""
    buffers = {"buffers": [bytearray(3), b"os"] * 4}
    for trap, options, opened in ((CTrap, {}, io.BytesIO), (CTrap, {}, looking_ahead), (PythonTrap, {}, io.BytesIO),
                                  (Given, buffers, io.BytesIO), (Joblib, {}, io.BytesIO), (OldJoblib, {}, io.BytesIO)):
        stream = opened(data)
        try:
            for _ in range(3):
                trap(stream, **options).load()
        except Imported:
            return True
        except Exception:  # noqa: S110 - whatever stops it, it stops
            pass
    return False


# ---- pickles -----------------------------------------------------------------------------------------------------------


class Maker:
    """A stream whose values are known by kind, so that most of what is added to it is read."""

    def __init__(self, rng):
        self.rng, self.out, self.stack, self.marks, self.memo = rng, bytearray(), [], [], {}

    def pick(self, *choices):
        return self.rng.choice(choices)

    def put(self, code, *kinds):
        self.out += code
        self.stack += kinds

    def take(self, count):
        taken = self.stack[len(self.stack) - count:]
        del self.stack[len(self.stack) - count:]
        return taken

    def above(self):
        return self.stack[self.marks[-1]:] if self.marks else self.stack

    # Numbers, with all that C or Python take for one.

    def integer(self):
        self.put(b"I" + self.pick(b"5", b"0x10", b" 5", b"010", b"1_0", b"+3", b"-0b1", b"0o17", b"00", b"01", b"5 ", b"\t7", b"9" * 30,
                                  b"\0junk", b"5\0junk", b"0XfF", b"-0", b"\x0b8\x0c", b"1" * 4000) + b"\n", "int")

    def long(self):
        self.put(b"L" + self.pick(b"5L", b"1_000L", b"0x10L", b"-7", b" 12 ", b"0b1_1", b"9" * 40 + b"L", b"3\0L", b"0", b"00") + b"\n",
                 "int")

    def real(self):
        self.put(b"F" + self.pick(b"1.5", b"infinity", b"-Infinity", b"NaN", b"1e5", b".5", b"5.", b"1_0.5", b" 2", b"inf", b"1e999",
                                  b"3\0x", b"+1E-3") + b"\n", "float")

    def binary_number(self):
        code = self.pick(b"K\7", b"M\1\2", b"J\1\2\3\4", b"J\xff\xff\xff\xff", b"\x8a\0", b"\x8a\1\5", b"\x8a\x0a" + b"x" * 10,
                         b"\x8b\3\0\0\0abc", b"\x8b\0\0\0\0")
        self.put(code, "int")

    def binary_real(self):
        self.put(b"G" + struct.pack(">d", self.rng.random()), "float")

    def atom(self):
        self.put(self.pick(b"N", b"\x88", b"\x89"), "none")

    # Texts and bytes.

    def text_of(self, value):
        """A str in any of its spellings: also those of Python 2's."""
        raw = value.encode("utf-8", "surrogatepass")
        ways = [b"\x8c" + bytes([len(raw)]) + raw, b"X" + struct.pack("<I", len(raw)) + raw, b"\x8d" + struct.pack("<Q", len(raw)) + raw]
        if raw.isascii() and b"\n" not in raw and b"\\" not in raw and b"'" not in raw:
            escaped = b"".join(b"\\x%02x" % byte if self.rng.random() < 0.3 else bytes([byte]) for byte in raw)
            unicode = b"".join(b"\\u%04x" % byte if self.rng.random() < 0.3 else bytes([byte]) for byte in raw)
            ways += [b"U" + bytes([len(raw)]) + raw, b"T" + struct.pack("<i", len(raw)) + raw, b"S'" + escaped + b"'\n",
                     b'S"' + raw + b'"\n', b"V" + unicode + b"\n"]
        return self.rng.choice(ways)

    def text(self):
        self.put(self.text_of(self.pick("", "a", "os", "system", "é", "\ud800", "x" * 200)), "str")

    def bytes(self):
        raw = self.rng.randbytes(self.pick(0, 1, 7, 40))
        self.put(self.pick(b"C" + bytes([len(raw)]), b"B" + struct.pack("<I", len(raw)), b"\x8e" + struct.pack("<Q", len(raw))) + raw,
                 "bytes")

    def bytearray(self):
        raw = self.rng.randbytes(self.pick(0, 1, 9))
        self.put(b"\x96" + struct.pack("<Q", len(raw)) + raw, "bytearray")

    # Containers.

    def empty(self):
        code, kind = self.pick((b")", "tuple"), (b"]", "list"), (b"}", "dict"), (b"\x8f", "set"))
        self.put(code, kind)

    def mark(self):
        self.out += b"("
        self.marks.append(len(self.stack))

    def collect(self):
        if not self.marks:
            return self.mark()
        above = len(self.above())
        codes = [(b"t", "tuple"), (b"l", "list"), (b"1", None)]
        if above % 2 == 0 and all(kind in ("int", "str", "none", "float", "bytes") for kind in self.above()):
            codes += [(b"d", "dict"), (b"\x91", "set")]
        code, kind = self.rng.choice(codes)
        self.take(above)
        self.marks.pop()
        self.put(code, *([kind] if kind else []))

    def tuple(self):
        count = self.rng.randint(1, 3)
        if len(self.above()) >= count:
            self.take(count)
            self.put(bytes([0x84 + count]), "tuple")

    def add(self):
        """Items: for what takes them, and for what takes none if there are none."""
        above = self.above()
        if len(above) >= 2 and above[-2] in ("list", "bytearray"):
            if above[-2] == "list" or above[-1] == "int":
                self.take(1)
                self.out += b"a"
        elif len(above) >= 3 and above[-3] == "dict" and above[-2] in ("int", "str", "none"):
            self.take(2)
            self.out += b"s"
        elif len(above) >= 1:
            self.out += self.pick(b"(e", b"(u", b"(\x90")

    def add_many(self):
        above = self.above()
        if above and above[-1] in ("list", "dict", "set"):
            kind = above[-1]
            count = self.rng.randint(0, 3) * 2
            self.out += b"(" + b"".join(b"K" + self.rng.randbytes(1) for _ in range(count))
            self.out += {"list": b"e", "dict": b"u", "set": b"\x90"}[kind]

    def list_item(self):
        self.put(b"]K\1" + b"a" + b"K\0K\2s", "list")  # an item set by its place

    def state(self):
        if self.above():
            self.out += self.pick(b"Nb", b"NN\x86b", b")b", b"}b")

    # The stack, the memo and the stream.

    def drop(self):
        if self.above():
            self.take(1)
            self.out += b"0"
        elif self.marks:
            self.marks.pop()
            self.out += b"0"

    def again(self):
        if self.above():
            self.put(b"2", self.stack[-1])

    def remember(self):
        if self.above():
            index = self.pick(0, 1, 5, 255, 300, 70000)
            ways = [b"p" + self.pick(b"%d", b"0%d", b"+%d", b"%d ", b" %d", b"0000%d", b"%d\0x") % index + b"\n",
                    b"r" + struct.pack("<I", index)]
            ways += [b"q" + bytes([index])] if index < 256 else []
            if self.rng.random() < 0.2:
                self.out += b"\x94"
                index = len(self.memo)
            else:
                self.out += self.rng.choice(ways)
            self.memo[index] = self.stack[-1]

    def recall(self):
        if self.memo:
            index = self.rng.choice(list(self.memo))
            ways = [b"g" + self.pick(b"%d", b"0%d", b" %d") % index + b"\n", b"j" + struct.pack("<I", index)]
            ways += [b"h" + bytes([index])] if index < 256 else []
            self.put(self.rng.choice(ways), self.memo[index])

    def protocol(self):
        self.out += b"\x80" + bytes([self.rng.randint(0, 5)])

    def frame(self):
        self.out += b"\x95" + struct.pack("<Q", self.pick(0, 1, 3, 20, 100, 10**6, 2**40))

    def foreign(self):
        self.put(self.pick(b"\x97", b"Pan id\n", b"\x82\1", b"C\1xQ"), "foreign")

    def readonly(self):
        if self.above() and self.above()[-1] in ("bytes", "bytearray"):
            self.out += b"\x98"
            self.stack[-1] = "bytes"

    def harmless(self):
        """An import that a scan lets pass, and what may be done with it."""
        names = self.text_of("collections") + self.text_of("OrderedDict") + b"\x93"
        self.put(self.pick(names, b"ccollections\nOrderedDict\n") + self.pick(b"", b")R", b")\x81", b")}\x92"), "dict")

    def instance(self):
        self.put(b"(" + self.pick(b"icollections\nOrderedDict\n", b"ccollections\nOrderedDict\no"), "dict")

    def much(self):
        self.out += b"N0" * self.rng.randint(1000, 40000)

    def end(self):
        if self.above():
            self.out += b"."
            self.stack, self.marks, self.memo = [], [], {}

    # What is to be found.

    def payload(self):
        module, name = self.pick(*MODULES), self.pick("system", "eval", "path.join", "")
        ways = [b"c" + module.encode() + b"\n" + name.encode() + b"\n", b"(i" + module.encode() + b"\n" + name.encode() + b"\n",
                b"i" + module.encode() + b"\n" + name.encode() + b"\n", b"c" + module.encode() + b"\n" + name.encode() + b"x"]
        stacked = self.text_of(module) + self.text_of(name) + b"\x93"
        memoized = self.text_of(name) + b"q\7" + self.text_of(module) + b"h\7\x93"
        ways += [stacked, stacked, stacked, memoized, self.text_of(module) + b"(0" + self.text_of(name) + b"2" + b"0\x93"]
        self.out += self.rng.choice(ways) + self.pick(b"", b".", b")R.", b"(K\1tR0N.", b")\x81.", b"}b.")


COMMON = (Maker.integer, Maker.long, Maker.real, Maker.binary_number, Maker.binary_real, Maker.atom, Maker.text, Maker.bytes,
          Maker.bytearray, Maker.empty, Maker.mark, Maker.collect, Maker.tuple, Maker.add, Maker.add_many, Maker.list_item, Maker.state,
          Maker.drop, Maker.again, Maker.remember, Maker.recall, Maker.protocol, Maker.readonly, Maker.harmless, Maker.instance)
RARE = (Maker.frame, Maker.foreign, Maker.end)


def random_pickle(rng):
    maker = Maker(rng)
    for _ in range(rng.choice((0, 1, 2, 4, 8, 16, 40))):
        rng.choice(RARE if rng.random() < 0.05 else COMMON)(maker)
    if rng.random() < 0.002:
        maker.much()
    if rng.random() < 0.9:
        maker.payload()
    data = bytes(maker.out)
    if rng.random() < 0.1 and data:
        at = rng.randrange(len(data))
        data = data[:at] + rng.choice((b"", rng.randbytes(1), rng.choice(b"(0Nt.cR").to_bytes(1, "little"))) + data[at + 1:]
    return data


# ---- files that it is the beginning of ---------------------------------------------------------------------------------


def plain(rng, data):
    return data + rng.choice((b"", b"", rng.randbytes(20)))


def safetensors(rng, data):
    """A valid file. As a pickle, its length is an opcode that skips into a text of the header; that one goes on to the header's
    last byte, which is a line's end; and then come the tensor's bytes."""
    hop = rng.choice((0x8C, ord("U"), ord("C"), 0x8A))
    prefix = b'{"__metadata__":{"k":"'
    skip = rng.randint(len(prefix) + 6, len(prefix) + 12)
    text = b"a" * (skip + 2 - 8 - len(prefix)) + rng.choice((b"V", b"NV", b"(V", b"])V", b"K1V"))
    rest = b'"},"t":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (len(data), len(data))
    header = prefix + text + rest
    size = skip * 256 + hop
    return struct.pack("<Q", size) + header + b" " * (size - len(header) - 1) + b"\n" + data


def tar(rng, data):
    """The name of the first member is an opcode that skips the rest of its header."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT, encoding="latin-1") as archive:
        for name, content in ((rng.choice("TXB") + "\xfb\x01", data), ("model_config.yaml", b"a: 1\n")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def onnx(rng, data):
    """A field that ONNX does not have comes first, and is an opcode that skips its length."""
    padding = 3 if len(data) + 3 < 1 << 7 else 2 if len(data) + 2 < 1 << 14 else 1
    return b"J" + varint(len(data) + padding) + rng.randbytes(padding) + data + b"\x08\x07\x12\x04test"


def dtype(rng, kind):
    size = int(kind[1:])
    own = size * (4 if kind[0] == "U" else 1) if kind[0] in "SUV" else -1
    flags = 63 if kind[0] == "O" else 0
    state = tuple_of(number(3), text("<"), b"NNN", number(rng.choice((own,) * 9 + (1,))), number(own), number(rng.choice((flags,) * 19 + (1, 0))))
    return call(name("numpy", "dtype"), text(kind), b"\x89\x88") + state + b"b"


def array(rng, data):
    """Of joblib: an object that says how many bytes follow it. They, or what they are taken for, may be anything."""
    kind = rng.choice(("f8", "f4", "u1", "u1", "u1", "S3", "U1", "V5", "O8"))
    raw = rng.choice((data, data, rng.randbytes(rng.randrange(40)), bytes(rng.randrange(20)), b"\0" + data, rng.randbytes(3) + data,
                      data[-rng.randrange(1, 16):] + data, b"X\x10\0\0\0" + bytes(16) + data))  # fmt: skip
    size = Dtype(kind).itemsize
    raw = raw if kind == "O8" else raw + bytes(-len(raw) % size)
    count = len(raw) // size + rng.choice((0,) * 30 + (1, -1))
    shape = tuple_of(number(count)) if rng.random() < 0.8 else tuple_of(number(1), number(count))
    pairs = [(text("subclass"), name("numpy", "ndarray")), (text("shape"), shape), (text("order"), text("C")), (text("dtype"), dtype(rng, kind)),
             (text("allow_mmap"), b"\x89")]  # fmt: skip
    pad = b""
    if rng.random() < 0.7 and kind != "O8":
        pairs.append((text("numpy_array_alignment_bytes"), rng.choice((number(16),) * 9 + (b"N",))))
        width = rng.choice((1, 8, 15, 16, 0, 40))
        pad = bytes([width]) + rng.choice((b"\xff" * width, (data * 40)[:width], rng.randbytes(width)))
    if rng.random() < 0.04:
        pairs.append(rng.choice(((text("read"), name("collections", "OrderedDict")), (text("shape"), tuple_of()), (text("x"), b"N"))))
    made = name("joblib.numpy_pickle", "NumpyArrayWrapper") + rng.choice((b")\x81",) * 9 + (b")R", b")}\x92"))
    return made + dict_of(*pairs) + rng.choice((b"b",) * 19 + (b"bq\x09", b"q\x09bh\x09}b", b"2b")) + pad + raw


def joblib(rng, data):
    arrays = [array(rng, rng.choice((data, random_pickle(rng), bytes(8)))) for _ in range(rng.randrange(1, 4))]
    body = rng.choice((b"", b"(", b"](", b"\x80\x02(")) + b"".join(arrays)
    if rng.random() < 0.1:
        body = b"\x95" + struct.pack("<Q", rng.choice((len(body), len(body) // 2, len(body) + 20))) + body
    return body + rng.choice((b"", b"t", b"e", b"0", data)) + rng.choice((data, b".", b"." + data))


def loaded(rng, data):
    """A checkpoint of torch.save within bytes."""
    parts = [stream(number(1)) for _ in range(rng.choice((5, 5, 5, 4)))] + [rng.randbytes(20)]
    parts[rng.randrange(len(parts))] = rng.choice((data, b"]" + data, data + b"."))
    inner = b"".join(parts)
    made = b"B" + struct.pack("<I", len(inner)) + inner if rng.random() < 0.7 else call(name("_codecs", "encode"), text(inner.decode("latin-1")), text("latin1"))
    return stream(call(name("torch.storage", "_load_from_bytes"), made) + rng.choice((b"", b"0N")))


SHAPES = (plain, plain, plain, plain, safetensors, safetensors, tar, onnx, joblib, joblib, loaded)


# ---- the run -----------------------------------------------------------------------------------------------------------


def verdicts(program, cases):
    stream = b"".join(struct.pack("<I", len(case)) + case for case in cases)
    done = subprocess.run([program], input=stream, capture_output=True, check=True)
    return done.stdout.decode().split()


def missed(case, verdict):
    path = pathlib.Path(tempfile.gettempdir()) / "polyglot-missed.bin"
    path.write_bytes(case)
    print(f"polyglots: Python imports something, and the scan says {verdict!r}: {path}, {case[:300]!r}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--cases", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    wanted = parser.parse_args()
    # Lengths and indices may be chosen so that Python takes all memory.
    resource.setrlimit(resource.RLIMIT_AS, (256 << 20, 256 << 20))
    # Escapes that Python finds odd, and views of bytearrays that it releases late, are no concern of this.
    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda *_: None
    rng = random.Random(wanted.seed)
    print(f"polyglots: seed {wanted.seed}", flush=True)
    count, ran = 0, {}
    until = time.monotonic() + wanted.seconds
    while time.monotonic() < until and count < wanted.cases:
        shapes = [rng.choice(SHAPES) for _ in range(BATCH)]
        cases = [shape(rng, random_pickle(rng)) for shape in shapes]
        for shape, case, verdict in zip(shapes, cases, verdicts(wanted.program, cases)):
            if imports(case):
                ran[shape.__name__] = ran.get(shape.__name__, 0) + 1
                if verdict not in "do":
                    missed(case, verdict)
                    return 1
        count += BATCH
    print(f"polyglots: {count} cases, of which Python imports something in {json.dumps(ran)}; the scan calls none of these clean")
    return 0 if ran else 1


if __name__ == "__main__":
    sys.exit(main())
