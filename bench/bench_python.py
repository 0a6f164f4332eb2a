# SPDX-License-Identifier: Apache-2.0
"""The Python package beside the references', in turns in one process: the rows of tools/assurance/bench.sh.

    bench_python.py FOLDER [quick]

A row's figures are medians; its ratio says how many times as good ours is. Peak memory is that of a process of its own for
each, above what it has when the packages are imported.

What a call leaves behind can cost the next one: memory that was freed comes back slowly where a virtual machine had given it to
its host, and a file that is replaced is waited for while the system writes it. In turns, one package pays for the other; rows that
say "after itself" run each untimed ahead of its timed run, and give each a file of its own.
"""

from __future__ import annotations

import gc
import itertools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import bintensors
import numpy as np
import safetensors
import safetensors.numpy

import coffer
import coffer.bintensors
import coffer.numpy
from coffer.compat.safetensors import safe_open

FOLDER = Path(sys.argv[1])
QUICK = sys.argv[2:3] == ["quick"]
GB = 20_000_000 if QUICK else 1_000_000_000
ROUNDS = 3 if QUICK else 9

GPT2, EXPERTS, LORA, TINY, LARGE, NEW = (FOLDER / f"python-{n}.safetensors" for n in ("gpt2", "experts", "lora", "tiny", "large", "new"))
BINTENSORS = FOLDER / "python.bt"
Task = Callable[[], object]


# ---- Files ------------------------------------------------------------------------------------------------------------


def gpt2() -> Iterator[tuple[str, tuple[int, ...]]]:
    width, layers = (64, 12) if QUICK else (768, 12)
    yield "wte.weight", (50257, width)
    yield "wpe.weight", (1024, width)
    for i in range(layers):
        yield f"h.{i}.attn.bias", (1, 1, width, width)
        for name, shape in {
            "ln_1.weight": (width,), "ln_1.bias": (width,), "attn.c_attn.weight": (width, 3 * width), "attn.c_attn.bias": (3 * width,),
            "attn.c_proj.weight": (width, width), "attn.c_proj.bias": (width,), "ln_2.weight": (width,), "ln_2.bias": (width,),
            "mlp.c_fc.weight": (width, 4 * width), "mlp.c_fc.bias": (4 * width,), "mlp.c_proj.weight": (4 * width, width),
            "mlp.c_proj.bias": (width,),
        }.items():  # fmt: skip
            yield f"h.{i}.{name}", shape
    yield "ln_f.weight", (width,)
    yield "ln_f.bias", (width,)


def experts() -> Iterator[tuple[str, tuple[int, ...]]]:
    """92,000 small tensors."""
    layers = 2 if QUICK else 60
    for layer in range(layers):
        for expert in range(256):
            for part in ("down_proj", "gate_proj", "up_proj"):
                for what in ("weight", "weight_scale_inv"):
                    yield f"model.layers.{layer}.mlp.experts.{expert}.{part}.{what}", (2,)


def lora() -> Iterator[tuple[str, tuple[int, ...]]]:
    for layer in range(125):
        for part in ("q", "k", "v", "o"):
            yield f"base_model.model.model.layers.{layer}.self_attn.{part}_proj.lora_A.weight", (8, 256)
            yield f"base_model.model.model.layers.{layer}.self_attn.{part}_proj.lora_B.weight", (256, 8)


def many_tiny() -> Iterator[tuple[str, tuple[int, ...]]]:
    for i in range(2000):
        yield f"layer.{i}.w", (16,)


def layers() -> Iterator[tuple[str, tuple[int, ...]]]:
    """4,500 tensors of 16 KB."""
    for layer in range(20 if QUICK else 500):
        for part in "self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.o_proj mlp.gate mlp.up mlp.down norm_1 norm_2".split():
            yield f"model.layers.{layer}.{part}.weight", (64, 64)


def large() -> Iterator[tuple[str, tuple[int, ...]]]:
    """1 GB in ten tensors, so that there is work for more than one thread."""
    for i in range(10):
        yield f"layer.{i}", (GB // 40_000, 1000)


def block() -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "wide", (GB // 40_000, 10_000)


def make(path: Path, tensors: Iterator[tuple[str, tuple[int, ...]]], format: str | None = None) -> None:
    declared = {name: ("F32", shape) for name, shape in tensors}
    random = np.random.default_rng(1).random(1 << 22, dtype=np.float32).view(np.uint8)
    with coffer.Writer(path, declared, format=format) as writer:
        for name, (_, shape) in declared.items():
            size = 4 * int(np.prod(shape))
            for at in range(0, size, random.size):
                writer.write(name, random[: min(random.size, size - at)], at)


# ---- Measuring --------------------------------------------------------------------------------------------------------


def seconds(task: Task, times: int) -> float:
    """Of one call, as the mean of so many. What a call returns is released within its time."""
    gc.collect()
    start = time.perf_counter()
    for _ in range(times):
        task()
    return (time.perf_counter() - start) / times


def row(what: str, unit: str, ours: float, other: str, others: float, state: str = "") -> None:
    print("ROW", what, unit, f"{ours:g}", other, f"{others:g}", f"{others / ours:g}", state, sep="\t", flush=True)


def compare(
    what: str,
    ours: Task,
    theirs: Task,
    before: Task = lambda: None,
    rounds: int = ROUNDS,
    other: str = "safetensors",
    after_itself: bool = False,
    state: str = "cached",
    bound: float = 0,
) -> None:
    """A row of milliseconds, with `before` ahead of each, untimed; `bound` is what its ratio should be at least, if that is said."""
    taken: tuple[list[float], list[float]] = ([], [])
    times = []
    for task in (ours, theirs):
        before()
        task()
        before()
        times.append(max(1, int(0.02 / seconds(task, 1))))
    for _ in range(rounds):
        for task, count, figures in zip((ours, theirs), times, taken, strict=True):
            before()
            if after_itself:
                task()
            figures.append(seconds(task, count))
    if after_itself:
        state += ", after itself"
    state += f"; should be {bound:.2f}" if bound else ""
    row(what, "ms", 1e3 * statistics.median(taken[0]), other, 1e3 * statistics.median(taken[1]), state)


def compare_each(what: str, path: Path, ours: Task, theirs: Task, least: Callable[[], object]) -> None:
    """Rows of microseconds a tensor: what a task takes longer than opening the file and listing its names; and beside `least`, the
    least that the framework takes to make one."""
    count = len(coffer.open(path))
    pairs = ((ours, keys(safe_open, path)), (theirs, keys(safetensors.safe_open, path)))
    figures = []
    for whole, opened in pairs:
        whole()
        rounds = [seconds(whole, 20) - seconds(opened, 20) for _ in range(ROUNDS)]
        figures.append(1e6 * statistics.median(rounds) / count)
    row(what, "µs a tensor", figures[0], "safetensors", figures[1], "cached")
    made = 1e6 * statistics.median(seconds(lambda: [least() for _ in range(count)], 20) for _ in range(ROUNDS)) / count
    row(what, "µs a tensor", figures[0], "torch.empty(0)", made, "cached")


PEAK = """
import json, sys
import numpy, safetensors, safetensors.numpy, coffer, coffer.numpy
{imports}
def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
before = peak()
{code}
print((peak() - before) / 1000)
"""


def peak(code: str, imports: str = "") -> float:
    command = [sys.executable, "-c", PEAK.format(code=code, imports=imports)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def compare_peak(what: str, ours: str, theirs: str, imports: str = "") -> None:
    """A row of megabytes; the file's pages that a map shows count as ours."""
    figures = max(peak(ours, imports), 0.1), peak(theirs, imports)  # lazy ones may need nothing at all
    row(f"{what}: peak memory", "MB", figures[0], "safetensors", figures[1])


FRESH = """
import ctypes, os, sys, time
path, package, small_pages = sys.argv[1:4]
if small_pages == "yes":
    ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE
import numpy
if package == "coffer":
    import coffer, coffer.numpy as files
    from coffer.compat.safetensors import safe_open
    load = lambda framework: dict(coffer.load(path, framework=framework))
else:
    import safetensors.numpy as files
    from safetensors import safe_open
    load = lambda framework: getattr(safetensors, framework).load_file(path)
{before}
start = time.perf_counter()
{code}
print(time.perf_counter() - start)
"""


# Nothing of the file is in the page cache, which reads that must not wait prove; of some file systems they cannot be asked for.
EVICT = """
file = os.open(path, os.O_RDONLY)
def is_cached(at):
    try:
        return os.preadv(file, [bytearray(4096)], at, os.RWF_NOWAIT) > 0
    except OSError:
        return False
for _ in range(10):
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    if not any(is_cached(at) for at in range(0, os.fstat(file).st_size, 1 << 24)):
        break
    time.sleep(0.1)
else:
    sys.exit("the file stays in the page cache")
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
os.close(file)
"""


def compare_fresh(
    what: str, path: Path, code: str, before: str = "", small_pages: bool = False, cold: bool = False, bound: float = 0
) -> None:
    """A row of milliseconds, each of a process of its own, in pairs that change places; the ratio is the median of the pairs', and
    `bound` what it should be at least, if that is said."""
    if cold:
        before += EVICT
    program = FRESH.format(before=before, code=code)
    taken: dict[str, list[float]] = {"coffer": [], "safetensors": []}
    for i in range(ROUNDS + 1):
        for package in sorted(taken, reverse=i % 2 == 1):
            command = [sys.executable, "-c", program, str(path), package, "yes" if small_pages else "no"]
            seconds_taken = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            if i > 0:  # the first pair is for the cache
                taken[package].append(seconds_taken)
    ratio = statistics.median(b / a for a, b in zip(*taken.values(), strict=True))
    ours, theirs = (1e3 * statistics.median(figures) for figures in taken.values())
    state = f"{'cold' if cold else 'cached'}, fresh processes{', no huge pages' if small_pages else ''}"
    state += f"; should be {bound:.2f}" if bound else ""
    print("ROW", what, "ms", f"{ours:g}", "safetensors", f"{theirs:g}", f"{ratio:g}", state, sep="\t", flush=True)


# ---- The rows ---------------------------------------------------------------------------------------------------------


def keys(package: type, path: Path) -> Task:
    def task() -> object:
        with package(path, framework="np") as file:
            return file.keys()

    return task


def opening() -> None:
    make(GPT2, gpt2())
    make(EXPERTS, experts())
    for name, path, tensors in (("GPT-2, 160 tensors", GPT2, gpt2()), ("experts, 92,000 tensors", EXPERTS, experts())):
        compare(f"Python: safe_open and keys, {name}", keys(safe_open, path), keys(safetensors.safe_open, path))
        make(BINTENSORS, tensors, "bintensors")
        theirs = keys(bintensors.safe_open, BINTENSORS)
        compare(f"Python: our safetensors, {name}", keys(safe_open, path), theirs, other="bintensors")
        compare(f"Python: our bintensors, {name}", keys(coffer.bintensors.safe_open, BINTENSORS), theirs, other="bintensors")


def total(arrays: dict[str, np.ndarray]) -> float:
    return sum(float(array.sum()) for array in arrays.values())


def lazily(path: Path) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in coffer.open(path).items()}


def loading() -> None:
    make(LARGE, large())
    theirs = safetensors.numpy.load_file
    ours = coffer.numpy.load_file
    compare("Python: numpy load_file, 1 GB", lambda: ours(LARGE), lambda: theirs(LARGE), after_itself=True)
    compare("Python: numpy load_file, 1 GB, in turns", lambda: ours(LARGE), lambda: theirs(LARGE))
    compare("Python: coffer.open, views of 1 GB", lambda: lazily(LARGE), lambda: theirs(LARGE))
    compare("Python: the same, and every byte summed", lambda: total(lazily(LARGE)), lambda: total(theirs(LARGE)))
    path = repr(str(LARGE))
    compare_peak("Python: numpy load_file, 1 GB", f"x = coffer.numpy.load_file({path})", f"x = safetensors.numpy.load_file({path})")
    compare_peak(
        "Python: coffer.open, views of 1 GB",
        f"x = [t.numpy() for t in coffer.open({path}).values()]",
        f"x = safetensors.numpy.load_file({path})",
    )


def never_slower() -> None:
    """What was slower than the reference once, in pairs of fresh processes."""
    make(LARGE, large())
    for small_pages in (False, True):
        compare_fresh("Python: numpy load_file, 1 GB", LARGE, "x = files.load_file(path)", small_pages=small_pages)
        pread = 'x = files.load_file(path, backend="pread")'
        compare_fresh("Python: numpy load_file, 1 GB, pread", LARGE, pread, small_pages=small_pages)
    compare_fresh("Python: numpy load_file, 1 GB, pread", LARGE, 'x = files.load_file(path, backend="pread")', cold=True)
    LARGE.unlink()
    loop = "for _ in range(3):\n    for name in names:\n        file.get_tensor(name)"
    for size in (1 << 16, 1 << 20, 1 << 22, 1 << 24):
        count = max(2, min(GB // 8 // size, 512))
        make(LARGE, ((f"layer.{i}", (size // 4,)) for i in range(count)))
        for backend in ("mmap", "pread"):
            before = f'file = safe_open(path, "np", backend="{backend}"); names = file.keys()'
            compare_fresh(f"Python: get_tensor, {count} of {size >> 10} KB, {backend}", LARGE, loop, before)


def loads() -> None:
    """coffer.load beside the reference's load_file, of which every page is touched: torch's tensors are views of a map there."""
    touch = "for tensor in tensors.values(): tensor.reshape(-1)[::1024].sum()"
    for count in (1, 160, 1000, 20_000):
        make(LARGE, ((f"layer.{i}", (GB // 4000 // count, 1000)) for i in range(count)))
        os.sync()
        for framework in ("numpy", "torch"):
            before = f"import safetensors.{framework}" + ("; torch = safetensors.torch.torch; torch.set_num_threads(1)" if framework == "torch" else "")
            code = f"tensors = load({framework!r})\n{touch}"
            what = f"Python: coffer.load of 1 GB for {framework}, {count} tensor{'s' * (count > 1)}"
            compare_fresh(what, LARGE, code, before, cold=True, bound=1.2)
            if count == 1000:
                compare_fresh(what, LARGE, code, before, bound=1)
    import safetensors.torch

    for size, rows in (("64 KB", 64), ("1 MB", 1000), ("3 MB", 3000)):
        make(TINY, iter([("x", (rows, 250))]))
        for framework, files in (("numpy", safetensors.numpy), ("torch", safetensors.torch)):
            what = f"Python: coffer.load of {size} for {framework}"
            compare(what, lambda: coffer.load(TINY, framework=framework).dict(), lambda: files.load_file(TINY), bound=1)
    make(TINY, iter([("x", (1000, 250))]))
    compare("Python: numpy load_file of 1 MB", lambda: coffer.numpy.load_file(TINY), lambda: safetensors.numpy.load_file(TINY))


def small_slices() -> None:
    make(GPT2, gpt2())
    for what, index in (("a row", np.s_[3]), ("two rows", np.s_[3:5]), ("a corner", np.s_[3:5, 10:20])):
        ours, theirs = (package(GPT2, framework="np").get_slice("wpe.weight") for package in (safe_open, safetensors.safe_open))
        compare(f"Python: get_slice of {what}", lambda: ours[index], lambda: theirs[index])
    # What a call costs, whatever it reads.
    make(TINY, many_tiny())
    ours, theirs = (package(TINY, framework="np") for package in (safe_open, safetensors.safe_open))
    names = ours.keys()
    each = lambda file: [file.get_slice(name)[2:9] for name in names]  # noqa: E731
    compare("Python: get_slice of 28 bytes, 2000 times", lambda: each(ours), lambda: each(theirs))
    whole = lambda file: [file.get_tensor(name) for name in names]  # noqa: E731
    compare("Python: get_tensor of 64 bytes, 2000 times", lambda: whole(ours), lambda: whole(theirs))


def layer_weights() -> Iterator[tuple[str, tuple[int, ...]]]:
    """723 tensors of 256 KiB."""
    for i in range(48 if QUICK else 723):
        yield f"layers.{i}.weight", (256, 256)


def each_slice(package: type, framework: str, backend: str, index: object, busy: float) -> Task:
    """What loaders do: a slice of one tensor after the other, each of which is touched; and they do something else for so many seconds."""

    def task() -> None:
        with package(LARGE, framework, backend=backend) as file:
            for name in file.keys():
                file.get_slice(name)[index].reshape(-1)[::1024].sum()
                until = time.perf_counter() + busy
                while time.perf_counter() < until:
                    pass

    return task


def evict() -> None:
    exec(EVICT, {"os": os, "path": LARGE, "sys": sys, "time": time})


def loops_of_slices() -> None:
    """What was slower than the reference once: each of frameworks, backends, slices, and states of the cache and the consumer."""
    import torch

    torch.set_num_threads(1)
    make(LARGE, layer_weights())
    os.sync()
    indices = {"[a:b]": np.s_[64:128], "[:, a:b]": np.s_[:, 64:128], "[:]": np.s_[:]}
    states = {"cached": (lambda: None, 0), "cold": (evict, 0), "cached, consumer busy": (lambda: None, 200e-6)}
    for framework, backend, (what, index), (state, (before, busy)) in itertools.product(
        ("np", "pt"), ("mmap", "pread"), indices.items(), states.items()
    ):
        ours, theirs = (each_slice(package, framework, backend, index, busy) for package in (safe_open, safetensors.safe_open))
        compare(f"Python: get_slice in a loop, {framework}, {backend}, {what}", ours, theirs, before, state=state)


def column(package: type) -> Task:
    def task() -> object:
        with package(LARGE, framework="np", backend="pread") as file:
            return file.get_slice("wide")[:, 1000:1100]

    return task


def slicing() -> None:
    make(LARGE, block())
    compare("Python: get_slice of a column block of 1 GB, pread", column(safe_open), column(safetensors.safe_open))
    code = f"x = {{}}({str(LARGE)!r}, framework='np', backend='pread').get_slice('wide')[:, 1000:1100]"
    compare_peak(
        "Python: get_slice of a column block",
        code.format("coffer.compat.safetensors.safe_open"),
        code.format("safetensors.safe_open"),
        "import coffer.compat.safetensors",
    )


def given_up() -> None:
    """Waits for the thread that gives up what ours replaced without waiting: the other is not to pay for it."""
    while f"{NEW} (deleted)" in Path("/proc/self/maps").read_text():
        time.sleep(0.001)


def on_the_disk() -> None:
    given_up()
    os.sync()


def saving() -> None:
    tensors = {"data": np.ones(GB // 4, np.float32)}
    remove = lambda: NEW.unlink(missing_ok=True)  # noqa: E731
    theirs = lambda path=NEW: safetensors.numpy.save_file(tensors, path)  # noqa: E731
    rounds = max(3, ROUNDS // 2)
    compare("Python: save_file of 1 GB to a new path", lambda: coffer.numpy.save_file(tensors, NEW), theirs, remove, rounds)
    tiny = {"data": np.ones(16, np.float32)}
    for sync in ("replace", "never"):
        ours = lambda sync=sync: coffer.numpy.save_file(tiny, NEW, sync=sync)  # noqa: E731
        compare(f"Python: save_file of 64 bytes over a file, sync={sync}", ours, lambda: safetensors.numpy.save_file(tiny, NEW), rounds=rounds)
    remove()
    over = lambda sync: lambda: coffer.numpy.save_file(tensors, NEW, sync=sync)  # noqa: E731
    theirs()
    compare("Python: save_file of 1 GB over a file, durable", over("replace"), theirs, rounds=rounds)
    not_synced = "Python: save_file of 1 GB not synced, over"
    compare(f"{not_synced} the last one", over("never"), lambda: theirs(LARGE), rounds=rounds, after_itself=True)
    LARGE.unlink()
    compare(f"{not_synced} a file on the disk", over("never"), theirs, on_the_disk, rounds)
    compare(f"{not_synced} the other's, in turns", over("never"), theirs, given_up, rounds)
    made = f"t = {{'data': numpy.ones({GB // 4}, numpy.float32)}}; b = peak(); before = b"
    compare_peak(
        "Python: save_file of 1 GB",
        f"{made}; coffer.numpy.save_file(t, {str(NEW)!r}, sync='never')",
        f"{made}; safetensors.numpy.save_file(t, {str(NEW)!r})",
    )


def torch_rows() -> None:
    import safetensors.torch
    import torch

    import coffer.torch

    torch.set_num_threads(1)
    make(GPT2, gpt2())
    make(LORA, lora())
    for name, path in (("GPT-2, 160 tensors", GPT2), ("LoRA, 1,000 tensors", LORA)):
        ours, theirs = coffer.torch.load_file, safetensors.torch.load_file
        beyond = f"Python: torch load_file beyond opening, {name}"
        compare_each(beyond, path, lambda: ours(path), lambda: theirs(path), lambda: torch.empty(0))
        compare(f"Python: torch load_file, {name}", lambda: ours(path), lambda: theirs(path))
        compare_peak(
            f"Python: torch load_file, {name}",
            f"x = coffer.torch.load_file({str(path)!r})",
            f"x = safetensors.torch.load_file({str(path)!r})",
            "import torch, coffer.torch, safetensors.torch",
        )


def torch_loads() -> None:
    import safetensors.torch
    import torch

    import coffer.torch

    torch.set_num_threads(1)
    for count, size in ((5000, 32), (1000, 1 << 14), (8, 1 << 24)):
        content = safetensors.torch.save({f"t{i}": torch.ones(size // 4) for i in range(count if not QUICK else count // 8)})
        compare(f"Python: torch.load of bytes, {count} tensors of {size} bytes", lambda: coffer.torch.load(content), lambda: safetensors.torch.load(content))


def lazy_tensors() -> None:
    """What an engine's weight loader does with each tensor: it copies a part of it into its parameter. Beside tensors that view a map."""
    import torch

    from coffer.adapters.lazy_tensors import Weights

    torch.set_num_threads(1)
    make(TINY, layers())
    parameter = torch.zeros(16, 64)

    def ours() -> None:
        with Weights([TINY]) as weights:
            for _, tensor in weights:
                parameter.copy_(tensor.narrow(0, 16, 16))

    def theirs() -> None:
        with safetensors.safe_open(TINY, framework="pt") as file:
            for name in file.keys():
                parameter.copy_(file.get_tensor(name).narrow(0, 16, 16))

    ours()  # torch imports what it needs for that
    count = len(coffer.open(TINY))
    taken = [[1e6 * seconds(task, 1) / count for task in (ours, theirs)] for _ in range(ROUNDS)]
    figures = [statistics.median(times) for times in zip(*taken, strict=True)]
    row("Python: a part of a lazy tensor, copied", "µs a tensor", figures[0], "get_tensor of safetensors", figures[1], "cached; should be at most 60 µs")


def main() -> None:
    only = os.environ.get("COFFER_BENCH_ONLY")
    try:
        for part in (opening, torch_rows, torch_loads, loading, loads, never_slower, loops_of_slices, slicing, small_slices, lazy_tensors, saving):
            if only in (None, part.__name__):
                part()
    finally:
        for path in (GPT2, EXPERTS, LORA, TINY, LARGE, NEW, BINTENSORS):
            path.unlink(missing_ok=True)


main()
