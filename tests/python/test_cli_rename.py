# SPDX-License-Identifier: Apache-2.0
"""coffer rename, compared with other programs' idea of it: Python's re and sed for expressions, a dict for tables, lists and maps.
Every kind of rule on a file, in its header and as a copy, on several files, shard by shard and divided again."""

import itertools
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess

import pytest

CLI = os.environ["COFFER_CLI"]


def make(path, tensors, slack=0):
    """tensors: name to bytes, of U8."""
    at, header = 0, {}
    for name, data in tensors.items():
        header[name] = {"dtype": "U8", "shape": [len(data)], "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode() + b" " * slack
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(tensors.values()))
    return path


def read(path):
    """Name to bytes, in the order of the data."""
    raw = path.read_bytes()
    size = struct.unpack_from("<Q", raw)[0]
    header = json.loads(raw[8:8 + size])
    header.pop("__metadata__", None)
    data = raw[8 + size:]
    return {name: data[slice(*entry["data_offsets"])]
            for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"])}


def read_all(path):
    """The same of a file, or of all files of a folder, whose index has to agree."""
    if path.is_file():
        return read(path)
    index = json.loads((path / "model.safetensors.index.json").read_bytes())["weight_map"]
    found = {}
    for file in sorted(set(index.values())):
        tensors = read(path / file)
        assert set(tensors) == {name for name, where in index.items() if where == file}
        found |= tensors
    return found


def run(*arguments, **options):
    return subprocess.run([CLI, *map(str, arguments)], capture_output=True, text=True, timeout=100, check=False, **options)


NAMES = [*(f"model.layers.{i}.{part}.weight" for i in (0, 1, 2, 10, 11) for part in ("self_attn.q_proj", "mlp.up")),
         "model.embed_tokens.weight", "lm_head.weight", "a+b(c)[d]", "UPPER_case-1", "x..y", "été.bias"]
CONTENTS = {name: f"{i}:{name}".encode() for i, name in enumerate(NAMES)}

# Pattern, what it becomes: in the part that POSIX and Python agree about.
EXPRESSIONS = [
    (r"^model\.layers\.([0-9]+)\.(.*)$", r"h.\1.\2"),
    (r"(self_attn|mlp)\.([a-z_]+)", r"\2_\1"),
    (r"[0-9]+", r"<\0>"),
    (r"\.weight$", ".w"),
    (r"^", "new."),
    (r"$", ".end"),
    (r"(a|e)([^a-z])?", r"[\1]"),
    (r"[.+(]", "/"),
    (r"e{1,2}d?", "E"),
    (r"(.)\.(.)", r"\2.\1"),
    (r"[[:upper:]]+", r"(\0)"),
    (r"^(.{3})(.*)$", r"\2\1"),
    (r"layers", r"a\\b"),
]


def by_python(pattern, new, name, every):
    new = re.sub(r"\\0", r"\\g<0>", new)
    return re.sub(pattern.replace("[:upper:]", "A-Z"), new, name, count=0 if every else 1)


def by_sed(pattern, new, name, every):
    script = f"s\x01{pattern}\x01{new}\x01{'g' if every else ''}"
    return subprocess.run(["sed", "-E", script], input=name + "\n", capture_output=True, text=True, check=True,
                          env={**os.environ, "LC_ALL": "C.UTF-8"}).stdout[:-1]


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize(("pattern", "new"), EXPRESSIONS)
def test_expressions(tmp_path, pattern, new, every):
    path = make(tmp_path / "m.safetensors", CONTENTS, 500)
    expected = {name: by_python(pattern, new, name, every) for name in NAMES}
    for name in ("model.layers.10.mlp.up.weight", "x..y"):
        assert by_sed(pattern, new, name, every) == expected[name]
    result = run("rename", path, "--regex", f"s\x01{pattern}\x01{new}\x01{'g' if every else ''}", "--in-place")
    assert result.returncode == 0, result.stderr
    assert read(path) == {expected[name]: data for name, data in CONTENTS.items()}


def test_random_expressions(tmp_path):
    """Of pieces that mean the same to POSIX and to Python, where the leftmost match is also the longest."""
    source = random.Random(1)
    for _ in range(20):
        pattern = "".join(source.choice(["[a-m]", "[0-9]", r"\.", "e", "(l)", "[^.]", "_"]) + source.choice(["", "", "+", "?"])
                          for _ in range(source.randint(1, 4)))
        every = source.random() < 0.5
        path = make(tmp_path / "m.safetensors", CONTENTS, 900)
        expected = {name: by_python(f"(?:{pattern})", r"<\0>", name, every) for name in NAMES}
        if all(name == new for name, new in expected.items()) or any("<>" in new for new in expected.values()):
            continue
        result = run("rename", path, "--regex", f"s/{pattern}/<\\0>/{'g' if every else ''}", "--in-place")
        assert result.returncode == 0, (pattern, result.stderr)
        assert read(path) == {expected[name]: data for name, data in CONTENTS.items()}, pattern


def test_the_locale_does_not_matter(tmp_path):
    path = make(tmp_path / "m.safetensors", CONTENTS, 500)
    result = run("rename", path, "--regex", "s/^[a-z]/_/", "--in-place", env={**os.environ, "LC_ALL": "C.UTF-8"})
    assert result.returncode == 0
    assert set(read(path)) == {re.sub("^[a-z]", "_", name) for name in NAMES}


RULES = {
    "pattern": (["model.*=*"], lambda name: name.removeprefix("model.")),
    "regex": (["--regex", r"s/\.([0-9]+)\./[\1]/"], lambda name: re.sub(r"\.([0-9]+)\.", r"[\1]", name, count=1)),
    "table": (["--table", "names.tsv"], {"lm_head.weight": "x..y", "x..y": "été.bias", "été.bias": "lm_head.weight"}.get),
    "map": (["--map", "model-strip"], lambda name: name.removeprefix("model.")),
    "layers": (["--layers", "11,0-2"], lambda name: renumbered(name, [11, 0, 1, 2])),
}


def renumbered(name, layers):
    found = re.fullmatch(r"(model\.layers\.)(\d+)(\..*)", name)
    if found is None:
        return name
    old = int(found[2])
    return f"{found[1]}{layers.index(old)}{found[3]}" if old in layers else ""


def expected_by(rule):
    news = {name: RULES[rule][1](name) for name in NAMES}
    return {(name if new is None else new): CONTENTS[name] for name, new in news.items() if new != ""}


@pytest.fixture(name="table")
def fixture_table(tmp_path):
    (tmp_path / "names.tsv").write_text("# turned\nlm_head.weight\tx..y\nx..y\tété.bias\n\nété.bias\tlm_head.weight\n", encoding="utf-8")


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_everywhere(tmp_path, rule):
    whole = make(tmp_path / "whole.safetensors", CONTENTS)
    several = tmp_path / "several"
    assert run("split", whole, "-o", several, "--max-shard-size", "200").returncode == 0
    expected, arguments = expected_by(rule), RULES[rule][0]
    before = {file: file.read_bytes() for file in several.iterdir()}
    # Nothing by a dry run; another file; one file of several; several of one.
    for path in (whole, several):
        assert run("rename", path, *arguments, "-n", cwd=tmp_path).returncode == 0
    assert {file: file.read_bytes() for file in several.iterdir()} == before
    for source, extra in itertools.product((whole, several), ([], ["--max-shard-size", "1GB"], ["--max-shard-size", "150"])):
        folder = tmp_path / "new"
        folder.mkdir()
        out = folder / "model.safetensors"
        result = run("rename", source, *arguments, "-o", out, *extra, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert read_all(out if out.exists() else folder) == expected
        assert out.exists() == (extra == ["--max-shard-size", "1GB"] or (source == whole and not extra))
        shutil.rmtree(folder)
    # In place: every tensor stays in its file, also by the index.
    assert run("rename", several / "model.safetensors.index.json", *arguments, "--in-place", cwd=tmp_path).returncode == 0
    assert read_all(several) == expected and run("check", several).returncode == 0
    assert run("rename", whole, *arguments, "--in-place", cwd=tmp_path).returncode == 0
    assert read_all(whole) == expected and run("check", whole).returncode == 0


@pytest.mark.parametrize("arguments", [["--regex", "s/.*/one/"], ["model.*=lm_head.weight"], ["--table", "-"]])
def test_collisions_change_nothing(tmp_path, arguments):
    path = make(tmp_path / "m.safetensors", CONTENTS)
    before = path.read_bytes()
    table = "model.embed_tokens.weight\tlm_head.weight\n"
    result = run("rename", path, *arguments, "--in-place", "--all", input=table)
    assert result.returncode == 1 and path.read_bytes() == before
    collisions = result.stderr.count(" would both be named ")
    assert collisions == {"--regex": len(NAMES) - 1, "--table": 1}.get(arguments[0], 11)


def test_many_tensors(tmp_path):
    """92,000 of them, each with a line in the table. Without an index over the table that would be 8 billion comparisons."""
    names = [f"model.layers.{i // 1000}.experts.{i % 1000}.w" for i in range(92000)]
    path = make(tmp_path / "m.safetensors", dict.fromkeys(names, b""))
    table = tmp_path / "names.tsv"
    table.write_text("".join(f"{name}\t{other}\n" for name, other in zip(names, names[1:] + names[:1])), encoding="utf-8")
    result = run("rename", path, "--table", table, "--in-place", "-q")
    assert result.returncode == 0, result.stderr
    assert set(read(path)) == set(names)
    result = run("rename", path, "--regex", r"s/^model\.layers/l/", "-n")
    assert result.returncode == 0 and result.stdout == "model.layers.#.experts.#.w × 92000: renamed to l.#.experts.#.w\n"


def test_names_of_a_large_file_change_without_its_tensors(tmp_path):
    """A file of 8 GB that is a hole: reading or writing its tensors would take seconds, and its blocks would be there."""
    path = tmp_path / "m.safetensors"
    header = json.dumps({"w": {"dtype": "U8", "shape": [1 << 33], "data_offsets": [0, 1 << 33]}}).encode() + b" " * 100
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + (1 << 33))
    result = run("rename", path, "w=another_name", "--in-place")
    assert result.returncode == 0 and ": edited in place: " in result.stderr and "copied" not in result.stderr
    assert path.stat().st_blocks * 512 < 1 << 20
    assert run("ls", path).stdout.startswith("another_name ")


def test_a_header_without_room_is_told(tmp_path):
    path = make(tmp_path / "m.safetensors", CONTENTS)
    result = run("rename", path, "lm_head.weight=" + 300 * "x", "--in-place")
    assert result.returncode == 0
    # On file systems with reflinks there is nothing to copy.
    assert ": edited in place: " in result.stderr or "longer than the space before the data" in result.stderr
    result = run("rename", path, "x" * 300 + "=" + 400 * "y", "--in-place")
    assert ": edited in place: " in result.stderr
    assert read(path)["y" * 400] == CONTENTS["lm_head.weight"]


def test_a_full_disk_and_an_output_that_is_the_input(tmp_path):
    path = make(tmp_path / "m.safetensors", {"a": bytes(1 << 18), "b": b"x"})
    before = path.read_bytes()
    for extra in (["-o", tmp_path / "new.safetensors"], ["--in-place", "--digest", "sha256"]):
        result = subprocess.run(["bash", "-c", 'trap "" XFSZ; ulimit -f 100; exec "$@"', "bash", CLI, "rename", path, "--regex", "s/a/c/",
                                 *extra], capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == 3
        assert path.read_bytes() == before and os.listdir(tmp_path) == ["m.safetensors"]
    os.link(path, tmp_path / "again.safetensors")
    for output in (path, tmp_path / "again.safetensors"):
        assert run("rename", path, "--map", "unwrap", "--ignore-unmatched", "-o", output, "-f").returncode != 0
    assert path.read_bytes() == before


def test_ctrl_c_while_the_table_is_read(tmp_path):
    path = make(tmp_path / "m.safetensors", CONTENTS)
    before = path.read_bytes()
    with subprocess.Popen([CLI, "rename", path, "--table", "-", "--in-place"], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdin.write(b"lm_head.weight\tx\n")
        process.stdin.flush()
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(0.2)
            except subprocess.TimeoutExpired:
                pass
    assert process.returncode == -signal.SIGINT
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["m.safetensors"]


def test_the_maps_of_the_help_are_those_of_the_library(tmp_path):
    text = run("help", "rename").stdout
    listed = re.findall(r"[a-z0-9-]+", re.search(r"Maps: (.*?)\.", text, re.S)[1])
    said = run("rename", make(tmp_path / "m.safetensors", CONTENTS), "--map", "?", "-n").stderr
    assert re.findall(r"[a-z0-9-]+", re.search(r"needs (.*)", said)[1].replace(" or ", " ")) == listed
    for name in listed:
        result = run("rename", tmp_path / "m.safetensors", "--map", name, "-n", "--ignore-unmatched")
        assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("expression", [r"(.*)\1", r"(a|b)*\2", "((((a{1,99}){1,99}){1,99}){1,99})", "a{1001}", "(a{100}){11}",
                                        "(" * 33 + "a" + ")" * 33, "(x{0,500}y{0,501})", "((a{10})*){10}{11}"])
def test_expressions_whose_work_has_no_bound_are_refused(expression, tmp_path):
    """At once: before, these took all memory or did not end."""
    make(tmp_path / "m.safetensors", {"a" * 4000: b"0"})
    result = run("rename", tmp_path / "m.safetensors", "--regex", f"s/{expression}/x/", "-n", "-o", tmp_path / "o.safetensors")
    assert result.returncode == 2
    assert "refers back to a group" in result.stderr or "repeats more than 1000 times in all" in result.stderr


@pytest.mark.parametrize("expression", ["a{1,3}", "[]{9999}a]", "[[:alpha:]{9999}]", "[^]a]*a", "(a{0,10}){0,10}", "(((a)))", "a{2,}",
                                        r"a\{9999}|a", "(" * 31 + "a" + ")" * 31, "a" * 1500, "(a*)*"])
def test_expressions_that_end_are_taken(expression, tmp_path):
    make(tmp_path / "m.safetensors", {"a" * 4000: b"0"})
    result = run("rename", tmp_path / "m.safetensors", "--regex", f"s/{expression}/x/", "-n", "-o", tmp_path / "o.safetensors")
    assert result.returncode == 0, result.stderr
