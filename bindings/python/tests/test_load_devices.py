# SPDX-License-Identifier: Apache-2.0
"""Loading to a CUDA device, on a driver that the tests build: a process for each test, in which that driver is found."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from conftest import array_file

FAKES = Path(os.environ["COFFER_SOURCE_DIR"], "tests", "fakes")
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    folder = tmp_path_factory.mktemp("driver")
    sources = [str(FAKES / "fake_cuda.c"), str(FAKES / "fake_driver.c")]
    subprocess.run(
        ["cc", "-std=c11", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread", "-o", folder / "libcuda.so.1", *sources],
        check=True,
    )
    return folder


PRELUDE = """
    import gc, sys
    import numpy as np
    import fake_torch
    fake_torch.install()
    import coffer
    import coffer._load
    from coffer import _native
    from coffer.compat.safetensors import safe_open

    path = sys.argv[1]
    rng = np.random.default_rng(3)
    arrays = make(rng)
    order = coffer.open(path)._model.offset_keys()

    def check(found, names=arrays):
        assert found.keys() == set(names), found.keys()
        for name in names:
            assert found[name].shape == arrays[name].shape and str(found[name].dtype) == f"torch.{arrays[name].dtype}"
            assert found[name].tobytes() == arrays[name].tobytes(), name
"""

ARRAYS = """
def make(rng):
    return {
        "cube": rng.integers(-99, 99, (30, 4, 5), dtype=np.int64),
        "large": rng.random((700, 1000), dtype=np.float32),
        "scalar": np.array(2.5, dtype=np.float16),
        "empty": np.zeros((0, 3), dtype=np.float32),
        "odd": rng.integers(0, 255, 31, dtype=np.uint8),
        "matrix": rng.random((60, 8), dtype=np.float32),
    }
"""

END = """
    gc.collect()
    coffer._load._shared_staging.cache_clear()
    coffer._places._opened.cache_clear()
    gc.collect()
    fake_torch.end()
    counts, mistake = fake_torch.control.counts(), fake_torch.control.mistake()
    assert mistake is None, mistake
    left = {name: getattr(counts, name) for name in ("memory", "streams", "events", "registered", "contexts")}
    assert not any(left.values()), left
    print("done")
"""


@pytest.fixture
def run(driver, tmp_path):
    """Runs a script with that driver; at its end nothing is held, and no mistake was seen."""
    namespace = {"np": np}
    exec(ARRAYS, namespace)
    path = tmp_path / "model.safetensors"
    path.write_bytes(array_file(namespace["make"](np.random.default_rng(3))))

    def call(script: str, settings: str = "strict=0") -> None:
        body = "def main():\n" + textwrap.indent(textwrap.dedent(script), "    ") + "\nmain()\n"
        text = "import numpy as np\n" + ARRAYS + textwrap.dedent(PRELUDE) + body + textwrap.dedent(END)
        environment = {**os.environ, "LD_LIBRARY_PATH": str(driver), "COFFER_FAKE_DRIVER": settings}
        environment["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run([sys.executable, "-c", text, str(path)], env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stdout + done.stderr

    return call


def test_everything(run):
    run("""
        with coffer.load(path, "cuda:0") as load:
            found = dict(load)
            check(found)
            assert load.stats().done == sum(array.nbytes for array in arrays.values())
        check(found)  # and after its end
    """)


def test_memory_is_registered(run):
    run("""
        with coffer.load(path, "cuda") as load:
            check(dict(load))
        assert fake_torch.control.counts().pageable == 0
    """, "strict=1")


@pytest.mark.parametrize("settings", ["attributes=0", "attributes=3", "locked=4096"])
def test_less_able_devices(run, settings):
    run("""
        with coffer.load(path, 0) as load:
            check(dict(load))
    """, settings)


def test_parts_and_ranks(run):
    run("""
        plan = coffer.Plan(path).add("cube", (slice(3, 9), slice(1, 3))).shard("large", 1, 1, 4).add("matrix", 5)
        wanted = [arrays["cube"][3:9, 1:3], arrays["large"][:, 250:500], arrays["matrix"][5]]
        with coffer.load(plan, "cuda:0", order="plan") as load:
            for number in (2, 0, 1):
                tensor = load.take(number)
                assert tensor.shape == wanted[number].shape and tensor.tobytes() == wanted[number].tobytes(), number
    """)


def test_what_is_dropped_gives_its_memory_back(run):
    run("""
        load = coffer.load(path, "cuda:0")
        held = fake_torch.control.counts().bytes
        for name, tensor in load:
            del tensor
        assert fake_torch.control.counts().bytes < held - arrays["large"].nbytes
        load.close()
        other = coffer.load(path, "cuda:0")
        next(other)
        other.close()  # with the rest in progress
    """)


def test_prefetch(run):
    run("""
        with safe_open(path, "pt") as f:
            with f.prefetch({"large": slice(1, 700), "odd": None}, device="cuda:0") as loader:
                assert loader.take("large").tobytes() == arrays["large"][1:].tobytes()
                check(dict(loader), ["odd"])
            with f.prefetch(device=0) as first, f.prefetch(device=0) as second:
                check(dict(second))
                check(dict(first))
        found = safe_open(path, "pt", "cuda:0").get_tensors()
        assert list(found) == order
        check(found)
    """)


def test_memory_of_the_library_s_own(run):
    run("""
        device = _native.Device("cuda:0")
        assert device.describe()[:2] == ("cuda", 0)
        plan = _native.Plan(coffer.open(path)._model)
        plan.add("odd", device=device)
        plan.add("matrix", slice(1, 3), device=device)
        load = _native.Load(plan)
        memories = {number: memory for number, memory, _ in iter(load.next, None)}
        load.close()
        assert memories[0].device is device and memories[0].address > 0
        assert memories[0].tobytes() == arrays["odd"].tobytes() and memories[1].tobytes() == arrays["matrix"][1:3].tobytes()
        try:
            memoryview(memories[0])
        except BufferError as error:
            assert "device" in str(error)
        else:
            raise AssertionError("the host was given memory of the device")
    """)


def test_too_little_memory(run):
    run("""
        device = _native.Device("cuda:0")
        plan = _native.Plan(coffer.open(path)._model)
        plan.add("large", device=device)
        try:
            load = _native.Load(plan)
            load.wait()
        except MemoryError as error:
            assert error.code == "DEVICE_MEMORY" and error.expected >= arrays["large"].nbytes > error.actual, vars(error)
        else:
            raise AssertionError("it had room")
        load = None
    """, "memory=1000000")


def test_a_driver_that_fails(run):
    run("""
        fake_torch.control.break_call(b"cuMemcpyHtoDAsync_v2", 1, 1)
        try:
            with coffer.load(path, "cuda:0") as load:
                dict(load)
        except RuntimeError as error:
            assert error.code == "DEVICE", error
        else:
            raise AssertionError("nothing failed")
        with coffer.load(path, "cuda:0") as load:
            check(dict(load))
    """)


def test_ranks_that_load_to_one_device(driver, tmp_path):
    """Each byte is read once, as in host memory: what waits for the device holds up nobody."""
    rng = np.random.default_rng(5)
    array = rng.integers(0, 255, (1 << 18, 192), dtype=np.uint8)
    path = tmp_path / "model.safetensors"
    path.write_bytes(array_file({"a": array}))
    script = """
        import json, sys
        import numpy as np
        import fake_torch
        fake_torch.install()
        import coffer
        path, rank = sys.argv[1], int(sys.argv[2])
        staging = coffer.Staging(memory=4 << 20, ranks=3, rank=rank)
        plan = coffer.Plan(path).all(rank, 3, rules={"*": 1})
        with coffer.load(plan, "cuda:0", staging=staging) as load:
            found = dict(load)["a"]
            read = load.stats().read
        wanted = np.frombuffer(open(path, "rb").read()[-(192 << 18):], np.uint8).reshape(-1, 192)[:, 64 * rank : 64 * rank + 64]
        assert found.tobytes() == wanted.tobytes()
        print(read)
    """
    environment = {**os.environ, "LD_LIBRARY_PATH": str(driver), "COFFER_FAKE_DRIVER": "strict=0"}
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    ranks = [
        subprocess.Popen([sys.executable, "-c", textwrap.dedent(script), path, str(rank)], env=environment, stdout=subprocess.PIPE)
        for rank in range(3)
    ]
    read = [int(rank.communicate(timeout=120)[0]) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0, 0]
    assert array.nbytes <= sum(read) < 1.2 * array.nbytes
