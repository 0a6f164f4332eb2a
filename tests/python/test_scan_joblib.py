# SPDX-License-Identifier: Apache-2.0
"""`coffer scan` of what joblib writes, and of pickles that have checkpoints of torch within bytes: what is in them is followed, and
whatever another loader than the one meant would run is told."""

import gzip
import io
import struct
import zlib

import pytest
from pickles_by_hand import call, dict_of, name, number, storage, stream, tensor, text, tuple_of
from test_scan import BARE, CALL, CLEAN, EVIL, FOUND, HARMLESS, UNREAD, archive, npy, scan, texts, write
from zips_by_hand import deflated, torch_file

WRAPPER = name("joblib.numpy_pickle", "NumpyArrayWrapper")


def dtype(kind, own=-1, flags=0):
    state = tuple_of(number(3), text("<"), b"NNN", number(own), number(own), number(flags))
    return call(name("numpy", "dtype"), text(kind), b"\x89\x88") + state + b"b"


def wrapper(kind="f8", shape=(3,), padded=True, made=b")\x81", more=(), of=WRAPPER, **state):
    pairs = [(text("subclass"), name("numpy", "ndarray")), (text("shape"), tuple_of(*map(number, shape))), (text("order"), text("C")),
             (text("dtype"), dtype(kind, **state)), (text("allow_mmap"), b"\x89"), *more]  # fmt: skip
    if padded:
        pairs.append((text("numpy_array_alignment_bytes"), number(16)))
    return of + made + dict_of(*pairs) + b"b"


def array(raw=bytes(24), pad=8, **options):
    """With what follows it."""
    before = bytes([pad]) + b"\xff" * pad if options.get("padded", True) else b""
    return wrapper(**options) + before + raw


OBJECTS = array(stream(call(name("collections", "OrderedDict"))), kind="O8", shape=(1,), padded=False, flags=63)


def dangers(path):
    return [each for each in texts(scan(path, code=FOUND)) if each.startswith("danger")]


# ---- joblib -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [
    array(), array(padded=False), array(b"", shape=(0, 3)), array(bytes(8), shape=()), array(bytes(10), kind="V5", shape=(2,), own=5),
    array(bytes(8), kind="U1", shape=(2,), own=4), b"(" + array() * 40 + b"t", b"(" + array() + OBJECTS * 3 + b"t",
    array() + b"0" + stream(number(1))[:-1],
], ids=["padded", "plain", "empty", "scalar", "struct", "text", "many", "objects", "protocol"])  # fmt: skip
def test_arrays_of_joblib_are_passed_over(tmp_path, body):
    """As it is, compressed in two ways, and in an archive."""
    content = stream(body)
    for called, data in {"a.joblib": content, "z.joblib": zlib.compress(content), "g.joblib": gzip.compress(content), "x.pkl": content,
                         "m.zip": archive((b"m.joblib", zlib.compress(content)), (b"n.joblib", deflated(content)))}.items():  # fmt: skip
        assert scan(write(tmp_path / called, data), code=CLEAN)[0]["findings"] == [], called


PAYLOAD = call(name("posix", "system"), text("echo"))


@pytest.mark.parametrize("content", [
    stream(b"(" + array() + PAYLOAD + b"t"), stream(array()) + EVIL, stream(b"(" + array() + array(EVIL, **{"kind": "O8", "shape": (1,), "padded": False, "flags": 63}) + b"t"),
    stream(b"(" + array() * 3 + PAYLOAD + array() + b"t"),
], ids=["behind", "after", "in objects", "between"])  # fmt: skip
def test_what_joblib_would_run_is_told(tmp_path, content):
    for called, data in {"a.joblib": content, "z.joblib": zlib.compress(content), "g.joblib": gzip.compress(content),
                         "m.zip": archive((b"m", zlib.compress(content)))}.items():  # fmt: skip
        assert any(CALL in each for each in dangers(write(tmp_path / called, data))), called


FILLED = BARE + b"." * (-len(BARE) % 8)


@pytest.mark.parametrize("body", [
    array(b"", padded=False, shape=(0,)) + array(FILLED, padded=False, shape=(len(FILLED) // 8,)), array(b"", padded=False, shape=(0,)) + OBJECTS,
    array(FILLED, padded=False, shape=(len(FILLED) // 8,)),                                # pickle.load
    array(bytes(7) + FILLED, kind="u1", pad=len(FILLED) - 1, shape=(7 + len(FILLED),)),    # joblib before 1.2
    wrapper(more=[(text("read"), name("collections", "OrderedDict"))]) + b"\0" + BARE,     # no bytes are read
    wrapper(made=b")R") + b"\0" + BARE, wrapper(shape=(2**62,)) + b"\0" + BARE,
    array() + b"q\5h\5}b" + bytes(25) + BARE,                                              # it is read twice
    wrapper(of=call(name("copyreg", "_reconstructor"), WRAPPER, name("builtins", "object"), b"N"), made=b"") + b"\0" + BARE,
    array() + b"0" + WRAPPER + PAYLOAD, b"(" + array() + tuple_of(WRAPPER) + b"t", OBJECTS,
    array(bytes(8), kind="V8", shape=(1,), own=16), array(bytes(8), kind="f8", shape=(1,), flags=1),
], ids=["behind nothing", "objects behind nothing", "plain", "old", "read", "reduce", "large", "twice", "other call", "payload", "class", "objects first", "size", "flags"])  # fmt: skip
def test_what_other_loaders_may_run_is_told(tmp_path, body):
    assert dangers(write(tmp_path / "a.joblib", stream(body)))


def test_an_array_within_a_frame_is_not_as_joblib_writes_it(tmp_path):
    """Its bytes come from after the frame."""
    body = wrapper() + b"N0"
    framed = b"\x80\4\x95" + struct.pack("<Q", len(body)) + body + b"\0" + bytes(24) + b"."
    assert dangers(write(tmp_path / "a.joblib", framed))
    body = wrapper()
    framed = b"\x80\4\x95" + struct.pack("<Q", len(body)) + body + b"\1\xff" + bytes(24) + b"."
    scan(write(tmp_path / "b.joblib", framed), code=CLEAN)


# ---- what is compressed as a whole --------------------------------------------------------------------------------------


def test_what_follows_a_compressed_stream_is_told(tmp_path):
    for i, packed in enumerate((gzip.compress(HARMLESS) + gzip.compress(EVIL), zlib.compress(HARMLESS) + zlib.compress(EVIL))):
        assert any("goes on behind" in each for each in texts(scan(write(tmp_path / f"{i}.joblib", packed), code=FOUND)))


def test_gzip_with_all_that_may_stand_before_the_bytes(tmp_path):
    deflated_bytes = zlib.compress(EVIL)[2:-4]
    head = b"\x1f\x8b\x08\x1e" + bytes(6) + b"\x03\0abc" + b"name\0" + b"a comment\0" + b"\1\2"
    assert any(CALL in each for each in dangers(write(tmp_path / "m.gz", head + deflated_bytes + bytes(8))))
    for cut in (11, 13, 17, 20, 30, 31):
        told = scan(write(tmp_path / "cut.gz", head[:cut]), code=UNREAD)
        assert cut < 18 or "cannot be unpacked" in told[0]["error"]["message"]


def test_archives_and_arrays_that_are_compressed_are_looked_at(tmp_path):
    objects = npy("|O", "(1,)") + EVIL
    for i, content in enumerate((archive((b"x", EVIL)), torch_file(EVIL), objects, gzip.compress(zlib.compress(EVIL)))):
        assert any(CALL in each for each in dangers(write(tmp_path / f"{i}.gz", gzip.compress(content)))), i
    scan(write(tmp_path / "good.gz", gzip.compress(npy("<f4", "(0,)"))), code=CLEAN)


def test_many_members_that_only_begin_as_compressed_cost_little(tmp_path):
    """Each could stand for so much that trying takes long; what they may take together is bounded."""
    large = zlib.compress(bytes(60 << 20), 9)[:-5] + b"\xff" * 5
    content = archive(*((b"%d" % i, large) for i in range(60)), *((b"s%d" % i, b"\x78\x9c\xff" + bytes(9)) for i in range(20000)))
    assert sum("not looked at" in each for each in texts(scan(write(tmp_path / "m.zip", content), code=FOUND))) == 20060


def test_nothing_may_be_compressed(tmp_path):
    scan(write(tmp_path / "m.zip", archive((b"g", gzip.compress(b"")), (b"z", zlib.compress(b"")))), code=CLEAN)


def test_what_inflates_to_too_much_is_told(tmp_path):
    scan(write(tmp_path / "m.gz", gzip.compress(bytes(65 << 20))), code=UNREAD)
    content = archive((b"m", gzip.compress(bytes(65 << 20))))
    assert any("not looked at" in each for each in texts(scan(write(tmp_path / "m.zip", content), code=FOUND)))


# ---- checkpoints within bytes -------------------------------------------------------------------------------------------

MAGIC = stream(b"\x8a\x0a" + (0x1950A86A20F9469CFC6C).to_bytes(10, "little"))


def saved(value=None, head=(MAGIC, stream(number(1001)), stream(dict_of()))):
    """As torch.save writes a storage into bytes."""
    parts = [*head, stream(storage() if value is None else value), stream(b"]" + text("0") + b"a"), struct.pack("<q", 4), bytes(16)]
    return b"".join(parts)


def loaded(inner, encoded=False):
    made = call(name("_codecs", "encode"), text(inner.decode("latin-1")), text("latin1")) if encoded else b"B" + struct.pack("<I", len(inner)) + inner
    return call(name("torch.storage", "_load_from_bytes"), made)


@pytest.mark.parametrize("encoded", [False, True])
def test_storages_within_bytes_are_followed(tmp_path, encoded):
    pairs = [(text(f"w{i}"), tensor(of=loaded(saved(), encoded))) for i in range(3)]
    assert scan(write(tmp_path / "m.pkl", stream(dict_of(*pairs))), code=CLEAN)[0]["findings"] == []
    assert scan(write(tmp_path / "m.zip", archive((b"m.pkl", deflated(stream(dict_of(*pairs)))))), code=CLEAN)[0]["findings"] == []
    for bad in (saved(PAYLOAD), saved(head=(MAGIC, stream(PAYLOAD), stream(dict_of()))), saved(loaded(saved()))):
        assert dangers(write(tmp_path / "bad.pkl", stream(dict_of(*pairs, (text("x"), tensor(of=loaded(bad, encoded)))))))


@pytest.mark.parametrize("value", [loaded(torch_file(EVIL)), loaded(torch_file()), loaded(b"nothing of torch"), loaded(saved()[:30]),
                                   call(name("torch.storage", "_load_from_bytes"), text("x")),
                                   name("torch.storage", "_load_from_bytes"), call(name("pickle", "loads"), b"C" + bytes([len(EVIL)]) + EVIL)])  # fmt: skip
def test_what_is_no_storage_stays_danger(tmp_path, value):
    assert dangers(write(tmp_path / "m.pkl", stream(value)))


def test_more_storages_than_are_pickles_of_other_kinds(tmp_path):
    """A state dict of two thousand tensors, of which the last one is bad."""
    many = [(text(f"w{i}"), loaded(saved())) for i in range(2000)]
    scan(write(tmp_path / "m.pkl", stream(dict_of(*many))), code=CLEAN)
    told = dangers(write(tmp_path / "bad.pkl", stream(dict_of(*many, (text("x"), loaded(saved(PAYLOAD)))))))
    assert any(CALL in each for each in told)
    assert io.BytesIO(saved()).read(2) == b"\x80\2"
