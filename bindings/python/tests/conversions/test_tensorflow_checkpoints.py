# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's checkpoints, converted, against tensorflow: each tensor has the bytes that it reads, and damage is noticed by the CRC-32C."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import coffer

v1 = tf.compat.v1
DTYPES = {tf.float32: "F32", tf.float64: "F64", tf.float16: "F16", tf.bfloat16: "BF16", tf.int8: "I8", tf.int16: "I16", tf.int32: "I32",
          tf.int64: "I64", tf.uint8: "U8", tf.uint16: "U16", tf.uint32: "U32", tf.uint64: "U64", tf.bool: "BOOL", tf.complex64: "C64",
          tf.dtypes.experimental.float8_e5m2: "F8_E5M2", tf.dtypes.experimental.float8_e4m3fn: "F8_E4M3"}  # fmt: skip


def read(path, output, **options):
    coffer.convert(path, output, force=True, **options)
    with coffer.open(output) as opened:
        return {name: (opened[name].dtype, tuple(opened[name].shape), opened[name].tobytes()) for name in opened}


def array_of(dtype, shape, seed):
    random = np.random.default_rng(seed)
    count = int(np.prod(shape, dtype=np.int64))
    if dtype == tf.bool:
        return random.integers(0, 2, shape).astype(bool)
    return np.frombuffer(random.bytes(count * dtype.size), dtype.as_numpy_dtype).reshape(shape)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(list(DTYPES)), st.lists(st.integers(0, 9), max_size=4)), min_size=1, max_size=20), st.integers(0, 2**32))
def test_what_tensorflow_writes(tmp_path_factory, tensors, seed):
    folder = tmp_path_factory.mktemp("tf")
    wanted = {}
    names, slices, values = [], [], []
    for i, (dtype, shape) in enumerate(tensors):
        array = array_of(dtype, shape, seed + i)
        names.append(f"a/{i}.b")
        slices.append("")
        values.append(tf.constant(array, dtype))
        wanted[names[-1]] = DTYPES[dtype], tuple(shape), array.tobytes()
    tf.raw_ops.SaveV2(prefix=str(folder / "m"), tensor_names=names, shape_and_slices=slices, tensors=values)
    assert read(folder / "m.index", folder / "o.safetensors") == wanted


def cut(draw, box, most):
    """A box, (begin, size) for each dimension, as disjoint boxes that are all of it: it is cut in two, and so are these."""
    along = draw(st.integers(0, len(box) - 1))
    begin, size = box[along]
    if most == 1 or size == 1:
        return [box]
    at = draw(st.integers(1, size - 1))
    first = draw(st.integers(1, most - 1))
    low, high = list(box), list(box)
    low[along], high[along] = (begin, at), (begin + at, size - at)
    return cut(draw, low, first) + cut(draw, high, most - first)


def spec(shape, box):
    """Both ways of saying that a slice has all of a dimension mean the same to TensorFlow, and are different keys."""
    return " ".join(map(str, shape)) + " " + ":".join("-" if size == whole and i % 2 else f"{begin},{size}" for i, ((begin, size), whole) in enumerate(zip(box, shape, strict=True)))


def part(array, box):
    return array[tuple(slice(begin, begin + size) for begin, size in box)]


def save(prefix, name, array, dtype, boxes):
    tf.raw_ops.SaveV2(prefix=str(prefix), tensor_names=[name] * len(boxes), shape_and_slices=[spec(array.shape, box) for box in boxes],
                      tensors=[tf.constant(part(array, box), dtype) for box in boxes])


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from([tf.float32, tf.bfloat16, tf.int64, tf.bool, tf.complex64]))
def test_slices_of_any_dimension(tmp_path_factory, data, dtype):
    folder = tmp_path_factory.mktemp("tf")
    shape = data.draw(st.lists(st.integers(1, 300), min_size=1, max_size=4).filter(lambda s: np.prod(s) < 100000))
    name = data.draw(st.sampled_from(["w", "emb/weights", "a\x00\xff", "ä"]))
    array = array_of(dtype, shape, 7)
    boxes = data.draw(st.permutations(cut(data.draw, [(0, size) for size in shape], 9)))
    save(folder / "m", name, array, dtype, boxes)
    assert read(folder / "m.index", folder / "o.safetensors") == {name: (DTYPES[dtype], tuple(shape), array.tobytes())}


BOXES = [[(0, 30), (0, 20)], [(30, 10), (0, 20)], [(0, 25), (20, 13)], [(25, 15), (20, 13)]]


def test_slices_in_several_files(tmp_path):
    array = array_of(tf.float32, (40, 33), 1)
    prefixes = [str(tmp_path / f"part{i}") for i in range(len(BOXES))]
    for prefix, box in zip(prefixes, BOXES, strict=True):
        save(prefix, "w", array, tf.float32, [box])
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=prefixes, destination_prefix=str(tmp_path / "m"))
    assert len(list(tmp_path.glob("m.data-*"))) == len(BOXES)
    assert read(tmp_path / "m.index", tmp_path / "o.safetensors") == {"w": ("F32", (40, 33), array.tobytes())}


def test_slices_that_leave_a_gap(tmp_path):
    save(tmp_path / "m", "w", array_of(tf.float32, (40, 33), 1), tf.float32, BOXES[:3])
    with pytest.raises(coffer.Error, match=r"leave a gap: none has the element at \[25, 20\]"):
        read(tmp_path / "m.index", tmp_path / "o.safetensors")


def test_slices_that_overlap(tmp_path):
    save(tmp_path / "m", "w", array_of(tf.float32, (40, 33), 1), tf.float32, [*BOXES[:3], [(24, 16), (20, 13)]])
    with pytest.raises(coffer.Error, match=r"begin at \[0, 20\] and \[24, 20\] overlap"):
        read(tmp_path / "m.index", tmp_path / "o.safetensors")


def test_a_damaged_slice(tmp_path):
    array = array_of(tf.float32, (40, 33), 1)
    save(tmp_path / "m", "w", array, tf.float32, BOXES)
    path = tmp_path / "m.data-00000-of-00001"
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    with pytest.raises(coffer.Error, match="CRC-32C"):
        read(tmp_path / "m.index", tmp_path / "o.safetensors")


def test_slices_of_the_optimizer_are_left_out(tmp_path):
    array = array_of(tf.float32, (40, 33), 1)
    save(tmp_path / "m", "optimizer/m", array, tf.float32, BOXES)
    assert read(tmp_path / "m.index", tmp_path / "o.safetensors") == {}
    assert read(tmp_path / "m.index", tmp_path / "o.safetensors", root="all") == {"optimizer/m": ("F32", (40, 33), array.tobytes())}


def test_slices_of_strings_are_left_out(tmp_path):
    save(tmp_path / "m", "names", np.array([[b"a", b"bc"], [b"", b"def"]], object), tf.string, [[(0, 2), (0, 1)], [(0, 2), (1, 1)]])
    assert read(tmp_path / "m.index", tmp_path / "o.safetensors") == {}


def by_tensorflow(prefix):
    reader = tf.train.load_checkpoint(str(prefix))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def plain(name):
    return name.removesuffix("/.ATTRIBUTES/VARIABLE_VALUE").replace(".S", "/").replace("..", ".")


@pytest.fixture(name="trained", scope="module")
def fixture_trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")

    class Inner(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable(tf.random.normal((5, 7)))
            self.parts = {"a/b": tf.Variable(3.0), "c.d": tf.Variable([1, 2])}
            self.words = tf.Variable(["x", "yz"])

    model = Inner()
    checkpoint = tf.train.Checkpoint(model=model, optimizer=tf.Module())
    checkpoint.optimizer.m = tf.Variable([1.0, 2.0])
    checkpoint.save(folder / "m")
    tf.saved_model.save(model, folder / "saved")
    return folder


def test_objects(trained):
    theirs = {plain(name): value.tobytes() for name, value in by_tensorflow(trained / "m-1").items() if isinstance(value, np.ndarray | np.generic) and value.dtype != object}
    found = read(trained / "m-1.index", trained / "o.safetensors")
    assert set(found) == {"model/w", "model/parts/a/b", "model/parts/c.d"}
    assert all(value[2] == theirs[name] for name, value in found.items())
    everything = read(trained / "m-1.index", trained / "o.safetensors", root="all")
    assert {name: value[2] for name, value in everything.items()} == theirs
    assert read(trained, trained / "o.safetensors") == found
    below = read(trained / "m-1.index", trained / "o.safetensors", root="model.parts")
    assert set(below) == {"a/b", "c.d"}


def test_saved_model(trained):
    theirs = by_tensorflow(trained / "saved" / "variables" / "variables")
    found = read(trained / "saved" / "variables" / "variables.index", trained / "o.safetensors")
    assert {name: value[2] for name, value in found.items()} == {
        plain(name): value.tobytes() for name, value in theirs.items() if isinstance(value, np.ndarray | np.generic) and value.dtype != object}
    assert read(trained / "saved", trained / "o.safetensors") == found


@pytest.mark.parametrize("seed", range(8))
def test_damage_is_noticed(trained, tmp_path, seed):
    random = np.random.default_rng(seed)
    for ending in ("index", "data-00000-of-00001"):
        whole = (trained / f"m-1.{ending}").read_bytes()
        for other in ("index", "data-00000-of-00001"):
            (tmp_path / f"m.{other}").write_bytes((trained / f"m-1.{other}").read_bytes())
        damaged = bytearray(whole)
        at = int(random.integers(0, len(whole) - 48))
        damaged[at] ^= 1 << int(random.integers(8))
        (tmp_path / f"m.{ending}").write_bytes(damaged)
        try:
            found = read(tmp_path / "m.index", tmp_path / "o.safetensors", root="all")
        except coffer.Error as error:
            assert error.code in ("CHECKSUM", "DAMAGED", "UNSUPPORTED"), str(error)
            continue
        # Only strings, which nobody reads, may be damaged without being noticed.
        assert ending != "index" and found == read(trained / "m-1.index", trained / "o.safetensors", root="all"), at


def test_a_damaged_tensor_has_another_crc(tmp_path):
    array = np.arange(100, dtype="<f4")
    tf.raw_ops.SaveV2(prefix=str(tmp_path / "m"), tensor_names=["w"], shape_and_slices=[""], tensors=[tf.constant(array)])
    data = bytearray((tmp_path / "m.data-00000-of-00001").read_bytes())
    assert len(data) == 400
    data[123] ^= 4
    (tmp_path / "m.data-00000-of-00001").write_bytes(data)
    with pytest.raises(coffer.Error, match="CRC-32C"):
        read(tmp_path / "m.index", tmp_path / "o.safetensors")
    assert read(tmp_path / "m.index", tmp_path / "o.safetensors", crc=False)["w"][2] == bytes(data)


def test_partitioned_variables(tmp_path):
    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable("table", (10, 3), tf.float32, v1.random_normal_initializer(), partitioner=tf.compat.v1.fixed_size_partitioner(4))
        v1.get_variable("alone", (2,), tf.float32, v1.zeros_initializer())
        saver = v1.train.Saver(v1.global_variables())
        session.run(v1.global_variables_initializer())
        prefix = saver.save(session, str(tmp_path / "m"))
    theirs = by_tensorflow(prefix)
    found = read(prefix + ".index", tmp_path / "o.safetensors")
    assert {name: value[2] for name, value in found.items()} == {name: value.tobytes() for name, value in theirs.items()}
    assert found["table"][1] == (10, 3)
