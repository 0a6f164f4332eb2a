# SPDX-License-Identifier: Apache-2.0
"""coffer report: what is in a report, byte for byte; names that try to get out of it; how much is read; and the page that the
build puts into the command.

Needs COFFER_CLI and COFFER_VECTORS; the tests of the build need cmake and ninja.
"""

import base64
import html.parser
import json
import os
import random
import shutil
import struct
import subprocess
import threading
import zlib
from pathlib import Path

import pytest
from network import FIRST, file_with_header
from test_network_models import INDEX, make_model, serve
from web_server import Server

SOURCE = Path(os.environ.get("COFFER_SOURCE_DIR") or Path(__file__).resolve().parents[2])
BUILD = Path(os.environ.get("COFFER_BUILD_DIR") or Path(os.environ["COFFER_LIB"]).parent).resolve()
CLI = os.environ["COFFER_CLI"]
CC = os.environ.get("CC", "cc")
VECTORS = sorted(Path(os.environ["COFFER_VECTORS"]).glob("ok*"))

MARKER = b"<!--coffer-report-->"
BEFORE, AFTER = b"<!doctype html>\n<meta charset=utf-8><title>a page</title>\xff", b"<p>its rest, with a <!--comment--> and \x00"


class Scripts(html.parser.HTMLParser):
    """The elements of a page, and the text in those that are scripts, as a browser would find them."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "script":
            self.texts.append("")

    def handle_data(self, text):
        if self.tags and self.tags[-1][0] == "script":
            self.texts[-1] += text


@pytest.fixture(name="page")
def fixture_page(tmp_path):
    path = tmp_path / "page.html"
    path.write_bytes(BEFORE + MARKER + AFTER)
    return path


def run(*arguments, **options):
    return subprocess.run([CLI, "report", *map(str, arguments)], capture_output=True, check=False, timeout=60, **options)


def unpacked(text):
    """What a browser makes of a header: base64, then a raw deflate stream that ends with its last byte."""
    stream = zlib.decompressobj(-15)
    content = stream.decompress(base64.b64decode(text, validate=True)) + stream.flush()
    assert stream.eof and not stream.unused_data
    return content


def report_of(content):
    """The JSON of a report, after looking that the page is around it and that nothing else came into the page."""
    assert content.startswith(BEFORE) and content.endswith(AFTER)
    element = content[len(BEFORE) : -len(AFTER)]
    inner = element.removeprefix(b'<script type="application/json" id="coffer-report">').removesuffix(b"</script>")
    assert len(inner) == len(element) - 60
    assert not set(inner) & set(b"<>&") and not any(mark.encode() in inner for mark in "\u2028\u2029\u202e")
    parsed = Scripts(element.decode())
    assert [tag for tag, _ in parsed.tags] == ["script"]
    assert json.loads(parsed.texts[0]) == json.loads(inner)
    report = json.loads(inner)
    assert list(report) == ["version", "name", "files", "index"] and report["version"] == 2
    return report


def made(page, model, **options):
    done = run(model, "--page", page, **options)
    assert done.returncode == 0, done.stderr
    return report_of(done.stdout)


def header_of(content, bintensors=False):
    (length,) = struct.unpack_from("<Q", content)
    return content[: 8 + length]


def model_bytes(header, data=b""):
    text = json.dumps(header, ensure_ascii=False).encode()
    return struct.pack("<Q", len(text)) + text + data


ONE = model_bytes({"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}, b"xy")


# ---- What is in it ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS[:: max(1, len(VECTORS) // 60)], ids=lambda path: path.name)
def test_a_report_has_the_headers_own_bytes(vector, page):
    done = run(vector, "--page", page)
    opened = subprocess.run([CLI, "info", "--json", vector], capture_output=True, check=False)
    assert done.returncode == opened.returncode
    if done.returncode != 0:
        return
    content = vector.read_bytes()
    (file,) = report_of(done.stdout)["files"]
    assert file["name"] == vector.name and file["size"] == len(content)
    header = unpacked(file["header"])
    assert len(header) == json.loads(opened.stdout)[0]["data_offset"] and content.startswith(header)


def test_a_model_of_several_files_has_its_index(page, tmp_path):
    files, _ = make_model(3)
    folder = tmp_path / "a model"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "config.json").write_text("{}")
    for model in (folder, folder / INDEX):
        report = made(page, model)
        assert report["name"] == model.name
        assert unpacked(report["index"]["text"]) == files[INDEX] and report["index"]["name"] == INDEX
        assert [file["name"] for file in report["files"]] == sorted(name for name in files if name != INDEX)
        for file in report["files"]:
            content = files[file["name"]]
            assert unpacked(file["header"]) == header_of(content) and file["size"] == len(content)
    # Without its index they are a model still.
    (folder / INDEX).unlink()
    report = made(page, folder)
    assert report["index"] is None and len(report["files"]) == 3


ODD = "a b%20c?d#e&f+g\u00e9.safetensors"  # each of which means something in a URL


def test_files_are_named_as_the_index_names_them(page, tmp_path):
    index = json.dumps({"weight_map": {"a": ODD}}).encode()
    (tmp_path / ODD).write_bytes(ONE)
    (tmp_path / INDEX).write_bytes(index)
    assert made(page, tmp_path / INDEX)["files"][0]["name"] == ODD
    with Server({}) as server:
        server.behave = lambda request: request.ranges(index if request.path.endswith(".json") else ONE)
        report = made(page, server.url(f"/m/{INDEX}"))
    assert report["files"][0]["name"] == ODD


def test_a_long_header_is_whole(page, tmp_path):
    names = {f"layers.{i}.weight": {"dtype": "F32", "shape": [0, i], "data_offsets": [0, 0]} for i in range(20000)}
    content = model_bytes(names)
    (tmp_path / "m.safetensors").write_bytes(content)
    done = run(tmp_path / "m.safetensors", "--page", page, "-o", tmp_path / "r.html")
    assert done.returncode == 0 and b"20,000 tensors" in done.stderr and done.stdout == b""
    (file,) = report_of((tmp_path / "r.html").read_bytes())["files"]
    assert unpacked(file["header"]) == content


def test_a_report_follows_the_umask_and_replaces_a_file_when_it_is_complete(page, tmp_path):
    (tmp_path / "m.safetensors").write_bytes(ONE)
    out = tmp_path / "r.html"
    old = os.umask(0o027)
    try:
        assert run(tmp_path / "m.safetensors", "--page", page, "-o", out).returncode == 0
    finally:
        os.umask(old)
    assert out.stat().st_mode & 0o777 == 0o640
    before = out.read_bytes()
    assert run(tmp_path / "m.safetensors", "--page", page, "-o", out).returncode == 3 and out.read_bytes() == before
    (tmp_path / "m.safetensors").write_bytes(ONE[:-1])
    assert run(tmp_path / "m.safetensors", "--page", page, "-f", "-o", out).returncode == 1 and out.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.safetensors", "page.html", "r.html"]


# ---- Names that try to get out ----------------------------------------------------------------------------------------

HOSTILE = ["</script><img src=x onerror=alert(1)>", "<!--<script>", "]]>&lt;&#60;", "a\u2028b\u2029c\u202ed", "\x01\x1b[31m\x7f\u0085",
           '"},{"\\', "\U0001f600 \u00e9", "x" * 200]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_of_files_stay_text(name, page, tmp_path):
    name = name.replace("/", "\u2215") + ".safetensors"
    (tmp_path / name).write_bytes(ONE)
    report = made(page, tmp_path / name)
    assert report["name"] == name and report["files"][0]["name"] == name


def test_names_that_are_no_text_are_shown_as_far_as_they_are(page, tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff<b>\xc3(\xed\xa0\x80.safetensors"
    Path(os.fsdecode(path)).write_bytes(ONE)
    done = subprocess.run([CLI, "report", path, "--page", page], capture_output=True, check=True)
    assert report_of(done.stdout)["name"] == "\ufffd<b>\ufffd(\ufffd\ufffd\ufffd.safetensors"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_of_tensors_and_keys_stay_in_base64(name, page, tmp_path):
    tensor = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}
    content = model_bytes({"__metadata__": {name: name}, name: tensor}, b"xy")
    (tmp_path / "m.safetensors").write_bytes(content)
    (tmp_path / INDEX).write_text(json.dumps({"metadata": {name: name}, "weight_map": {name: "m.safetensors"}}, ensure_ascii=False))
    report = made(page, tmp_path / INDEX)
    assert unpacked(report["files"][0]["header"]) == header_of(content)
    assert unpacked(report["index"]["text"]) == (tmp_path / INDEX).read_bytes()


# ---- URLs -------------------------------------------------------------------------------------------------------------


def test_of_a_url_only_the_header_is_read_and_the_query_is_kept_secret(page):
    content = ONE[:-2] + b"xy"
    with Server({"/a/m%20x.safetensors": content}) as server:
        server.behave = lambda request: request.ranges(content)
        report = made(page, server.url("/a/m%20x.safetensors?X-Signature=secret#part"))
        assert len(server.log) == 1
    assert report["files"][0]["name"] == report["name"] and "secret" not in json.dumps(report)
    assert report["files"][0]["size"] == len(content)


@pytest.mark.parametrize(("length", "requests"), [(FIRST - 8, 1), (FIRST + 1000, 3)])
def test_a_header_beyond_the_first_answer_takes_one_request_more(length, requests, page):
    content, _ = file_with_header(length, 3, 100000)
    with Server({"/m.safetensors": content}) as server:
        report = made(page, server.url("/m.safetensors"))
        assert len(server.log) == requests
        read = sum(request.range[1] - request.range[0] + 1 for request in server.log)
        assert read < 2 * FIRST
    assert unpacked(report["files"][0]["header"]) == header_of(content)


def test_a_model_behind_a_url_takes_a_request_for_each_file(page):
    files, _ = make_model(40)
    with serve(files, "/a/b/") as server:
        report = made(page, server.url(f"/a/b/{INDEX}?token=secret"))
        assert len(server.log) == 41
    assert report["name"] == report["index"]["name"] == INDEX and "secret" not in json.dumps(report)
    assert [file["name"] for file in report["files"]] == sorted(name for name in files if name != INDEX)


def test_long_headers_behind_urls_are_read_at_the_same_time(page):
    """The third request for a file is for its header again. The server answers only when four of these are waiting."""
    files, _ = make_model(24, longer=range(1, 25))
    together, lock, seen = threading.Barrier(4), threading.Lock(), {}
    with serve(files) as server:

        def behave(request):
            with lock:
                seen[request.path] = seen.get(request.path, 0) + 1
                waits = seen[request.path] == 3
            if waits:
                together.wait(30)
            server.serve(request)

        server.behave = behave
        report = made(page, server.url("/" + INDEX))
        assert len(server.log) == 1 + 3 * 24
    assert [file["name"] for file in report["files"]] == sorted(name for name in files if name != INDEX)


# ---- How large it is --------------------------------------------------------------------------------------------------


def test_92000_tensors_make_a_small_report(tmp_path):
    """With the page that comes with the sources, names and sizes as those of DeepSeek-V3 are."""
    header, offset = {}, 0
    for layer in range(60):
        for expert in range(256):
            for part in ("gate_proj", "up_proj", "down_proj"):
                name = f"model.layers.{layer}.mlp.experts.{expert}.{part}.weight"
                for suffix, dtype, shape, size in (("", "F8_E4M3", [2048, 7168], 2048 * 7168), ("_scale_inv", "F32", [16, 56], 16 * 56 * 4)):
                    header[name + suffix] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
                    offset += size
    content = model_bytes(header)
    with open(tmp_path / "m.safetensors", "wb") as file:
        file.write(content)
        file.truncate(len(content) + offset)
    done = run(tmp_path / "m.safetensors", "--page", SOURCE / "cli/page.html")
    assert len(header) == 92160 and len(done.stdout) < 2_000_000
    (text,) = (text for text in Scripts(done.stdout.decode()).texts if text.startswith('{"version"'))
    assert unpacked(json.loads(text)["files"][0]["header"]) == content


@pytest.mark.parametrize("seed", range(8))
def test_any_header_comes_back(seed, page, tmp_path):
    """Names of every kind of text: random, repeated, of two letters, far apart, of one length and of very many."""
    source = random.Random(seed)
    alphabet = ["ab", "0123456789.", "abcdefghijklmnopqrstuvwxyz_", "\u00e4\u4e2d x"][seed % 4]
    names = {"".join(source.choices(alphabet, k=source.choice([1, 2, 3, 40, 258, 259, 3000]))) for _ in range(source.choice([1, 2, 700]))}
    content = model_bytes({name: {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for name in names})
    (tmp_path / "m.safetensors").write_bytes(content)
    assert unpacked(made(page, tmp_path / "m.safetensors")["files"][0]["header"]) == content


# ---- The page that is built in ----------------------------------------------------------------------------------------

PROJECT = f"""cmake_minimum_required(VERSION 3.25)
project(planted LANGUAGES C)
set(COFFER_PAGE AUTO CACHE STRING "")
add_executable(planted main.c)
include({SOURCE}/cli/page.cmake)
coffer_embed_page(planted main.c)
"""

PROGRAM = """#include <stdio.h>
int main(void)
{
#ifdef COFFER_PAGE
    extern const unsigned char cli_page[];
    extern const size_t cli_page_size;
    fwrite(cli_page, 1, cli_page_size, stdout);
#endif
    return 0;
}
"""

ALL_BYTES = BEFORE + bytes(range(256)) + MARKER + bytes(range(255, -1, -1)) + AFTER


@pytest.fixture(name="project")
def fixture_project(tmp_path):
    """Builds a program by the rules of the command, and returns what page it has, or None where the build fails."""
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    (tmp_path / "main.c").write_text(PROGRAM)

    def configure(*options):
        subprocess.run(["cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "out", *options], check=True, capture_output=True)

    def build():
        done = subprocess.run(["cmake", "--build", tmp_path / "out"], capture_output=True, check=False)
        return subprocess.run([tmp_path / "out/planted"], capture_output=True, check=True).stdout if done.returncode == 0 else None

    configure()
    return tmp_path, configure, build


def test_the_build_follows_the_page(project):
    folder, _, build = project
    page = folder / "build/web/index.html"
    page.parent.mkdir(parents=True)
    assert build() == b""
    for content in (ALL_BYTES, MARKER, b"x" * 100000 + MARKER + b"y" * 31):
        page.write_bytes(content)
        later = folder.stat().st_mtime_ns + 10**10 + len(content)
        os.utime(page, ns=(later, later))
        assert build() == content
    page.write_bytes(b"another page")
    os.utime(page, ns=(later + 10**10, later + 10**10))
    assert build() is None
    page.unlink()
    assert build() == b""


def test_a_page_may_be_named_or_left_out(project):
    folder, configure, build = project
    (folder / "build/web").mkdir(parents=True)
    (folder / "build/web/index.html").write_bytes(ALL_BYTES)
    (folder / "my page.html").write_bytes(MARKER + b"mine")
    for value, expected in (("my page.html", MARKER + b"mine"), ("OFF", b""), (folder / "my page.html", MARKER + b"mine"), ("AUTO", ALL_BYTES)):
        configure(f"-DCOFFER_PAGE={value}")
        assert build() == expected


def test_a_command_with_a_page_needs_no_other_and_one_without_says_so(tmp_path):
    """The command of the build, whose file that writes the page is compiled again: with a page and without."""
    (tmp_path / "page.html").write_bytes(ALL_BYTES)
    (tmp_path / "m.safetensors").write_bytes(ONE)
    subprocess.run(["cmake", f"-DPAGE={tmp_path}/page.html", f"-DOUTPUT={tmp_path}/page.c", "-P", SOURCE / "cli/page.cmake"], check=True)
    cli = SOURCE / "cli"
    rooms = {f"-I{path}" for path in [cli, cli / "base", cli / "system", *cli.glob("commands/**/")]}
    options = ["-std=c11", "-O0", "-D_DEFAULT_SOURCE", "-D_FILE_OFFSET_BITS=64", "-D_TIME_BITS=64", f"-I{SOURCE / 'include'}", *rooms]
    objects = [path for target in ("coffer_cli", "coffer_cli_objects") for path in BUILD.glob(f"cli/CMakeFiles/{target}.dir/**/*.o")]
    others = [path for path in objects if path.name not in ("page.c.o", "report_page.c.o")]
    assert len(others) > 30
    program = tmp_path / "coffer"
    for page in (["-DCOFFER_PAGE", tmp_path / "page.c"], []):
        build = [CC, *options, *page, cli / "commands/report/report_page.c", *others, BUILD / "libcoffer.a", "-pthread", "-lm", "-o", program]
        done = subprocess.run(build, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        done = subprocess.run([program, "report", tmp_path / "m.safetensors"], capture_output=True, check=False)
        if page:
            before, after = ALL_BYTES.split(MARKER)
            assert done.returncode == 0 and done.stdout.startswith(before + b"<script") and done.stdout.endswith(b"</script>" + after)
        else:
            assert done.returncode == 2 and b"without the page" in done.stderr and b"--page FILE" in done.stderr


@pytest.fixture(name="checkout")
def fixture_checkout(tmp_path):
    """tools/build/page.sh, in a checkout with lazy tensors for what it calls; the page's build counts itself."""
    for folder in ("tools/build", "web/node_modules", "include", "src/core", "src/format", "src/codec", *(f"bindings/js/{name}" for name in "src wasm scripts node_modules".split())):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy2(SOURCE / "tools/build/page.sh", tmp_path / "tools/build/page.sh")
    programs = {
        "setup.sh": '[ "$1" = node ] && [ -e node ]',
        "web.sh": f"[ $1 = build ] && echo built >>runs && ! [ -e trouble ] && printf '%s' '{MARKER.decode()}' >build/web/index.html",
    }
    for name, line in programs.items():
        (tmp_path / "tools/build" / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / "tools/build" / name).chmod(0o755)
    for folder in ("web", "bindings/js"):
        (tmp_path / folder / "package-lock.json").write_text("{}")
        (tmp_path / folder / "node_modules/.installed-lock.json").write_text("{}")
    (tmp_path / "node").touch()

    def run_page():
        done = subprocess.run([tmp_path / "tools/build/page.sh"], capture_output=True, text=True, check=True)
        runs = tmp_path / "runs"
        return len(runs.read_text().split()) if runs.exists() else 0, done.stdout + done.stderr

    return tmp_path, run_page


@pytest.mark.parametrize("missing", ["node", "tools/build/web.sh", "web/node_modules/.installed-lock.json", "bindings/js/node_modules/.installed-lock.json"])
def test_without_what_the_page_is_made_with_nothing_is_said(missing, checkout):
    folder, run_page = checkout
    (folder / missing).unlink()
    assert run_page() == (0, "") and not (folder / "build").exists()


def test_a_page_is_built_when_it_is_older_than_its_sources(checkout):
    folder, run_page = checkout
    assert run_page() == (1, "") and (folder / "build/web/index.html").read_bytes() == MARKER
    assert run_page() == (1, "")
    later = folder.stat().st_mtime_ns + 10**10
    (folder / "web/main.tsx").touch()
    os.utime(folder / "web/main.tsx", ns=(later, later))
    assert run_page() == (2, "")
    (folder / "trouble").touch()
    runs, said = run_page()
    assert runs == 3 and "could not be built" in said
