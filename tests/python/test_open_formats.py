# SPDX-License-Identifier: Apache-2.0
"""Files of other programs that are opened as models: every tensor, and every slice of it, is that of the file that convert makes
of it; and what convert refuses is refused, in the same words. One good file of each reader, and every attack on it.

The fuzz targets of the readers compare the same byte by byte, for all of their corpora. Needs COFFER_CLI.
"""

import json
import os
import random
import struct
import subprocess
import zipfile

import make_attacks
import pytest

CLI = os.environ["COFFER_CLI"]
# What a model is opened with: what cannot be read as numbers is left out, and the rest is read as such.
AS_OPENED = ["--skip-unsupported", "--packed", "--dequantize", "f32"]
# Where it is not clear which part of a file is the model, all of it is opened; what has no tensors is no model, and is refused as
# what it is instead of a file of tensors.
OPENED_OTHERWISE = ("--root", "not a safetensors file", "header")


def run(*arguments):
    return subprocess.run([CLI, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)


def listed(path):
    return json.loads(run("ls", "--json", path).stdout)["tensors"]


def some_slice(numbers, shape):
    """A slice of the shape, as the command takes it."""
    texts = []
    for size in shape:
        start, stop = sorted((numbers.randint(0, size), numbers.randint(0, size)))
        texts.append(numbers.choice((":", f"{start}:{stop}", f"{start}:{stop}:2", f"{-size}:")))
    return f"[{', '.join(texts)}]"


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Paths of good files, and of what they are converted to."""
    folder = tmp_path_factory.mktemp("good")
    found = []
    for i, (called, content) in enumerate(make_attacks.good_files()):
        path = folder / f"{i}-{called}"
        path.write_bytes(content)
        converted = folder / f"{i}.safetensors"
        result = run("convert", *AS_OPENED, "--tied", "keep", path, "-o", converted)
        if result.returncode == 0:  # the others have files beside them, or parts of which one is to be named
            found.append((path, converted))
    assert len(found) > 12
    return found


def test_they_are_what_they_are_converted_to(good):
    for path, converted in good:
        result = run("diff", "--json", path, converted)
        assert result.returncode in (0, 1), (path, result)
        assert json.loads(result.stdout)["tensors"] == [], (path, result)
        plain = {tensor["name"]: (tensor["dtype"], tensor["shape"], tensor["size"]) for tensor in listed(converted)}
        assert {tensor["name"]: (tensor["dtype"], tensor["shape"], tensor["size"]) for tensor in listed(path)} == plain, path


def test_slices_are_those_of_the_whole(good):
    numbers = random.Random(32)
    for path, converted in good:
        tensors = [tensor for tensor in listed(converted) if tensor["dtype"] not in ("F4", "F6_E2M3", "F6_E3M2")]
        for tensor in tensors[:4]:
            for _ in range(3):
                wanted = tensor["name"] + some_slice(numbers, tensor["shape"])
                mine, whole = run("get", path, wanted), run("get", converted, wanted)
                assert (mine.returncode, mine.stdout) == (whole.returncode, whole.stdout), (path, wanted, mine, whole)


def test_how_they_are_stored_is_said(good):
    for path, _ in good:
        for tensor in listed(path):
            stored = tensor["stored"]
            assert stored["type"], path
            assert not (stored["mapped"] and (stored["gathered"] or stored["changed"] or stored["decoded"])), (path, tensor)


def test_hashes_of_content_are_those_of_what_they_become(good):
    compared = 0
    for path, converted in good:
        mine, whole = run("hash", "--content", path), run("hash", "--content", converted)
        assert mine.returncode == 0, path
        if run("meta", path).stdout == run("meta", converted).stdout:
            assert mine.stdout.split()[0] == whole.stdout.split()[0], path
            compared += 1
    assert compared > 5


def test_attacks_fail_as_they_fail_to_be_converted(tmp_path):
    others = 0
    for i, (called, content) in enumerate(make_attacks.attacks()):
        path = tmp_path / f"{i}-{called}"
        path.write_bytes(content)
        plan, opened = run("convert", "-n", *AS_OPENED, path), run("ls", path)
        assert opened.returncode >= 0, (called, opened)  # no signal ended it
        if plan.returncode == 0 or any(text in plan.stderr + opened.stderr for text in OPENED_OTHERWISE):
            others += 1
        else:
            assert opened.returncode > 0 and opened.stderr == plan.stderr, (called, plan, opened)
        path.unlink()
    assert others < i / 3


def test_a_flipped_bit_is_not_sound(tmp_path):
    """What an archive records of its members is compared, although reading one does not need it."""
    good, bad = tmp_path / "good.npz", tmp_path / "bad.npz"
    with zipfile.ZipFile(good, "w") as archive:
        head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (64,), }".ljust(117) + b"\n"
        archive.writestr("a.npy", b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + struct.pack("<64f", *range(64)))
    content = bytearray(good.read_bytes())
    content[content.index(struct.pack("<f", 40))] ^= 1
    bad.write_bytes(content)
    assert run("doctor", "--data", good).stdout.startswith(f"{good}: sound\n")
    assert run("doctor", bad).stdout.startswith(f"{bad}: sound by its headers\n")
    result = run("doctor", "--data", bad)
    assert result.returncode == 1 and "CRC-32" in result.stdout and "sound" not in result.stdout
