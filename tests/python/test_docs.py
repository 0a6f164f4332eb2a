# SPDX-License-Identifier: Apache-2.0
"""The documentation is true: what it shows is compiled, run and compared, and what it points to exists.

An example that nobody runs is wrong after the next change, and its reader cannot know. So every block of code in README.md,
CONTRIBUTING.md, SECURITY.md and docs says by the word behind its fence what it is, and is tried here:

    c           a whole program is compiled and run; when it begins with a comment `/* NAME.c: ...` it lies in the document's
                folder under that name, for the blocks of sh. A piece of one is compiled, within a function if need be
    cpp         the same in C++: NAME.cpp
    sh          each line that begins with "$ " is run, and what follows must be its output, both streams together, with
                times made equal. A block without such lines is run as a whole
    sh no-run   not run: needs root, the network or minutes. Only the commands of NOT_RUN may stand there
    cmake       configured and, where it uses the installed package, built
    json        parsed
    pycon       a session of Python, run by bindings/python/tests/test_documentation.py, which has the package
    python      parsed; those of migration.md are run by bindings/python/tests/drop_in/test_migration.py
    text        drawings and layouts

README.md is for somebody who has nothing yet: tests/install/stranger.py follows it, step by step, on a machine that has nothing
either. Here it is only looked at.

Each document has a folder of its own with one file in it, model.safetensors, which make_model makes; those of CHECKPOINTS also
have the folder checkpoints, with files of other programs, and those of ADAPTERS the folder adapter, with one of PEFT for it.
The programs of examples/ that a document links to lie there, too.

Needs COFFER_CLI and COFFER_LIB; libcoffer.a and what is installed come from COFFER_BUILD_DIR, by default the folder of
COFFER_LIB.
"""

import ast
import json
import os
import re
import runpy
import struct
import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest
from documents import blocks_of, file_of, on_any_machine, sessions
from model_files import make_adapter, make_foreign_files

SOURCE = Path(os.environ.get("COFFER_SOURCE_DIR") or Path(__file__).resolve().parents[2])
CLI = Path(os.environ["COFFER_CLI"]).resolve()
BUILD = Path(os.environ.get("COFFER_BUILD_DIR") or Path(os.environ["COFFER_LIB"]).parent).resolve()
CC = os.environ.get("CC", "cc")
CXX = os.environ.get("CXX", "c++")
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
COMPILERS = {".c": [CC, "-std=c11", *STRICT], ".cpp": [CXX, "-std=c++17", *STRICT]}

DOCUMENTS = sorted([*(SOURCE / n for n in ("README.md", "CONTRIBUTING.md", "SECURITY.md")), *SOURCE.glob("docs/*.md")])
# bindings/js/tests/docs.test.mjs runs what is JavaScript.
LANGUAGES = {"c", "cpp", "sh", "sh no-run", "cmake", "json", "pycon", "python", "text", "js", "html"}
NOT_RUN = {"make deps", "make demo", "make check", "make bench", "make amalgamation", "sudo make install", "make install PREFIX=$HOME/.local"}
README = SOURCE / "README.md"
CHECKPOINTS = {"convert.md"}
ADAPTERS = {"editing.md"}

# The library's objects that a piece of code may take for granted. In front of a function, so that it may have its own.
CONTEXT = """
#include <coffer.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern coffer *model;
extern coffer_header *header;
extern coffer_writer *writer;
extern coffer_status status;
extern coffer_error err;
extern const coffer_tensor *tensor;
extern const char *path;
extern void *buffer;
extern const void *bytes;
extern size_t size;
extern int fd;
"""
CONTEXT_CPP = """
#include <coffer.hpp>
#include <cstdio>
extern const cofferpp::model model;
extern const cofferpp::tensor tensor;
"""


# ---- The documents ----------------------------------------------------------------------------------------------------


ALL_BLOCKS = [block for document in DOCUMENTS for block in blocks_of(document)]


def blocks(*languages):
    return pytest.mark.parametrize("block", [b for b in ALL_BLOCKS if b.language in languages], ids=str)


def is_program(block):
    return block.language in ("c", "cpp") and re.search(r"^int main\(", block.text, re.M) is not None


def program_name(block):
    return file_of(block) or f"program.{block.language}"


# ---- What examples find -----------------------------------------------------------------------------------------------


def encode(dtype, value):
    if dtype == "BF16":
        return struct.pack("<f", value)[2:]
    return struct.pack({"F32": "<f", "F16": "<e", "U8": "B"}[dtype], value)


def make_beside(document, folder):
    """What else a document's examples read."""
    if document.name in CHECKPOINTS:
        make_foreign_files(folder / "checkpoints")
    if document.name in ADAPTERS:
        make_adapter(folder / "adapter", "transformer.h.0.attn.c_attn", 24, 8, fan_in_fan_out=True)
    for name in linked_examples(document):
        (folder / name).write_bytes((SOURCE / "examples" / name).read_bytes())


def linked_examples(document):
    """The programs of examples/ that a document links to."""
    return set(re.findall(r"\]\(\.\./examples/(\w+\.\w+)\)", document.read_text(encoding="utf-8")))


def make_model(path):
    """A model as small as can be that looks like one: mixed dtypes, metadata, room for edits. Every value is exact."""
    tensors = [
        ("h.0.ln_1.weight", "F32", (8,), lambda i: 1),
        ("ln_f.weight", "F32", (8,), lambda i: 1 + i / 8),
        ("wte.weight", "F32", (50, 8), lambda i: (i * 37 % 256 - 128) / 64),
        ("h.0.attn.c_attn.weight", "BF16", (8, 24), lambda i: (i * 29 % 128 - 64) / 32),
        ("wpe.weight", "F16", (16, 8), lambda i: (i * 11 % 64 - 32) / 64),
    ]
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, dtype, shape, value in tensors:
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        body = b"".join(encode(dtype, value(i)) for i in range(count))
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(body)]}
        data += body
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (2048 + -len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


@pytest.fixture(scope="session")
def prefix(tmp_path_factory):
    """Where the build is installed, as a user would have it."""
    path = tmp_path_factory.mktemp("prefix")
    subprocess.run(["cmake", "--install", BUILD, "--prefix", path], check=True, capture_output=True)
    return path


@pytest.fixture(scope="session")
def environment(prefix, tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    programs = tmp_path_factory.mktemp("bin")
    (programs / "coffer").symlink_to(CLI)
    library = next(prefix.rglob("libcoffer.a")).parent
    return {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(home),
        "LC_ALL": "C",
        "PKG_CONFIG_PATH": str(library / "pkgconfig"),
        "LD_LIBRARY_PATH": str(library),
        "CMAKE_PREFIX_PATH": str(prefix),
        # Where rustc comes from rustup, it is found by the real home.
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup")),
    }


@pytest.fixture
def folder(tmp_path):
    make_model(tmp_path / "model.safetensors")
    return tmp_path


def run(command, where, **options):
    """Runs a command; what it says, both streams in their order, and its exit code."""
    done = subprocess.run(command, cwd=where, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=300, **options)
    return done.returncode, done.stdout


def compile_code(source, where, *options):
    code, said = run([*COMPILERS[Path(source).suffix], f"-I{SOURCE / 'include'}", source, *options], where)
    return said if code != 0 else ""


# ---- Every block is what it says --------------------------------------------------------------------------------------


def test_there_is_something_to_test():
    assert sum(is_program(block) for block in ALL_BLOCKS) >= 2
    assert sum(block.language == "sh" for block in ALL_BLOCKS) >= 3
    assert sum(block.language == "cmake" for block in ALL_BLOCKS) >= 1


@pytest.mark.parametrize("block", ALL_BLOCKS, ids=str)
def test_block_says_what_it_is(block):
    assert block.language in LANGUAGES, f"write one of {sorted(LANGUAGES)} behind the fence"
    assert block.text.strip(), "this block is empty"


@blocks("text")
def test_text_hides_no_code(block):
    assert "#include" not in block.text and not re.search(r"^\$ ", block.text, re.M)


def test_json():
    for block in ALL_BLOCKS:
        if block.language == "json":
            json.loads(block.text)


# ---- C and C++ ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [b for b in ALL_BLOCKS if is_program(b)], ids=str)
def test_program(block, folder):
    make_beside(block.document, folder)
    (folder / program_name(block)).write_text(block.text)
    assert compile_code(program_name(block), folder, BUILD / "libcoffer.a", "-pthread", "-lm", "-o", "program") == ""
    code, said = run([folder / "program"], folder)
    assert code == 0, said


@pytest.mark.parametrize("block", [b for b in ALL_BLOCKS if b.language in ("c", "cpp") and not is_program(b)], ids=str)
def test_piece(block, tmp_path):
    """A piece is code of a file as it stands, or of a function: one of the two has to compile."""
    context, name = (CONTEXT, "transfer_chunk.c") if block.language == "c" else (CONTEXT_CPP, "piece.cpp")
    as_file = f"{context}\n#line {block.line + 1} \"{block.document.name}\"\n{block.text}"
    in_function = f"{context}\nint piece(void);\nint piece(void)\n{{\n#line {block.line + 1} \"{block.document.name}\"\n" \
                  f"{block.text}\n    return 0;\n}}\n"
    said = ""
    for text in (as_file, in_function):
        (tmp_path / name).write_text(text)
        said = compile_code(name, tmp_path, "-D_POSIX_C_SOURCE=200809L", "-Wno-unused", "-fsyntax-only")
        if said == "":
            return
    pytest.fail(said)


# ---- The shell --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if d != README and any(b.language == "sh" for b in blocks_of(d))],
                         ids=lambda d: d.name)
def test_shell(document, folder, environment):
    """All of a document, from top to bottom, as somebody who follows it would do."""
    make_beside(document, folder)
    for block in blocks_of(document):
        if is_program(block):
            (folder / program_name(block)).write_text(block.text)
        if block.language != "sh":
            continue
        steps = sessions(block.text)
        assert steps or "\n$ " not in block.text
        for command, shown in steps or [(block.text, None)]:
            code, said = run(["bash", "-e", "-o", "pipefail", "-c", command], folder, env=environment)
            assert code == 0, f"{block}: {command}\nended with {code}:\n{said}"
            if shown is not None:
                assert on_any_machine(said.rstrip("\n")) == on_any_machine(shown), f"{block}: {command}"


@pytest.mark.parametrize("block", [b for b in ALL_BLOCKS if b.language == "sh no-run" and b.document != README], ids=str)
def test_what_is_not_run_is_known(block):
    targets = set(re.findall(r"^([a-z]+):", (SOURCE / "Makefile").read_text(), re.M))
    for line in filter(str.strip, block.text.splitlines()):
        command = re.sub(r"\s+#.*", "", line)
        assert command in NOT_RUN, f"{command!r} is not run, and not in NOT_RUN"
        assert re.search(r"\bmake ([a-z]+)", command)[1] in targets


# ---- CMake ------------------------------------------------------------------------------------------------------------


@blocks("cmake")
def test_cmake(block, tmp_path, environment):
    text = block.text
    if "project(" not in text:
        text = "cmake_minimum_required(VERSION 3.25)\nproject(documented LANGUAGES C)\n" + text
    (tmp_path / "CMakeLists.txt").write_text(text)
    for name in re.findall(r"\b\w+\.c\b", text):
        (tmp_path / name).write_text("#include <coffer.h>\nint main(void) { return coffer_version() == NULL; }\n")
    for place in re.findall(r"add_subdirectory\((\S+?)[\s)]", text):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).symlink_to(SOURCE)
    # What would be downloaded is here.
    steps = [["cmake", "-G", "Ninja", f"-DFETCHCONTENT_SOURCE_DIR_COFFER={SOURCE}", "-S", ".", "-B", "build"]]
    if "find_package(coffer" in text:
        steps.append(["cmake", "--build", "build"])
    for step in steps:
        code, said = run(step, tmp_path, env=environment)
        assert code == 0, said


# ---- Examples ---------------------------------------------------------------------------------------------------------

# Of every example in examples/, but gpt2_demo, which `make demo` runs, and mpi_load, which test_mpi.py does: its arguments and what
# it has to say.
EXAMPLES = {
    "read_tensor": [
        (["model.safetensors", "wte.weight"], 0, "-2 -1.42188 -0.84375 -0.265625 0.3125 0.890625 1.46875 -1.95312 ...\n"),
        (["model.safetensors", "wte.weight", "0, :4"], 0, "-2 -1.42188 -0.84375 -0.265625\n"),
        (["model.safetensors", "wpe.weight", "..., 0"], 0, "-0.5 -0.125 0.25 -0.375 0 0.375 -0.25 0.125 ...\n"),
        (["model.safetensors", "wpe.weight", "16"], 1,
         "read_tensor: index 16 is outside dimension 0, which has 16 entries\n"),
        (["model.safetensors", "lm_head"], 1, "read_tensor: the file has no tensor of this name\n"),
        (["none.safetensors", "x"], 1, "read_tensor: cannot open the file: no such file or directory (errno 2)\n"),
    ],
    "load_weights": [
        (["model.safetensors"], 0, "decoded wpe.weight from F16\nread 2 tensors, 1632 bytes\n"
                                   "wte.weight begins with -2 -1.42188 -0.84375\n"),
    ],
    "feed_engine": [
        (["model.safetensors"], 0,
         "h.0.ln_1.weight        CPU        32 bytes, sum 1528\n"
         "ln_f.weight            CPU        32 bytes, sum 1976\n"
         "wte.weight             backend  1600 bytes, sum 108554\n"
         "h.0.attn.c_attn.weight backend   384 bytes, sum 51597\n"
         "wpe.weight             backend   256 bytes, sum 22704\n"),
        (["none.safetensors"], 1, "feed_engine: cannot open the file: no such file or directory (errno 2)\n"),
    ],
    "write_streaming": [
        (["out.safetensors"], 0, "wrote 4 tensors, 4194304 bytes of data, 65536 bytes at a time\n"),
        (["out.safetensors", "1"], 0, "wrote 1 tensors, 1048576 bytes of data, 65536 bytes at a time\n"),
        (["none/out.safetensors"], 1, None),
    ],
    "load_hosts": [
        ([], 0, "h.0.ln_1.weight: 32 bytes\nln_f.weight: 32 bytes\nwte.weight: 800 bytes\nh.0.attn.c_attn.weight: 192 bytes\n"
                "wpe.weight: 256 bytes\n"),
    ],
    "custom_source": [([], 0, "the last row holds 95; it took 64 of 262224 bytes\n")],
}


def test_every_example_is_run():
    assert {path.stem for path in SOURCE.glob("examples/*.c")} == {*EXAMPLES, "gpt2_demo", "mpi_load"}


def test_every_example_in_another_language_is_run():
    """They need more to be compiled than their text, so a block of sh has to do it; test_shell does what that says."""
    others = [path for path in SOURCE.glob("examples/*.*") if path.suffix not in (".c", ".txt")]
    assert others
    for path in others:
        commands = [block.text for document in DOCUMENTS if path.name in linked_examples(document)
                    for block in blocks_of(document) if block.language == "sh"]
        assert re.search(rf"^\$ .*\b{re.escape(path.name)}\b", "".join(commands), re.M), path


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name, folder):
    source = SOURCE / "examples" / f"{name}.c"
    assert compile_code(source, folder, BUILD / "libcoffer.a", "-pthread", "-o", name) == ""
    for arguments, code, said in EXAMPLES[name]:
        got_code, got = run([folder / name, *arguments], folder)
        assert (got_code, got if said is not None else None) == (code, said), got
    if name == "write_streaming":
        assert run([CLI, "check", "--strict", "out.safetensors"], folder) == (0, "out.safetensors: ok\n")
        assert sorted(path.name for path in folder.iterdir()) == ["model.safetensors", "out.safetensors", name]


# ---- What documents say about each other and about the library --------------------------------------------------------


def public_headers():
    return "".join(path.read_text(encoding="utf-8") for path in sorted(SOURCE.glob("include/coffer/*.h")))


def statuses():
    enumeration = re.search(r"typedef enum coffer_status \{(.*?)\} coffer_status;", public_headers(), re.S)[1]
    without_comments = re.sub(r"/\*.*?\*/", "", enumeration, flags=re.S)
    return {(int(number), name) for name, number in re.findall(r"\bCOFFER_(?:ERR_)?(\w+) = (\d+)", without_comments)}


def test_errors_describes_every_status():
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|(.*)\|$", (SOURCE / "docs/errors.md").read_text(encoding="utf-8"), re.M)
    assert len(statuses()) > 50
    assert {(int(number), name) for number, name, _ in rows} == statuses()
    assert len(rows) == len(statuses())
    for number, name, rest in rows:
        assert all(cell.strip() for cell in rest.split("|")), f"{name} has an empty cell"


def types_of_the_header():
    """Opaque types, options, and the other structs of the public header."""
    opaque = set(re.findall(r"^typedef struct (coffer\w*) \1;", public_headers(), re.M))
    structs = set(re.findall(r"^typedef struct (coffer_\w+) \{", public_headers(), re.M))
    options = {name for name in structs if name.endswith("_options")}
    return opaque, options, structs - options


def text_of_today(document):
    """A document without what it says of versions before."""
    return re.sub(r"^### What changed\n.*?(?=^##? |\Z)", "", document.read_text(encoding="utf-8"), flags=re.M | re.S)


def rows_of(heading, marks):
    """The names in code style of each row of the tables below a heading of c.md, by the row's first cell."""
    rows = re.findall(r"^\| (.*?) \| (.*)$", sections(SOURCE / "docs/c.md", marks)[heading], re.M)
    return [(set(re.findall(r"`(\w+)`", first)), rest) for first, rest in rows]


def test_abi_says_of_every_type_whether_it_may_grow():
    opaque, options, structs = types_of_the_header()
    assert len(opaque) > 5 and len(options) > 5 and len(structs) > 10
    named = {how: names for names, rest in rows_of("What may grow, and how", "###") for how in ("`struct_size`", "they are opaque") if how in rest}
    assert named == {"`struct_size`": options, "they are opaque": opaque}
    others = set().union(*(names for names, rest in rows_of("What may grow, and how", "###"))) - options - opaque
    assert others == structs


def test_threads_says_of_every_object_who_may_use_it():
    opaque, _, _ = types_of_the_header()
    assert opaque <= set().union(*(names for names, _ in rows_of("Threads", "##")))


def test_architecture_has_the_rooms_that_are_checked():
    rooms = runpy.run_path(str(SOURCE / "tools/check/check_structure.py"))["ROOMS"]
    text = (SOURCE / "docs/architecture.md").read_text(encoding="utf-8")
    stated = {room: set(re.findall(r"`([\w/]+)`", below)) for room, below in
              re.findall(r"^\| `([\w/*]+)` \| .* \| (nothing|`.*`) \|$", text, re.M)}
    there = {path.name for path in SOURCE.glob("src/*") if any(path.glob("*.[ch]"))} | {room for room in rooms if "/" in room}
    assert {room: rooms[room] for room in there} == {room: stated[room] for room in there}


ARCHITECTURE = SOURCE / "docs/architecture.md"

def sections(document, marks):
    """A document's headings of this depth, each with the text below it."""
    parts = re.split(rf"^{marks} (.*)$", document.read_text(encoding="utf-8"), flags=re.M)
    return {title: re.split(r"^#", text, maxsplit=1, flags=re.M)[0] for title, text in zip(parts[1::2], parts[2::2])}


def test_every_file_says_what_it_is_for():
    """Which tools/check/files.py shows: the architecture has no list of files that could be wrong."""
    said = subprocess.run([SOURCE / "tools/check/files.py"], check=True, capture_output=True, text=True).stdout.splitlines()
    assert len(said) > 500
    assert [line for line in said if not line.partition(": ")[2].strip()] == []


def calls_in(document):
    """The lines of drawings that name a function and its file."""
    return [call for block in blocks_of(document) if block.language == "text"
            for call in re.findall(r"^ *(\w+) {2,}(\S+\.[ch])$", block.text, re.M)]


def test_architecture_names_functions_where_they_are():
    assert len(calls_in(ARCHITECTURE)) > 20
    for function, path in calls_in(ARCHITECTURE):
        assert (SOURCE / path).is_file(), f"{path} is not there, or moved"
        code = (SOURCE / path).read_text(encoding="utf-8")
        assert re.search(rf"^[a-z][\w *]*\b{function}\([^;]*?^{{", code, re.M | re.S), f"{function} is not in {path}"


def is_there(name):
    """Whether a file or folder exists that a document names by its path, or by its name alone. NAME and * stand for any name."""
    pattern = re.sub(r"NAME|TOPIC", "*", name.rstrip("/"))
    if pattern in FOREIGN:
        return True
    return any(SOURCE.glob(f"{place}{pattern}") for place in ("", "*/", "*/*/", "*/*/*/", "*/*/*/*/"))


# Files that programs make or get, rather than files of this project.
FOREIGN = {"vocab.txt", "tokenizer.json", "config.json", "notes.txt", "key.pem"}


@pytest.mark.parametrize("document", [ARCHITECTURE, SOURCE / "CONTRIBUTING.md", SOURCE / "SECURITY.md"], ids=lambda d: d.name)
def test_contributors_are_shown_files_that_exist(document):
    named = re.findall(r"`((?:[\w*-]+/)*[\w*-]+\.(?:c|h|hpp|py|sh|md|txt|pyi)|(?:src|cli|tests|tools|bindings|include|docs)/[\w/*-]+)`",
                       text_without_blocks(document))
    assert named
    assert [name for name in named if not is_there(name)] == []


@pytest.mark.parametrize("document", [ARCHITECTURE], ids=lambda d: d.name)
def test_functions_of_the_architecture_exist(document):
    code = "".join(path.read_text(encoding="utf-8") for folder in ("src", "cli", "include", "bindings/python")
                   for path in SOURCE.glob(f"{folder}/**/*.[chp]*") if path.suffix in (".c", ".h", ".py"))
    known = set(re.findall(r"\w+", code)) | {path.stem for path in SOURCE.glob("*/**/*.[ch]")}
    named = set(re.findall(r"`(?:const )?(?:cli_command )?([a-z]+_[a-z0-9_]+)\b[^`./]*`", text_without_blocks(document)))
    assert len(named) > 20
    assert {name for name in named if name not in known and not name.startswith(("coffer__name", "cli_name"))} == set()


def test_threads_names_every_function_that_starts_some():
    """A function whose options have `threads` starts threads, and docs/c.md says which functions do."""
    text = public_headers()
    structs = dict(re.findall(r"^typedef struct (coffer_\w+_options) \{(.*?)^\}", text, re.M | re.S))
    threaded = {name for name, body in structs.items() if re.search(r"\bthreads;", body)}
    declared = re.findall(r"\b(coffer_\w+)\(([^;{]*?)\);", re.sub(r"/\*.*?\*/", "", text, flags=re.S))
    starts = {name for name, parameters in declared if any(f"{options} *" in parameters for options in threaded)}
    assert len(starts) > 5
    named = set(re.findall(r"`(coffer_\w+)`", sections(SOURCE / "docs/c.md", "###")["Threads of its own"]))
    assert starts - named == set()


# Turns of phrase that no engineer would use, with what to write instead. CONTRIBUTING.md says how we write.
UNWANTED = {
    r"not to be had": "cannot, or is not available",
    r"(?:gone|goes|go) on with": "resumed, continues",
    r"a journey": "a round trip",
    r"counts? for nothing": "is ignored",
    r"behind (?:the|its|a) (?:header|data|end|frame|name|number|value|text|list|table|object|colon|comma|file's end)s?\b": "after",
    r"under way": "in progress",
    r"whoever looks": "the user who opens the file",
    r"as it (?:stands|lies) there": "as it is",
    r"nobody (?:wants|needs to believe)": "is not needed, is not trusted",
    r"to be had": "is available",
}
# The same in what users read: documents, public headers, help texts and messages. Comments inside may still have them.
UNIDIOMATIC = {
    r"(?<!there )(?:is|are|was|were) none\b": "is not a ..., does not exist",
    r"[Ww]hatever\b": "any, regardless of, what",
    r"(?<!`)[Bb]eside\b(?![`(_])": "next to, besides, compared with",
    r"behind (?:an? |the |its )?URLs?": "at a URL",
    r"[Ww]hoever\b": "a user who, anyone who",
    r"any more\b": "no longer, afterwards",
    r"models? of (?:several|many) files": "sharded model",
    r"comes? down (?:in|on)\b": "go to",
    r"(?:was|is|are|were) let go\b": "released",
    r"have it that": "say that",
    r"(?:is|are) without (?:effect|use)": "does nothing",
    r"as good as any": "equally good",
}


def prose_of(path):
    """What people read in a file: all of a document; of code its comments and messages."""
    text = path.read_text(encoding="utf-8")
    if path.suffix in (".md", ".txt", ".in"):
        return text
    if path.suffix in (".c", ".h", ".hpp", ".cpp"):
        strings = re.sub(r'"\s*"', "", " ".join(re.findall(r'"(?:[^"\\\n]|\\.)*"', text)))
        return "\n".join(re.sub(r"\n\s*\*? ?", " ", comment) for comment in re.findall(r"/\*.*?\*/", text, re.S)) + strings
    return re.sub(r"\n\s*#? ?", " ", text)


def written_files():
    listed = subprocess.run(["git", "ls-files"], cwd=SOURCE, check=True, capture_output=True, text=True).stdout.split()
    ours = re.compile(r"(?:README|CONTRIBUTING|SECURITY)\.md|docs/.*\.md|(?:cli|tools|tests|bindings|examples)/.*\.(?:[ch]|cpp|py|pyi|sh|in|md|txt)|"
                      r"(?:src|include)/.*\.(?:[ch]|hpp)")
    left_out = ("tests/vectors/", "tests/abi/", "tests/python/test_docs.py", "CONTRIBUTING.md")
    return [SOURCE / name for name in listed if ours.fullmatch(name) and not name.startswith(left_out)]


def messages_of(path):
    """The texts in a file of code, each joined where it is split across lines."""
    code = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
    code = re.sub(r"^\s*#\s*include.*$", "", code, flags=re.M)
    return "\n".join(re.sub(r'"\s*"', "", text) for text in re.findall(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', code))


def found_in(phrases, texts):
    return [f"{path.relative_to(SOURCE)}: \"{match[0]}\": write {instead}" for path, text in texts.items() for phrase, instead in phrases.items()
            for match in re.finditer(rf"\b{phrase}" if phrase[0] != "(" else phrase, re.sub(r"\s+", " ", text))]


def test_phrases_that_must_not_come_back():
    files = written_files()
    assert len(files) > 500
    assert found_in(UNWANTED, {path: prose_of(path) for path in files}) == []


def test_what_users_read_is_idiomatic():
    documents = {path: path.read_text(encoding="utf-8") for path in DOCUMENTS if path.name != "CONTRIBUTING.md"}
    headers = {path: prose_of(path) for path in SOURCE.glob("include/**/*.h*")}
    messages = {path: messages_of(path) for folder in ("cli", "src") for path in SOURCE.glob(f"{folder}/**/*.[ch]")}
    assert len(messages) > 500
    assert found_in(UNIDIOMATIC, documents | headers | messages) == []


@pytest.mark.parametrize("text", ["its type is none", "whatever it is", "lies beside it", "what is behind a URL", "whoever asks",
                                  "not needed any more", "a model of several files"])
def test_a_turn_of_phrase_is_noticed(text):
    assert found_in(UNIDIOMATIC, {SOURCE / "x": text}) and not found_in(UNIDIOMATIC, {SOURCE / "x": "NULL when there is none"})


def test_no_document_names_what_is_not_there():
    """Functions, types and constants of the library that the documents name are in the public headers or in the code, but for
    those of which abi.md says that they are no longer."""
    code = "".join(path.read_text(encoding="utf-8") for path in
                   [*SOURCE.glob("include/**/*.h"), *SOURCE.glob("src/**/*.[ch]"), *SOURCE.glob("CMakeLists.txt"),
                    *SOURCE.glob("*/CMakeLists.txt"), *SOURCE.glob("tools/*/*.sh"), *SOURCE.glob("tests/python/*.py"),
                     *SOURCE.glob("bindings/python/native/*.[ch]"), *SOURCE.glob("bindings/python/coffer/adapters/*.py")])
    # The last two stand for any name.
    known = set(re.findall(r"\w+", code)) | {"coffer_noun_verb", "coffer__name"}
    for document in DOCUMENTS:
        for name in re.findall(r"\b(?:coffer_[a-z]\w*|coffer__\w+|COFFER_\w+)", text_of_today(document)):
            is_prefix = name.endswith("_") and any(word.startswith(name) for word in known)
            assert name in known or is_prefix, f"{document.name}: {name}"


def slug(heading):
    """The anchor that a heading gets."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def text_without_blocks(document):
    return re.sub(r"^\s*```.*?^\s*```$", "", document.read_text(encoding="utf-8"), flags=re.S | re.M)


LINKED = [*DOCUMENTS, *(SOURCE / name for name in ("CHANGELOG.md", "packaging/README.md", "tests/platforms.md",
                                                  "tests/vectors/README.md"))]


@pytest.mark.parametrize("document", LINKED, ids=lambda d: str(d.relative_to(SOURCE)))
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)\s]+)\)", text_without_blocks(document)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (document.parent / unquote(path)).resolve() if path else document
        assert file.exists(), f"{document.name} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", text_without_blocks(file), re.M)
            assert anchor in {slug(heading) for heading in headings}, f"{document.name} links to {target}"


def test_every_document_is_in_the_index():
    """Fifteen pages for users at most, each of which the page by task names."""
    index = (SOURCE / "docs/README.md").read_text(encoding="utf-8")
    pages = [document for document in SOURCE.glob("docs/*.md") if document.name != "README.md"]
    assert 10 < len(pages) - 1 <= 15  # one is for those who change Coffer
    for document in pages:
        assert f"]({document.name})" in index, f"docs/README.md does not name {document.name}"


def test_readme_is_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 200


def test_there_is_a_place_for_the_figures():
    text = (SOURCE / "docs/benchmarks.md").read_text(encoding="utf-8")
    assert text.count("<!-- benchmark:begin -->") == text.count("<!-- benchmark:end -->") == 1
    assert text.index("<!-- benchmark:begin -->") < text.index("<!-- benchmark:end -->")


def test_changelog_knows_this_version():
    version = re.search(r'COFFER_VERSION_STRING "([^"]+)"', public_headers())[1]
    changelog = (SOURCE / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", changelog, re.M)
    assert headings[0] == "Unreleased"
    assert version in headings or f"## Unreleased\n\nThis becomes {version}: " in changelog


# ---- The command line ----


def commands_that_are_nowhere(page, program):
    """Those of the program's help that the page does not show."""
    overview = subprocess.run([program, "help"], capture_output=True, text=True, check=True).stdout.partition("Options:")[0]
    shown = set(re.findall(r"\bcoffer ([a-z-]+)", page.read_text(encoding="utf-8")))
    return set(re.findall(r"^  ([a-z-]+) ", overview, re.M)) - shown


def test_the_page_of_the_command_line_shows_every_command():
    assert commands_that_are_nowhere(SOURCE / "docs/cli.md", os.environ["COFFER_CLI"]) == set()
