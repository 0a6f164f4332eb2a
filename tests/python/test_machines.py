# SPDX-License-Identifier: Apache-2.0
"""Files and machines as users have them: huge, odd, full, read-only, without a locale or a home.

Each condition is met with the command line, or with the library where the command line has no option for it. What the
unit tests hold already (umask, setgid directories, two savers, links, bind mounts, a file that shrinks) is not repeated.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys

import pytest

import coffer_ctypes
from test_cli import CLI, coffer, floats, header_bytes, is_waiting, make, wait_until

MANY = 1_300_000


def sparse(path, size):
    """A file of one U8 tensor of `size` bytes, of which none takes room on the disk but the last three."""
    header = header_bytes({"x": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}, slack=200)
    with open(path, "wb") as file:
        file.write(header)
        file.truncate(len(header) + size)
        file.seek(-3, os.SEEK_END)
        file.write(b"\1\2\3")
    return str(path)


@pytest.mark.parametrize("folder", ["disk", "memory"])
def test_a_file_of_100_gb(tmp_path, folder):
    if folder == "memory":
        path = f"/dev/shm/coffer-test-{os.getpid()}.safetensors"
    else:
        path = str(tmp_path / "huge.safetensors")
    try:
        sparse(path, 100_000_000_000)
        checked = coffer("check", path).stdout.splitlines()
        assert checked[0] == f"{path}: ok"
        assert all(": note: the file has a hole, " in note for note in checked[1:]) and len(checked) <= 2
        assert "100,000,000,000" in coffer("info", path).stdout
        assert coffer("get", path, "x[-4:]").stdout.split() == ["[0,", "1,", "2,", "3]"]
        assert coffer("get", path, "x[99999999999]").stdout == "3\n"
        edited = coffer("meta", path, "--set", "k=v")
        assert (edited.returncode, "edited in place" in edited.stderr or "clone" in edited.stderr) == (0, True)
        assert coffer("meta", path, "k").stdout == "v\n"
        assert coffer("check", path).returncode == 0
    finally:
        os.unlink(path)


def many_tensors():
    entry = b'"layer.%07d.weight_of_a_projection":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    return b"{" + b",".join(entry % i for i in range(MANY)) + b"}"


def test_1_300_000_tensors(tmp_path):
    text = many_tensors()
    assert len(text) > 100_000_000
    path = tmp_path / "many.safetensors"
    path.write_bytes(header_bytes(text))
    refused = coffer("info", str(path))
    assert refused.returncode == 1
    assert str(len(text) // 8 * 8 + 8 * (len(text) % 8 > 0)) in refused.stderr and "100000000" in refused.stderr
    content = path.read_bytes()
    options = coffer_ctypes.ParseOptions(ctypes.sizeof(coffer_ctypes.ParseOptions), len(content), 200_000_000)
    table, err = ctypes.c_void_p(), coffer_ctypes.Error()
    status = coffer_ctypes._parse(ctypes.byref(table), None, content, len(content), coffer_ctypes.ALLOCATOR,
                                  ctypes.byref(options), ctypes.byref(err))  # fmt: skip
    assert (status, coffer_ctypes._table_count(table)) == (0, MANY)
    coffer_ctypes._table_free(table)


def test_the_writer_refuses_1_300_000_tensors_before_it_writes(tmp_path):
    lib, err = coffer_ctypes.LIB, coffer_ctypes.Error()
    header, writer = ctypes.c_void_p(), ctypes.c_void_p()
    coffer_ctypes._header_new(ctypes.byref(header), coffer_ctypes.ALLOCATOR, ctypes.byref(err))
    shape = (ctypes.c_uint64 * 1)(0)
    for i in range(MANY):
        name = b"layer.%07d.weight_of_a_projection" % i
        coffer_ctypes._header_add(header, name, len(name), 5, shape, 1, None)
    opens = coffer_ctypes._declare(lib, "coffer_writer_open", ctypes.c_int, ctypes.POINTER(ctypes.c_void_p),
                                   ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p,
                                   ctypes.POINTER(coffer_ctypes.Error))  # fmt: skip
    status = opens(ctypes.byref(writer), header, os.fsencode(tmp_path / "out"), None, ctypes.byref(err))
    coffer_ctypes._header_free(header)
    assert coffer_ctypes.CODE_NAMES[status] == "HEADER_TOO_LARGE"
    assert b"100000000" in err.message
    assert os.listdir(tmp_path) == []


def peak_of(*arguments):
    """The exit code, and the bytes of memory that the command took at most. What a process has before it becomes another
    program counts too, so a small one starts it."""
    script = ("import resource, subprocess, sys\ncode = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, "
              "stderr=subprocess.DEVNULL).returncode\nprint(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    told = subprocess.run([sys.executable, "-S", "-c", script, CLI, *arguments], capture_output=True, text=True, timeout=60,
                          check=True).stdout.split()  # fmt: skip
    return int(told[0]), int(told[1]) * 1024


ONE = b'"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]'
HOSTILE = {
    "least tensors": (b"{%s}", b'"%x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'),
    "names of escapes": (b"{%s}", b'"\\u0061%x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'),
    "dimensions": (b'{"t":{"dtype":"U8","data_offsets":[0,0],"shape":[%s]}}', b"0"),
    "shapes": (b"{%s}", b'"%x":{"dtype":"U8","shape":[0' + b",0" * 30 + b'],"data_offsets":[0,0]}'),
    "keys": (b'{"__metadata__":{%s}}', b'"%x":""'),
    "unknown keys": (b"{" + ONE + b",%s}}", b'"%x":1'),
    "unknown keys below": (b"{" + ONE + b',"u":{%s}}}', b'"%x":1'),
    "unknown depths": (b"{" + ONE + b',"u":[%s]}}', b"[" * 100 + b"]" * 100),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_header_takes_little_memory(tmp_path, kind):
    """At most eight times what it has; the command itself takes less than 16 MB."""
    frame, item = HOSTILE[kind]
    items, size = [], 0
    while size < 4_000_000:
        items.append(item % len(items) if b"%" in item else item)
        size += len(items[-1]) + 1
    path = tmp_path / "hostile"
    path.write_bytes(header_bytes(frame % b",".join(items)))
    code, peak = peak_of("check", str(path))
    assert code == 0
    assert peak < 8 * path.stat().st_size + 16_000_000


def test_a_manifest_of_very_many_files_takes_little_memory(tmp_path):
    manifest = tmp_path / "sums"
    manifest.write_bytes(b"".join(b"%s  %x\n" % (b"0" * 64, i) for i in range(100_000)))
    code, peak = peak_of("verify", str(tmp_path), "--manifest", str(manifest))
    assert code == 1
    assert peak < 8 * manifest.stat().st_size + 16_000_000


def test_a_path_that_is_not_utf8(tmp_path):
    path = make(tmp_path / "a.safetensors", {"x": ("F32", [1], floats(1))})
    odd = os.fsencode(tmp_path) + b"/\xff\x1b[31m.safetensors"
    os.rename(path, odd)
    for command in (["info"], ["check"], ["meta", "--set", "k=v"]):
        result = subprocess.run([CLI, command[0], odd, *command[1:]], capture_output=True, timeout=60, check=False)
        assert result.returncode == 0
        assert b"\x1b" not in result.stdout + result.stderr
        assert b"\\xff\\x1b" in result.stdout + result.stderr
    told = json.loads(subprocess.run([CLI, "info", "--json", odd], capture_output=True, timeout=60, check=True).stdout)
    assert "\ufffd" in told[0]["path"]


def in_a_mount(script, folder, **variables):
    """Runs a script of the shell in mounts of its own, which only root can make; another user gets a user namespace. Below a
    changed root directory its mounts cannot be made private, so they are taken away again."""
    wanted = ["unshare", "--mount", "--propagation", "unchanged"] + ["--map-root-user"] * (os.geteuid() != 0)
    script = 'mount --make-rprivate / 2>/dev/null || true; trap \'cd /; umount "$DIR"\' EXIT; ' + script
    return subprocess.run([*wanted, "sh", "-ec", script], capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, "CLI": CLI, "DIR": str(folder), **variables})


def test_a_read_only_file_system(tmp_path):
    path = make(tmp_path / "a.safetensors", {"x": ("F32", [1], floats(1))}, slack=100)
    result = in_a_mount('mount --bind "$DIR" "$DIR"; mount -o remount,ro,bind "$DIR"; "$CLI" get "$DIR/a.safetensors" x; '
                        '"$CLI" meta "$DIR/a.safetensors" --set k=v || echo "exit $?"', tmp_path)
    assert result.stdout == "[1]\nexit 3\n"
    assert "the file system is read-only" in result.stderr
    assert os.listdir(tmp_path) == ["a.safetensors"]
    assert coffer("check", path).returncode == 0


# Every way to write a file, of a model a.safetensors with x and y, each of 80,000 bytes.
WRITERS = [
    "meta a.safetensors --rewrite --set k=v", "hash --write a.safetensors", "align a.safetensors --to 4096 -f",
    "rename a.safetensors x=z -f", "rename a.safetensors x=z -o new", "drop a.safetensors x --in-place", "cast a.safetensors '*=F64' -f",
    "cast a.safetensors '*=F64' -o new",
    "convert a.safetensors -o new.bt", "merge a.safetensors -f -o old", "merge a.safetensors -o new",
    "split a.safetensors -o . --max-shard-size 80KB", "split a.safetensors -o . --max-shard-size 80KB -f",
    "get a.safetensors x -o new.safetensors", "get a.safetensors x -o new.npy", "get a.safetensors x -f -o old --format raw",
    "get a.safetensors x -o new.json", "hash a.safetensors -o new", "hash a.safetensors -f -o old",
    "hash . --manifest -o new", "stats a.safetensors --plot new.svg", "verify a.safetensors -m sums --state new",
]  # fmt: skip


def writers(folder):
    """A script that runs each of them where nothing can be written, and compares what is there before and afterwards."""
    make(folder / "from", {"x": ("F32", [20_000], bytes(80_000)), "y": ("F32", [20_000], bytes(80_000))})
    steps = [f'"$CLI" {command} >/dev/null || echo "exit $?"; cksum * | cmp - "$STATE"; ls -A | cmp - "$NAMES"'
             for command in WRITERS]
    return "\n".join(['cksum * >"$STATE"', 'ls -A >"$NAMES"', *steps])


def test_every_writer_on_a_read_only_file_system(tmp_path):
    script = writers(tmp_path)
    there = tmp_path / "there"
    there.mkdir()
    result = in_a_mount('mount -t tmpfs none "$DIR"; cd "$DIR"; cp "$FROM" a.safetensors; echo old >old; '
                        f'"$CLI" hash a.safetensors >sums; mount -o remount,ro "$DIR"\n{script}\ncd /',
                        there, FROM=str(tmp_path / "from"), STATE=str(tmp_path / "s"), NAMES=str(tmp_path / "n"))
    assert result.stdout == "exit 3\n" * len(WRITERS), result
    for line in result.stderr.splitlines():
        assert line.endswith(("write elsewhere", "write it elsewhere", "name another one, or verify without it")), line


def test_every_writer_on_a_full_disk(tmp_path):
    script = writers(tmp_path)
    there = tmp_path / "there"
    there.mkdir()
    result = in_a_mount('mount -t tmpfs -o size=400k none "$DIR"; cd "$DIR"; cp "$FROM" a.safetensors; echo old >old; '
                        '"$CLI" hash a.safetensors >sums; : >new; rm new; cat /dev/zero >fill 2>/dev/null || true\n'
                        f'{script}\ncd /', there, FROM=str(tmp_path / "from"), STATE=str(tmp_path / "s"),
                        NAMES=str(tmp_path / "n"))  # fmt: skip
    assert result.stdout.count("exit 3\n") == len(WRITERS), result
    assert result.stdout.replace("exit 3\n", "") == "", result
    for line in result.stderr.splitlines():
        assert "o space left on" in line, line


def test_every_writer_at_a_limit_on_the_size_of_files(tmp_path):
    """SIGXFSZ would end the process before it can tidy up."""
    make(tmp_path / "a.safetensors", {"x": ("F32", [20_000], bytes(80_000)), "y": ("F32", [20_000], bytes(80_000))})
    (tmp_path / "old").write_text("old")
    (tmp_path / "sums").write_text(coffer("hash", "a.safetensors", cwd=tmp_path).stdout)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    # A rename in place writes nothing but a header.
    small = ("hash a", "hash .", "stats", "verify", "rename a.safetensors x=z -f")
    for command in WRITERS:
        if not command.startswith(small):
            result = subprocess.run(["sh", "-c", f'ulimit -f 60; "{CLI}" {command}'], cwd=tmp_path, capture_output=True,
                                    text=True, timeout=60, check=False)
            assert (result.returncode, result.stdout) == (3, ""), (command, result)
            assert "larger (see ulimit -f)" in result.stderr, (command, result)
            assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before, command


def test_a_full_disk(tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    result = in_a_mount('mount -t tmpfs -o size=96k none "$DIR"; cd "$DIR"; cp "$FROM" a.safetensors; '
                        'before=$(cksum <a.safetensors); "$CLI" meta a.safetensors --set k=v || echo "exit $?"; '
                        'test "$before" = "$(cksum <a.safetensors)"; ls -A',
                        full, FROM=make(tmp_path / "b", {"x": ("U8", [80_000], bytes(80_000))}))
    assert result.stdout == "exit 3\na.safetensors\n"
    assert "no space left on the device" in result.stderr


def test_standard_input(tmp_path):
    path = make(tmp_path / "a.safetensors", {"x": ("F32", [2], floats(1, 2))})
    with open(path, "rb") as file:
        assert coffer("get", "/dev/stdin", "x", stdin=file).stdout == "[1, 2]\n"
    piped = subprocess.run(f'cat "{path}" | "{CLI}" info /dev/stdin', shell=True, capture_output=True, text=True,
                           timeout=60, check=False)
    assert (piped.returncode, piped.stdout) == (3, "")
    assert "pipe" in piped.stderr


def shell(script, folder):
    return subprocess.run(["sh", "-c", script.replace("coffer ", f'"{CLI}" ')], cwd=folder, capture_output=True, text=True,
                          timeout=60, check=False)  # fmt: skip


def test_closed_descriptors_are_nobody_elses(tmp_path):
    """A file that is opened must not get the number of one, and with it what was meant for the terminal."""
    make(tmp_path / "a", {"x": ("F32", [2], floats(1, 2))})
    make(tmp_path / "b", {"x": ("F32", [2], floats(1, 3))})
    assert shell("coffer verify . --manifest missing --state state 2>&-", tmp_path).returncode == 3
    assert (tmp_path / "state").read_text() == "coffer verify state 1\n"
    result = shell("coffer diff a - <&-", tmp_path)
    assert (result.returncode, result.stdout) == (3, "")
    assert result.stderr.startswith("coffer: -: standard input is closed; give it a file (< FILE)")
    result = shell("coffer hash a -o sums >&-; coffer ls a >&-", tmp_path)
    assert (result.returncode, result.stderr) == (3, "coffer: standard output: Bad file descriptor\n")
    for command in ("meta a --set k=v", "meta a --rewrite --set k=w", "merge a -o m", "hash --write a", "get a x -o n.npy"):
        assert shell(f"coffer {command} <&- >&- 2>&-", tmp_path).returncode == 0, command
        assert shell("coffer check a", tmp_path).returncode == 0, command
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "m", "n.npy", "state", "sums"]


def test_what_is_no_file_is_not_replaced(tmp_path):
    """Not even by those who may: root would lose /dev/stdout for the whole machine."""
    make(tmp_path / "a", {"x": ("F32", [2], floats(1, 2))})
    os.symlink("nowhere", tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")
    os.mkdir(tmp_path / "model.safetensors")
    for command, words in {
        "hash a -f -o /proc/self/fd/1 >out": "name the file itself",
        "merge a -f -o /dev/fd/1 >out": "name the file itself",
        "hash a -o link": "a dangling symbolic link of that name exists already; -f replaces it",
        "merge a -o link": "a dangling symbolic link of that name exists already; -f replaces it",
        "merge a -f -o pipe": "this is a pipe, socket or device, which a new file cannot replace",
        "merge a -f -o .": "the command reads a model in this folder, and would replace files of it: name another folder",
        "hash a -f -o .": "Is a directory; name a file in it",
        "split a -f -o .": "model.safetensors: this is a directory, which a file cannot replace",
        "split a -f -o . --max-shard-size 4": "model.safetensors: this is a directory, which a file cannot replace",
    }.items():
        result = shell(f"coffer {command}", tmp_path)
        assert result.returncode == 3 and words in result.stderr, (command, result)
        assert set(os.listdir(tmp_path)) - {"out"} == {"a", "link", "pipe", "model.safetensors"}, command
    assert os.path.islink(tmp_path / "link")


def test_a_name_of_the_greatest_length(tmp_path):
    make(tmp_path / "a", {"x": ("F32", [2], floats(1, 2))})
    name = "n" * 251 + ".txt"
    assert coffer("get", "a", "x", "-o", name, cwd=tmp_path).returncode == 0
    assert (tmp_path / name).read_text() == "[1, 2]\n"


@pytest.mark.parametrize("command", ["verify . --manifest -", "verify . --manifest pipe", "hash pipe", "hash -",
                                     "get a x -o pipe --format raw", "stats a --plot pipe", "hash a -o pipe"])
def test_an_interrupt_ends_the_wait_for_a_pipe(tmp_path, command):
    make(tmp_path / "a", {"x": ("F32", [2], floats(1, 2))})
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen([CLI, *command.split()], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE) as process:
        try:
            wait_until(lambda: is_waiting(process.pid))
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == -signal.SIGINT
        finally:
            process.kill()  # or nobody would end its wait
        assert process.stderr.read() == b"coffer: interrupted\n"


def test_no_locale_no_home(tmp_path):
    path = make(tmp_path / "a.safetensors", {"gr\u00fc\u00df": ("F32", [1], floats(1.5))})
    for variables in ({}, {"LC_ALL": "C"}, {"LC_ALL": "de_DE.UTF-8"}, {"LC_ALL": "nonsense", "HOME": "/nowhere"}):
        result = coffer("get", path, "gr\u00fc\u00df", env=variables)
        assert (result.returncode, result.stdout, result.stderr) == (0, "[1.5]\n", "")
        assert "gr\u00fc\u00df" in coffer("ls", path, env=variables).stdout


def test_an_edit_that_is_interrupted_by_the_keyboard_leaves_nothing(tmp_path):
    """SIGINT at whatever moment it comes: the file is whole, and at most the undo file tells that an edit was cut."""
    path = make(tmp_path / "a.safetensors", {"x": ("U8", [4_000_000], bytes(4_000_000))})
    for delay in range(12):
        script = (f"import signal, subprocess, time\np = subprocess.Popen([{CLI!r}, 'meta', {path!r}, '--rewrite', "
                  f"'--set', 'k={delay}'], stderr=subprocess.DEVNULL)\ntime.sleep({delay} * 0.0005)\n"
                  "p.send_signal(signal.SIGINT)\np.wait()")
        subprocess.run([sys.executable, "-c", script], timeout=60, check=True)
        assert coffer("check", path).returncode == 0
        assert os.listdir(tmp_path) == ["a.safetensors"]
