# SPDX-License-Identifier: Apache-2.0
"""docs/architecture.md says which files a new reader of other programs' files needs. Here one is added to a copy of what these tests
look at, in these files and no others; then the command converts its files, its unit test runs, and its files that lie are refused.

The library gets the reader by two objects, its own and the table's, that are linked before all others.
"""

import importlib.util
import json
import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import convert_dump
import make_attacks
import pytest
from test_attacks import REFUSALS, limit

SOURCE = Path(os.environ.get("COFFER_SOURCE_DIR") or Path(__file__).resolve().parents[2])
BUILD = Path(os.environ["COFFER_CLI"]).resolve().parent
CC = os.environ.get("CC", "cc")
STRICT = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-pedantic", "-Werror"]

READER = r"""/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of toys: "TOY1", a number of floats as u32, and the floats, all little-endian. They are the tensor "w". */
#include "error.h"
#include "readers.h"

#include <string.h>

#define TOY_HEAD ((size_t)8)

static bool toy_sniff(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size, const char *path,
                      size_t path_len)
{
    (void)tail;
    (void)tail_size;
    (void)path;
    (void)path_len;
    return head_size >= 4 && memcmp(head, "TOY1", 4) == 0;
}

static coffer_status toy_read(const coffer__input_files *input, const coffer__wants *wants, coffer__import_plan *plan,
                              coffer_error *err)
{
    (void)wants;
    uint8_t head[TOY_HEAD];
    coffer_status status = coffer__input_files_read(input, 0, input->size, 0, head, sizeof head, err);
    if (status != COFFER_OK) {
        return status;
    }
    const uint64_t count = head[4] | (uint64_t)head[5] << 8 | (uint64_t)head[6] << 16 | (uint64_t)head[7] << 24;
    const uint64_t size = input->size - TOY_HEAD;
    if (size != 4 * count) {
        return coffer__fail_at(err, COFFER_ERR_DAMAGED, 4,
                               "a toy of %u floats has %u bytes of them; get the file again", count, size);
    }
    const coffer__import_plan_piece piece = { .offset = TOY_HEAD, .stored_size = size, .size = size };
    const coffer__import_plan_dimension dimension = { .size = count, .count = count, .stride = 4 };
    coffer__import_plan_row row = { .dtype = COFFER_F32, .rank = 1, .item_size = 4 };
    status = coffer__import_plan_put_piece(plan, &piece, err);
    if (status == COFFER_OK) {
        status = coffer__import_plan_put_storage(plan, 1, 0, &row.storage, err);
    }
    if (status == COFFER_OK) {
        status = coffer__import_plan_put_text(plan, "w", 1, &row.name, err);
    }
    return status != COFFER_OK ? status : coffer__import_plan_put_row(plan, &row, &dimension, err);
}

const coffer__reader coffer__reader_toy = { "toy", "a toy", toy_sniff, toy_read };
"""

UNIT = r"""/* SPDX-License-Identifier: Apache-2.0 */
/* Why: the number of floats comes from the file. One that fits, and one for which there are too few bytes. */
#include "support_input.h"

static void expect(const char *bytes, size_t size, coffer_status expected)
{
    const memory_file files[] = { { "m.toy", bytes, size }, { NULL, NULL, 0 } };
    memory_input memory;
    coffer_input *input = NULL;
    coffer_import *made = NULL;
    coffer_error err;
    const coffer_import_options options = COFFER_IMPORT_OPTIONS_INIT;
    assert_int_equal(memory_import(&memory, files, &options, &input, &made, &err), expected);
    if (expected == COFFER_OK) {
        assert_string_equal(coffer_import_summarize(made)->reader, "toy");
    }
    coffer_import_free(made);
    coffer_input_free(input);
}

static void test_sizes(void **state)
{
    (void)state;
    expect("TOY1\1\0\0\0abcd", 12, COFFER_OK);
    expect("TOY1\2\0\0\0abcd", 12, COFFER_ERR_DAMAGED);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_sizes) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
"""

ATTACKS = r'''# SPDX-License-Identifier: Apache-2.0
"""Toys that lie."""

import struct

ENDING = "toy"


def toy(count=2, data=bytes(8)):
    return b"TOY1" + struct.pack("<I", count) + data


def good_files():
    yield "good", toy()


def attacks():
    yield "cut", toy()[:-1]
    yield "head-cut", toy()[:6]
    yield "count-2^32", toy(2**32 - 1)
    yield "more", toy() + bytes(1)


SENTENCES = {"cut": "a toy of 2 floats has 7 bytes", "count-2^32": "a toy of 4294967295 floats", "more": "has 9 bytes"}
'''

# What adding the reader takes: for a new file its text, else the line after which one is added.
TOUCHED = {
    "src/import/toy/toy.c": READER,
    "src/import/readers.h": ("    ROW(npz) ", "    ROW(toy) /* a signature of its own */ \\"),
    "tests/unit/test_toy.c": UNIT,
    "tests/attacks/attacks_toy.py": ATTACKS,
    "cli/commands/convert/cmd_convert.c": ('             "  Arrow  ', '             "  toy           .toy\\n"'),
    "tests/golden/convert/help.txt": ("1|   Arrow  ", "1|   toy           .toy"),
    "docs/convert.md": ("| Arrow IPC | ", "| toys | `.toy` | floats |"),
}


def documented():
    """The files of the page's table."""
    text = (SOURCE / "docs/architecture.md").read_text(encoding="utf-8")
    section = re.search(r"^### A reader of other programs' files$(.*?)^### ", text, re.M | re.S)[1]
    return [name.replace("NAME", "toy") for name in re.findall(r"^\| `([^`]+)` \|", section, re.M)]


def test_the_page_lists_what_is_touched():
    assert documented() == list(TOUCHED) and len(TOUCHED) <= 8


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of what is touched, and of the table, with the objects of both."""
    folder = tmp_path_factory.mktemp("toy")
    (folder / "src/import").mkdir(parents=True)
    shutil.copy(SOURCE / "src/import/readers.c", folder / "src/import")
    for name, change in TOUCHED.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(change, str):
            assert not (SOURCE / name).exists()
            path.write_text(change, encoding="utf-8")
            continue
        lines = (SOURCE / name).read_text(encoding="utf-8").split("\n")
        (number,) = [n for n, line in enumerate(lines) if line.startswith(change[0])]
        lines.insert(number + 1, change[1])
        path.write_text("\n".join(lines), encoding="utf-8")
    rooms = [f"-I{room}" for base in (folder, SOURCE) for room in sorted((base / "src").rglob("*")) if room.is_dir()]
    (folder / "rooms").write_text(" ".join([f"-I{SOURCE / 'include'}", *rooms]), encoding="utf-8")
    compile_c(folder, *STRICT, "-c", "src/import/toy/toy.c", "src/import/readers.c")
    return folder


def compile_c(tree, *words):
    done = subprocess.run([CC, *(tree / "rooms").read_text().split(), *words], cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def coffer(tree):
    """Runs the command with the toy in it."""
    objects = [path for path in (BUILD / "cli/CMakeFiles").glob("coffer_cli*.dir/**/*.o") if path.name != "cmd_convert.c.o"]
    assert len(objects) > 100
    cli = [f"-I{path}" for path in sorted((SOURCE / "cli").rglob("*")) if path.is_dir()]
    compile_c(tree, "-std=c11", "-D_DEFAULT_SOURCE", *cli, "cli/commands/convert/cmd_convert.c", "toy.o", "readers.o", *map(str, objects),
              str(BUILD / "libcoffer.a"), "-pthread", "-ldl", "-lm", "-o", "coffer")  # fmt: skip

    def run(*words, code=0):
        done = subprocess.run([tree / "coffer", *words], cwd=tree, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    return run


def test_the_command_converts_its_files(coffer, tree):
    (tree / "m.toy").write_bytes(b"TOY1" + struct.pack("<I3f", 3, 1, -2, 0.5))
    coffer("convert", "m.toy", "-o", "m.safetensors")
    assert json.loads(coffer("ls", "m.safetensors", "--json"))["tensors"][0]["name"] == "w"
    assert "[  1,  -2, 0.5]" in coffer("get", "m.safetensors", "w")
    (tree / "cut.toy").write_bytes((tree / "m.toy").read_bytes()[:-1])
    assert "get the file again" in coffer("convert", "cut.toy", "-o", "cut.safetensors", code=1)


def test_the_help_names_it(coffer, tree):
    golden = (tree / "tests/golden/convert/help.txt").read_text(encoding="utf-8")
    assert "  toy           .toy\n" in coffer("help", "convert")
    assert [line for line in golden.split("\n") if "toy" in line] == ["1|   toy           .toy"]


def test_its_unit_test_runs(tree):
    words = [f"-I{SOURCE / 'tests/unit'}", "tests/unit/test_toy.c", *map(str, (SOURCE / "tests/unit").glob("support_memory.c")), "toy.o", "readers.o",
             str(BUILD / "libcoffer.a"), "-lcmocka", "-pthread", "-ldl", "-lm", "-o", "test_toy"]  # fmt: skip
    compile_c(tree, "-std=c11", "-D_DEFAULT_SOURCE", *words)
    subprocess.run([tree / "test_toy"], check=True, capture_output=True, timeout=60)


def test_its_files_that_lie_are_refused(tree):
    specification = importlib.util.spec_from_file_location("attacks_toy", tree / "tests/attacks/attacks_toy.py")
    toy = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(toy)
    # As make_attacks.py finds it.
    assert make_attacks.kind_of(toy) == "toy" and hasattr(toy, "attacks")
    files = [*toy.good_files(), *toy.attacks()]
    for called, bytes_ in files:
        (tree / f"{called}.toy").write_bytes(bytes_)
    program = convert_dump.build(tree, tree / "toy.o", tree / "readers.o")
    plans = convert_dump.run(program, "plan", [tree / f"{called}.toy" for called, _ in files], preexec_fn=limit)
    for (called, _), plan in zip(files, plans, strict=True):
        assert plan.reader == "toy" and (plan.status == "OK") == (called == "good") and (called == "good" or plan.status in REFUSALS)
        assert toy.SENTENCES.get(called, "") in plan.message
