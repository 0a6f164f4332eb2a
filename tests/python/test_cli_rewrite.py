# SPDX-License-Identifier: Apache-2.0
"""What align, rename, drop and cast write, compared with the same done by numpy and Python. What they say is in tests/golden."""

import json
import os
import pathlib
import signal
import subprocess

import numpy as np
import pytest
import terminal
from model_files import header_bytes, make

CLI = os.environ["COFFER_CLI"]
NUMPY = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "U8": "u1", "I64": "<i8"}


def run(*arguments, code=0):
    result = subprocess.run([CLI, *map(str, arguments)], capture_output=True, text=True, encoding="utf-8", timeout=60,
                            check=False)
    assert result.returncode == code, result.stderr
    return result


def tensors_of(path):
    """The file's bytes, taken apart by nothing but its header."""
    blob = path.read_bytes()
    size = int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8:8 + size])
    metadata = header.pop("__metadata__", None)
    return metadata, {
        name: (entry["dtype"], entry["shape"], blob[8 + size:][slice(*entry["data_offsets"])], 8 + size + entry["data_offsets"][0])
        for name, entry in header.items()}


def awkward_floats(count, seed=5):
    """Doubles with every kind of trouble for a smaller float: random bits of F32, and what lies around halves of steps."""
    random = np.random.default_rng(seed)
    bits = random.integers(0, 1 << 32, count, dtype=np.uint32)
    numbers = bits.view(np.float32).astype(np.float64)
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)
    with np.errstate(all="ignore"):
        steps = np.nextafter(halves, np.inf, dtype=np.float32).astype(np.float64)
        middles = halves * (1 + 2.0**-11)
        return np.concatenate([numbers, halves, steps, middles, np.nextafter(middles, np.inf), np.nextafter(middles, 0),
                               [65519.999, 65520.0, 1e-8, 2.0**-25, 2.0**-150, 5e-324, 1e300, -1e300, np.nan, -0.0]])


def to_bfloat16(singles):
    """Bits of the nearest BF16, of two that are as near the even one."""
    bits = singles.view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(singles), (bits >> 16).astype(np.uint16) | np.uint16(0x40), rounded)


def assert_same_floats(found, expected, nan):
    assert found.shape == expected.shape
    different = (found != expected) & ~(nan(found) & nan(expected))
    assert not different.any(), (found[different][:5], expected[different][:5])


@pytest.mark.parametrize("source", ["F32", "F64"])
@pytest.mark.parametrize("target", ["F16", "F32", "F64"])
def test_casts_are_those_of_numpy(source, target, tmp_path):
    path = tmp_path / "model.safetensors"
    with np.errstate(all="ignore"):
        numbers = awkward_floats(600_000).astype(NUMPY[source])
        expected = numbers.astype(NUMPY[target])
    make(path, {"x": (source, [len(numbers)], numbers.tobytes())})
    changes = json.loads(run("cast", "--in-place", path, f"*={target}", "--json").stdout)["changes"]
    dtype, _, body, _ = tensors_of(path)[1]["x"]
    found = np.frombuffer(body, NUMPY[target])
    bits = f"<u{found.itemsize}"
    assert dtype == target
    assert_same_floats(found.view(bits), expected.view(bits), lambda values: np.isnan(values.view(NUMPY[target])))
    if source != target:
        assert changes[0]["overflowed"] == np.count_nonzero(np.isinf(expected) & ~np.isinf(numbers))
        assert changes[0]["vanished"] == np.count_nonzero((expected == 0) & (numbers != 0))


def test_casts_to_bfloat16(tmp_path):
    path = tmp_path / "model.safetensors"
    with np.errstate(all="ignore"):
        singles = awkward_floats(600_000).astype("<f4")
    make(path, {"x": ("F32", [len(singles)], singles.tobytes())})
    run("cast", "--in-place", path, "*=BF16")
    found = np.frombuffer(tensors_of(path)[1]["x"][2], "<u2")
    assert_same_floats(found, to_bfloat16(singles), lambda bits: (bits & 0x7FFF) > 0x7F80)


@pytest.mark.parametrize("small", ["F16", "BF16"])
@pytest.mark.parametrize("wide", ["F32", "F64"])
def test_every_number_of_16_bits_comes_back(small, wide, tmp_path):
    path = tmp_path / "model.safetensors"
    codes = np.arange(1 << 16, dtype="<u2")
    make(path, {"x": (small, [256, 256], codes.tobytes())})
    run("cast", "--in-place", path, f"*={wide}")
    values = np.frombuffer(tensors_of(path)[1]["x"][2], NUMPY[wide])
    expected = codes.view("<f2") if small == "F16" else (codes.astype("<u4") << 16).view("<f4")
    with np.errstate(all="ignore"):
        assert_same_floats(values, expected.astype(NUMPY[wide]), np.isnan)
    run("cast", "--in-place", path, f"*={small}")
    found = np.frombuffer(tensors_of(path)[1]["x"][2], "<u2")
    assert_same_floats(found, codes, lambda bits: (bits & 0x7FFF) > (0x7C00 if small == "F16" else 0x7F80))


def scattered(path, count=3000):
    """A file of many tensors in an order that no writer would choose, at odd places."""
    random = np.random.default_rng(7)
    header, data = {"__metadata__": {"k": "v"}}, b""
    for i in random.permutation(count):
        dtype = ("U8", "F32", "I64", "F16")[i % 4]
        body = random.bytes(int(random.integers(0, 40)) * np.dtype(NUMPY[dtype]).itemsize)
        shape = [len(body) // np.dtype(NUMPY[dtype]).itemsize]
        header[f"layer.{i}.x"] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(body)]}
        data += body
    path.write_bytes(header_bytes(header, slack=3) + data)


def test_align_keeps_every_byte(tmp_path):
    path = tmp_path / "model.safetensors"
    scattered(path)
    metadata, before = tensors_of(path)
    run("align", "--in-place", path)
    assert tensors_of(path)[0] == metadata
    after = tensors_of(path)[1]
    assert {name: tensor[:3] for name, tensor in after.items()} == {name: tensor[:3] for name, tensor in before.items()}
    assert all(at % np.dtype(NUMPY[dtype]).itemsize == 0 for dtype, _, _, at in after.values())


def test_rename_and_drop_keep_every_other_byte(tmp_path):
    path = tmp_path / "model.safetensors"
    scattered(path)
    before = tensors_of(path)[1]
    run("rename", "--in-place", path, "layer.*.x=block.*")
    after = tensors_of(path)[1]
    assert {name: tensor[:3] for name, tensor in after.items()} == {
        name.replace("layer.", "block.").removesuffix(".x"): tensor[:3] for name, tensor in before.items()}
    run("drop", "--in-place", path, "block.*[13579]")
    left = tensors_of(path)[1]
    assert {name: tensor[:3] for name, tensor in left.items()} == {
        name: tensor[:3] for name, tensor in after.items() if int(name[-1]) % 2 == 0}


def test_mode_and_place_of_the_file_are_kept(tmp_path):
    path = tmp_path / "model.safetensors"
    make(path, {"a": ("U8", [3], b"abc"), "b": ("U8", [2], b"de")})
    path.chmod(0o604)
    (tmp_path / "link").symlink_to(path)
    run("drop", "-f", tmp_path / "link", "a")
    assert (tmp_path / "link").is_symlink() and path.stat().st_mode & 0o777 == 0o604
    assert list(tensors_of(path)[1]) == ["b"]
    assert sorted(os.listdir(tmp_path)) == ["link", "model.safetensors"]


def test_a_full_disk_leaves_the_old_file(tmp_path):
    path = tmp_path / "model.safetensors"
    make(path, {"a": ("F32", [1 << 16], bytes(1 << 18)), "b": ("U8", [1], b"x")})
    before = path.read_bytes()
    for command in (["drop", "-f", path, "b"], ["cast", "-f", path, "a=F64"], ["rename", "-f", path, "a=" + 3000 * "c"]):
        # The limit on a file's size stands in for the disk; in shells it raises a signal, which is ignored here.
        result = subprocess.run(["bash", "-c", 'trap "" XFSZ; ulimit -f 100; exec "$@"', "bash", CLI, *map(str, command)],
                                capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == 3 and "model.safetensors: " in result.stderr
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["model.safetensors"]


def stopped_while_writing(command, folder):
    """Runs a command and stops it while the new file has no name yet; None when it was too fast for that."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while process.poll() is None:
        if writes_unnamed(process.pid, folder):
            process.send_signal(signal.SIGSTOP)
            os.waitpid(process.pid, os.WUNTRACED)
            if writes_unnamed(process.pid, folder):
                return process
            process.send_signal(signal.SIGCONT)
            break
    process.communicate(timeout=60)
    return None


def writes_unnamed(pid, folder):
    """Whether a process has a file in a folder that is not complete: one without a name, or under a temporary one."""
    opened = []
    for descriptor in list(pathlib.Path(f"/proc/{pid}/fd").glob("*")):
        try:
            opened.append(os.readlink(descriptor))
        except OSError:
            pass  # it was closed meanwhile
    return any(path.startswith(f"{folder}/") and (path.endswith("(deleted)") or ".coffer-" in path) for path in opened)


@pytest.mark.parametrize("arguments", [["cast", "x=F16"], ["rename", "x=z", "--digest", "xxh3"], ["drop", "y"], ["align"]])
def test_what_somebody_saved_meanwhile_stays(tmp_path, arguments):
    path, newer = tmp_path / "model.safetensors", tmp_path / "newer"
    count = 4_000_001
    verb, *rest = arguments
    for _ in range(50):
        make(path, {"y": ("U8", [1], b"1"), "x": ("F32", [count], bytes(4 * count))})
        make(newer, {"x": ("F32", [1], b"1234")})
        saved = newer.read_bytes()
        process = stopped_while_writing([CLI, verb, "-f", str(path), *rest], tmp_path)
        if process is not None:
            break
    assert process is not None
    newer.rename(path)
    process.send_signal(signal.SIGCONT)
    _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "it was left as it is" in said
    assert path.read_bytes() == saved
    assert os.listdir(tmp_path) == ["model.safetensors"]


def in_terminal(keys, *arguments):
    """Types `keys` when the question comes."""
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    return terminal.run([CLI, *map(str, arguments)], 200, keys={b"[y/N] ": keys}, env=environment)


@pytest.fixture(name="layers")
def fixture_layers(tmp_path):
    path = tmp_path / "model.safetensors"
    make(path, {f"layers.{i}.weight": ("U8", [2], b"ab") for i in range(30)})
    return path


@pytest.mark.parametrize("answer", [b"\n", b"n\n", b"no\n", b"yesterday\n", b"\x04"])
def test_a_terminal_is_asked_and_anything_but_yes_is_no(answer, layers):
    before = layers.read_bytes()
    code, said = in_terminal(answer, "drop", layers, "*.1*", "-q")
    assert code == 1
    assert "layers.#.weight × 11: dropped\n" in said
    assert "11 of 30 tensors dropped: layers.1.weight, layers.10.weight, layers.11.weight and 8 more" in said
    assert said.endswith(f"coffer: {layers}: left as it is\n")
    assert layers.read_bytes() == before


@pytest.mark.parametrize("answer", [b"y\n", b"YES\n"])
@pytest.mark.parametrize(("verb", "rule", "left"), [("drop", "*.1*", 19), ("cast", "*.1?.*=F32", None),
                                                    ("rename", "layers.*=blocks.*", 30)])
def test_a_terminal_that_says_yes_has_it_done(answer, verb, rule, left, layers):
    if verb == "cast":
        make(layers, {f"layers.{i}.weight": ("F16", [1], b"ab") for i in range(30)})
    code, said = in_terminal(answer, verb, layers, rule)
    assert code == 0 and (" edited in place: " if verb == "rename" else " written: ") in said
    tensors = tensors_of(layers)[1]
    assert len(tensors) == (left or 30)
    assert all(("layers.1" not in name) if verb == "drop" else name.startswith("blocks." if verb == "rename" else "layers.")
               for name in tensors)


def test_a_long_list_of_changes_is_cut_before_the_question(layers):
    make(layers, {chr(ord("A") + i): ("U8", [2], b"ab") for i in range(30)})
    code, said = in_terminal(b"n\n", "drop", layers, "*")
    assert code == 1
    assert said.count(": dropped\n") == 20
    assert "30 of 30 tensors dropped" in said


def test_nobody_is_asked_who_has_said_so_or_changes_nothing(layers):
    code, said = in_terminal(b"n\n", "rename", layers, "*=*")
    assert code == 0 and "[y/N]" not in said
    code, said = in_terminal(b"n\n", "drop", layers, "*.2*", "--in-place")
    assert code == 0 and "[y/N]" not in said
    code, said = in_terminal(b"n\n", "drop", layers, "*.1", "-f", "-o", layers.with_name("other"))
    assert "[y/N]" not in said


def test_an_interrupted_question_leaves_the_file(layers):
    before = layers.read_bytes()
    code, said = in_terminal(b"\x03", "drop", layers, "*.1*")
    assert code == -signal.SIGINT
    assert "written" not in said and layers.read_bytes() == before
    assert os.listdir(layers.parent) == ["model.safetensors"]


def test_a_read_only_file_of_this_user_is_replaced_with_force_only(layers):
    """As nobody, whom no right helps: the in-place ways cannot open it to write."""
    layers.chmod(0o444)
    os.chown(layers, 65534, 65534)
    layers.parent.chmod(0o777)
    for folder in layers.parents[1:4]:
        folder.chmod(folder.stat().st_mode | 0o055)

    def as_nobody(*arguments):
        return subprocess.run([CLI, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False,
                              user=65534 if os.geteuid() == 0 else None)

    for command in (["meta", layers, "--set", "a=b"], ["hash", "--write", layers], ["drop", layers, "layers.0.*", "--in-place"]):
        result = as_nobody(*command)
        assert (result.returncode, "read-only" in result.stderr) == (3, True)
        result = as_nobody(*command, "-f")
        assert result.returncode == 0, result.stderr
        assert layers.stat().st_mode & 0o777 == 0o444
    metadata, tensors = tensors_of(layers)
    assert metadata["a"] == "b" and len(tensors) == 29
