# SPDX-License-Identifier: Apache-2.0
"""The manual page and the completions know every command and every option, and the shells understand them.

What there is to know comes from the command's own help. The completions are used as people use them: bash and zsh run at a
terminal, a line is typed, and the shell is asked to put every completion into it; fish has a command for that.
"""

import json
import os
import pty
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from test_docs import make_model

CLI = Path(os.environ["COFFER_CLI"]).resolve()
MANUAL = Path(os.environ.get("COFFER_BUILD_DIR") or CLI.parent).resolve() / "manual"
PAGE = MANUAL / "coffer.1"


# ---- What there is ----------------------------------------------------------------------------------------------------


def help_of(*words):
    return subprocess.run([CLI, "help", *words], check=True, capture_output=True, text=True).stdout


def options_in(text):
    """(letter or "", name, what its value is called or "") of each option that a help lists."""
    return re.findall(r"^  (?:-(\w), |    )--([\w-]+)(?: (\S+))?", text, re.M)


COMMANDS = re.findall(r"^  ([\w-]+) ", help_of().partition("Options:")[0], re.M)
OPTIONS = {command: options_in(help_of(command)) for command in COMMANDS}
WORDS = {command: {word for letter, name, _ in options for word in (f"-{letter}" if letter else f"--{name}", f"--{name}")}
         for command, options in OPTIONS.items()}


def test_there_is_something_to_know():
    assert {"info", "ls", "check", "get", "meta", "help"} <= set(COMMANDS)
    assert {"--sort", "--json", "--help", "-h", "-q"} <= WORDS["ls"]


# ---- The page ---------------------------------------------------------------------------------------------------------


PAGES = {"coffer": PAGE, **{command: MANUAL / f"coffer-{command}.1" for command in COMMANDS}}


@pytest.mark.parametrize("name", PAGES)
def test_page_is_clean(name):
    page = PAGES[name]
    said = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True).stdout
    # It has no date, so that the same sources make the same page.
    assert [line for line in said.splitlines() if "missing date" not in line] == []
    groff = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8", page], capture_output=True, text=True)
    assert (groff.returncode, groff.stderr) == (0, "")


def page_text():
    said = subprocess.run(["mandoc", "-T", "utf8", "-O", "width=500", PAGE], check=True, capture_output=True).stdout.decode()
    return re.sub(".\b", "", said)


@pytest.mark.parametrize("command", COMMANDS)
def test_page_has_everything(command):
    text = page_text()
    section = re.search(rf"^ +coffer {command}$(.*?)(?=^ {{1,4}}coffer [\w-]+$|^\S)", text, re.M | re.S)[1]
    common = text.partition("\nOPTIONS\n")[2].partition("\nCOMMANDS\n")[0]
    for letter, name, value in OPTIONS[command]:
        shown = (f"-{letter}, " if letter else "") + f"--{name}" + (f" {value}" if value else "")
        assert re.search(rf"^ +{re.escape(shown)}(\s|$)", section + common, re.M), shown
    # Every sentence of the help, the examples too, is in the page.
    about = help_of(command).partition("\n\n")[2].partition("\n\n")[2].partition("\nOptions:")[0]
    assert " ".join(about.split()) in " ".join(section.split())
    for example in re.findall(r"^  (coffer .*)$", help_of(command), re.M):
        assert example in section


# ---- Driving the shells -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a model, the command on the path, and the completions where the shells find them."""
    folder = tmp_path_factory.mktemp("home")
    make_model(folder / "model.safetensors")
    (folder / "bin").mkdir()
    (folder / "bin/coffer").symlink_to(CLI)
    (folder / "functions").mkdir()
    shutil.copy(MANUAL / "coffer.zsh", folder / "functions/_coffer")
    (folder / ".bashrc").write_text(f"PS1='READY>'\nHISTFILE=\nset +o history\nsource {MANUAL}/coffer.bash\n"
                                    r"bind '\C-t: insert-completions'" "\nbind 'set enable-bracketed-paste off'\n"
                                    "bind 'set completion-query-items 0'\n")
    (folder / ".zshrc").write_text(r"""
PS1='READY>'
unsetopt zle_bracketed_paste prompt_sp 2>/dev/null
fpath=($HOME/functions $fpath)
autoload -Uz compinit
compinit -u -D
bindkey -e
zle -C every complete-word _generic
bindkey '^T' every
zstyle ':completion:every::::' completer _all_matches _complete
zstyle ':completion:every:*' insert true
""")
    return folder


def environment_of(home):
    return {"HOME": str(home), "ZDOTDIR": str(home), "PATH": f"{home}/bin:/usr/bin:/bin", "TERM": "dumb", "LC_ALL": "C.UTF-8",
            "XDG_CONFIG_HOME": str(home), "XDG_DATA_HOME": str(home)}


def at_terminal(shell, home, line):
    """Types the line, has every completion put into it, and has the shell write the words that it is then."""
    master, slave = pty.openpty()
    (home / "said").unlink(missing_ok=True)
    arguments = {"bash": ["bash", "--noprofile", "--rcfile", str(home / ".bashrc"), "-i"], "zsh": ["zsh", "-d", "-i"]}[shell]
    process = subprocess.Popen(arguments, stdin=slave, stdout=slave, stderr=slave, cwd=home, env=environment_of(home),
                               start_new_session=True)
    os.close(slave)
    seen = b""
    while b"READY>" not in seen:
        seen += os.read(master, 4096)
    # To the line's beginning, a command that writes words; to its end, where they go.
    os.write(master, line.encode() + b"\x14\x01printf '%s\\n' \x05 >said\nexit\n")
    try:
        while os.read(master, 4096):
            pass
    except OSError:
        pass  # the terminal is closed: the shell is gone
    process.wait(timeout=60)
    os.close(master)
    return (home / "said").read_text().splitlines()


def completions(shell, home, line):
    """What the shell offers for the last word of the line."""
    if shell == "fish":
        script = f"source {MANUAL}/coffer.fish; complete -C {shell_quoted(line)}"
        said = subprocess.run(["fish", "--no-config", "-c", script], check=True, capture_output=True, text=True, cwd=home,
                              env=environment_of(home), stdin=subprocess.DEVNULL)
        assert said.stderr == ""
        return {entry.split("\t")[0] for entry in said.stdout.splitlines()}
    words = at_terminal(shell, home, line)
    before = line.split(" ")[:-1]
    assert words[:len(before)] == before
    return set(words[len(before):]) - {""}


def shell_quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS = ("bash", "zsh", "fish")


@pytest.mark.parametrize("shell", SHELLS)
def test_shell_accepts_it(shell):
    subprocess.run([shell, "-n", MANUAL / f"coffer.{shell}"], check=True)


@pytest.mark.parametrize("shell", SHELLS)
def test_commands(shell, home):
    assert completions(shell, home, "coffer ") == set(COMMANDS)
    assert completions(shell, home, "coffer help ") == set(COMMANDS)
    assert {"--version", "--help"} <= completions(shell, home, "coffer --")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("shell", SHELLS)
def test_options(shell, command, home):
    offered = {word.rstrip("=") for word in completions(shell, home, f"coffer {command} --")}
    assert offered == {word for word in WORDS[command] if word.startswith("--")}


def test_the_command_prints_what_is_installed():
    for shell in SHELLS:
        printed = subprocess.run([CLI, "completion", shell], check=True, capture_output=True, text=True).stdout
        assert printed == (MANUAL / f"coffer.{shell}").read_text(encoding="utf-8")
    with open("/dev/full", "w", encoding="utf-8") as full:
        failed = subprocess.run([CLI, "completion", "bash"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert failed.returncode == 3 and "No space left" in failed.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_page(command):
    shown = subprocess.run(["mandoc", "-T", "ascii", PAGES[command]], check=True, capture_output=True, text=True).stdout
    page = " ".join(re.sub(r".\x08", "", shown).split())
    for _, name, argument in OPTIONS[command]:
        assert f"--{name} {argument}".strip() in page


@pytest.mark.parametrize("shell", SHELLS)
def test_aliases_complete_as_their_commands(shell, home):
    offered = {word.rstrip("=") for word in completions(shell, home, "coffer show --")}
    assert offered == {word for word in WORDS["info"] if word.startswith("--")}
    assert completions(shell, home, "coffer cat model.safetensors wt") == {"wte.weight"}


@pytest.mark.parametrize("shell", SHELLS)
def test_values(shell, home):
    assert completions(shell, home, "coffer ls --sort ") == {"name", "offset", "size"}
    after = {word.removeprefix("--sort=") for word in completions(shell, home, "coffer ls --sort=")}
    assert after == {"name", "offset", "size"}
    # A value is no argument: the file comes next.
    assert "model.safetensors" in completions(shell, home, "coffer ls --sort size mod")


@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_in_the_file(shell, home):
    tensors = {"h.0.ln_1.weight", "ln_f.weight", "wte.weight", "h.0.attn.c_attn.weight", "wpe.weight"}
    assert completions(shell, home, "coffer get model.safetensors ") == tensors
    assert completions(shell, home, "coffer get model.safetensors wt") == {"wte.weight"}
    assert completions(shell, home, "coffer get --all -q model.safetensors h.0.a") == {"h.0.attn.c_attn.weight"}
    (home / "folder").mkdir(exist_ok=True)
    shutil.copy(home / "model.safetensors", home / "folder")
    assert completions(shell, home, "coffer get folder wt") == {"wte.weight"}
    assert completions(shell, home, "coffer meta model.safetensors ") == {"format"}
    assert completions(shell, home, "coffer meta model.safetensors --unset ") == {"format"}


@pytest.mark.parametrize("shell", ("bash", "zsh"))
def test_odd_names_come_through(shell, home):
    """What is put into the line is quoted so that the command gets the name as it is."""
    names = ["a b", "a'c", 'a"d', "a$HOME", "a*", "a\\e", "a=f", "a:g", "a[0]", "aé"]
    header = json.dumps({name: {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for name in names}).encode()
    (home / "odd names.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    shown = {name.replace("\\", "\\\\") for name in names}
    # The file's own name has to be understood as the shell does, and the answer is taken from the words as the shell reads them.
    words = at_terminal(shell, home, "coffer get odd\\ names.safetensors a")
    assert words[:3] == ["coffer", "get", "odd names.safetensors"]
    assert set(words[3:]) == shown


@pytest.mark.parametrize("shell", SHELLS)
def test_a_file_that_cannot_be_read_is_quiet(shell, home):
    (home / "none.safetensors").write_bytes(b"")
    assert completions(shell, home, "coffer get none.safetensors zz") in (set(), {"zz"})
