# SPDX-License-Identifier: Apache-2.0
"""What happens on bad days: files that vanish, shrink or change while they are open, tensors that outlive everything, threads,
forks, the interpreter's end, and whether anything is lost on the way."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from conftest import array_file, maps_of

import coffer
from coffer._native import Model, serialize

ACCESS = ["map", "private", "read"]


def run(code: str, *arguments: object) -> str:
    """What a Python process of its own prints; its failure is ours."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


# ---- Files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("access", ACCESS)
def test_a_file_deleted_while_open(path, arrays, access):
    f = coffer.open(path, access=access)
    path.unlink()
    assert all(np.array_equal(f[name].numpy(), array) for name, array in arrays.items())


@pytest.mark.parametrize("access", ACCESS)
def test_a_file_replaced_while_open(path, arrays, access):
    f = coffer.open(path, access=access)
    coffer.Writer(path, {"other": ("U8", (0,))}).finish()
    assert list(coffer.open(path)) == ["other"]
    assert all(np.array_equal(f[name].numpy(), array) for name, array in arrays.items())


def test_a_file_truncated_while_open_is_an_error_when_it_is_read(path):
    f = coffer.open(path, access="read")
    size = path.stat().st_size
    os.truncate(path, size - 20)
    for use in (f["bytes"].numpy, f["bytes"].tobytes, f["bytes"][20:].read, lambda: f["bytes"].read_into(bytearray(31))):
        with pytest.raises(coffer.Error) as caught:
            use()
        error = caught.value
        assert (error.code, error.tensor, error.path) == ("CHANGED", "bytes", str(path))
        assert (error.expected, error.actual) == (size, size - 20)
    with pytest.raises(coffer.Error) as caught:
        Model.open(path)
    assert caught.value.code == "DATA_TRUNCATED"


@pytest.mark.parametrize("access", ["map", "private"])
def test_a_file_truncated_before_it_is_mapped_is_an_error(path, access):
    f = coffer.open(path, access=access)
    os.truncate(path, 500)
    with pytest.raises(coffer.Error) as caught:
        f["bytes"].numpy()
    assert caught.value.code == "CHANGED"


def test_a_descriptor_may_be_closed_after_opening(path, arrays):
    with path.open("rb") as file:
        f = coffer.open(file.fileno())
    assert np.array_equal(f["cube"].numpy(), arrays["cube"])


# ---- Lifetimes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("access", ACCESS)
def test_what_was_handed_out_outlives_the_file(path, arrays, access, released):
    f = coffer.open(path, access=access)
    tensor, part = f["matrix"], f["cube"][1:]
    array, view, capsule = f["matrix"].numpy(), memoryview(f["bytes"]), np.from_dlpack(f["cube"])
    f.close()
    del f
    path.unlink()
    gc.collect()
    assert np.array_equal(array, arrays["matrix"]) and bytes(view) == arrays["bytes"].tobytes()
    assert np.array_equal(capsule, arrays["cube"])
    assert np.array_equal(tensor.numpy(), arrays["matrix"]) and np.array_equal(part.numpy(), arrays["cube"][1:])
    del tensor, part, array, view, capsule
    assert released()


@pytest.mark.parametrize("kind", ["array", "view", "dlpack", "tensor"])
def test_each_of_them_alone_keeps_the_map(path, released, kind):
    f = coffer.open(path)
    kept = {
        "array": lambda: f["matrix"].numpy(),
        "view": lambda: memoryview(f["matrix"]),
        "dlpack": lambda: np.from_dlpack(f["matrix"]),
        "tensor": lambda: f["matrix"],
    }[kind]()
    memoryview(f["matrix"]).release()
    f.close()
    del f
    gc.collect()
    assert maps_of(path) == 1
    del kept
    assert released()


def test_memory_that_was_lent_is_kept(path, arrays):
    content = bytearray(path.read_bytes())
    f = coffer.open(content)
    with pytest.raises(BufferError):
        content.append(0)
    array = f["cube"].numpy()
    del f
    with pytest.raises(BufferError):
        content.append(0)
    assert np.array_equal(array, arrays["cube"])
    del array
    content.append(0)


def use_everything(path: Path, content: bytes, entries: list) -> None:
    """Every way through the extension once, failures too."""
    for access in ACCESS:
        with coffer.open(path, access=access) as f:
            for tensor in f.values():
                memoryview(tensor), tensor.read(), tensor.tobytes(), tensor[...].numpy(), tensor.numpy()
                np.from_dlpack(tensor)
                tensor.__dlpack__(max_version=(1, 0)), repr(tensor), tensor.shape, tensor.writable
            f["cube"][::-1].numpy(), f["cube"][:, 1][2], str(f), f._repr_html_(), f.metadata
            for wrong in (lambda: f["none"], lambda: f["cube"][9], lambda: f["cube"][::0], lambda: f["cube"].read_into(bytearray(1))):
                with pytest.raises((coffer.Error, ValueError)):
                    wrong()
        model = Model.open(path, access=access)
        model.infos(), model.tensors(), model.keys(), model.offset_keys(), model.notes(), model.read_many(), model.dlpack_many()
        model.read_many(["cube"], progress=lambda done, total: None)
        model.read_into([("bytes", bytearray(31))])
        with pytest.raises(KeyError):
            model.read_many(["cube", "none"])
    coffer.open(content)["cube"].numpy()
    with pytest.raises(coffer.Error):
        coffer.open(content[:-1])
    serialize(entries, {"a": "b"})
    with pytest.raises(coffer.Error):
        serialize(entries * 2)
    with coffer.Writer(path.with_suffix(".out"), {"x": ("U8", (2,))}) as writer:
        writer.write("x", b"ab")
    coffer.check(path)


def test_nothing_is_lost(path, arrays, released):
    """Objects, blocks of memory that Python counts, maps and descriptors are after many rounds what they were after a few."""
    content = path.read_bytes()
    entries = [(name, "U8", (array.nbytes,), array.tobytes()) for name, array in arrays.items()]

    def rounds(count: int) -> tuple[int, int]:
        for _ in range(count):
            use_everything(path, content, entries)
        gc.collect()
        return len(gc.get_objects()), sys.getallocatedblocks()

    rounds(3)
    objects, blocks = rounds(3)
    more_objects, more_blocks = rounds(30)
    assert more_objects - objects < 15 and more_blocks - blocks < 150, (more_objects - objects, more_blocks - blocks)
    assert released()


def test_no_reference_is_lost(path):
    model = Model.open(path)
    name, dtype = "cube", model.find("cube").dtype
    counted = [None, model, name, dtype, type(model), type(model.find(name)), coffer.Error, coffer.Buffer]

    def count() -> list[int]:
        return [sys.getrefcount(thing) for thing in counted]

    def use() -> None:
        model.find(name)[0].read(), model.metadata(), model.infos(), model.dlpack_many([name]), model.read_many([name])
        name in model, memoryview(model.find(name)), model.find(name).dtype
        serialize([(name, dtype, (0,), b"")], {name: name})
        with pytest.raises(coffer.Error):
            model.find("none")

    use()
    before = count()
    for _ in range(100):
        use()
    assert all(abs(new - old) < 20 for new, old in zip(count(), before, strict=True)), (before, count())


def test_memory_does_not_grow(tmp_path):
    """Outside of what Python counts: 200 rounds of 4 MB would show."""
    resident = lambda: int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")  # noqa: E731
    file = tmp_path / "x.safetensors"
    array = np.ones(1 << 20, np.float32)
    file.write_bytes(array_file({"x": array}))
    before = 0
    for i in range(200):
        for access in ACCESS:
            f = coffer.open(file, access=access)
            assert f["x"].numpy()[-1] == 1 and len(f["x"].read()) == 4 << 20 and np.from_dlpack(f["x"][::2])[0] == 1
        if i == 20:
            before = resident()
    assert resident() - before < 40 << 20


# ---- Threads ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("access", ACCESS)
def test_a_thousand_threads(path, arrays, access):
    f = coffer.open(path, access=access)
    tensor = f["matrix"]
    failures = []

    def work() -> None:
        for name, array in arrays.items():
            if not (np.array_equal(f[name].numpy(), array) and f[name].tobytes() == array.tobytes()):
                failures.append(name)
        if not np.array_equal(tensor.numpy(), arrays["matrix"]):
            failures.append("shared")

    threads = [threading.Thread(target=work) for _ in range(1000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_closing_while_others_read(path, arrays):
    for _ in range(50):
        f = coffer.open(path, access="read")
        start = threading.Barrier(5)

        def work(f: coffer.File = f, start: threading.Barrier = start) -> bool:
            start.wait()
            try:
                return f["cube"].tobytes() == arrays["cube"].tobytes()
            except coffer.Error as error:
                return error.message == "the file is closed"

        with ThreadPoolExecutor(5) as pool:
            results = [pool.submit(work) for _ in range(4)]
            start.wait()
            f.close()
            assert all(result.result() for result in results)


def test_the_gil_is_released_while_reading(tmp_path):
    """A pipe's other end is served by a thread of this process: holding the GIL would be a deadlock."""
    code = """
import os, sys, threading, coffer
read, write = os.pipe()
got = []
def drain():
    with open(read, "rb") as file:
        got.append(file.read())
thread = threading.Thread(target=drain)
thread.start()
with coffer.Writer(write, {"x": ("U8", (1 << 22,))}) as writer:
    writer.write("x", bytes(1 << 22))
os.close(write)
thread.join()
print(len(coffer.open(got[0])["x"].tobytes()))
"""
    assert run(code) == f"{1 << 22}\n"


# ---- Processes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("access", ACCESS)
def test_fork(path, access):
    code = """
import os, sys, coffer
f = coffer.open(sys.argv[1], access=sys.argv[2])
array = f["matrix"].numpy()
expected = array.tobytes()
child = os.fork()
if child == 0:
    ok = f["matrix"].tobytes() == expected and array.tobytes() == expected and f["cube"].numpy().shape == (3, 4, 5)
    f.close()
    os._exit(0 if ok else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert f["matrix"].tobytes() == expected
print("ok")
"""
    assert run(code, path, access) == "ok\n"


def test_the_interpreters_end_with_everything_alive(path):
    code = """
import sys, atexit, threading, coffer
import numpy as np
from coffer._native import Model
class Late:
    def __del__(self):
        kept[0][0].numpy(); kept[0].tobytes()
f = coffer.open(sys.argv[1])
g = coffer.open(open(sys.argv[1], "rb").read())
kept = [f["cube"], f["cube"][1], memoryview(f["matrix"]), np.from_dlpack(f["cube"]), f["matrix"].numpy(), f["cube"].read(),
        g["cube"].numpy(), np.from_dlpack(g["cube"]), f["cube"].__dlpack__(), Model.open(sys.argv[1]).dlpack_many(),
        coffer.Writer(sys.argv[1] + ".new", {"x": ("U8", (3,))}), Late()]
sys.modules["keep"] = kept
cycle = [kept]; cycle.append(cycle)
atexit.register(lambda: print(f["cube"].tobytes() == kept[3].tobytes()))
"""
    assert run(code, path) == "True\n"
    assert os.listdir(path.parent) == [path.name]


def test_a_subinterpreter_is_refused_politely():
    code = """
try:
    import _interpreters as interpreters
    made = interpreters.create("legacy")
except ImportError:
    import _xxsubinterpreters as interpreters
    made = interpreters.create(isolated=False)
import coffer
code = "try:\\n import coffer\\nexcept ImportError as error:\\n import os; os.write(1, (str(error) + chr(10)).encode())"
interpreters.run_string(made, code)
print(len(coffer.open(b"\\x02\\0\\0\\0\\0\\0\\0\\0{}")))
"""
    assert run(code) == "coffer cannot be used in a subinterpreter: import it in the main one\n0\n"


def test_ctrl_c_ends_a_long_read(tmp_path):
    """A read into a buffer of 400 MB, over and over; the signal comes in between or during it."""
    code = """
import os, signal, sys, threading, coffer
signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background ignores it
model = coffer._native.Model.open(sys.argv[1], access="read")
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    while True:
        model.read_many()
except KeyboardInterrupt:
    print("ended")
"""
    file = tmp_path / "x.safetensors"
    size = 400 << 20
    writer = coffer.Writer(file, {"x": ("U8", (size,))})
    for at in range(0, size, 1 << 24):
        writer.write("x", bytes(1 << 24), at)
    writer.finish()
    assert run(code, file) == "ended\n"


# ---- Imports ----------------------------------------------------------------------------------------------------------


def test_importing_needs_nothing_but_the_standard_library():
    code = """
import sys
before = set(sys.modules)
import coffer
new = {name.split(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)
print(sorted(new))
"""
    assert run(code) == "['coffer']\n"


def test_python_counts_no_memory_of_a_lazy_tensor(path):
    with coffer.open(path) as f:
        names = list(f)
        tracemalloc.start()
        kept = [f[name] for name in names * 100]
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    assert size / len(kept) < 300


def test_a_private_map_larger_than_all_memory(tmp_path):
    """Linux refuses one that would have to be backed by memory it has not, unless it is told that it need not."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    kilobytes = sum(int(line.split()[1]) for line in lines if line.startswith(("MemTotal:", "SwapTotal:")))
    size = 4 * kilobytes * 1024
    file = tmp_path / "sparse.safetensors"
    content = array_file({"x": np.zeros(0, np.uint8)}).replace(b"[0], ", b"[%d], " % size).replace(b"[0, 0]", b"[0, %d]" % size)
    start = content.index(b"}}") + 2
    file.write_bytes((start - 8).to_bytes(8, "little") + content[8:start])
    os.truncate(file, start + size)
    assert coffer.open(file, access="private")["x"].numpy()[-1] == 0
