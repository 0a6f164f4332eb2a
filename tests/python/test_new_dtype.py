# SPDX-License-Identifier: Apache-2.0
"""A dtype is one row in the table of dtypes, and its number in the public header. Here one is added, to a copy of what reads and
writes headers and of what names dtypes to Python: F8_E3M4, which the format does not have. Its place in the writers' order is in
the middle, its number the last.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

SOURCE = Path(os.environ.get("COFFER_SOURCE_DIR") or Path(__file__).resolve().parents[2])
COMPILER = os.environ.get("CC", "cc").split()
ROOMS = ("core", "format")  # what is needed for headers in memory
PUBLIC = ("libc_allocator.c", "libc_allocator.h")  # what makes them public functions
TOY = "    PLAIN(     F8_E3M4,     8, 8, 1, FLOAT, 3, 4, IEEE, 3)"

PROGRAM = r"""
#include <coffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *get(void *ctx, size_t size) { (void)ctx; return malloc(size); }
static void *resize(void *ctx, void *block, size_t old, size_t size) { (void)ctx; (void)old; return realloc(block, size); }
static void drop(void *ctx, void *block, size_t size) { (void)ctx; (void)size; free(block); }
static const coffer_allocator allocator = { get, resize, drop, NULL };
const coffer_allocator *coffer_libc_allocator(void) { return &allocator; }

int main(void)
{
    static const char *const names[] = { "F8_E5M2", "F8_E3M4", "F8_E4M3" };
    const uint64_t shape[] = { 2 };
    coffer_header *header = NULL;
    coffer_table *table = NULL;
    const void *bytes = NULL;
    uint64_t size = 0, need = 0;
    coffer_error err;
    if (coffer_header_new(&header, &allocator, &err) != COFFER_OK) {
        return 1;
    }
    for (size_t i = 0; i < 3; i++) {
        const coffer_dtype dtype = coffer_dtype_from_name(names[i], strlen(names[i]));
        if (coffer_header_add(header, names[i], strlen(names[i]), dtype, shape, 1, &err) != COFFER_OK) {
            return 2;
        }
    }
    if (coffer_header_build(header, NULL, &bytes, &size, NULL, &err) != COFFER_OK ||
        coffer_parse(&table, &need, bytes, (size_t)size, &allocator, NULL, &err) != COFFER_OK) {
        return 3;
    }
    for (size_t i = 0; i < 3; i++) {
        const coffer_tensor *tensor = coffer_table_at(table, i);
        printf("%s %d %u\n", coffer_dtype_name(tensor->dtype), (int)tensor->dtype, coffer_dtype_bits(tensor->dtype));
    }
    double values[2];
    if (coffer_decode(coffer_table_find(table, "F8_E3M4", 7)->dtype, "\x30\xb8", 0, 2, values) != COFFER_OK) {
        return 4;
    }
    printf("%g %g\n", values[0], values[1]);
    coffer_table_free(table);
    coffer_header_free(header);
    return 0;
}
"""

# What of the extension says what frameworks, DLPack and the buffer protocol call a dtype.
MODULE = r"""
#include "py_native.h"

static PyObject *number(PyObject *self, PyObject *dtype)
{
    (void)self;
    const py_dlpack_type type = py_dlpack_type_of((coffer_dtype)PyLong_AsLong(dtype));
    return Py_BuildValue("iii", type.code, type.bits, type.lanes);
}

static PyMethodDef functions[] = { { "dlpack", number, METH_O, NULL }, { NULL, NULL, 0, NULL } };
static PyModuleDef definition = { PyModuleDef_HEAD_INIT, .m_name = "toy", .m_size = -1, .m_methods = functions };

PyMODINIT_FUNC PyInit_toy(void)
{
    PyObject *module = PyModule_Create(&definition);
    return PyModule_AddObjectRef(module, "DTYPES", py_dtypes_of_frameworks()) < 0 ? NULL : module;
}
"""


def edit(file: Path, change) -> None:
    before = file.read_text()
    after = change(before)
    assert after != before, file
    file.write_text(after)


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """A copy with the toy in it: two edits, of the row and of the number."""
    folder = tmp_path_factory.mktemp("toy")
    shutil.copytree(SOURCE / "include", folder / "include")
    for room in ROOMS:
        if (SOURCE / "src" / room).exists():
            shutil.copytree(SOURCE / "src" / room, folder / "src" / room)
    (folder / "src/io").mkdir(parents=True)
    for file in PUBLIC:
        shutil.copy(SOURCE / "src/io" / file, folder / "src/io" / file)
    shutil.copytree(SOURCE / "bindings/python/native", folder / "native")

    def later(found: re.Match[str]) -> str:
        """A row; that of a rank from the toy's on is one further."""
        return f"{found[1]}{int(found[2]) + (int(found[2]) >= 8)},"

    def add_row(text: str) -> str:
        head, table, rest = re.split(r"(#define COFFER__DTYPES.*?\n)(?=/\* clang)", text, flags=re.S)
        table = re.sub(r"^( +(?:TAGGED\( *\d+,|PLAIN\() *\w+, *)(\d+),", later, table, flags=re.M)
        return f"{head}{table.rstrip()} \\\n{TOY}\n{rest}"

    def add_number(text: str) -> str:
        return text.replace("COFFER_U64 = 22", "COFFER_U64 = 22,\n    COFFER_F8_E3M4 = 23").replace("_DTYPE_COUNT 22", "_DTYPE_COUNT 23")

    edit(folder / "src/core/dtype_table.h", add_row)
    (header,) = (file for file in (folder / "include").rglob("*.h") if "COFFER_U64 = 22" in file.read_text())
    edit(header, add_number)
    return folder


def compile_to(target: Path, *arguments: object) -> None:
    done = subprocess.run([*COMPILER, "-std=c11", "-o", target, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_it_is_written_and_read(copy):
    (copy / "toy.c").write_text(PROGRAM)
    rooms = [folder for folder in (copy / "src").rglob("*") if folder.is_dir()]
    sources = [file for folder in rooms for file in folder.glob("*.c")]
    compile_to(copy / "program", "-O0", "-I", copy / "include", *(f"-I{folder}" for folder in rooms), copy / "toy.c", *sources)
    said = subprocess.run([copy / "program"], capture_output=True, text=True, check=True).stdout
    # Writers begin with the highest rank; the numbers of the others are as before.
    assert said == "F8_E4M3 8 8\nF8_E3M4 23 8\nF8_E5M2 7 8\n1 -1.5\n"


def test_python_knows_its_names(copy):
    (copy / "toy_module.c").write_text(MODULE)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    include = sysconfig.get_path("include")
    compile_to(
        copy / f"toy{suffix}", "-O0", "-shared", "-fPIC", "-I", include, "-I", copy / "include", "-I", copy / "src/core", "-I",
        copy / "native", copy / "toy_module.c", copy / "native/py_dtypes.c", *sorted((copy / "src/core").glob("*.c")),
    )  # fmt: skip
    code = "import toy; print(toy.DTYPES['F8_E3M4'], toy.dlpack(23), toy.DTYPES['F8_E4M3'], toy.dlpack(8), len(toy.DTYPES))"
    said = subprocess.run([sys.executable, "-c", code], cwd=copy, capture_output=True, text=True, check=True).stdout
    assert said == "float8_e3m4 (7, 8, 1) float8_e4m3fn (10, 8, 1) 21\n"


def test_nothing_else_lists_dtypes():
    """No other file of the library or of the bindings has the names of many: what takes a few, says so by name. But the
    reader of each format has the numbers or names by which that format calls its types, of which some are dtypes here, and some are not."""
    tables = {"dtype_table.h", "pickle_names.c", "gguf_blocks.c", "arrow.c", "flax.c", "hdf5_types.c", "onnx_tensor.c", "tf.c"}
    names = re.findall(r"^ +(?:TAGGED\( *\d+,|PLAIN\() *(\w+),", (SOURCE / "src/core/dtype_table.h").read_text(), re.M)
    assert len(names) == 22
    for folder, ending in (("src", "*.[ch]"), ("cli", "*.[ch]"), ("bindings/python/native", "*.[ch]"), ("bindings/python/coffer", "*.py")):
        for file in (SOURCE / folder).rglob(ending):
            text = re.sub(r"/\*.*?\*/", "", file.read_text(), flags=re.S)
            named = {name for name in names if re.search(rf'\bCOFFER_{name}\b|"{name}"', text)}
            assert len(named) <= 6 or file.name in tables, (file, named)
