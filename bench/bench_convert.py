# SPDX-License-Identifier: Apache-2.0
"""`coffer convert` beside torch, flax, onnx, Keras, TensorFlow, the package gguf and loops of system calls, in turns: the rows of
tools/assurance/bench.sh.

    bench_convert.py COMMAND FOLDER [quick]

The checkpoint has tied, sliced and transposed tensors among plain ones, and is in the page cache. The figures of torch are without
importing it. A row's figures are medians; its ratio says how many times as good ours is. Peak memory is that of a process of its own
for each, for torch above what importing takes.
"""

import os
import struct
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy
import onnx
import safetensors.numpy
import torch
import turns
from flax import serialization
from gguf import GGMLQuantizationType
from gguf.quants import dequantize
from safetensors.torch import save_file

COMMAND, FOLDER = Path(sys.argv[1]), Path(sys.argv[2])
QUICK = sys.argv[3:4] == ["quick"]
SIDE = 512 if QUICK else 4096
ROUNDS = 1 if QUICK else 5
MIXED, TURNED, OUTPUT = FOLDER / "convert-mixed.pt", FOLDER / "convert-turned.pt", FOLDER / "convert.safetensors"
PLAIN, QUANTISED = FOLDER / "convert-plain.gguf", FOLDER / "convert-q4_k.gguf"
FLAX, ONNX = FOLDER / "convert.msgpack", FOLDER / "convert.onnx"
WEIGHTS, CHECKPOINT = FOLDER / "convert.weights.h5", FOLDER / "convert-tf"
PIECE = 2 << 20


# ---- Files -------------------------------------------------------------------------------------------------------------


def square():
    return torch.rand(SIDE, SIDE)


def mixed():
    """2 GB: of 32 squares of 64 MB one in eight is transposed; one is tied, and one is two slices."""
    state = {f"layers.{i}.weight": square().t() if i % 8 == 3 else square() for i in range(31)}
    state["lm_head.weight"] = state["layers.0.weight"]
    both = square()
    return state | {"k.weight": both[: SIDE // 2], "v.weight": both[SIDE // 2 :]}


def turned():
    """1 GB of transposed tensors."""
    return {f"layers.{i}.weight": square().t() for i in range(16)}


def gguf(path, kind, data, dimensions):
    """One tensor, whose bytes are those of an array."""
    head = b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, 1) + b"w" + struct.pack("<IQQIQ", 2, *dimensions, kind, 0)
    with path.open("wb") as file:
        file.write(head + bytes(-len(head) % 32))
        data.tofile(file)


# ---- Ways to convert ---------------------------------------------------------------------------------------------------


def command(path, *options):
    subprocess.run([COMMAND, "convert", "-q", path, "-o", OUTPUT, *options], check=True)


def by_torch(path, **options):
    """As a careful script does it: tied names once, and no tensor that shares memory or is not contiguous."""
    seen, written = set(), {}
    for name, tensor in torch.load(path, weights_only=True, **options).items():
        view = tensor.data_ptr(), tensor.shape, tensor.stride()
        if view not in seen:
            whole = tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes
            written[name] = tensor if whole else tensor.contiguous().clone()
        seen.add(view)
    save_file(written, OUTPUT, metadata={"format": "pt"})


def by_loop(path):
    """The bytes, as fast as two system calls for each two megabytes bring them."""
    buffer = bytearray(PIECE)
    source, target = os.open(path, os.O_RDONLY), os.open(OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    at = 0
    while got := os.preadv(source, [buffer], at):
        os.pwrite(target, memoryview(buffer)[:got], at)
        at += got
    os.close(source)
    os.close(target)


def by_writing(size):
    """So many bytes, whatever they are."""
    buffer = bytes(PIECE)
    target = os.open(OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for at in range(0, size, PIECE):
        os.pwrite(target, buffer, at)
    os.close(target)


def by_numpy(blocks):
    with numpy.errstate(all="ignore"):
        dequantize(blocks, GGMLQuantizationType.Q4_K)


# ---- Measuring ---------------------------------------------------------------------------------------------------------

in_turns = partial(turns.in_turns, OUTPUT, ROUNDS)


# A process keeps the peak of the one that started it, so a small one starts it.
COMMAND_PEAK = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:])
_, status, used = os.wait4(process.pid, 0)
assert status == 0
print(used.ru_maxrss / 1000)
"""

TORCH_PEAK = """
import resource, sys, torch
from safetensors.torch import save_file
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
save_file({k: v.contiguous().clone() for k, v in torch.load(sys.argv[1], weights_only=True).items()}, sys.argv[2])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1000)
"""


def peak(code, *words):
    OUTPUT.unlink(missing_ok=True)
    return float(subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True).stdout)


def quantised():
    """1 GB of F32, and 4,096 rows of Q4_K that become 512 MB of BF16; the dequantiser of gguf gets them in memory, writes nothing, and
    is compared with one thread."""
    random = numpy.random.default_rng(1)
    gguf(PLAIN, 0, numpy.zeros((16 * SIDE, SIDE), numpy.float32) + 1, (SIDE, 16 * SIDE))
    blocks = random.integers(0, 256, (SIDE, 16 * SIDE // 256 * 144), numpy.uint8)
    gguf(QUANTISED, 12, blocks, (16 * SIDE, SIDE))
    plain, loop = in_turns(lambda: command(PLAIN, "--no-verify"), lambda: by_loop(PLAIN))
    turns.row("convert 1 GB of GGUF, plain, not verified", "ms", 1e3 * plain, "pread, pwrite", 1e3 * loop)
    options = "--no-verify", "--dequantize", "bf16"
    ours, loop = in_turns(lambda: command(QUANTISED, *options), lambda: by_writing(2 * 16 * SIDE * SIDE))
    turns.row("512 MB of BF16 from Q4_K, not verified", "ms", 1e3 * ours, "pwrite", 1e3 * loop)
    one = {*sorted(os.sched_getaffinity(0))[:1]}
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, one)
    ours, others = in_turns(lambda: command(QUANTISED, *options), lambda: by_numpy(blocks))
    os.sched_setaffinity(0, every)
    turns.row("the same on one processor", "ms", 1e3 * ours, "gguf.quants.dequantize", 1e3 * others)
    for path in (PLAIN, QUANTISED, OUTPUT):
        path.unlink(missing_ok=True)


def by_flax(path):
    safetensors.numpy.save_file(serialization.msgpack_restore(path.read_bytes()), OUTPUT)


def by_onnx(path):
    model = onnx.load(path)
    safetensors.numpy.save_file({tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}, OUTPUT)


def frameworks():
    """1 GB of F32 in 16 tensors, as flax and onnx write them, beside what their own programs make of them."""
    tensors = {f"layers.{i}.weight": square().numpy() for i in range(16)}
    FLAX.write_bytes(serialization.to_bytes(tensors))
    graph = onnx.helper.make_graph([], "g", [], [], [onnx.numpy_helper.from_array(array, name) for name, array in tensors.items()])
    onnx.save(onnx.helper.make_model(graph), ONNX)
    tensors.clear()
    del graph
    for path, other, task in ((FLAX, "flax, save_file", by_flax), (ONNX, "onnx.load, save_file", by_onnx)):
        verified, plain, others = in_turns(lambda: command(path), lambda: command(path, "--no-verify"), lambda: task(path))
        turns.row(f"convert 1 GB of {other.split('.')[0].split(',')[0]}, verified", "ms", 1e3 * verified, other, 1e3 * others)
        turns.row("the same, not verified", "ms", 1e3 * plain, other, 1e3 * others)
        path.unlink()
    OUTPUT.unlink(missing_ok=True)


def keras_and_tensorflow():
    """1 GB of weights: a model of Keras that loads its own, and a checkpoint that TensorFlow reads tensor by tensor."""
    os.environ["KERAS_BACKEND"], os.environ["TF_CPP_MIN_LOG_LEVEL"] = "tensorflow", "3"
    import keras
    import tensorflow
    from safetensors.numpy import save_file as save_arrays

    def model():
        return keras.Sequential([keras.Input((SIDE,)), *[keras.layers.Dense(SIDE) for _ in range(16)]])

    def by_keras():
        made = model()
        made.load_weights(WEIGHTS)
        save_arrays({weight.path: weight.numpy() for weight in made.weights}, OUTPUT)

    def by_tensorflow():
        reader = tensorflow.train.load_checkpoint(str(CHECKPOINT))
        save_arrays({name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}, OUTPUT)

    model().save_weights(WEIGHTS)
    values = [tensorflow.random.normal((SIDE, SIDE)) for _ in range(16)]
    tensorflow.raw_ops.SaveV2(prefix=str(CHECKPOINT), tensor_names=[f"w{i:02}" for i in range(16)], shape_and_slices=[""] * 16, tensors=values)
    del values
    ours, others = in_turns(lambda: command(WEIGHTS), by_keras)
    turns.row("convert 1 GB of Keras weights, verified", "ms", 1e3 * ours, "load_weights, save_file", 1e3 * others)
    index = CHECKPOINT.with_suffix(".index")
    ours, plain, others = in_turns(lambda: command(index), lambda: command(index, "--no-verify"), by_tensorflow)
    turns.row("convert 1 GB of TensorFlow, verified", "ms", 1e3 * ours, "get_tensor, save_file", 1e3 * others)
    turns.row("the same, not verified", "ms", 1e3 * plain, "get_tensor, save_file", 1e3 * others)
    for path in (WEIGHTS, OUTPUT, index, *FOLDER.glob(f"{CHECKPOINT.name}.data-*")):
        path.unlink(missing_ok=True)


def main():
    torch.manual_seed(1)
    quantised()
    frameworks()
    keras_and_tensorflow()
    torch.save(mixed(), MIXED)
    torch.save(turned(), TURNED)
    verified, plain, loaded, mapped, loop = in_turns(
        lambda: command(MIXED), lambda: command(MIXED, "--no-verify"), lambda: by_torch(MIXED), lambda: by_torch(MIXED, mmap=True),
        lambda: by_loop(MIXED))
    turns.row("convert 2 GB of PyTorch, verified", "ms", 1e3 * verified, "torch.load, save_file", 1e3 * loaded)
    turns.row("the same, not verified", "ms", 1e3 * plain, "torch.load (mmap), save_file", 1e3 * mapped)
    turns.row("the same, not verified", "ms", 1e3 * plain, "pread, pwrite", 1e3 * loop)
    turns.row("comparing both files afterwards", "ms", 1e3 * (verified - plain), "converting", 1e3 * plain)
    plain, loop = in_turns(lambda: command(TURNED, "--no-verify"), lambda: by_loop(TURNED))
    turns.row("convert 1 GB of transposed tensors, not verified", "ms", 1e3 * plain, "pread, pwrite", 1e3 * loop)
    ours = peak(COMMAND_PEAK, COMMAND, "convert", "-q", MIXED, "-o", OUTPUT)
    turns.row("convert 2 GB: peak memory", "MB", ours, "torch.load, save_file", peak(TORCH_PEAK, MIXED, OUTPUT))
    for path in (MIXED, TURNED, OUTPUT):
        path.unlink()


if __name__ == "__main__":
    main()
