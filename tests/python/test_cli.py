# SPDX-License-Identifier: Apache-2.0
"""The command line as its users meet it: standard output, standard error and exit code of every command and error.

The program is the one that COFFER_CLI names. Every file is made here, byte by byte; the real files of COFFER_REALDATA
are tried in addition where there are any. Messages of the library are tested with the library: here it matters that
they arrive, with the path before them, on the right stream, with the right exit code.
"""

import json
import os
import re
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest
import terminal
from model_files import NAUGHTY, bad_files, bits_of, floats, header_bytes, make

CLI = os.environ["COFFER_CLI"]



def coffer(*arguments, **options):
    return subprocess.run([CLI, *arguments], capture_output=True, text=True, encoding="utf-8", timeout=60, check=False,
                          **options)


def answer(*arguments):
    """Standard output of a command that must succeed and have nothing else to say."""
    result = coffer(*arguments)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def data_of(*arguments):
    return json.loads(answer(*arguments, "--json"))


@pytest.fixture(name="model")
def fixture_model(tmp_path):
    return make(tmp_path / "model.safetensors", {
        "wte.weight": ("F32", [4, 3], floats(*range(12))),
        "h.0.bias": ("F16", [3], struct.pack("<3e", 0.1, -2, 65504)),
        "step": ("I64", [], struct.pack("<q", 1234)),
    }, {"format": "pt", "license": "mit"}, slack=256)


# ---- Help, version, usage ----

OVERVIEW = answer("help")
COMMANDS = re.findall(r"^  ([a-z-]+) ", OVERVIEW.partition("Options:")[0], re.M)


def test_version():
    assert answer("--version").startswith("coffer 0.")


@pytest.mark.parametrize("arguments", [["help"], ["--help"], ["-h"]])
def test_overview_names_every_command(arguments):
    assert answer(*arguments) == OVERVIEW and OVERVIEW.startswith("coffer - ")
    assert len(COMMANDS) > 30 and len(set(COMMANDS)) == len(COMMANDS) and COMMANDS[-1] == "help"


def test_the_overview_fits_a_narrow_terminal():
    """What is to be typed is not folded."""
    code, said = terminal.run([CLI, "help"], 40, env={"TERM": "xterm", "LC_ALL": "C.UTF-8"})
    lines = said.partition("Options:")[0].splitlines()
    assert code == 0 and len(lines) > 60 and max(map(len, lines)) <= 40
    assert " ".join(said.split()) == " ".join(OVERVIEW.split())


def test_no_command_shows_the_overview_as_a_mistake():
    result = coffer()
    assert (result.returncode, result.stdout, result.stderr) == (2, "", answer("help"))


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command(command):
    text = answer("help", command)
    assert text == answer(command, "--help") == answer(command, "-h") == answer(command, "x", "y", "-h", "--nonsense")
    assert text.startswith(f"coffer {command} - ")
    for part in ("\nUsage: coffer ", "\nOptions:\n", "\nExamples:\n", "-h, --help "):
        assert part in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(("arguments", "message"), [
    (["inof"], 'coffer: unknown command "inof"; did you mean "info"?\nTry: coffer --help\n'),
    (["chekc"], 'coffer: unknown command "chekc"; did you mean "check"?\nTry: coffer --help\n'),
    (["frobnicate"], 'coffer: unknown command "frobnicate"\nTry: coffer --help\n'),
    (["a\x1b[1m"], 'coffer: unknown command "a\\x1b[1m"\nTry: coffer --help\n'),
    (["model.safetensors"],
     'coffer: "model.safetensors" is not a command; to inspect a file: coffer info model.safetensors\nTry: coffer --help\n'),
    (["help", "gte"], 'coffer help: unknown command "gte"; did you mean "get"?\nTry: coffer help --help\n'),
    (["--verison"], "coffer: unknown option --verison; did you mean --version?\nTry: coffer --help\n"),
    (["ls", "--srot", "name", "f"], "coffer ls: unknown option --srot; did you mean --sort?\nTry: coffer ls --help\n"),
    (["ls", "--frobnicate", "f"], "coffer ls: unknown option --frobnicate\nTry: coffer ls --help\n"),
    (["ls", "-x", "f"], "coffer ls: unknown option -x\nTry: coffer ls --help\n"),
    (["meta", "-fx", "f"], "coffer meta: unknown option -x\nTry: coffer meta --help\n"),
    (["ls", "--sort"], "coffer ls: --sort needs a value: --sort ORDER\nTry: coffer ls --help\n"),
    (["ls", "f", "--sort=colour"], "coffer ls: --sort needs name, offset or size\nTry: coffer ls --help\n"),
    (["ls", "--json=yes", "f"], "coffer ls: --json takes no value\nTry: coffer ls --help\n"),
    (["ls"], "coffer ls: too few arguments; usage: coffer ls PATH...\nTry: coffer ls --help\n"),
    (["report", "a", "b\n"],
     'coffer report: unexpected argument "b\\x0a"; usage: coffer report MODEL\nTry: coffer report --help\n'),
    (["info"], "coffer info: too few arguments; usage: coffer info PATH...\nTry: coffer info --help\n"),
    (["check", "--json"], "coffer check: too few arguments; usage: coffer check PATH...\nTry: coffer check --help\n"),
    (["get", "f"], "coffer get: say which tensor, NAME or NAME[SLICE], or which ones: --filter GLOB -o FILE\nTry: coffer get --help\n"),
    (["meta", "f", "--set", "novalue"],
     'coffer meta: --set needs KEY=VALUE, and "novalue" has no =; to remove a key: --unset\nTry: coffer meta --help\n'),
    (["meta", "f", "--recover", "--set", "a=b"],
     "coffer meta: --recover cannot be combined with other options; edit afterwards\nTry: coffer meta --help\n"),
    (["meta", "f", "--recover", "--rewrite"],
     "coffer meta: --recover cannot be combined with other options; edit afterwards\nTry: coffer meta --help\n"),
    (["meta", "f", "key", "--unset", "a"],
     "coffer meta: a KEY is for showing, and excludes --set, --unset, --rewrite, --recover and --fix\n"
     "Try: coffer meta --help\n"),
    (["get", "f", "x", "--format=raw", "-o", ""],
     "coffer get: the output file has an empty name\nTry: coffer get --help\n"),
    (["hash", "f", "-o", ""], "coffer hash: the output file has an empty name\nTry: coffer hash --help\n"),
    (["stats", "f", "--plot", ""], "coffer stats: the output file has an empty name\nTry: coffer stats --help\n"),
    (["meta", "f", "-f"],
     "coffer meta: --force needs --set, --unset, --rewrite, --recover or --fix\nTry: coffer meta --help\n"),
])
def test_wrong_usage(arguments, message):
    result = coffer(*arguments)
    assert (result.returncode, result.stdout, result.stderr) == (2, "", message)


def test_two_dashes_end_the_options(tmp_path):
    make(tmp_path / "--json", {"-h": ("U8", [1], b"\x07")})
    result = coffer("get", "--", "--json", "-h", cwd=tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (0, "[7]\n", "")


def test_a_dash_alone_is_standard_input(tmp_path):
    path = Path(make(tmp_path / "-", {"a": ("U8", [1], b"\x07")}))
    with path.open("rb") as file, subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as cat:
        for stdin in (file, cat.stdout):
            result = coffer("ls", "-", cwd=tmp_path, stdin=stdin)
            assert (result.returncode, result.stdout, result.stderr) == (0, "a  U8  [1]  1 B\n", "")
    assert coffer("ls", "./-", cwd=tmp_path, stdin=subprocess.DEVNULL).returncode == 0


# ---- info ----


def test_info_screen(tmp_path):
    path = make(tmp_path / "m", {"a": ("F32", [250, 2], bytes(2000)), "b": ("BOOL", [3], bytes(3))},
                {"format": "pt", "note": "x" * 150, "esc": "\x1b[31m"})
    header = os.path.getsize(path) - 8 - 2003
    assert answer("info", path) == (
        f"{path}\n"
        "  format      safetensors\n"
        f"  file        {os.path.getsize(path):,} bytes (2.3 kB)\n"
        f"  header      {header} bytes, {slack_of(path)} of them slack for edits of the metadata\n"
        f"  data        from byte {header + 8}, aligned to {alignment_of(header + 8)} bytes\n"
        "  tensors     2\n"
        "  parameters  503\n"
        "  dtypes      F32   1 tensor   500 parameters  2.0 kB\n"
        "              BOOL  1 tensor     3 parameters     3 B\n"
        "  metadata    esc = \\x1b[31m\n"
        "              format = pt\n"
        f"              note = {'x' * 100}... (cut: 150 bytes; coffer meta shows all)\n"
        "  notes       none\n")


def slack_of(path):
    header = Path(path).read_bytes()
    size = struct.unpack("<Q", header[:8])[0]
    text = header[8:8 + size]
    return size - len(text.rstrip())


def alignment_of(offset):
    return min(offset & -offset, 4096)


def test_info_of_a_bare_file(tmp_path):
    path = make(tmp_path / "m", {})
    text = answer("info", path)
    assert "  tensors     0\n  parameters  0\n  metadata    none\n  notes       none\n" in text
    assert "  file        16 bytes\n" in text


def test_info_cuts_long_metadata_and_says_so(tmp_path):
    path = make(tmp_path / "m", {}, {f"k{i:02}": "v" for i in range(30)})
    text = answer("info", path)
    assert "k19 = v\n              ... and 10 more; coffer meta shows all\n" in text
    assert "k20" not in text


def test_info_shows_notes(tmp_path):
    path = make(tmp_path / "m", {"\x1b": ("U8", [1], b"a"), "": ("U8", [1], b"b")})
    text = answer("info", path)
    assert "  notes       " in text
    assert text.count("(1 time, at byte ") == 2
    assert "\x1b" not in text


def test_info_of_many_files_is_a_line_each(tmp_path, model):
    odd = make(tmp_path / "odd", {"": ("U8", [1], b"b")})
    assert answer("info", model, odd) == (
        f"{model}: 3 tensors, 16 parameters, {os.path.getsize(model)} B, F32 I64 F16, 1 note\n"
        f"{odd}: 1 tensor, 1 parameter, {os.path.getsize(odd)} B, U8, 1 note\n")


def test_info_goes_on_behind_a_file_that_fails(tmp_path, model):
    result = coffer("info", str(tmp_path / "none"), model)
    assert result.returncode == 3
    assert result.stdout.startswith(f"{model}: 3 tensors")
    assert result.stderr.startswith(f"coffer: {tmp_path}/none: ")


def test_info_json(tmp_path, model):
    assert data_of("info", model) == [{
        "path": model, "format": "safetensors", "file_size": os.path.getsize(model),
        "header_size": os.path.getsize(model) - 8 - 62, "slack": slack_of(model),
        "data_offset": os.path.getsize(model) - 62, "data_size": 62,
        "alignment": alignment_of(os.path.getsize(model) - 62), "tensors": 3, "parameters": 16,
        "dtypes": {"F32": {"tensors": 1, "parameters": 12, "bytes": 48},
                   "I64": {"tensors": 1, "parameters": 1, "bytes": 8},
                   "F16": {"tensors": 1, "parameters": 3, "bytes": 6}},
        "trained": {"parameters": 16, "dtypes": {"F32": 12, "I64": 1, "F16": 3}, "compatible": 15,
                    "compatible_dtypes": {"F32": 12, "F16": 3}, "assumed": ""},
        "memory": None,
        "metadata": {"format": "pt", "license": "mit"},
        "notes": [{"kind": "unaligned", "text": note_text(model, "unaligned"), "count": 1,
                   "offset": os.path.getsize(model) - 8}]}]
    bare = make(tmp_path / "bare", {})
    first, second = data_of("info", model, bare)
    assert (first["path"], second["path"]) == (model, bare)
    assert (second["metadata"], second["notes"], second["dtypes"]) == ({}, [], {})


def note_text(path, kind):
    (only,) = json.loads(coffer("check", "--json", path).stdout)
    return next(note["text"] for note in only["notes"] if note["kind"] == kind)


# ---- ls ----


def test_ls_aligns_columns_in_file_order(model):
    assert answer("ls", model) == (
        "wte.weight  F32  [4, 3]  48 B\n"
        "h.0.bias    F16  [3]     6 B\n"
        "step        I64  []      8 B\n")


@pytest.mark.parametrize(("order", "names"), [
    ("offset", ["wte.weight", "h.0.bias", "step"]),
    ("name", ["h.0.bias", "step", "wte.weight"]),
    ("size", ["wte.weight", "step", "h.0.bias"]),
])
def test_ls_sorts(model, order, names):
    assert [line.split()[0] for line in answer("ls", "--sort", order, model).splitlines()] == names
    assert answer("ls", f"--sort={order}", model) == answer("ls", model, "--sort", order)
    assert [tensor["name"] for tensor in data_of("ls", "--sort", order, model)["tensors"]] == names


def test_ls_of_equal_sizes_keeps_the_order_of_the_file(tmp_path):
    path = make(tmp_path / "m", {name: ("U8", [1], b"x") for name in "dbca"})
    assert [line[0] for line in answer("ls", "--sort", "size", path).splitlines()] == list("dbca")


def test_ls_of_nothing_is_nothing(tmp_path):
    path = make(tmp_path / "m", {})
    assert answer("ls", path) == ""
    assert data_of("ls", path) == {"path": path, "total": 0, "tensors": []}


@pytest.mark.parametrize(("size", "text"), [(999, "999 B"), (1000, "1.0 kB"), (999_949, "999.9 kB"),
                                            (999_950, "1.0 MB"), (1_500_000, "1.5 MB")])
def test_ls_shows_sizes_for_people(tmp_path, size, text):
    path = make(tmp_path / "m", {"a": ("U8", [size], bytes(size))})
    assert answer("ls", path) == f"a  U8  [{size}]  {text}\n"


def test_ls_json(model):
    start = os.path.getsize(model) - 62
    assert data_of("ls", model) == {"path": model, "total": 3, "tensors": [
        {"name": "wte.weight", "dtype": "F32", "shape": [4, 3], "elements": 12, "offset": start, "size": 48},
        {"name": "h.0.bias", "dtype": "F16", "shape": [3], "elements": 3, "offset": start + 48, "size": 6},
        {"name": "step", "dtype": "I64", "shape": [], "elements": 1, "offset": start + 54, "size": 8}]}


def test_names_are_escaped_for_the_terminal(tmp_path):
    path = make(tmp_path / "m", {name: ("U8", [1], b"\x05") for name in NAUGHTY})
    lines = answer("ls", path).split("\n")[:-1]
    assert len(lines) == len(NAUGHTY)
    width = max(map(len, NAUGHTY.values()))
    for line, shown in zip(lines, NAUGHTY.values(), strict=True):
        assert line == f"{shown:{width}}  U8  [1]  1 B" or line.split("  ")[0] == shown
        assert line.isprintable()


def test_names_in_json_are_the_names(tmp_path):
    path = make(tmp_path / "m", {name: ("U8", [1], b"\x05") for name in NAUGHTY})
    text = answer("ls", path, "--json")
    assert [tensor["name"] for tensor in json.loads(text)["tensors"]] == list(NAUGHTY)
    assert all(c.isprintable() or c == "\n" for c in text)


def test_a_very_long_name_is_whole(tmp_path):
    name = "\x01" * 3000
    path = make(tmp_path / "m", {name: ("U8", [1], b"\x05")})
    assert answer("ls", path) == "\\x01" * 3000 + "  U8  [1]  1 B\n"


def test_paths_are_escaped(tmp_path):
    path = make(tmp_path / "a\x1bb\n", {})
    assert answer("check", path) == f"{tmp_path}/a\\x1bb\\x0a: ok\n"
    missing = str(tmp_path / "x\x1b")
    assert coffer("ls", missing).stderr.startswith(f"coffer: {tmp_path}/x\\x1b: ")
    assert data_of("info", path)[0]["path"] == path


def test_a_path_that_is_not_utf8(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff\xfe"
    result = subprocess.run([CLI, "info", "--json", path], capture_output=True, check=False)
    assert result.returncode == 3
    assert json.loads(result.stdout)[0]["path"] == f"{tmp_path}/\ufffd\ufffd"
    assert result.stderr.isascii()


# ---- check ----


def test_check_names_what_is_wrong(tmp_path):
    for name, path in bad_files(tmp_path):
        result = coffer("check", path)
        assert (result.returncode, result.stderr) == (1, ""), name
        assert result.stdout.startswith(f"{path}: "), name
        assert f"({name}" in result.stdout, result.stdout
        assert result.stdout.count("\n") == 1, name


def test_every_command_refuses_bad_files(tmp_path):
    for name, path in bad_files(tmp_path):
        for arguments in (["info"], ["ls"], ["get"], ["meta"], ["meta", "--set", "a=b"]):
            result = coffer(*arguments, path, *(["a"] if arguments == ["get"] else []))
            assert (result.returncode, result.stdout) == (1, ""), (name, arguments, result)
            assert result.stderr.startswith(f"coffer: {path}: "), (name, arguments)
            assert result.stderr.count("\n") == 1, (name, arguments)


FOREIGN = ("IS_HDF5", "IS_NUMPY", "IS_CONVERTIBLE")


def test_errors_in_json(tmp_path):
    for name, path in bad_files(tmp_path):
        (entry,) = json.loads(coffer("check", "--json", path).stdout)
        assert set(entry) == {"path", "error", "ok"}
        assert (entry["path"], entry["ok"], entry["error"]["name"]) == (path, False, name)
        assert set(entry["error"]) == {"code", "name", "message", "tensor", "offset", "expected", "actual"}
        # What begins like a file of another program is opened as one, and is as damaged to that reader as it is to convert.
        error = json.loads(coffer("convert", "-n", "--json", path).stdout)["error"] if name in FOREIGN else entry["error"]
        for arguments in (["ls", path], ["get", path, "a"], ["meta", path]):
            result = coffer(*arguments, "--json")
            assert result.returncode == 1
            assert json.loads(result.stdout) == {"path": path, "error": error}
            assert result.stderr.startswith(f"coffer: {path}: {error['message']}")
        edit = coffer("meta", path, "--unset", "a", "--json")
        assert (edit.returncode, json.loads(edit.stdout)["error"]["name"]) == (1, name)
        (info,) = json.loads(coffer("info", "--json", path).stdout)
        assert info == {"path": path, "error": error}


def test_an_error_says_which_tensor_at_which_byte(tmp_path):
    tensor = {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}
    (tmp_path / "m").write_bytes(header_bytes({"the.tensor": tensor}) + bytes(8))
    text = coffer("check", str(tmp_path / "m")).stdout
    (entry,) = json.loads(coffer("check", "--json", str(tmp_path / "m")).stdout)
    assert entry["error"]["tensor"] == "the.tensor"
    assert "the.tensor" in text
    assert str(entry["error"]["offset"]) in text


def test_sizes_of_a_download_that_stopped(tmp_path):
    whole = header_bytes({"a": {"dtype": "F32", "shape": [100], "data_offsets": [0, 400]}}) + bytes(400)
    (tmp_path / "m").write_bytes(whole[:-150])
    result = coffer("ls", str(tmp_path / "m"), "--json")
    assert "150" in result.stderr
    error = json.loads(result.stdout)["error"]
    assert (error["expected"], error["actual"]) == (len(whole), len(whole) - 150)


def test_check_fine(tmp_path):
    paths = [make(tmp_path / name, {"a": ("F64", [1], bytes(8))}) for name in ("x", "y")]
    assert answer("check", *paths) == answer("check", "--strict", *paths) == f"{paths[0]}: ok\n{paths[1]}: ok\n"
    assert data_of("check", *paths) == [{"path": path, "ok": True, "notes": []} for path in paths]


def test_check_notes(tmp_path):
    path = make(tmp_path / "m", {"A": ("U8", [1], b"1"), "a": ("U8", [1], b"2"), "f": ("F32", [1], bytes(4))})
    result = coffer("check", path)
    assert (result.returncode, result.stderr) == (0, "")
    first, *notes = result.stdout.splitlines()
    assert first == f"{path}: ok"
    assert len(notes) == 2
    assert all(note.startswith(f"{path}: note: ") and "(1 time, at byte " in note for note in notes)
    strict = coffer("check", "--strict", path)
    assert (strict.returncode, strict.stderr) == (1, "")
    assert strict.stdout.splitlines() == [f"{path}: conforms, but not strictly, because of these notes", *notes]
    (entry,) = json.loads(coffer("check", "--strict", "--json", path).stdout)
    assert (entry["ok"], {note["kind"] for note in entry["notes"]}) == (False, {"unaligned", "case"})
    assert data_of("check", path)[0]["ok"] is True


def test_check_of_many_counts_the_worst(tmp_path, model):
    bad = str(tmp_path / "bad")
    Path(bad).write_bytes(b"")
    missing = str(tmp_path / "missing")
    assert coffer("check", model, bad).returncode == 1
    result = coffer("check", missing, bad, model)
    assert result.returncode == 3
    assert [line.split(": ")[0] for line in result.stdout.splitlines()[:2]] == [bad, model]
    assert result.stderr.startswith(f"coffer: {missing}: ")
    entries = json.loads(coffer("check", "--json", missing, bad, model).stdout)
    assert [entry["ok"] for entry in entries] == [False, False, True]
    assert [entry.get("error", {}).get("name") for entry in entries] == ["NOT_FOUND", "EMPTY", None]


# ---- What cannot be read ----


@pytest.mark.parametrize("command", [["info"], ["ls"], ["check"], ["get"], ["meta"], ["meta", "--set", "a=b"],
                                     ["meta", "--recover"]])
def test_unreadable_files(tmp_path, command):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").write_bytes(b"x")
    os.symlink("loop", tmp_path / "loop")
    cases = {
        tmp_path / "missing": {"NOT_FOUND"},
        tmp_path: {"NO_MODEL", "DIRECTORY"},  # to read, and to edit
        tmp_path / "fifo": {"NOT_REGULAR"},
        Path("/dev/null"): {"NOT_REGULAR"},
        tmp_path / "file" / "below": {"NOT_FOUND", "IO"},
        tmp_path / ("n" * 300): {"IO"},
        tmp_path / "loop": {"IO", "LINKED"},
        Path(""): {"NOT_FOUND", "DIRECTORY", "IO"},
    }
    for path, names in cases.items():
        text = str(path) if path != Path("") else ""
        result = coffer(*command, text, *(["a"] if command == ["get"] else []), "--json")
        assert result.returncode == 3, (path, result)
        assert result.stderr.startswith(f"coffer: {text}: "), result.stderr
        assert result.stderr.count("\n") == 1
        entry = json.loads(result.stdout)
        entry = entry[0] if isinstance(entry, list) else entry
        assert entry["error"]["name"] in names, (path, entry)


def test_a_file_without_permission(tmp_path, model):
    """Root may read everything; as root, the program runs as another user, from a copy that this user can reach."""
    os.chmod(model, 0)
    if os.geteuid() != 0:
        result = coffer("ls", model)
    else:
        for folder in (tmp_path, *tmp_path.parents):
            if folder.stat().st_uid == 0 and not folder.stat().st_mode & 0o001:
                os.chmod(folder, folder.stat().st_mode | 0o011)
        program = tmp_path / "coffer"
        program.write_bytes(Path(CLI).read_bytes())
        os.chmod(program, 0o755)
        result = subprocess.run([program, "ls", model], capture_output=True, text=True, check=False,
                                user=65534, group=65534, extra_groups=[])
    assert (result.returncode, result.stdout) == (3, "")
    assert result.stderr.startswith(f"coffer: {model}: ")
    assert "ermission" in result.stderr


# ---- get ----


def get(path, argument, *options):
    return answer("get", path, argument, *options)


def value(tmp_path, dtype, body, shape=None):
    count = len(body) * 8 // bits_of(dtype)
    path = make(tmp_path / "value", {"x": (dtype, [count] if shape is None else shape, body)})
    return coffer("get", path, "x").stdout.strip(), data_of("get", path, "x")["values"]


def test_get_shapes(tmp_path):
    path = make(tmp_path / "m", {
        "scalar": ("I32", [], struct.pack("<i", -7)),
        "vector": ("U8", [3], bytes([1, 20, 255])),
        "matrix": ("I16", [2, 2], struct.pack("<4h", 1, -2, 300, -4000)),
        "cube": ("U8", [2, 2, 2], bytes(range(8))),
        "empty": ("F32", [0, 3], b""),
        "one": ("U8", [1, 1, 1], b"\x09"),
    })
    assert get(path, "scalar") == "-7\n"
    assert get(path, "vector") == "[  1,  20, 255]\n"
    assert get(path, "matrix") == "[[    1,    -2],\n [  300, -4000]]\n"
    assert get(path, "cube") == "[[[0, 1],\n  [2, 3]],\n\n [[4, 5],\n  [6, 7]]]\n"
    assert get(path, "empty") == "[]\n"
    assert get(path, "one") == "[[[9]]]\n"
    assert data_of("get", path, "cube")["values"] == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
    assert data_of("get", path, "scalar")["values"] == -7
    assert data_of("get", path, "empty") == {"path": path, "name": "empty", "slice": None, "dtype": "F32",
                                             "shape": [0, 3], "values": []}


@pytest.mark.parametrize(("argument", "expected"), [
    ("m[0]", [0, 1, 2, 3]),
    ("m[-1, -1]", 11),
    ("m[:, 1]", [1, 5, 9]),
    ("m[::-1, ::2]", [[8, 10], [4, 6], [0, 2]]),
    ("m[..., -2:]", [[2, 3], [6, 7], [10, 11]]),
    ("m[1:2, 1:2]", [[5]]),
    ("m[1:1]", []),
    ("m[0, 3:0:-2]", [3, 1]),
    ("m[2::-2, 0]", [8, 0]),
    ("m[5:, :]", []),
    ("m[]", [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]),
    ("m[-100:100, 2]", [2, 6, 10]),
    ("m[0, ..., 1]", 1),
    ("m[::9223372036854775807, 0]", [0]),
    ("m[::-9223372036854775807, 0]", [8]),
])
def test_get_slices(tmp_path, argument, expected):
    path = make(tmp_path / "m", {"m": ("I32", [3, 4], struct.pack("<12i", *range(12)))})
    found = data_of("get", path, argument)
    assert found["values"] == expected
    assert found["slice"] == argument[1:]
    text = "".join(get(path, argument).split())
    assert json.loads(text) == expected


def test_get_slices_of_a_large_tensor(tmp_path):
    rows, columns = 300, 500
    path = make(tmp_path / "m", {"m": ("I32", [rows, columns], struct.pack(f"<{rows * columns}i",
                                                                           *range(rows * columns)))})
    matrix = [list(range(r * columns, (r + 1) * columns)) for r in range(rows)]
    assert data_of("get", path, "m")["values"] == matrix
    assert data_of("get", path, "m[::-7, 3::11]")["values"] == [row[3::11] for row in matrix[::-7]]
    assert data_of("get", path, "m[:, -1]")["values"] == [row[-1] for row in matrix]
    assert json.loads(get(path, "m[250:, ::-1]", "--all")) == [row[::-1] for row in matrix[250:]]


def test_get_cuts_in_the_middle(tmp_path):
    path = make(tmp_path / "m", {"m": ("I32", [100, 50], struct.pack("<5000i", *range(5000)))})
    result = coffer("get", path, "m")
    assert result.returncode == 0
    assert result.stderr == "coffer: cut: 36 of 5,000 elements shown; --all shows all\n"
    assert result.stdout == (
        "[[   0,    1,    2, ...,   47,   48,   49],\n"
        " [  50,   51,   52, ...,   97,   98,   99],\n"
        " [ 100,  101,  102, ...,  147,  148,  149],\n"
        " ...,\n"
        " [4850, 4851, 4852, ..., 4897, 4898, 4899],\n"
        " [4900, 4901, 4902, ..., 4947, 4948, 4949],\n"
        " [4950, 4951, 4952, ..., 4997, 4998, 4999]]\n")
    assert json.loads(get(path, "m", "--all")) == data_of("get", path, "m")["values"]
    assert max(map(len, get(path, "m", "--all").splitlines())) <= 80


def test_get_does_not_cut_up_to_a_thousand(tmp_path):
    path = make(tmp_path / "m", {"k": ("U8", [1000], bytes(1000)), "l": ("U8", [1001], bytes(1001))})
    assert get(path, "k").count("0") == 1000
    assert coffer("get", path, "l").stdout == "[0, 0, 0, ..., 0, 0, 0]\n"


def test_get_wraps_long_rows(tmp_path):
    path = make(tmp_path / "m", {"m": ("I32", [2, 40], struct.pack("<80i", *range(1000, 1080)))})
    text = get(path, "m")
    assert json.loads(text) == [list(range(1000, 1040)), list(range(1040, 1080))]
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert all(line.startswith((" ", "[[")) for line in lines)


@pytest.mark.parametrize(("dtype", "code", "values"), [
    ("U8", "B", [0, 255]), ("I8", "b", [-128, 127]), ("U16", "H", [0, 65535]), ("I16", "h", [-32768, 32767]),
    ("U32", "I", [0, 2**32 - 1]), ("I32", "i", [-2**31, 2**31 - 1]), ("U64", "Q", [2**64 - 1, 2**53 + 1]),
    ("I64", "q", [-2**63, 2**63 - 1]),
])
def test_get_integers_are_exact(tmp_path, dtype, code, values):
    text, found = value(tmp_path, dtype, struct.pack(f"<{len(values)}{code}", *values))
    assert found == values
    assert json.loads(text) == values


def test_get_bool(tmp_path):
    text, found = value(tmp_path, "BOOL", bytes([0, 1]))
    assert (text, found) == ("[false,  true]", [False, True])


def test_get_floats_are_the_shortest_that_read_back(tmp_path):
    for numbers in ([0.1, 1 / 3, 1e-45, 3.4028235e38, 16777216.0], [5e-324, 1.7976931348623157e308, 0.1, 2.5, -1e22]):
        double = len(numbers) == 5 and numbers[0] == 5e-324
        body = struct.pack("<5d" if double else "<5f", *numbers)
        text, found = value(tmp_path, "F64" if double else "F32", body)
        assert struct.pack("<5d" if double else "<5f", *found) == body
        assert struct.pack("<5d" if double else "<5f", *json.loads(text)) == body
    assert value(tmp_path, "F32", floats(0.1, 1 / 3, 1e-45, 16777216))[0].replace(" ", "") == \
        "[0.1,0.33333334,1e-45,16777216]"


def test_get_halves_are_the_shortest_that_read_back(tmp_path):
    every = [struct.pack("<H", bits) for bits in range(0x7C00)]
    _, found = value(tmp_path, "F16", b"".join(every))
    assert b"".join(struct.pack("<e", number) for number in found) == b"".join(every)
    assert value(tmp_path, "F16", struct.pack("<4e", 0.1, 65504, 1e-7, -0.0))[0] == "[  0.1, 65504, 1e-07,    -0]"


def test_get_bf16_is_the_shortest_that_reads_back(tmp_path):
    every = list(range(0x0001, 0x7F80, 7))
    _, found = value(tmp_path, "BF16", struct.pack(f"<{len(every)}H", *every))
    for bits, number in zip(every, found, strict=True):
        low, at, high = (struct.unpack("<f", struct.pack("<I", max(b, 0) << 16))[0] for b in (bits - 1, bits, bits + 1))
        assert abs(number - at) <= min(abs(number - low), abs(number - high))
    assert value(tmp_path, "BF16", struct.pack("<2H", 0x3DCD, 0x4049))[0] == "[ 0.1, 3.14]"


def test_get_special_values(tmp_path):
    text, found = value(tmp_path, "F32", floats(float("nan"), float("inf"), float("-inf"), -0.0))
    assert text == "[ nan,  inf, -inf,   -0]"
    assert found == ["NaN", "Infinity", "-Infinity", 0]


def test_get_complex(tmp_path):
    text, found = value(tmp_path, "C64", floats(1, 2.5, -0.5, -1, float("nan"), float("inf")))
    assert text == "[  1+2.5j,  -0.5-1j, nan+infj]"
    assert found == [[1, 2.5], [-0.5, -1], ["NaN", "Infinity"]]


@pytest.mark.parametrize(("dtype", "body", "expected"), [
    ("F8_E4M3", [0x7E, 0x38, 0x01], [448, 1, 2**-9]),
    ("F8_E5M2", [0x7B, 0x3C, 0x01], [57344, 1, 2**-16]),
    ("F8_E8M0", [0x7F, 0x80, 0x7C], [1, 2, 0.125]),
    ("F8_E4M3FNUZ", [0x7F, 0x40, 0x01], [240, 1, 2**-10]),
    ("F8_E5M2FNUZ", [0x7F, 0x40, 0x01], [57344, 1, 2**-17]),
    ("F4", [0x21, 0x7F], [0.5, 1, -6, 6]),
    ("F6_E2M3", [0x08 | (0x1F << 6 & 0xC0), 0x1F >> 2, 0], [1, 7.5, 0, 0]),
    ("F6_E3M2", [0x0C | (0x1F << 6 & 0xC0), 0x1F >> 2, 0], [1, 28, 0, 0]),
])
def test_get_small_floats_are_exact(tmp_path, dtype, body, expected):
    text, found = value(tmp_path, dtype, bytes(body))
    assert found == json.loads(text) == expected


def test_get_slices_of_elements_below_a_byte(tmp_path):
    path = make(tmp_path / "m", {"x": ("F4", [2, 4], bytes([0x21, 0x43, 0x65, 0x07])),
                                 "odd": ("F4", [2, 3], bytes([0x21, 0x43, 0x65]))})
    assert data_of("get", path, "x[1]")["values"] == [3, 4, 6, 0]
    assert data_of("get", path, "x[:, 2:]")["values"] == [[1.5, 2], [6, 0]]
    assert data_of("get", path, "odd")["values"] == [[0.5, 1, 1.5], [2, 3, 4]]
    result = coffer("get", path, "x[0, 1]")
    assert (result.returncode, result.stdout) == (1, "")
    assert json.loads(coffer("get", path, "x[0, 1]", "--json").stdout)["error"]["name"] == "SLICE_BITS"


def test_get_names_with_brackets(tmp_path):
    path = make(tmp_path / "m", {"a[0]": ("U8", [2], b"\x01\x02"), "a": ("U8", [2], b"\x03\x04"),
                                 "b[": ("U8", [1], b"\x05")})
    assert get(path, "a[0]") == "[1, 2]\n"
    assert get(path, "a[0][1]") == "2\n"
    assert get(path, "a[1]") == "4\n"
    assert get(path, "b[") == "[5]\n"


def test_get_by_the_name_that_ls_shows(tmp_path):
    path = make(tmp_path / "m", {name: ("U8", [2], bytes([i, 9])) for i, name in enumerate(NAUGHTY)})
    for i, shown in enumerate(NAUGHTY.values()):
        assert get(path, f"{shown}[0]") == f"{i}\n"


@pytest.mark.parametrize(("argument", "message"), [
    ("wte.weigth", 'no tensor "wte.weigth"; did you mean "wte.weight"?'),
    ("weight", 'no tensor "weight"; did you mean "wte.weight"?'),
    ("h.0.bais[0]", 'no tensor "h.0.bais"; did you mean "h.0.bias"?'),
    ("nothing.like.it", 'no tensor "nothing.like.it"; coffer ls shows the names'),
    ("", 'no tensor ""; coffer ls shows the names'),
])
def test_get_of_no_tensor_suggests(model, argument, message):
    result = coffer("get", model, argument)
    assert (result.returncode, result.stdout, result.stderr) == (1, "", f"coffer: {model}: {message}\n")
    error = json.loads(coffer("get", model, argument, "--json").stdout)["error"]
    assert (error["name"], error["message"]) == ("NO_TENSOR", message)


def test_get_suggests_at_most_three(tmp_path):
    path = make(tmp_path / "m", {f"h.{i}.attn": ("U8", [0], b"") for i in range(9)})
    assert coffer("get", path, "h.x.attn").stderr == (
        f'coffer: {path}: no tensor "h.x.attn"; did you mean "h.0.attn" or "h.1.attn" or "h.2.attn"?\n')


@pytest.mark.parametrize(("argument", "code", "name"), [
    ("wte.weight[", 2, "SLICE_SYNTAX"), ("wte.weight[a]", 2, "SLICE_SYNTAX"), ("wte.weight[::0]", 2, "STEP"),
    ("wte.weight[9]", 1, "INDEX"), ("wte.weight[0,0,0]", 1, "INDEX"), ("step[0]", 1, "INDEX"),
])
def test_get_of_a_wrong_slice(model, argument, code, name):
    result = coffer("get", model, argument)
    assert (result.returncode, result.stdout) == (code, "")
    assert result.stderr.startswith(f"coffer: {model}: ")
    assert result.stderr.count("\n") == 1
    assert json.loads(coffer("get", model, argument, "--json").stdout)["error"]["name"] == name


def test_get_of_any_rank(tmp_path):
    path = make(tmp_path / "m", {"x": ("U8", [1] * 5000, b"\x07")})
    assert get(path, "x") == "[" * 5000 + "7" + "]" * 5000 + "\n"
    assert get(path, "x[0,...,0]") == "[" * 4998 + "7" + "]" * 4998 + "\n"


# ---- meta ----


def test_meta_shows_all(tmp_path):
    path = make(tmp_path / "m", {}, {"b": "two\nlines", "a": "x" * 3000, "c": ""})
    assert answer("meta", path) == f"a = {'x' * 3000}\nb = two\\x0alines\nc = \n"
    assert data_of("meta", path) == {"path": path, "metadata": {"a": "x" * 3000, "b": "two\nlines", "c": ""}}


def test_meta_of_none(tmp_path):
    path = make(tmp_path / "m", {})
    assert answer("meta", path) == ""
    assert data_of("meta", path) == {"path": path, "metadata": {}}
    result = coffer("meta", path, "a")
    assert (result.returncode, result.stderr) == (
        1, f'coffer: {path}: no key "a" in its metadata; it has none at all\n')


def test_meta_shows_one_value_raw(tmp_path):
    path = make(tmp_path / "m", {}, {"k": "two\nlines\x01ü"})
    assert answer("meta", path, "k") == "two\nlines\x01ü\n"
    assert data_of("meta", path, "k") == {"path": path, "key": "k", "value": "two\nlines\x01ü"}


@pytest.mark.parametrize(("key", "hint"), [("licence", 'did you mean "license"?'),
                                           ("zebra", "coffer meta PATH shows all keys")])
def test_meta_of_an_unknown_key(model, key, hint):
    message = f'coffer: {model}: no key "{key}" in its metadata; {hint}\n'
    result = coffer("meta", model, key)
    assert (result.returncode, result.stdout, result.stderr) == (1, "", message)
    result = coffer("meta", model, key, "--json")
    assert (result.returncode, result.stderr) == (1, message)
    assert json.loads(result.stdout) == {"path": model, "key": key, "value": None}


def tensors_of(path):
    raw = Path(path).read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], raw[8 + size:][slice(*entry["data_offsets"])])
            for name, entry in header.items()}


def test_meta_edits_in_place(model):
    before, size = tensors_of(model), os.path.getsize(model)
    result = coffer("meta", model, "--set", "author=me=you", "--unset", "license", "--set=empty=")
    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr.startswith((f"coffer: {model}: edited in place (", f"coffer: {model}: edited in a clone"))
    assert result.stderr.endswith(' ms): author set; license removed, was "mit"; empty set\n')
    assert data_of("meta", model)["metadata"] == {"format": "pt", "author": "me=you", "empty": ""}
    assert (tensors_of(model), os.path.getsize(model)) == (before, size)
    assert os.listdir(Path(model).parent) == ["model.safetensors"]


def test_meta_rewrites_what_does_not_fit(model):
    before = tensors_of(model)
    result = coffer("meta", model, "--set", "long=" + "x" * 5000, "--json")
    assert result.returncode == 0
    assert result.stderr.startswith(f"coffer: {model}: rewritten, with room for the next edits (")
    done = json.loads(result.stdout)
    assert (done["path"], done["done"]) == (model, "rewrite")
    assert 0 <= done["seconds"] < 60
    assert slack_of(model) >= 4096
    assert tensors_of(model) == before
    assert json.loads(coffer("meta", model, "--set", "more=yes", "--json").stdout)["done"] in ("in_place", "clone")


def test_meta_rewrite_on_request(model):
    result = coffer("meta", model, "--rewrite", "--json")
    assert (result.returncode, json.loads(result.stdout)["done"]) == (0, "rewrite")
    assert slack_of(model) >= 4096


def test_meta_with_nothing_to_do(model):
    raw = Path(model).read_bytes()
    result = coffer("meta", model, "--set", "format=pt")
    assert result.returncode == 0
    assert result.stderr.startswith(f"coffer: {model}: nothing to do, the metadata have these values already (")
    assert Path(model).read_bytes() == raw


@pytest.mark.parametrize("pattern", ["absent", "ss_*", "x[ab]"])
def test_meta_removes_nothing_where_nothing_matches(model, pattern):
    raw = Path(model).read_bytes()
    result = coffer("meta", model, "--set", "new=1", "--unset", pattern)
    assert result.returncode == 1
    assert f'no key matches "{pattern}", and nothing was changed' in result.stderr
    assert Path(model).read_bytes() == raw


def test_meta_removes_what_matches(model):
    assert coffer("meta", model, "--set", "ss_a=1", "--set", "ss_b=2", "--set", "ss_*=3", "--set", "s=4").returncode == 0
    # A key that is there is that key; one that was set just before is there, too.
    assert coffer("meta", model, "--unset", "ss_*").returncode == 0
    assert set(data_of("meta", model)["metadata"]) == {"format", "license", "ss_a", "ss_b", "s"}
    assert coffer("meta", model, "--set", "ss_c=1", "--unset", "ss_*").returncode == 0
    assert set(data_of("meta", model)["metadata"]) == {"format", "license", "s"}


def test_meta_takes_values_from_files(tmp_path, model):
    """Past what a shell lets through on a command line."""
    long = "\u00e9\n" * 200000
    (tmp_path / "value").write_text(long, encoding="utf-8", newline="")
    (tmp_path / "all.json").write_text(json.dumps({"from\u0000json": "\ud83d\ude00" + long, "license": None}))
    assert coffer("meta", model, "--set", f"long=@{tmp_path / 'value'}", "--set", "at=@@x",
                  "--set-json", str(tmp_path / "all.json")).returncode == 0
    assert data_of("meta", model)["metadata"] == {
        "format": "pt", "long": long, "at": "@x", "from\u0000json": "\U0001f600" + long,
    }
    raw = Path(model).read_bytes()
    (tmp_path / "bytes").write_bytes(b"\xff")
    wrong = [("{", "byte"), ("[]", "an object of strings is wanted"), ('{"a": 1}', "at byte 6: a value has to be a string"),
             ('{"none": null}', 'no key matches "none"')]
    for text, said in wrong:
        (tmp_path / "wrong.json").write_text(text)
        result = coffer("meta", model, "--set-json", str(tmp_path / "wrong.json"))
        assert result.returncode == 1 and said in result.stderr
    assert "UTF-8" in coffer("meta", model, "--set", f"a=@{tmp_path / 'bytes'}").stderr
    assert coffer("meta", model, "--set", f"a=@{tmp_path / 'nothing'}").returncode == 3
    assert Path(model).read_bytes() == raw


def test_first_metadata_have_a_format(tmp_path):
    """Without it transformers refuses a file that it could load before."""
    text = b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}'
    path = tmp_path / "bare.safetensors"
    ways = [
        (["meta", path, "--set", "k=v"], {"k": "v", "format": "pt"}),
        (["meta", path, "--set", "a=v", "--set", "z=v"], {"a": "v", "format": "pt", "z": "v"}),
        (["meta", path, "--set", "format=np"], {"format": "np"}),
        (["meta", path, "--set", "k=v", "--unset", "format"], None),
        (["hash", "--write", path], {"format": "pt"}),
        (["align", path, "--digest", "xxh3", "--in-place"], {"format": "pt"}),
        (["split", path, "-o", tmp_path / "split", "--digest", "sha256"], {"format": "pt"}),
        (["rename", path, "a=b", "--in-place"], {}),
    ]
    for words, expected in ways:
        path.write_bytes(struct.pack("<Q", len(text)) + text + b"abcd")
        done = coffer(*map(str, words))
        out = tmp_path / "split" / "model.safetensors" if words[0] == "split" else path
        if expected is None:
            assert done.returncode == 1
            continue
        assert done.returncode == 0, done.stderr
        raw = out.read_bytes()
        found = json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]]).get("__metadata__", {})
        assert {key: value for key, value in found.items() if not key.startswith("coffer.")} == expected
        # What was loadable stays so: the rule of transformers.
        assert not found or found["format"] in ("pt", "tf", "flax", "mlx", "np")
    # Metadata that were there are as they were, whatever they lack.
    other = b'{"__metadata__":{"k":"v"},' + text[1:]
    path.write_bytes(struct.pack("<Q", len(other)) + other + b"abcd")
    assert coffer("meta", str(path), "--set", "l=w").returncode == 0
    assert data_of("meta", str(path))["metadata"] == {"k": "v", "l": "w"}


def test_meta_last_edit_of_a_key_counts(model):
    assert coffer("meta", model, "--set", "k=1", "--unset", "k", "--set", "k=2").returncode == 0
    assert data_of("meta", model, "k")["value"] == "2"


@pytest.mark.parametrize("kind", ["symbolic", "hard"])
def test_meta_follows_links_only_when_told(tmp_path, model, kind):
    link = str(tmp_path / "link")
    (os.symlink if kind == "symbolic" else os.link)(model, link)
    raw = Path(model).read_bytes()
    result = coffer("meta", link, "--set", "k=v", "--json")
    assert result.returncode == 3
    assert json.loads(result.stdout)["error"]["name"] == "LINKED"
    assert result.stderr.startswith(f"coffer: {link}: ")
    assert Path(model).read_bytes() == raw
    for option, text in (("-f", "v"), ("--follow-links", "w")):
        assert coffer("meta", link, "--set", f"k={text}", option).returncode == 0
        assert answer("meta", link, "k") == f"{text}\n"
    assert os.path.islink(link) == (kind == "symbolic")


def test_meta_refuses_what_is_not_utf8(model):
    raw = Path(model).read_bytes()
    result = subprocess.run([CLI, "meta", model, "--set", b"k=\xff"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (
        2, "", 'coffer meta: "k=\\xff" is not UTF-8, which keys and values must be\nTry: coffer meta --help\n')
    assert Path(model).read_bytes() == raw


def test_meta_recover_without_an_undo_file(model):
    result = coffer("meta", model, "--recover", "--json")
    assert result.returncode == 3
    assert json.loads(result.stdout)["error"]["name"] == "NO_UNDO"


def interrupt_an_edit(path):
    """Leaves a file as a crash in the middle of an edit in place does; the layout is that of src/io/patch.c."""
    raw = Path(path).read_bytes()
    old = raw[:8 + struct.unpack("<Q", raw[:8])[0]]
    fresh = old.replace(b'"license":"mit"', b'"license":"bsd"')
    undo = b"COFRUNDO" + struct.pack("<3Q", 1, len(raw), len(old)) + old + fresh
    total = 0xCBF29CE484222325
    for byte in undo:
        total = (total ^ byte) * 0x100000001B3 % (1 << 64)
    Path(path + ".coffer-undo").write_bytes(undo + struct.pack("<Q", total))
    half = raw.index(b"mit") + 1
    Path(path).write_bytes(fresh[:half] + raw[half:])
    return raw


def test_meta_recovers_what_an_interrupted_edit_left(model):
    for options in ([], ["--json"]):
        raw = interrupt_an_edit(model)
        assert Path(model).read_bytes() != raw
        stopped = coffer("info", model)
        assert (stopped.returncode, stopped.stdout) == (3, "")
        assert "coffer meta --recover" in stopped.stderr
        result = coffer("meta", model, "--recover", *options)
        assert result.returncode == 0
        assert result.stderr.startswith(
            f"coffer: {model}: recovered: nothing is unfinished (")
        assert not options or json.loads(result.stdout)["done"] == "recovered"
        assert Path(model).read_bytes() == raw
        assert os.listdir(Path(model).parent) == ["model.safetensors"]


def test_an_undo_file_stops_every_command(model):
    Path(model + ".coffer-undo").write_bytes(b"not an undo file of this one")
    for arguments in (["info", model], ["ls", model], ["check", model], ["get", model, "step"], ["meta", model]):
        result = coffer(*arguments)
        assert (result.returncode, result.stdout) == (3, "")
        assert result.stderr.startswith(f"coffer: {model}: ")
    result = coffer("meta", model, "--recover", "--json")
    assert (result.returncode, json.loads(result.stdout)["error"]["name"]) == (3, "NO_UNDO")


# ---- The output ----


@pytest.mark.parametrize("command", [["--version"], ["help"], ["help", "get"], ["info"], ["ls"], ["check"], ["get"],
                                     ["meta"]])
def test_a_full_disk_is_an_error(model, command):
    arguments = command + ([model] if command[0] in COMMANDS and command[0] != "help" else [])
    arguments += ["wte.weight"] if command == ["get"] else []
    with open("/dev/full", "wb") as full:
        result = subprocess.run([CLI, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 3
    assert result.stderr == "coffer: standard output: No space left on device\n"


@pytest.mark.parametrize("ignored", [False, True])
def test_a_closed_pipe_is_silent(tmp_path, ignored):
    path = make(tmp_path / "m", {"x": ("U8", [1_000_000], bytes(1_000_000))})
    with subprocess.Popen([CLI, "get", path, "x", "--all"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          restore_signals=not ignored) as process:
        process.stdout.read(10)
        process.stdout.close()
        message = process.stderr.read()
        code = process.wait(timeout=60)
    assert message == b""
    assert code == (0 if ignored else -signal.SIGPIPE)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_ends_a_wait(number):
    """A shell reports such an end as 128 and the signal: 130 for Ctrl-C."""
    with subprocess.Popen([CLI, "ls", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        process.stdin.write(bytes(100_000))
        process.stdin.flush()
        wait_until(lambda: is_waiting(process.pid))
        process.send_signal(number)
        assert process.wait(timeout=60) == -number
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"coffer: interrupted\n")


def is_waiting(pid):
    """Whether a process sleeps, in a read for one, and not because it is still being started."""
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "S" and Path(CLI).samefile(f"/proc/{pid}/exe")


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_ignored_interrupt_stays_ignored(model):
    with subprocess.Popen(["sh", "-c", 'trap "" INT; exec "$0" ls -', CLI], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        process.stdin.write(Path(model).read_bytes())
        process.stdin.flush()
        wait_until(lambda: is_waiting(process.pid))
        process.send_signal(signal.SIGINT)
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def test_many_files_are_shown_in_order(tmp_path):
    paths = [make(tmp_path / f"f{i}", {"a": ("U8", [i % 7], bytes(i % 7))}) for i in range(300)]
    assert answer("check", *paths) == "".join(f"{path}: ok\n" for path in paths)
    assert [entry["path"] for entry in data_of("info", *paths)] == paths


# ---- Standard input ----


def test_standard_input_from_where_it_stands(tmp_path, model):
    (tmp_path / "behind").write_bytes(b"junk" + Path(model).read_bytes())
    with (tmp_path / "behind").open("rb", buffering=0) as stdin:
        stdin.read(4)
        assert coffer("ls", "-", stdin=stdin).stdout == answer("ls", model)


def test_a_pipe_larger_than_a_buffer(tmp_path):
    path = make(tmp_path / "m", {"a": ("U8", [3_000_000], bytes(2_999_999) + b"\x07")})
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as cat:
        assert coffer("get", "-", "a[-1]", stdin=cat.stdout).stdout == "7\n"


@pytest.mark.parametrize(("redirection", "message"), [
    ("<&-", "standard input is closed; give it a file (< FILE)"),
    ("</dev/null", "the file is empty"),
])
def test_standard_input_that_is_none(redirection, message):
    result = subprocess.run(["sh", "-c", f'"$0" info - {redirection}', CLI], capture_output=True, text=True, check=False)
    assert result.stdout == ""
    assert result.stderr.startswith(f"coffer: -: {message}"), result.stderr


def test_messages_come_behind_the_data_before_them(tmp_path, model):
    result = subprocess.run([CLI, "check", "-q", "--strict", model, str(tmp_path / "missing"), model], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, check=False)
    lines = [line for line in result.stdout.splitlines() if ": note: " not in line]
    assert [line.split(": ")[0] for line in lines] == [model, "coffer", model]


# ---- Real files ----

REAL = {
    "PK\x03\x04": "IS_ZIP", "\x80\x02": "IS_PICKLE", "\x93NUMPY": "IS_NUMPY", "version ": "IS_LFS_POINTER",
    "{": "IS_JSON",
}


def real_files():
    folder = os.environ.get("COFFER_REALDATA")
    return [path for path in sorted(Path(folder).rglob("*")) if path.is_file()] if folder else []


def test_real_files():
    for path in real_files():
        start = path.read_bytes()[:16].decode("latin-1")
        entry, *others = json.loads(coffer("check", "--json", str(path)).stdout)
        assert not others or (path.name.endswith(".index.json") and not any(other["ok"] for other in others))
        expected = next((name for begin, name in REAL.items() if start.startswith(begin)), None)
        if path.name.endswith(".index.json"):  # one model is whole; of the other only a pointer to the first shard is there
            assert entry["ok"] or entry["error"]["name"] == "IS_LFS_POINTER", entry
        elif path.suffix == ".safetensors" and expected is None:
            assert entry["ok"], entry
            look_through(str(path))
        else:
            assert not entry["ok"], entry
            assert expected is None or entry["error"]["name"] == expected, entry
            # What can be converted is a model, too; without being told what the model is, all of it.
            ways = [coffer("convert", "-n", *root, str(path)).returncode for root in ([], ["--root", "all"])]
            assert coffer("info", str(path)).returncode == min(ways)


def fits_a_terminal(arguments):
    """In a narrow terminal no line is too long, names that are longer than it notwithstanding."""
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    code, said = terminal.run([CLI, *arguments], 40, env=environment)
    assert code == 0
    assert max(map(len, said.splitlines())) <= 40


def look_through(path):
    """Every tensor of a good file, as text and as JSON."""
    tensors = tensors_of(path)
    assert {tensor["name"] for tensor in data_of("ls", path)["tensors"]} == set(tensors)
    assert data_of("info", path)[0]["tensors"] == len(tensors)
    for options in (["--tree"], ["--map"], ["--dtypes"], ["--sort", "name"], ["--tsv"], ["--tree", "--tsv"]):
        assert answer("ls", *options, path)
    assert sum(fold["count"] for fold in data_of("ls", "--tree", path)["folds"]) == len(tensors)
    assert sum(share["tensors"] for share in data_of("ls", "--dtypes", path)["dtypes"].values()) == len(tensors)
    regions = data_of("ls", "--map", path)["regions"]
    assert [region["offset"] for region in regions[1:]] == [r["offset"] + r["size"] for r in regions[:-1]]
    assert regions[-1]["offset"] + regions[-1]["size"] == os.path.getsize(path)
    for command in (["ls", "--tree"], ["ls", "--map"], ["info"]):
        fits_a_terminal([*command, path])
    for name, (dtype, shape, body) in list(tensors.items())[:40]:
        found = data_of("get", path, name)
        assert (found["dtype"], found["shape"]) == (dtype, shape)
        code = {"F32": "f", "F64": "d", "F16": "e", "I64": "q", "I32": "i", "U8": "B", "I8": "b", "I16": "h"}.get(dtype)
        if code and body:
            flat = found["values"]
            for _ in shape[1:]:
                flat = [element for row in flat for element in row]
            flat = flat if shape else [flat]
            flat = [float(element) if isinstance(element, str) else element for element in flat]
            assert struct.pack(f"<{len(flat)}{code}", *flat) == body
        assert coffer("get", path, name).returncode == 0


# ---- Every vector, by every command ----


def vectors():
    """Each vector with whether the command accepts it. Left out are those whose verdict is that of a reader which was told
    something: to accept more, or that the file is bintensors."""
    folder = Path(os.environ.get("COFFER_VECTORS") or Path(__file__).resolve().parents[1] / "vectors")
    for path in sorted(folder.iterdir()):
        accepted = not path.name.startswith("err_")
        special = path.name.startswith(("note_UNKNOWN_DTYPE", "note_PADDING")) or path.name.endswith(".alpha.bt")
        if path.suffix in (".safetensors", ".bin") or (path.suffix == ".bt" and accepted):
            if not special:
                yield str(path), accepted


@pytest.mark.parametrize("arguments", [["info"], ["check"], ["check", "--tsv"], ["ls"], ["ls", "--tree"], ["ls", "--map"],
                                       ["ls", "--tsv"], ["meta"], ["info", "--json"], ["ls", "--json"],
                                       ["ls", "--tree", "--json"], ["ls", "--map", "--json"], ["meta", "--json"]],
                         ids=" ".join)
def test_every_vector(arguments):
    found = list(vectors())
    assert len(found) > 300
    for path, accepted in found:
        result = coffer(*arguments, path)
        if path.endswith("__npy.bin") and arguments[0] != "check":  # a whole file of another program, which is a model, too
            accepted = "--map" not in arguments
            assert accepted or result.returncode == 2
            continue
        assert (result.returncode, path) == (0 if accepted else 1, path)
        assert (result.stderr == "") == (accepted or arguments[0] == "check"), path
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]",
                             result.stdout + result.stderr), path
        if arguments[-1] == "--json":
            json.loads(result.stdout)
        elif accepted and arguments[0] in ("info", "check"):
            assert result.stdout


def test_many_vectors_at_once_are_what_they_are_one_by_one():
    found = list(vectors())
    paths = [path for path, _ in found]
    together = coffer("check", "-q", *paths)
    assert together.returncode == 1
    assert together.stdout.splitlines() == [line for path in paths for line in coffer("check", "-q", path).stdout.splitlines()]
    entries = json.loads(coffer("check", "--json", *paths).stdout)
    assert [(entry["path"], entry["ok"]) for entry in entries] == found
