# SPDX-License-Identifier: Apache-2.0
"""docs/architecture.md says which files a new command needs. Here one is added to a copy of the tree, in these files and no others;
then it runs, passes the tests that every command has to, and is in the help, the manual page and the completions."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import golden
import test_docs
import test_golden

SOURCE = Path(os.environ.get("COFFER_SOURCE_DIR") or Path(__file__).resolve().parents[2])
BUILD = Path(os.environ.get("COFFER_BUILD_DIR") or Path(os.environ["COFFER_LIB"]).parent).resolve()
CC = os.environ.get("CC", "cc")

TOY = """/* SPDX-License-Identifier: Apache-2.0 */
/* coffer toy PATH: how many tensors a file has. */
#include "cli_files.h"
#include "cli_options.h"
#include "cli_report.h"

#include <stdio.h>

static int run_toy(cli *app, const cli_arguments *arguments)
{
    coffer *model = NULL;
    coffer_error err;
    if (coffer_open(&model, arguments->names[0], NULL, &err) != COFFER_OK) {
        return cli_fail(app, arguments->names[0], &err);
    }
    char text[32];
    snprintf(text, sizeof text, "%zu\\n", coffer_count(model));
    cli_put_text(&app->out, text);
    coffer_close(model);
    return CLI_EXIT_OK;
}

static const cli_option TOY_OPTIONS[] = { CLI_OPTION_ROW_END };
static const cli_example TOY_EXAMPLES[] = { { "coffer toy model.safetensors", "count" }, { NULL, NULL } };

const cli_command cli_toy = {
    .name = "toy",
    .run = run_toy,
    .summary = "count the tensors of a file",
    .usage = "PATH",
    .about = "Counts.\\n",
    .options = TOY_OPTIONS,
    .examples = TOY_EXAMPLES,
    .least_names = 1,
    .most_names = 1,
};
"""


GOLDEN = """How many tensors a file has, and a file that is missing.

$ coffer toy m.safetensors
1| 2
= 0
$ coffer toy nothing.safetensors
2| coffer: nothing.safetensors: cannot open the file: no such file or directory (errno 2)
= 3
"""

# What adding the command takes: for a new file its text, else the line after which one is added.
TOUCHED = {
    "cli/commands/cmd_toy.c": TOY,
    "cli/base/cli_command.h": ("    COMMAND(info) ", "    COMMAND(toy) \\"),
    "tests/golden/toy/toy.txt": GOLDEN,
    "docs/cli.md": ("| see a tensor, or write it to a file |", "| count tensors | `coffer toy model.safetensors` |"),
}


def documented():
    """The files of the page's table."""
    text = (SOURCE / "docs/architecture.md").read_text(encoding="utf-8")
    section = re.search(r"^### A command$(.*?)^### ", text, re.M | re.S)[1]
    return [name.replace("NAME", "toy") for name in re.findall(r"^\| `([^`]+)` \|", section, re.M)]


def test_the_page_lists_what_is_touched():
    assert documented() == list(TOUCHED) and len(TOUCHED) <= 5


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A copy of what the tests of commands look at, with the toy in it; and the command and the generator made of it."""
    folder = tmp_path_factory.mktemp("toy")
    for name in ("cli", "docs", "tests/golden"):
        shutil.copytree(SOURCE / name, folder / name)
    for name, change in TOUCHED.items():
        path = folder / name
        if isinstance(change, str):
            assert not path.exists()
            path.parent.mkdir(exist_ok=True)
            path.write_text(change, encoding="utf-8")
            continue
        lines = path.read_text(encoding="utf-8").split("\n")
        (number,) = [n for n, line in enumerate(lines) if line.startswith(change[0])]
        lines.insert(number + 1, change[1])
        path.write_text("\n".join(lines), encoding="utf-8")

    cli = folder / "cli"
    subprocess.run(["cmake", f"-DOUTPUT={folder / 'templates.c'}", "-P", cli / "templates.cmake"], check=True)
    shared = [folder / "templates.c", *cli.glob("base/*.c"), *cli.glob("commands/**/*.c"), cli / "cli_table.c", cli / "main.c", *cli.glob("system/cli_[!s]*_posix.c")]
    rooms = {f"-I{path}" for path in [cli, cli / "base", cli / "system", cli / "generate", *cli.glob("commands/**/")]}
    options = ["-std=c11", "-O0", "-D_DEFAULT_SOURCE", "-D_FILE_OFFSET_BITS=64", "-D_TIME_BITS=64", f"-I{SOURCE / 'include'}", f"-I{SOURCE / 'src/doctor'}",
               *rooms]
    objects = folder / "objects"
    objects.mkdir()

    def compiler(*words):
        done = subprocess.run([CC, *options, *words], cwd=objects, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    compiler("-c", *[file for file in shared if file.name != "cmd_toy.c"])
    compiler("-c", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-pedantic", "-Werror", cli / "commands/cmd_toy.c")
    for name, own in (("coffer", [cli / "system/cli_start_posix.c"]), ("generate", cli.glob("generate/*.c"))):
        compiler(*own, *objects.glob("*.o"), BUILD / "libcoffer.a", "-pthread", "-lm", "-o", folder / name)
    header = b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}'
    (folder / "m.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"xy")
    return folder


def test_a_new_command_runs_and_is_in_the_help(programs):
    def answer(*arguments):
        return subprocess.run([programs / "coffer", *arguments], capture_output=True, text=True, check=True).stdout

    assert answer("toy", str(programs / "m.safetensors")) == "2\n"
    assert re.search(r"^  toy +count the tensors of a file$", answer("help"), re.M)
    assert answer("toy", "--help").startswith("coffer toy - count the tensors of a file\n")


@pytest.mark.parametrize("name", ["coffer.1", "coffer.bash", "coffer.zsh", "coffer.fish"])
def test_a_new_command_is_in_the_manual_page_and_the_completions(programs, name):
    arguments = ["--completion", name.partition(".")[2]] if name != "coffer.1" else [programs / "cli/generate/coffer.1.in"]
    subprocess.run([programs / "generate", *arguments, programs / name], check=True)
    assert re.search(r"\btoy\b", (programs / name).read_text(encoding="utf-8"))


def test_a_new_command_has_what_every_command_has(programs, tmp_path):
    assert test_golden.commands_without_a_case(programs / "tests/golden") == set()
    assert test_docs.commands_that_are_nowhere(programs / "docs/cli.md", programs / "coffer") == set()
    shutil.copy(programs / "m.safetensors", tmp_path)
    case = (programs / "tests/golden/toy/toy.txt").read_text(encoding="utf-8")
    assert golden.replay(case, tmp_path, golden.environment_of(programs)) == case
    # Without its case, or its line in the page, it is missed.
    (programs / "tests/golden/toy/toy.txt").unlink()
    (programs / "tests/golden/toy").rmdir()
    assert test_golden.commands_without_a_case(programs / "tests/golden") == {"toy"}
    assert test_docs.commands_that_are_nowhere(SOURCE / "docs/cli.md", programs / "coffer") == {"toy"}
