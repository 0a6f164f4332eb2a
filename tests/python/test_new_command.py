# SPDX-License-Identifier: Apache-2.0
"""docs/architecture.md says which files a new command needs. Here one is added to a copy of the command line, in these files and no
others; then it is in the help, runs, and is in the manual page and the completions."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(os.environ.get("COFFER_SOURCE_DIR") or Path(__file__).resolve().parents[2])
BUILD = Path(os.environ.get("COFFER_BUILD_DIR") or Path(os.environ["COFFER_LIB"]).parent).resolve()
CC = os.environ.get("CC", "cc")

TOY = """/* SPDX-License-Identifier: Apache-2.0 */
/* coffer toy PATH: how many tensors a file has. */
#include "cli_files.h"
#include "cli_options.h"
#include "cli_report.h"

#include <inttypes.h>

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


def documented():
    """The files of the page's table, the tests' left out."""
    text = (SOURCE / "docs/architecture.md").read_text(encoding="utf-8")
    section = re.search(r"^### A command$(.*?)^### ", text, re.M | re.S)[1]
    files = re.findall(r"^\| `([^`]+)` \|", section, re.M)
    return [name.replace("NAME", "toy") for name in files if not name.startswith("tests/")]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The command and the generator of manual and completions, of a copy of cli/ with the toy in it."""
    folder = tmp_path_factory.mktemp("toy")
    shutil.copytree(SOURCE / "cli", folder / "cli")
    edits = {
        "cli/base/cli_command.h": ("extern const cli_command cli_help;", "extern const cli_command cli_help;\nextern const cli_command cli_toy;"),
        "cli/cli_table.c": ("&cli_help,", "&cli_toy, &cli_help,"),
    }
    for name, (old, new) in edits.items():
        text = (folder / name).read_text(encoding="utf-8")
        assert text.count(old) == 1
        (folder / name).write_text(text.replace(old, new), encoding="utf-8")
    (folder / "cli/commands/cmd_toy.c").write_text(TOY, encoding="utf-8")
    assert sorted(documented()) == sorted([*edits, "cli/commands/cmd_toy.c"])

    cli = folder / "cli"
    subprocess.run(["cmake", f"-DOUTPUT={folder / 'templates.c'}", "-P", cli / "templates.cmake"], check=True)
    shared = [folder / "templates.c", *cli.glob("base/*.c"), *cli.glob("commands/**/*.c"), cli / "cli_table.c", cli / "main.c", *cli.glob("system/cli_[!s]*_posix.c")]
    rooms = {f"-I{path}" for path in [cli, cli / "base", cli / "system", cli / "generate", *cli.glob("commands/**/")]}
    options = ["-std=c11", "-O0", "-D_DEFAULT_SOURCE", "-D_FILE_OFFSET_BITS=64", "-D_TIME_BITS=64", f"-I{SOURCE / 'include'}", *rooms]
    objects = folder / "objects"
    objects.mkdir()

    def compiler(*words):
        done = subprocess.run([CC, *options, *words], cwd=objects, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    compiler("-c", *shared)
    for name, own in (("coffer", [cli / "system/cli_start_posix.c"]), ("generate", cli.glob("generate/*.c"))):
        compiler(*own, *objects.glob("*.o"), BUILD / "libcoffer.a", "-pthread", "-lm", "-o", folder / name)
    return folder


def test_a_new_command_runs_and_is_in_the_help(programs):
    def answer(*arguments):
        return subprocess.run([programs / "coffer", *arguments], capture_output=True, text=True, check=True).stdout

    header = b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}'
    (programs / "m.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"xy")
    assert answer("toy", str(programs / "m.safetensors")) == "2\n"
    assert re.search(r"^  toy +count the tensors of a file$", answer("help"), re.M)
    assert answer("toy", "--help").startswith("coffer toy - count the tensors of a file\n")


@pytest.mark.parametrize("name", ["coffer.1", "coffer.bash", "coffer.zsh", "coffer.fish"])
def test_a_new_command_is_in_the_manual_page_and_the_completions(programs, name):
    arguments = ["--completion", name.partition(".")[2]] if name != "coffer.1" else [programs / "cli/generate/coffer.1.in"]
    subprocess.run([programs / "generate", *arguments, programs / name], check=True)
    assert re.search(r"\btoy\b", (programs / name).read_text(encoding="utf-8"))
