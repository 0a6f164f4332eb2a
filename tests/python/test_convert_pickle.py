# SPDX-License-Identifier: Apache-2.0
"""The pickle machine against Python's own: what Python pickles comes back the same, and what Python's opcodes make of any
stream is what ours make of it.

Python's unpickler would import and call. Here it is its pure Python twin with lazy tensors for what is imported: a Name is what a
global would be, a Call what calling one would give, and both take items and states as our nodes do.
"""

import argparse
import array
import collections
import datetime
import decimal
import fractions
import io
import math
import pickle
import pickletools
import random
import struct

import pytest

import convert_dump
from convert_dump import BIG, BOOL, BYTES, CALL, DICT, FLOAT, GLOBAL, INT, LIST, NONE, PERSISTENT, SET, TEXT, TUPLE

INLINE = 64 * 1024


# ---- what Python's unpickler makes of it -------------------------------------------------------------------------------


class Unknown:
    """What only a loader would know."""

    def __init__(self):
        self.state = None
        self.has_state = False
        self.pairs = None
        self.items = None


class Name(Unknown):
    def __init__(self, module, name):
        super().__init__()
        self.names = module, name


class Call(Unknown):
    def __init__(self, kind, *parts):
        super().__init__()
        self.kind, self.parts = kind, parts


class Persistent(Unknown):
    def __init__(self, id):
        super().__init__()
        self.id = id


class Pairs(list):
    """A dict, whose keys may be anything and come twice."""


class Members(list):
    """A set."""


class Refused(Exception):
    pass


class Text(bytes):
    """Python 2's str."""


class Oracle(pickle._Unpickler):
    dispatch = dict(pickle._Unpickler.dispatch)

    def __init__(self, stream):
        super().__init__(io.BytesIO(stream), encoding="bytes")

    def find_class(self, module, name):
        if "\0" in module + name:
            raise Refused
        renamed = pickle._compat_pickle.NAME_MAPPING.get((module, name))
        if renamed:
            return Name(*renamed)
        renamed = {**pickle._compat_pickle.IMPORT_MAPPING, "torch.tensor": "torch._tensor"}
        return Name(renamed.get(module, module), name)

    def persistent_load(self, id):
        return Persistent(id)

    def refuse(self):
        raise Refused

    def call(self, kind, callable, arguments, *keywords):
        if not isinstance(callable, Unknown) or not isinstance(arguments, (tuple, Unknown)):
            raise Refused
        if keywords and not isinstance(keywords[0], (Pairs, Unknown)):
            raise Refused
        if kind == 0 and isinstance(callable, Name) and callable.names == ("_codecs", "encode") and \
                isinstance(arguments, tuple) and len(arguments) == 2 and isinstance(arguments[0], str) and \
                isinstance(arguments[1], str) and arguments[1] in ("latin1", "latin-1"):
            self.stack.append(arguments[0].encode("latin-1"))
        else:
            self.stack.append(Call(kind, callable, arguments, *keywords))

    def load_reduce(self):
        arguments, callable = self.stack.pop(), self.stack.pop()
        self.call(0, callable, arguments)

    def load_newobj(self):
        arguments, callable = self.stack.pop(), self.stack.pop()
        self.call(1, callable, arguments)

    def load_newobj_ex(self):
        keywords, arguments, callable = self.stack.pop(), self.stack.pop(), self.stack.pop()
        self.call(1, callable, arguments, keywords)

    def load_inst(self):
        names = self.readline()[:-1].decode(), self.readline()[:-1].decode()
        class_ = self.find_class(*names)
        self.call(0, class_, tuple(self.pop_mark()))

    def load_obj(self):
        class_, *arguments = self.pop_mark()
        self.call(0, class_, tuple(arguments))

    def load_build(self):
        state, value = self.stack.pop(), self.stack[-1]
        if not isinstance(value, Unknown):
            raise Refused
        value.state, value.has_state = state, True

    def pairs_of(self, value):
        if isinstance(value, Pairs):
            return value
        if not isinstance(value, Unknown) or value.items is not None:
            raise Refused
        value.pairs = Pairs() if value.pairs is None else value.pairs
        return value.pairs

    def items_of(self, value, kind):
        if type(value) is kind:
            return value
        if not isinstance(value, Unknown) or value.pairs is not None:
            raise Refused
        value.items = [] if value.items is None else value.items
        return value.items

    def load_dict(self):
        items = self.pop_mark()
        if len(items) % 2:
            raise Refused
        self.append(Pairs(zip(items[::2], items[1::2])))

    def load_empty_dictionary(self):
        self.append(Pairs())

    def load_setitem(self):
        value, key = self.stack.pop(), self.stack.pop()
        self.pairs_of(self.stack[-1]).append((key, value))

    def load_setitems(self):
        items = self.pop_mark()
        if len(items) % 2:
            raise Refused
        self.pairs_of(self.stack[-1]).extend(zip(items[::2], items[1::2]))

    def load_append(self):
        value = self.stack.pop()
        self.items_of(self.stack[-1], list).append(value)

    def load_appends(self):
        items = self.pop_mark()
        self.items_of(self.stack[-1], list).extend(items)

    def load_empty_set(self):
        self.append(Members())

    def load_frozenset(self):
        items = self.pop_mark()
        self.append(Members(items))

    def load_additems(self):
        items = self.pop_mark()
        self.items_of(self.stack[-1], Members).extend(items)

    def load_stack_global(self):
        name, module = self.stack.pop(), self.stack.pop()
        if type(name) is not str or type(module) is not str:
            raise Refused
        (name + module).encode()  # no loader finds what has surrogates; ours takes it for a name all the same
        self.append(self.find_class(module, name))

    def load_string(self):
        super().load_string()
        self.stack[-1] = Text(self.stack[-1])

    def load_binstring(self):
        super().load_binstring()
        self.stack[-1] = Text(self.stack[-1])

    def load_short_binstring(self):
        super().load_short_binstring()
        self.stack[-1] = Text(self.stack[-1])

    for _code, _load in ((pickle.REDUCE, load_reduce), (pickle.NEWOBJ, load_newobj), (pickle.NEWOBJ_EX, load_newobj_ex),
                         (pickle.INST, load_inst), (pickle.OBJ, load_obj),
                         (pickle.BUILD, load_build), (pickle.DICT, load_dict), (pickle.EMPTY_DICT, load_empty_dictionary),
                         (pickle.SETITEM, load_setitem), (pickle.SETITEMS, load_setitems), (pickle.APPEND, load_append),
                         (pickle.APPENDS, load_appends), (pickle.EMPTY_SET, load_empty_set),
                         (pickle.FROZENSET, load_frozenset), (pickle.ADDITEMS, load_additems),
                         (pickle.STACK_GLOBAL, load_stack_global), (pickle.STRING, load_string),
                         (pickle.BINSTRING, load_binstring), (pickle.SHORT_BINSTRING, load_short_binstring)):
        dispatch[_code[0]] = _load
    for _code in (pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.NEXT_BUFFER, pickle.READONLY_BUFFER):
        dispatch[_code[0]] = refuse


# ---- comparing ---------------------------------------------------------------------------------------------------------


def parts_of(value):
    """The kind of a value, its parts and its leaf."""
    if isinstance(value, Name):
        return GLOBAL, [], value.names
    if isinstance(value, Call):
        return CALL, list(value.parts), value.kind
    if isinstance(value, Persistent):
        return PERSISTENT, [value.id], None
    if isinstance(value, Pairs):
        return DICT, [part for pair in value for part in pair], None
    if isinstance(value, Members):
        return SET, list(value), None
    for kind, python in ((NONE, type(None)), (BOOL, bool), (FLOAT, float), (TEXT, str), (TUPLE, tuple), (LIST, list)):
        if type(value) is python:
            return kind, list(value) if kind in (TUPLE, LIST) else [], value
    if isinstance(value, (bytes, bytearray)):
        return BYTES, [], bytes(value)
    assert type(value) is int
    return INT, [], value


def compare_leaf(node, kind, leaf, stream):
    if kind == INT and node.kind == BIG:
        # Integers that Python wrote, at least, are as short as they can be.
        assert not -(1 << 63) <= leaf < 1 << 63
    elif kind in (BOOL, INT, GLOBAL):
        assert node.value == (leaf if kind != BOOL else int(leaf))
    elif kind == FLOAT:
        assert node.value == leaf and math.copysign(1, node.value) == math.copysign(1, leaf) or node.value != node.value
    elif kind in (TEXT, BYTES):
        bytes_ = leaf.encode("utf-8", "surrogatepass") if kind == TEXT else leaf
        at, size = node.stored
        stored = stream[at:at + size]
        if node.value is None:
            assert size > INLINE
            if not node.escaped:
                assert (stored.decode().encode("latin-1") if node.latin1 else stored) == bytes_
        else:
            assert node.value == bytes_


def compare(dump, root, stream):
    """The graph of the machine is that of Python, from the root on; cycles are walked once."""
    keep = []
    seen = set()
    todo = [(root, dump.root)]
    while todo:
        value, number = todo.pop()
        if (id(value), number) in seen:
            continue
        seen.add((id(value), number))
        keep.append(value)  # so that no other object gets its id
        node = dump.nodes[number]
        kind, parts, leaf = parts_of(value)
        assert node.kind == kind or (kind == INT and node.kind == BIG), (node, value)
        compare_leaf(node, kind, leaf, stream)
        assert len(parts) == len(node.items)
        todo += zip(parts, node.items)
        if isinstance(value, Unknown):
            assert (node.state != 0) == value.has_state
            if value.has_state:
                todo.append((value.state, node.state))
            given = value.pairs if value.pairs is not None else value.items
            assert (node.attributes != 0) == (given is not None)
            if given is not None:
                todo.append((given, node.attributes))


def oracle(stream):
    """What Python makes of it, and where it ended; None when it fails."""
    unpickler = Oracle(stream)
    try:
        value = unpickler.load()
    except Exception:  # whatever Python says, it is no
        return None
    return value, unpickler


def check_both(program, tmp_path, streams, may_refuse=False):
    paths = []
    for i, stream in enumerate(streams):
        paths.append(tmp_path / f"{i}.pkl")
        paths[-1].write_bytes(stream)
    accepted = 0
    for stream, dump in zip(streams, convert_dump.run(program, "pickle", paths)):
        expected = oracle(stream)
        if expected is None:
            assert dump.status == "PICKLE", (stream, dump.message)
            assert dump.offset is not None and dump.offset <= len(stream)
            continue
        if may_refuse and dump.status == "PICKLE":
            assert any(what in dump.message for what in STRICTER), (stream, dump.message)
            continue
        assert dump.status == "OK", (stream, dump.message)
        compare(dump, expected[0], stream)
        accepted += 1
    return accepted


# What Python lets pass and we do not.
STRICTER = ("a frame", "its frame", "in decimal digits", "an index of the memo", "a number should be here", "a wrong escape",
            "names of a global", "a name is", "length of a")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return convert_dump.build(tmp_path_factory.mktemp("dump"))


# ---- objects -----------------------------------------------------------------------------------------------------------


class Stored:
    """What is asked for by an id."""

    def __init__(self, id):
        self.id = id


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b


class New:
    def __init__(self, **state):
        self.__dict__.update(state)

    def __getnewargs_ex__(self):
        return (1, "two"), {"three": 3}

    def __new__(cls, *arguments, **keywords):
        return super().__new__(cls)


class Made:
    def __init__(self, *arguments, **rest):
        self.arguments, self.rest = arguments, rest

    def __reduce__(self):
        return Made, self.arguments, self.rest.get("state"), self.rest.get("items"), self.rest.get("pairs")

    def append(self, item):
        pass

    def extend(self, items):
        pass

    def __setitem__(self, key, value):
        pass


class Choice:
    """Random values, some of which come again."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.made = []

    def text(self):
        r = self.random
        letters = ["a", "é", "ÿ", "Ā", "漢", "\U0001f600", "\ud800", "\\", "\n", "'", '"', "\0", "\r", "\x1a", "u", "U", " "]
        return "".join(r.choices(letters, k=r.choice([0, 1, 3, 10, 300])))

    def leaf(self):
        r = self.random
        return r.choice([
            lambda: None, lambda: True, lambda: False, lambda: r.randrange(-5, 300), lambda: r.randrange(-2**33, 2**33),
            lambda: r.choice([-1, 1]) * (2**r.randrange(70) + r.choice([-1, 0, 1])), lambda: 0, lambda: -1,
            lambda: r.random() * 10**r.randrange(-320, 308), lambda: r.choice([math.inf, -math.inf, math.nan, -0.0, 5e-324, 1e308]),
            self.text, self.text, lambda: r.randbytes(r.choice([0, 1, 10, 255, 256, 3000])),
            lambda: bytearray(r.randbytes(r.randrange(20))), lambda: complex(r.random(), 2), lambda: Stored(self.text()),
            lambda: datetime.datetime(2020, 1, 2), lambda: decimal.Decimal("1.5"), lambda: fractions.Fraction(1, 3),
            lambda: array.array("h", [1, -2]), lambda: range(3), lambda: len, lambda: collections.OrderedDict,
        ])()

    def inner(self, depth):
        r = self.random
        some = [self.value(depth - 1) for _ in range(r.choice([0, 1, 2, 3, 4, 9]))]
        keys = [self.text() for _ in some]
        pairs = list(zip(keys, some))
        return r.choice([
            lambda: some, lambda: some, lambda: tuple(some), lambda: dict(pairs), lambda: dict(pairs),
            lambda: {r.randrange(100), self.text()}, lambda: frozenset([1, self.text()]),
            lambda: collections.OrderedDict(pairs), lambda: collections.deque(some), lambda: collections.Counter(keys),
            lambda: collections.defaultdict(list, pairs), lambda: argparse.Namespace(**{f"k{i}": v for i, v in enumerate(some)}),
            lambda: New(a=some), lambda: Made(some, state=(1, some)), lambda: Made(items=iter(some)),
            lambda: Made(1, pairs=iter(pairs)), lambda: list(range(r.choice([1000, 2500]))),
            lambda: dict.fromkeys(range(1500), 0),
        ])()

    def value(self, depth):
        if self.made and self.random.random() < 0.1:
            return self.random.choice(self.made)
        value = self.leaf() if depth == 0 or self.random.random() < 0.3 else self.inner(depth)
        if isinstance(value, list) and self.random.random() < 0.05:
            value.append(value)
        self.made.append(value)
        return value


def pickled(value, protocol, python=False):
    stream = io.BytesIO()
    base = pickle._Pickler if python else pickle.Pickler

    class Pickler(base):
        def persistent_id(self, value):
            return value.id if isinstance(value, Stored) else None

    Pickler(stream, protocol).dump(value)
    return stream.getvalue()


@pytest.mark.parametrize("protocol", range(6))
def test_what_python_pickles(program, tmp_path, protocol):
    streams = []
    for seed in range(150):
        value = Choice(f"{protocol} {seed}").value(4)
        try:
            stream = pickled(value, protocol, python=seed % 3 == 0)
        except (pickle.PicklingError, RecursionError, ValueError, TypeError, UnicodeError):
            continue  # ids that are no lines at protocol 0, items of iterators that are used up
        streams.append(stream)
        streams.append(pickletools.optimize(stream))
    assert len(streams) > 200
    assert check_both(program, tmp_path, streams) > 200


@pytest.mark.parametrize("protocol", range(6))
def test_long_payloads_are_places(program, tmp_path, protocol):
    values = [b"\xff" * INLINE, b"\xfe\0" * INLINE, "é" * INLINE, "a" * INLINE, "a" * (INLINE + 1), bytearray(b"x" * 200000),
              ["\\" * 40000, "\n" * 40000, 7], {"k" * 70000: b"\x80" * 70000}]
    assert check_both(program, tmp_path, [pickled(value, protocol) for value in values]) == len(values)


def test_slots_and_classes_by_every_protocol(program, tmp_path):
    streams = [pickled(Slots(1, [2]), protocol) for protocol in range(2, 6)]
    streams += [pickled(New(a=1), protocol) for protocol in range(2, 6)]
    assert check_both(program, tmp_path, streams) == len(streams)


@pytest.mark.parametrize("depth", [10, 300_000])
def test_depth_is_no_recursion(program, tmp_path, depth):
    path = tmp_path / "deep.pkl"
    path.write_bytes(b"\x80\2" + b"](" * depth + b"e" * depth + b".")
    (dump,) = convert_dump.run(program, "pickle", [path])
    assert dump.status == "OK" and len(dump.nodes) == depth


# ---- streams that no program writes ------------------------------------------------------------------------------------


class Writer:
    """Random opcodes that mostly find on the stack what they want."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.out = bytearray()
        self.heights = [0]
        self.memo = 0

    def put(self, opcode, takes=0, gives=1):
        self.out += opcode
        self.heights[-1] = max(self.heights[-1] - takes, 0) + gives

    def line(self):
        r = self.random
        return r.choice([b"os", b"builtins", b"__builtin__", b"xrange", b"a.b", b"\xc3\xa9", b"", b"\xff", b"_codecs", b"encode",
                         b"torch.tensor", b"1", b"-7", b"00", b"01", b"1L", b"9" * 30, b"1e5", b".5", b"nan", b"-inf", b"0x1f",
                         b"'a\\n\\x41'", b'"b"', b"'c", b"\\u00e9\\U0001f600", b"\\ud800", b"\\\\u0041", b"\\u12"]) + b"\n"

    def leaf(self):
        r = self.random
        size = r.choice([0, 1, 3, 200])
        text = r.choice([b"latin1", b"encode", b"_codecs", "é".encode(), b"\xed\xa0\x80", b"\xff", b"x" * size])
        return r.choice([
            b"N", b"\x88", b"\x89", b"J" + r.randbytes(4), b"K" + r.randbytes(1), b"M" + r.randbytes(2),
            b"\x8a" + bytes([size]) + r.randbytes(size), b"\x8b" + struct.pack("<i", r.choice([size, size, -1])) + r.randbytes(size),
            b"I" + self.line(), b"L" + self.line(), b"F" + self.line(), b"G" + r.randbytes(8), b"S" + self.line(),
            b"V" + self.line(), b"U" + bytes([size]) + r.randbytes(size), b"T" + struct.pack("<i", size) + r.randbytes(size),
            b"X" + struct.pack("<I", len(text)) + text, b"\x8c" + bytes([len(text)]) + text,
            b"\x8d" + struct.pack("<Q", len(text)) + text, b"C" + bytes([size]) + r.randbytes(size),
            b"B" + struct.pack("<I", size) + r.randbytes(size), b"\x8e" + struct.pack("<Q", size) + r.randbytes(size),
            b"\x96" + struct.pack("<Q", size) + r.randbytes(size), b")", b"]", b"}", b"\x8f", b"P" + self.line(),
            b"c" + self.line() + self.line(), b"c_codecs\nencode\n",
        ])

    def step(self):
        r = self.random
        height = self.heights[-1]
        kind = r.random()
        if kind < 0.35 or height == 0 and kind < 0.8:
            self.put(self.leaf())
        elif kind < 0.45:
            self.out += b"("
            self.heights.append(0)
        elif kind < 0.6 and len(self.heights) > 1:
            self.heights.pop()
            opcode = r.choice([b"t", b"l", b"d", b"\x91", b"e", b"u", b"\x90", b"1", b"o", b"ios\nx\n"])
            self.out += opcode
            self.heights[-1] += opcode not in (b"e", b"u", b"\x90", b"1")
        elif kind < 0.75:
            opcode, takes, gives = r.choice([(b"\x85", 1, 1), (b"\x86", 2, 1), (b"\x87", 3, 1), (b"a", 2, 1), (b"s", 3, 1),
                                             (b"R", 2, 1), (b"\x81", 2, 1), (b"\x92", 3, 1), (b"b", 2, 1), (b"Q", 1, 1),
                                             (b"\x93", 2, 1), (b"0", 1, 0), (b"2", 0, 1)])
            if height >= takes or r.random() < 0.02:
                self.put(opcode, takes, gives)
        elif kind < 0.85:
            index = r.choice([self.memo, r.randrange(5), 255])
            self.put(r.choice([b"q" + bytes([index % 256]), b"r" + struct.pack("<I", r.choice([index, 2**32 - 1])), b"\x94",
                               b"p%d\n" % index]), 0, 0)
            self.memo += 1
        elif kind < 0.97:
            index = r.randrange(6)
            self.put(r.choice([b"h" + bytes([index]), b"j" + struct.pack("<I", r.choice([index, 2**32 - 1])), b"g%d\n" % index]))
        elif kind < 0.99:
            self.out += b"\x80" + bytes([r.choice([0, 2, 3, 4, 5, 6])])
        else:
            self.out += r.choice([b"i" + self.line() + self.line(), b"o", b"\x82\1", b"\x97", b"\x98", bytes([r.randrange(256)])])

    def stream(self):
        # Python's renamings are for protocols below 3.
        for _ in range(self.random.choice([3, 6, 12, 30])):
            self.step()
        while len(self.heights) > 1:
            self.heights.pop()
            self.put(b"t")
        if self.heights[-1] == 0:
            self.put(b"N")
        return bytes(self.out) + b"."


def only_opcodes_that_both_know(stream):
    """Python's unpickler for all protocols has no renamings from protocol 3 on, ours always."""
    return b"\x80\3" not in stream and b"\x80\4" not in stream and b"\x80\5" not in stream


@pytest.mark.parametrize("seed", range(4))
def test_random_opcodes(program, tmp_path, seed):
    streams = [stream for i in range(3000) if only_opcodes_that_both_know(stream := Writer(f"{seed} {i}").stream())]
    assert check_both(program, tmp_path, streams, may_refuse=True) > 150


@pytest.mark.parametrize("protocol", range(6))
def test_cut_at_every_byte(program, tmp_path, protocol):
    whole = pickled(Choice(f"cut {protocol}").inner(3), protocol)[:3000]
    paths = []
    for size in range(len(whole)):
        paths.append(tmp_path / f"{size}.pkl")
        paths[-1].write_bytes(whole[:size])
    nodes = 0
    for path, dump in zip(paths, convert_dump.run(program, "pickle", paths)):
        assert dump.status == "PICKLE" and dump.offset <= path.stat().st_size
        # What was built before the end is there, and there is never less of it.
        assert len(dump.nodes) >= nodes
        nodes = len(dump.nodes)


@pytest.mark.parametrize("protocol", range(6))
def test_a_byte_changed(program, tmp_path, protocol):
    r = random.Random(protocol)
    whole = pickled(Choice(f"change {protocol}").inner(3), protocol)[:20000]
    streams = []
    for _ in range(150):
        stream = bytearray(whole)
        stream[r.randrange(len(stream))] = r.choice([r.randrange(256), *b"(.0abdetusR])}"])
        streams.append(bytes(stream))
    paths = []
    for i, stream in enumerate(streams):
        paths.append(tmp_path / f"{i}.pkl")
        paths[-1].write_bytes(stream)
    for stream, dump in zip(streams, convert_dump.run(program, "pickle", paths)):
        assert dump.status in ("OK", "PICKLE")
        if dump.status == "OK":
            expected = oracle(stream)
            if expected is not None and only_opcodes_that_both_know(stream):
                compare(dump, expected[0], stream)
