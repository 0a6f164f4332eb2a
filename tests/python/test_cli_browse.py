# SPDX-License-Identifier: Apache-2.0
"""coffer browse in a pseudo-terminal, of which pyte makes the screen that a person would see.

Golden screens are tests/golden/browse/*.screens: prose, then steps.

    80x24 browse m.safetensors       a terminal of that size, and the command in it
    > jj\\r                           keys, as Python writes them
    > jj ~ infinite                  the same, and what is waited for before the screen is written
    ~ infinite                       waits for a text, where something is read in the background
    ~G infinite                      the same, going to the page's end again and again
    = 120x30                         the terminal gets another size
    | a line of the screen

Needs COFFER_CLI. With --update-goldens the screens are rewritten; read them before you commit them.
"""

import json
import os
import pickle
import random
import re
import signal
import struct
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import terminal
from model_files import make
from screen import Program
from web_server import Server

COFFER = os.environ["COFFER_CLI"]
SCREENS = Path(__file__).resolve().parents[1] / "golden" / "browse"
ENVIRONMENT = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8", "HOME": "/nonexistent"}
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\r\n\x00\x08.weight"


def floats(count, seed=1):
    numbers = random.Random(seed)
    return struct.pack(f"<{count}f", *[round(numbers.uniform(-1, 1), 3) for _ in range(count)])


def small_tensors():
    tensors = {"model.embed_tokens.weight": ("F32", [32, 16], floats(512))}
    for layer in range(4):
        for name in ("q_proj", "k_proj"):
            tensors[f"model.layers.{layer}.self_attn.{name}.weight"] = ("F32", [16, 16], floats(256, layer))
        tensors[f"model.layers.{layer}.mlp.up.weight"] = ("BF16", [16, 8], b"\x80\x3f" * 128)
    tensors["lm_head.weight"] = ("F32", [32, 16], floats(512, 9))
    tensors["odd"] = ("F32", [2, 3], struct.pack("<6f", float("nan"), float("inf"), -2, 0, 0.5, 1e-40))
    tensors["empty"] = ("F16", [0, 5], b"")
    tensors["scalar"] = ("I64", [], struct.pack("<q", -7))
    tensors["packed"] = ("F4", [4, 4], bytes(range(8)))
    tensors["complex"] = ("C64", [2], struct.pack("<4f", 1, -2, 3, 4))
    tensors["日本語のテンソル.weight"] = ("U8", [2], b"ab")
    tensors["cafe\u0301"] = ("U8", [1], b"a")
    tensors[HOSTILE] = ("U8", [3], b"abc")
    return tensors


def slices():
    """Tensors of which no screen shows all, each number of which tells where it is."""
    return {
        "conv": ("F32", [3, 2, 20, 12], struct.pack("<1440f", *range(1440))),
        "vector": ("I64", [200], struct.pack("<200q", *range(199), -2**63)),
        "packed": ("F4", [3, 41, 2], bytes(i % 256 for i in range(123))),
        "none": ("F32", [3, 0], b""),
    }


METADATA = {"format": "pt", "config": json.dumps({"hidden": [1, 2, {"deep": "\x1b[31m"}], "layers": {"0": {"x": 1}}}),
            "text": "two\nlines \x1b[31m and a long one: " + "word " * 40}


@pytest.fixture(name="folder", scope="module")
def fixture_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browse")
    tensors = small_tensors()
    make(folder / "m.safetensors", tensors, METADATA)
    del tensors["scalar"]
    tensors["new"] = ("F32", [2], floats(2))
    tensors["odd"] = ("F32", [6], tensors["odd"][2])
    body = bytearray(tensors["lm_head.weight"][2])
    body[100] ^= 1
    tensors["lm_head.weight"] = ("F32", [32, 16], bytes(body))
    make(folder / "other.safetensors", tensors, {"format": "np"})
    make(folder / "none.safetensors", {})
    make(folder / "slices.safetensors", slices())
    return folder


def browse(folder, *arguments, columns=80, rows=24, **environment):
    return Program([COFFER, "browse", *arguments], columns, rows, cwd=folder, env={**ENVIRONMENT, **environment})


# ---- Golden screens -------------------------------------------------------------------------------------------------


def replay(text, folder):
    lines, program = [], None
    for line in text.splitlines():
        start = re.fullmatch(r"(\d+)x(\d+) browse (.*)", line)
        if line.startswith("|"):
            continue
        lines.append(line)
        if start:
            program = browse(folder, *start[3].split(), columns=int(start[1]), rows=int(start[2]))
            program.__enter__().wait(lambda _, program=program: program.said.endswith(b"\x1b[?2026l"))
        elif program is not None and line.startswith("> "):
            keys, _, wanted = line[2:].partition(" ~ ")
            program.press(keys.encode().decode("unicode_escape").encode("latin-1")).wait(wanted).press("")
        elif program is not None and line.startswith("= "):
            size, _, wanted = line[2:].partition(" ~ ")
            program.resize(*map(int, size.split("x"))).wait(wanted).press("")
        elif program is not None and line.startswith("~ "):
            program.wait(line[2:]).press("")
        elif program is not None and line.startswith("~G "):
            while line[3:] not in program.text():
                program.press("G")
        else:
            continue
        program.wait(lambda text: re.search("reading its|so far|comparing", text) is None)
        lines += [f"| {shown}".rstrip() for shown in program.lines()]
    if program is not None:
        program.__exit__()
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("case", sorted(SCREENS.glob("*.screens")), ids=lambda path: path.stem)
def test_screens(case, folder, pytestconfig):
    expected = case.read_text(encoding="utf-8")
    found = replay(expected, folder)
    if pytestconfig.getoption("update_goldens") and found != expected:
        case.write_text(found, encoding="utf-8")
        expected = found
    assert found == expected


# ---- Input ----------------------------------------------------------------------------------------------------------


def test_keys_that_come_byte_by_byte(folder):
    with browse(folder, "m.safetensors") as program:
        program.wait("1/")
        for key in (b"\x1b[B", b"\x1b[1;5B", b"\x1bOB"):
            for byte in key:
                program.type(bytes([byte]))
                time.sleep(0.02)
        program.wait("4/")
        for byte in b"\x1b[<0;5;3M\x1b[<0;5;3m":  # a click on the first row, which closes it
            program.type(bytes([byte]))
            program.read(0.09)
        program.wait("1/").wait("▸ model")
        assert program.type("q").end() == 0


def test_the_mouse(folder):
    with browse(folder, "m.safetensors", columns=120) as program:
        program.wait("1/")
        program.press("\x1b[<0;5;12M")
        assert "nan" not in program.text() and "10/" in program.text()
        program.press("\x1b[<64;5;5M")
        assert "7/" in program.text()
        program.press("\x1b[<65;5;5M\x1b[<65;5;5M")
        assert "13/" in program.text()
        program.press("\x1b[<0;100;5M\x1b[<65;100;5M")
        assert "13/" in program.text()
        assert program.type("qq").end() == 0


def test_pasted_text_does_nothing_but_fill_a_prompt(folder):
    with browse(folder, "m.safetensors") as program:
        program.wait("1/")
        program.press("\x1b[200~qmb?\x03\x1b[201~")
        assert "1/" in program.text()
        program.press("/\x1b[200~lm_head\r\x1b[201~")
        assert program.lines()[-1].startswith("/lm_head")
        program.press("\r")
        assert re.search(r"\d+/\d+$", program.lines()[-1]) and "1/16" not in program.lines()[-1]
        assert program.type("q").end() == 0


def test_unknown_sequences_and_bytes_are_ignored(folder):
    with browse(folder, "m.safetensors") as program:
        program.wait("1/")
        program.press(b"\x1b[15~\x1b[?62;c\x1b]11;rgb:ffff/ffff/ffff\x07\xff\xfe\xc3\x00\x1bP1$r\x1b\\\x1b[M !!")
        assert "1/" in program.lines()[-1]
        assert program.type("q").end() == 0


def test_resizing(folder):
    with browse(folder, "m.safetensors") as program:
        program.wait("1/").press("/scalar\r")
        for columns, rows in ((132, 43), (40, 10), (39, 10), (200, 60), (1, 1), (120, 20), (80, 24)):
            program.resize(columns, rows)
            small = columns < 40 or rows < 10
            assert ("scalar" in program.text()) != small
            assert ("too small"[:columns] in program.text()) == small
        assert program.type("q").end() == 0


# ---- Ends -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [b"q", b"\x03", b"/abc\x03", b"m\x03"], ids=["q", "ctrl-c", "in-search", "in-metadata"])
def test_keys_that_end_it_restore_the_terminal(folder, keys):
    with browse(folder, "m.safetensors") as program:
        program.wait("1/").type(keys)
        assert program.end() == (0 if keys == b"q" else -signal.SIGINT)
        assert program.is_restored()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGSEGV, signal.SIGQUIT, signal.SIGABRT],
                         ids=lambda number: number.name)
def test_signals_restore_the_terminal(folder, number):
    with browse(folder, "m.safetensors") as program:
        program.wait("1/").kill(number)
        assert program.end() == -number
        assert program.is_restored()


def test_the_end_of_the_input_ends_it(folder):
    with browse(folder, "m.safetensors") as program:
        program.wait("1/")
        os.close(program.slave)
        os.close(program.master)
        assert program.process.wait(60) in (0, 3, -signal.SIGHUP)


def test_stopping_and_going_on(folder):
    script = '"$0" browse m.safetensors; echo STOPPED $?; read -r line; fg > /dev/null; code=$?; echo; echo DONE $code'
    with Program(["bash", "--norc", "-mc", script, COFFER], cwd=folder, env=ENVIRONMENT) as program:
        program.wait("1/").type("\x1a").wait("STOPPED 148")
        assert program.is_restored()
        program.type("\n").wait("STOPPED", gone=True).wait("lm_head").type("j").wait("2/")
        assert 1049 in program.screen.private
        program.type("q").wait("DONE 0")
        assert program.is_restored()


def test_a_stop_from_outside(folder):
    with browse(folder, "m.safetensors") as program:
        program.wait("1/").kill(signal.SIGSTOP)
        os.waitpid(program.process.pid, os.WUNTRACED)
        program.kill(signal.SIGCONT).type("j").wait("2/")
        assert program.type("q").end() == 0


# ---- What is shown --------------------------------------------------------------------------------------------------


HOSTILE_NAMES = {
    "controls": HOSTILE, "c1": "\x9b31m\x85\x90q\x9c", "direction": "\u202ea\u2066b\u200f\u2069.c", "lines": "a\u2028b\u2029c\x0bd\x0ce",
    "wide": "日本語のテンソル" * 60, "marks": "e" + "\u0301" * 600, "joined": "👩\u200d👩\u200d👧🏴\u200d☠\ufe0f" * 40,
    "nothing": "\u200b\ufeff\u00ad\U000e0041",
    "long": "word_" * 4000, "deep": "part." * 900 + "end", "escapes": "\\x1b[2J\\n\"'", "no characters": "\ufffe\ufdd0\U0010ffff",
}


@pytest.fixture(name="hostile", scope="module")
def fixture_hostile(tmp_path_factory):
    """Two models whose names, metadata and file names are hostile. Bytes that are no UTF-8 can come in file names alone."""
    folder = tmp_path_factory.mktemp("hostile")
    tensors = {name: ("F32", [2, 2], floats(4)) for name in HOSTILE_NAMES.values()}
    metadata = {name: json.dumps({name: [name]}) if kind in ("controls", "deep") else name * 2 for kind, name in HOSTILE_NAMES.items()}
    files = [b"a\xff\xc3\x1b[2J.safetensors", "b\u202e日本\x9b.safetensors".encode()]
    make(folder / os.fsdecode(files[0]), tensors, metadata)
    make(folder / os.fsdecode(files[1]), {name + ".b" * (i % 2): tensor for i, (name, tensor) in enumerate(tensors.items())}, metadata)
    return folder, files


def steers_nothing(said):
    """Nothing but text, colours, places and modes came to the terminal."""
    sequences = set(re.findall(rb"\x1b(?:\[[0-9;?]*[a-zA-Z]|.)", said))
    allowed = re.compile(rb"\x1b\[(\d+;\d+H|[0-9;]*m|2J|\?(2026|25|1049|7|1000|1006|2004)[hl])")
    text = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", said).decode()
    unsafe = re.search("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]", text)
    return all(allowed.fullmatch(sequence) for sequence in sequences) and not unsafe


def paste(text):
    """As much of it as a terminal's queue takes at once, which is more than a prompt has room for."""
    return f"\x1b[200~{text[:500]}\x1b[201~"


EACH = len(HOSTILE_NAMES)
PAGES = {
    "tree": ["e"] + ["j"] * EACH,
    "flat list": ["t", "G", "ssss", "g"],
    "details": ["tg\t", "G"] + ["qj\t", "G"] * (EACH - 1),
    "numbers": ["tg\r\r"] + ["qqj\r\r"] * (EACH - 1),
    "metadata": ["m", "G", *(["\x02"] * 4)],
    "map": ["b", "G", "qjb"],
    "help": ["?", "G"],
    "search": [f"/{paste(name)}" + end for name in HOSTILE_NAMES.values() for end in ("", "\r", "n")],
    "search on a page": ["m", *(f"/{paste(name)}\r" for name in HOSTILE_NAMES.values())],
    "filter": [f"f\x15{paste(name)}" + end for name in HOSTILE_NAMES.values() for end in ("", "\r")],
    "comparison": ["c", "d", "tg\t", *(["qj\t"] * (EACH // 2)), "q", "m", "G"],
}


@pytest.mark.parametrize(("columns", "rows"), [(40, 10), (132, 43)])
@pytest.mark.parametrize("page", PAGES)
def test_hostile_names_steer_nothing(hostile, page, columns, rows):
    folder, files = hostile
    with browse(folder, *files[:2 if page == "comparison" else 1], columns=columns, rows=rows) as program:
        program.wait("1/")
        for keys in PAGES[page]:
            program.press(keys)
            assert len(program.lines()) == rows
            assert "tensors" in program.lines()[0]
        assert steers_nothing(program.said)
        assert program.type("\x03").end() == -signal.SIGINT


def test_hostile_names_shift_no_column(hostile):
    folder, files = hostile
    with browse(folder, *files) as program:
        program.wait("1/").press("t")
        rows = [line for line in program.lines()[2:-1] if line]
        assert len(rows) == EACH + EACH // 2
        assert all(re.search(r"F32 +\[2, 2\] +16 B +\d+\.\d %$", row) for row in rows)
        assert program.type("q").end() == 0


@pytest.mark.parametrize(("environment", "expected"), [
    ({"TERM": "vt100"}, rb"\x1b\[[0-9;]*(3[0-7]|38;)"), ({"NO_COLOR": "1"}, rb"\x1b\[[0-9;]*(3[0-7]|38;)"),
    ({"TERM": "xterm"}, rb"\x1b\[[0-9;]*[34]8;"), ({"TERM": "xterm-256color"}, rb"\x1b\[[0-9;]*[34]8;2;"),
], ids=["vt100", "NO_COLOR", "16", "256"])
def test_no_more_colours_than_there_are(folder, environment, expected):
    with browse(folder, "m.safetensors", columns=120, **environment) as program:
        program.wait("1/").press("j").wait("infinite").press("v")
        assert not re.search(expected, program.said)
        assert program.type("q").end() == 0


def test_a_shade_has_16_million_colours(folder):
    with browse(folder, "m.safetensors", columns=120, rows=40, COLORTERM="truecolor") as program:
        program.wait("1/").press("j").wait("infinite").press("v")
        assert re.search(rb"48;2;\d+;\d+;\d+m", program.said)
        assert program.type("q").end() == 0


def test_statistics_are_those_of_stats(folder):
    stats = json.loads(subprocess.run([COFFER, "stats", "--json", "m.safetensors"], cwd=folder, check=True, capture_output=True,
                                      env=ENVIRONMENT).stdout)
    with browse(folder, "m.safetensors", columns=120, rows=40) as program:
        program.wait("1/").press("t")
        for tensor in stats["tensors"]:
            if not tensor["count"] or not tensor["name"].isascii() or not tensor["name"].isprintable():
                continue
            program.press("g/" + tensor["name"] + "\r").wait("infinite").wait("so far", gone=True)
            side = "\n".join(line[73:] for line in program.lines())
            for field, label in (("min", "min"), ("max", "max"), ("mean", "mean"), ("std", "std")):
                if tensor[field] is not None:
                    assert re.search(rf"^ *{label} +{re.escape('%.6g' % tensor[field])}$", side, re.M), (tensor, side)
            assert re.search(rf"^ *NaN +{tensor['nan']}\b", side, re.M)
        assert program.type("q").end() == 0


def test_what_has_been_read_is_not_read_again(folder):
    with browse(folder, "m.safetensors", columns=120, rows=40) as program:
        program.wait("1/").press("j").wait("infinite").press("k").wait("Enter opens").press("j").wait("infinite")
        frames = [0]
        while frames[-1] != program.said.count(b"\x1b[?2026l") and len(frames) < 100:  # until it waits for keys
            frames.append(program.said.count(b"\x1b[?2026l"))
            program.read(0.3)
        assert len(frames) < 100
        assert program.type("q").end() == 0


def test_comparing_bytes(folder):
    with browse(folder, "m.safetensors", "other.safetensors") as program:
        program.wait("1/").press("/lm_head\rc").wait("compared: 1 differ")
        row = next(line for line in program.lines() if "lm_head" in line)
        assert row.startswith("!")
        program.press("g").press("c").wait("compared: 0 differ")
        assert any(line.startswith(" =") and "q_proj" in line for line in program.lines())
        assert program.type("q").end() == 0


def test_what_comparing_found_is_among_what_differs(folder):
    """Before it is compared, after it, and where it was asked for first."""
    with browse(folder, "m.safetensors", "other.safetensors") as program:
        program.wait("1/").press("/lm_head\r").press("d")
        assert not any("lm_head" in line for line in program.lines()[:-2])
        program.press("d").press("/lm_head\rc").wait("compared: 1 differ").press("d")
        assert any(line.startswith("!") and "lm_head" in line for line in program.lines())
        assert not any("q_proj" in line for line in program.lines())
        program.press("d")
        assert any("q_proj" in line for line in program.lines())
        assert program.type("q").end() == 0


# ---- Terminals that are less ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("locale", [{"LC_ALL": "C"}, {"LC_ALL": "", "LC_CTYPE": "POSIX"}, {"LANG": "de_DE.ISO-8859-1"}])
def test_a_locale_without_utf8_gets_ascii(locale, folder, tmp_path):
    """On a terminal; what goes into a file or a pipe is the same in every locale."""
    make(tmp_path / "m.safetensors", {f"model.layers.{i}.self_attn.q_proj.weight": ("U8", [1], b"0") for i in (0, 1)})
    environment = {**ENVIRONMENT, **locale}
    for arguments in (["m.safetensors"], ["m.safetensors", "other.safetensors"]):
        with Program([COFFER, "browse", *arguments], 110, 24, cwd=folder, env=environment) as program:
            program.wait("1/").press("/lm_head\r").wait("mean").press("?").press("q")
            assert program.type("q").end() == 0
            assert program.said.isascii() and b"\x1b[?2026l" in program.said
    for arguments in (["ls", "m.safetensors"], ["ls", "--tree", "m.safetensors"]):
        plain = terminal.run([COFFER, *arguments], 30, cwd=tmp_path, env=environment)[1]
        rich = terminal.run([COFFER, *arguments], 30, cwd=tmp_path, env=ENVIRONMENT)[1]
        assert plain.isascii() and not rich.isascii()
        assert ("..." in plain) == ("\u2026" in rich) and (" x 2" in plain) == (" \u00d7 2" in rich)
        piped = [subprocess.run([COFFER, *arguments], cwd=tmp_path, env=e, capture_output=True, check=True).stdout
                 for e in (environment, ENVIRONMENT)]
        assert piped[0] == piped[1]


def test_messages_in_a_locale_without_utf8(tmp_path):
    """Also signs in messages of the library, on standard error."""
    (tmp_path / "many.pkl").write_bytes(pickle.dumps({f"part{i}": {"w": np.ones(2)} for i in range(60)}))
    call = [COFFER, "convert", "many.pkl", "-o", "o.safetensors"]
    plain = terminal.run(call, 200, cwd=tmp_path, env={**ENVIRONMENT, "LC_ALL": "C"})
    rich = terminal.run(call, 200, cwd=tmp_path, env=ENVIRONMENT)
    assert plain[0] == rich[0] == 1 and "60 parts of the file" in plain[1]
    assert "\u2026" in rich[1] and plain[1] == rich[1].replace("\u2026", "...") and plain[1].isascii()
    piped = subprocess.run(call, cwd=tmp_path, env={**ENVIRONMENT, "LC_ALL": "C"}, capture_output=True, check=False).stderr
    assert "\u2026" in piped.decode()


@pytest.mark.parametrize("term", ["dumb", "", None])
def test_a_terminal_that_moves_no_cursor_gets_no_sequences(term, folder):
    environment = {k: v for k, v in ENVIRONMENT.items() if k != "TERM"} | ({} if term is None else {"TERM": term})
    for arguments in (["browse", "m.safetensors"], ["ls", "m.safetensors"], ["stats", "m.safetensors"],
                      ["hash", "m.safetensors"], ["ls", "missing"], ["doctor", "m.safetensors"]):
        code, said = terminal.run([COFFER, *arguments], 80, cwd=folder, env=environment)
        assert "\x1b" not in said and code == {"browse": 2, "missing": 3}.get(arguments[0], 3 if "missing" in arguments else 0)
        assert arguments[0] != "browse" or "TERM says that this one cannot" in said


# ---- Large models ---------------------------------------------------------------------------------------------------


@pytest.fixture(name="large", scope="module")
def fixture_large(tmp_path_factory):
    """92,160 tensors, as a mixture of experts has them, and as many without a pattern."""
    folder = tmp_path_factory.mktemp("large")
    header, end = {}, 0
    for layer in range(60):
        for expert in range(256):
            for part in ("gate_proj", "up_proj", "down_proj"):
                for name in ("weight", "weight_scale_inv"):
                    header[f"model.layers.{layer}.mlp.experts.{expert}.{part}.{name}"] = {
                        "dtype": "U8", "shape": [4], "data_offsets": [end, end + 4]}
                    end += 4
    text = json.dumps(header, separators=(",", ":")).encode()
    (folder / "experts.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))
    return folder


def test_92000_tensors(large):
    with browse(large, "experts.safetensors") as program:
        program.wait("92,160 tensors").press("/layers.42.mlp.experts.137.down")
        program.wait("layers.42.mlp.experts.137").press("\r")
        program.press("t")
        program.wait("/92,160").press("s")
        program.press("G")
        assert "92,160/92,160" in program.text()
        program.press("fexperts.99.up\r")
        assert "/120" in program.text()
        assert program.type("q").end() == 0


# ---- Other places ---------------------------------------------------------------------------------------------------


def test_a_url(folder):
    content = (folder / "m.safetensors").read_bytes()
    with Server({"/m.safetensors": content}) as server, \
            browse(folder, server.url("/m.safetensors"), columns=120, rows=40) as program:
        program.wait("1/").press("/embed\r").wait("r reads its")
        requests = len(server.paths)
        program.press("jkjk")
        assert len(server.paths) == requests
        program.press("r").wait("infinite").wait("so far", gone=True)
        assert program.type("q").end() == 0


def test_a_network_that_stalls_does_not_block_keys(tmp_path):
    path = tmp_path / "m.safetensors"
    make(path, {"large": ("F32", [1 << 18], bytes(1 << 20)), "small": ("U8", [1], b"a")}, {"format": "pt"})
    content, stalls = path.read_bytes(), []

    def behave(request):
        return request.stall() if stalls else request.ranges(content)

    with Server(behave=behave) as server, browse(tmp_path, server.url("/m.safetensors"), columns=120) as program:
        program.wait("r reads its")
        stalls.append(True)
        program.press("r").press("j").press("k").press("r").press("m")
        assert "format = pt" in program.text()
        assert program.type("qq").end() == 0


def test_a_folder_of_shards(folder, tmp_path):
    tensors = small_tensors()
    names = list(tensors)
    files = {}
    for number, part in enumerate((names[:8], names[8:]), 1):
        file = f"model-0000{number}-of-00002.safetensors"
        make(tmp_path / file, {name: tensors[name] for name in part}, {"format": "pt"})
        files |= dict.fromkeys(part, file)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": files}))
    with browse(tmp_path, ".", columns=120, rows=40) as program:
        program.wait("1/").press("/lm_head\r").wait("model-00002-of-00002.safetensors")
        program.press("b")
        assert "model-00002-of-00002" in program.lines()[1] and "lm_head" in program.text()
        program.press("qm")
        assert "total_size" in program.text()
        assert program.type("qq").end() == 0


def test_a_file_that_shrinks_is_a_message(folder, tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes((folder / "m.safetensors").read_bytes())
    with browse(tmp_path, "m.safetensors", columns=120, rows=30) as program:
        program.wait("1/")
        os.truncate(path, 3000)
        program.press("/lm_head\r").wait("the file")
        assert program.type("q").end() == 0
