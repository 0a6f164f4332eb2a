# SPDX-License-Identifier: Apache-2.0
"""coffer fetch: what comes is what was there, a part of it is a model of its own, and a kill loses little."""

import base64
import contextlib
import ctypes
import hashlib
import json
import os
import re
import signal
import subprocess
import time
import urllib.parse
from pathlib import Path

import pytest

import coffer_ctypes as coffer
import terminal
from hub_server import COMMIT as HUB_COMMIT
from hub_server import Hub, Repository
from network import LARGE, SMALL, Model, file_with_header, quick  # noqa: F401
from test_network_hub import COMMIT
from test_network_models import INDEX, make_model, serve
from web_server import Server

CLI = os.environ["COFFER_CLI"]
PIECE = 8 << 20  # four of these come before a kill
RECORD = 1 << 20  # bytes that are recorded together


def fetch(*words, code=0):
    result = subprocess.run([CLI, "fetch", *map(str, words)], capture_output=True, text=True, timeout=60)
    assert result.returncode == code, result.stderr
    return result.stderr


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_file_comes_as_it_is(tmp_path):
    with Server({"/a/m.safetensors": LARGE}) as server:
        fetch(server.url("/a/m.safetensors?x=1"), "-o", tmp_path / "new")
        assert content(tmp_path / "new") == {"m.safetensors": LARGE}
        ranges = sorted(request.range for request in server.log[1:])
        assert ranges[0][0] == 96 << 10 and ranges[-1][1] == len(LARGE) - 1
        assert sum(b - a + 1 for a, b in ranges) == len(LARGE) - (96 << 10)


def test_a_model_comes_with_an_index(tmp_path):
    files, _ = make_model(3)
    with serve(files) as server:
        fetch(server.url("/" + INDEX), "-o", tmp_path)
    got = content(tmp_path)
    index = json.loads(got.pop(INDEX))
    assert index == json.loads(files.pop(INDEX))
    assert got == files


# ---- Beside the tensors --------------------------------------------------------------------------------------------

BESIDE = [
    "config.json", "generation_config.json", "adapter_config.json", "tokenizer.json", "tokenizer_config.json", "tokenizer.model",
    "special_tokens_map.json", "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "chat_template.jinja",
    "preprocessor_config.json", "processor_config.json",
]  # fmt: skip
CONFIG, TOKENIZER = b'{"model_type": "gpt2"}', b"{%s}" % (b" " * (9 << 20))


def test_an_index_comes_byte_for_byte(tmp_path):
    files, _ = make_model(3)
    files[INDEX] = b' {"weight_map":' + json.dumps(json.loads(files[INDEX])["weight_map"]).encode() + b', "x":  [1.0], "metadata" : null}\n\n'
    with serve(files) as server:
        fetch(server.url("/" + INDEX + "?a=b"), "-o", tmp_path / "one")
        fetch(server.url("/" + INDEX), "-o", tmp_path / "all", "--filter", "*")
    assert content(tmp_path / "one") == files
    fetch(tmp_path / "one", "-o", tmp_path / "two")
    assert content(tmp_path / "two") == files
    # What was selected has an index of its own.
    assert content(tmp_path / "all")[INDEX] != files[INDEX]


@pytest.mark.parametrize("name", [INDEX, ""])
def test_what_loaders_read_comes_along(tmp_path, name):
    files, _ = make_model(2)
    there = {"config.json": CONFIG, "tokenizer.json": TOKENIZER, "merges.txt": b""}
    with serve(files | there | {"other.json": b"{}"}) as server:
        fetch(server.url("/" + name), "-o", tmp_path)
        asked = [path.rpartition("/")[2] for path in server.paths]
        # Each of them once, whether it is there or not.
        assert {name: asked.count(name) for name in BESIDE} == dict.fromkeys(BESIDE, 1) | {"tokenizer.json": asked.count("tokenizer.json")}
    got = content(tmp_path)
    assert json.loads(got.pop(INDEX)) == json.loads(files.pop(INDEX))
    assert got == files | there


def test_a_part_of_a_model_has_it_too(tmp_path):
    files, _ = make_model(2)
    with serve(files | {"config.json": CONFIG}) as server:
        fetch(server.url("/" + INDEX), "-o", tmp_path, "--filter", "s2.t0")
    assert sorted(content(tmp_path)) == ["config.json", "model-00002-of-00002.safetensors", INDEX]
    assert content(tmp_path)["config.json"] == CONFIG


def test_a_folder_of_one_file(tmp_path):
    with serve({"model.safetensors": SMALL, "config.json": CONFIG}, "/a/") as server:
        fetch(server.url("/a/"), "-o", tmp_path)
    assert content(tmp_path) == {"model.safetensors": SMALL, "config.json": CONFIG}


def test_a_local_folder(tmp_path):
    (tmp_path / "from").mkdir()
    for name, bytes_ in {"model.safetensors": SMALL, "config.json": CONFIG, "other.json": b"{}"}.items():
        (tmp_path / "from" / name).write_bytes(bytes_)
    fetch(tmp_path / "from", "-o", tmp_path / "to")
    assert content(tmp_path / "to") == {"model.safetensors": SMALL, "config.json": CONFIG}


def test_a_file_that_was_named_comes_alone(tmp_path):
    with serve({"model.safetensors": SMALL, "config.json": CONFIG}) as server:
        fetch(server.url("/model.safetensors"), "-o", tmp_path)
        assert server.paths == ["/model.safetensors"]
    assert content(tmp_path) == {"model.safetensors": SMALL}


@pytest.mark.parametrize("absent", [
    lambda request: request.answer(403),
    lambda request: request.answer(410),
    lambda request: request.answer(200, {}, b"<!DOCTYPE html><html>Not found</html>"),
])  # fmt: skip
def test_ways_to_say_that_nothing_is_there(tmp_path, absent):
    files, _ = make_model(1)
    with serve(files) as server:
        server.behave = lambda request: server.serve(request) if request.path[1:] in files else absent(request)
        fetch(server.url("/" + INDEX), "-o", tmp_path)
    assert sorted(content(tmp_path)) == sorted(files)


def test_trouble_is_not_taken_for_absence(tmp_path):
    files, _ = make_model(1)
    with serve(files) as server:
        server.behave = lambda request: request.answer(503) if "vocab.json" in request.path else server.serve(request)
        said = fetch(server.url("/" + INDEX), "-o", tmp_path, code=3)
        assert server.url("/vocab.json") in said and "503" in said
    assert content(tmp_path) == {}


def test_what_is_there_already_is_a_success(tmp_path):
    files, _ = make_model(2)
    there = files | {"config.json": CONFIG}
    with serve(there) as server:
        fetch(server.url("/" + INDEX), "-o", tmp_path)
        marks = {path.name: path.stat().st_ino for path in tmp_path.iterdir()}
        for words in [], ["-f"]:
            assert "all of it is there already" in fetch(server.url("/" + INDEX), "-o", tmp_path, *words)
        assert {path.name: path.stat().st_ino for path in tmp_path.iterdir()} == marks
        # One byte is enough, of whichever file.
        for name in there:
            text = bytearray(there[name])
            text[-1] ^= 1
            (tmp_path / name).write_bytes(text)
            assert "exists already" in fetch(server.url("/" + INDEX), "-o", tmp_path, code=3)
            assert (tmp_path / name).read_bytes() == text
            (tmp_path / name).write_bytes(there[name])
        (tmp_path / "config.json").unlink()
        assert "exists already" in fetch(server.url("/" + INDEX), "-o", tmp_path, code=3)
    # From a folder as from a server, and a part as the whole.
    (tmp_path / "config.json").write_bytes(CONFIG)
    for words in [], ["--filter", "s2.t0"]:
        fetch(tmp_path, "-o", tmp_path.parent / "copy", *words, "-f")
        assert "all of it is there already" in fetch(tmp_path, "-o", tmp_path.parent / "copy", *words)


def test_what_is_large_is_there_by_its_digest(tmp_path, monkeypatch):
    """What is not stated cannot be shown without fetching it again."""
    text = json.dumps({"t": {"dtype": "U8", "shape": [9 << 20], "data_offsets": [0, 9 << 20]}}).encode()
    large = len(text).to_bytes(8, "little") + text + bytes(9 << 20)
    with Hub({"owner/name": Repository({"model.safetensors": large})}, lists=True) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.origin)
        fetch("hf://owner/name", "-o", tmp_path)
        assert "all of it is there already" in fetch("hf://owner/name", "-o", tmp_path)
        (tmp_path / "model.safetensors").write_bytes(large[:-1] + b"!")
        assert "exists already" in fetch("hf://owner/name", "-o", tmp_path, code=3)
    (tmp_path / "model.safetensors").write_bytes(large)
    with serve({"model.safetensors": large}) as server:
        assert "exists already" in fetch(server.url("/model.safetensors"), "-o", tmp_path, code=3)


def test_a_configuration_that_is_there_is_kept(tmp_path):
    (tmp_path / "config.json").write_bytes(b"old")
    files, _ = make_model(1)
    with serve(files | {"config.json": CONFIG}) as server:
        assert "config.json" in fetch(server.url("/" + INDEX), "-o", tmp_path, code=3)
        assert content(tmp_path) == {"config.json": b"old"}
        fetch(server.url("/" + INDEX), "-o", tmp_path, "-f")
    assert content(tmp_path)["config.json"] == CONFIG


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"total_size": 900, "a": [1, {"b": null}], "c": "d"}', '{"total_size": 100, "a": [1, {"b": null}], "c": "d"}'),
        ('{"a": 1, "total_size":9.0e2 }', '{"a": 1, "total_size":100 }'),
        ('{"a": 1}', '{"total_size": 100, "a": 1}'),
        ("{ }", '{"total_size": 100}'),
        ("null", '{"total_size": 100}'),
        (None, '{"total_size": 100}'),
    ],
)
def test_what_an_index_says_besides_is_kept(tmp_path, before, after):
    files, _ = make_model(3)
    weights = json.dumps(json.loads(files[INDEX])["weight_map"])
    text = '{"weight_map": %s}' % weights if before is None else '{"metadata": %s, "weight_map": %s}' % (before, weights)
    with serve(files | {INDEX: text.encode()}) as server:
        fetch(server.url("/" + INDEX), "-o", tmp_path, "--filter", "s1.t0")
    got = content(tmp_path)[INDEX].decode()
    assert json.loads(got) == {"metadata": json.loads(after), "weight_map": {"s1.t0": "model-00001-of-00003.safetensors"}}
    assert after in got


# ---- Some tensors --------------------------------------------------------------------------------------------------


def test_some_tensors_are_a_model_of_their_own(tmp_path):
    files, bodies = make_model(3)
    with serve(files) as server:
        fetch(server.url("/" + INDEX), "-o", tmp_path, "--filter", "s1.t0", "--filter", "s3.t[12]")
    got = content(tmp_path)
    names = ["model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors"]
    assert sorted(got) == sorted([*names, INDEX])
    assert json.loads(got[INDEX]) == {
        "metadata": {"total_size": 300},
        "weight_map": {"s1.t0": names[0], "s3.t1": names[1], "s3.t2": names[1]},
    }
    read = {}
    for name in names:
        verdict, data = coffer.open_and_read(tmp_path / name)
        assert verdict.accepted
        read |= data
    assert read == {name: bodies[name] for name in ("s1.t0", "s3.t1", "s3.t2")}
    check = subprocess.run([CLI, "ls", tmp_path / INDEX], capture_output=True, text=True)
    assert check.returncode == 0 and "s3.t1" in check.stdout


def test_metadata_come_along(tmp_path):
    whole = coffer.serialize([("a", "U8", [2], b"ab"), ("b", "F32", [1], b"1234")], {"format": "pt"})
    with Server({"/m.safetensors": whole}) as server:
        fetch(server.url("/m.safetensors"), "-o", tmp_path, "--filter", "b")
    assert (tmp_path / "m.safetensors").read_bytes() == coffer.serialize([("b", "F32", [1], b"1234")], {"format": "pt"})


def test_a_pattern_that_takes_nothing(tmp_path):
    with Server({"/m.safetensors": SMALL}) as server:
        assert 'no tensor has a name that matches "x*"' in fetch(server.url("/m.safetensors"), "-o", tmp_path / "no", "--filter", "x*", code=1)
    assert not (tmp_path / "no").exists()


def test_a_file_that_is_there_is_kept(tmp_path):
    (tmp_path / "m.safetensors").write_bytes(b"old")
    with Server({"/m.safetensors": SMALL}) as server:
        assert "-f (`force` in the options) replaces it" in fetch(server.url("/m.safetensors"), "-o", tmp_path, code=3)
        assert content(tmp_path) == {"m.safetensors": b"old"}
        fetch(server.url("/m.safetensors"), "-o", tmp_path, "-f")
    assert content(tmp_path) == {"m.safetensors": SMALL}


# ---- Interrupted ---------------------------------------------------------------------------------------------------

HUGE, _ = file_with_header(1000, 5, 10 << 20)


def recorded(tmp_path, name="m.safetensors", size=len(HUGE)):
    """For each piece of a part whether it is there."""
    count = -(-size // RECORD)
    with contextlib.suppress(OSError):
        return (tmp_path / (name + ".coffer-part")).read_bytes()[-count:]
    return b""


def wait_for(condition):
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("nothing came of it in a minute")


def kill_in_the_middle(server, tmp_path):
    """A fetch that is killed when the first four of PIECE are there, and nothing comes of the rest."""
    server.behave = lambda request: server.serve(request) if request.range[0] < 4 * PIECE else request.stall()
    process = subprocess.Popen([CLI, "fetch", server.url("/m.safetensors"), "-o", str(tmp_path)])
    there = 4 * PIECE // RECORD
    wait_for(lambda: recorded(tmp_path)[:there] == b"\1" * there)
    process.send_signal(signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    assert list(content(tmp_path)) == ["m.safetensors.coffer-part"]
    server.behave = server.serve
    server.log.clear()


def test_a_fetch_that_was_killed_is_gone_on_with(tmp_path):
    with Server({"/m.safetensors": HUGE}) as server:
        kill_in_the_middle(server, tmp_path)
        fetch(server.url("/m.safetensors"), "-o", tmp_path)
        assert content(tmp_path) == {"m.safetensors": HUGE}
        # The first four pieces are not asked for again, the header apart. A request of the killed one may be told late.
        assert min(request.range[0] for request in server.log if request.range[0] > 0) == 4 * PIECE


def test_another_version_is_begun_anew(tmp_path):
    other = HUGE[:PIECE] + bytes([HUGE[PIECE] ^ 1]) + HUGE[PIECE + 1 :]  # in what was there already
    with Server({"/m.safetensors": HUGE}) as server:
        kill_in_the_middle(server, tmp_path)
        server.behave = lambda request: request.ranges(other, {"ETag": '"2"'})
        fetch(server.url("/m.safetensors"), "-o", tmp_path)
        assert content(tmp_path) == {"m.safetensors": other}


def test_another_wish_is_begun_anew(tmp_path):
    with Server({"/m.safetensors": HUGE}) as server:
        kill_in_the_middle(server, tmp_path)
        fetch(server.url("/m.safetensors"), "-o", tmp_path, "--filter", "t4")
    verdict, data = coffer.open_and_read(tmp_path / "m.safetensors")
    assert verdict.accepted and data == {"t4": HUGE[-(10 << 20) :]}


def test_a_damaged_record_is_begun_anew(tmp_path):
    with Server({"/m.safetensors": HUGE}) as server:
        kill_in_the_middle(server, tmp_path)
        with (tmp_path / "m.safetensors.coffer-part").open("r+b") as file:
            file.seek(len(HUGE) + 3)
            file.write(b"?")
        fetch(server.url("/m.safetensors"), "-o", tmp_path)
        assert content(tmp_path) == {"m.safetensors": HUGE}


def test_two_at_once(tmp_path):
    with Server({"/m.safetensors": HUGE}) as server:
        other = []

        def behave(request):
            if request.range[0] >= 4 * PIECE and not other:
                other.append(fetch(server.url("/m.safetensors"), "-o", tmp_path, code=3))
            return server.serve(request)

        server.behave = behave
        fetch(server.url("/m.safetensors"), "-o", tmp_path)
        assert "another process is fetching the same file" in other[0]
    assert content(tmp_path) == {"m.safetensors": HUGE}


def test_a_file_that_changes_meanwhile(tmp_path):
    with Server(behave=lambda request: request.ranges(HUGE, {"ETag": '"%d"' % (request.number > 3)})) as server:
        assert "changed on the server" in fetch(server.url("/m.safetensors"), "-o", tmp_path, code=3)
    assert "m.safetensors" not in content(tmp_path)


def test_another_url_is_begun_anew(tmp_path):
    """Whatever validator and size say: many servers make the ETag of date and size."""
    other = HUGE[:PIECE] + bytes([HUGE[PIECE] ^ 1]) + HUGE[PIECE + 1 :]  # in what was there already
    with Server({"/m.safetensors": HUGE, "/b/m.safetensors": other}) as server:
        kill_in_the_middle(server, tmp_path)
        fetch(server.url("/b/m.safetensors"), "-o", tmp_path)
        assert content(tmp_path) == {"m.safetensors": other}


def test_another_commit_is_begun_anew(tmp_path, monkeypatch):
    other = HUGE[:PIECE] + bytes([HUGE[PIECE] ^ 1]) + HUGE[PIECE + 1 :]  # in what was there already
    now = [HUGE, "1" * 40]
    with Server() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.origin)
        server.serve = lambda request: request.ranges(now[0], {"X-Repo-Commit": now[1]}) if "resolve" in request.path else request.answer(404)
        stalls = lambda request: server.serve(request) if request.range is None or request.range[0] < 4 * PIECE else request.stall()  # noqa: E731
        server.behave = stalls
        command = [CLI, "fetch", "hf://owner/name/m.safetensors", "-o", str(tmp_path)]
        process = subprocess.Popen(command)
        there = 4 * PIECE // RECORD
        wait_for(lambda: recorded(tmp_path)[:there] == b"\1" * there)
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        now[:] = [other, "2" * 40]
        server.behave = server.serve
        fetch(*command[2:])
        assert content(tmp_path) == {"m.safetensors": other}


@pytest.mark.parametrize("plant", ["link", "symlink", "fifo"])
def test_what_was_planted_is_not_written_to(tmp_path, plant):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "to").mkdir()
    part = tmp_path / "to" / "m.safetensors.coffer-part"
    {"link": lambda: os.link(victim, part), "symlink": lambda: part.symlink_to(victim), "fifo": lambda: os.mkfifo(part)}[plant]()
    with Server({"/m.safetensors": LARGE}) as server:
        fetch(server.url("/m.safetensors"), "-o", tmp_path / "to")
    assert victim.read_bytes() == b"precious"
    assert content(tmp_path / "to") == {"m.safetensors": LARGE}


def test_a_planted_state_says_nothing(tmp_path):
    """What others may write to is not believed."""
    with Server({"/m.safetensors": SMALL}) as server:
        words = [server.url("/m.safetensors"), "-o", tmp_path]
        command = ["strace", "-f", "-qq", "-o", os.devnull, "-e", "inject=renameat:signal=SIGKILL:when=1", CLI, "fetch", *map(str, words)]
        subprocess.run(command, timeout=60)
        state, part = tmp_path / "m.safetensors.coffer-fetched", tmp_path / "m.safetensors.coffer-part"
        assert set(content(tmp_path)) == {state.name, part.name}
        state.chmod(0o666)
        part.write_bytes(bytes(len(SMALL)))
        fetch(*words)
        assert (tmp_path / "m.safetensors").read_bytes() == SMALL


def test_what_has_its_name_already_is_not_written_to(tmp_path):
    """A second fetch that has opened the part, and gets the lock when the first one has given that file its name."""
    with Server({"/m.safetensors": LARGE}) as server:
        first = []

        def publish():
            first.append(fetch(server.url("/m.safetensors"), "-o", tmp_path))

        # The second one is held between opening the part, which is there, and locking it.
        (tmp_path / "m.safetensors.coffer-part").touch()
        command = ["strace", "-f", "-qq", "-o", os.devnull, "-e", "inject=flock:delay_enter=3000000:when=1", CLI, "fetch", "-f"]
        second = subprocess.Popen([*command, server.url("/m.safetensors"), "-o", str(tmp_path)])
        opened = lambda: any("coffer-part" in link for link in links_of(second.pid))  # noqa: E731
        wait_for(opened)
        publish()
        inode = (tmp_path / "m.safetensors").stat().st_ino
        with (tmp_path / "m.safetensors").open("rb") as file:
            assert second.wait(60) == 0
            assert file.read() == LARGE, "what had its name was written to"
        assert content(tmp_path) == {"m.safetensors": LARGE}
        assert (tmp_path / "m.safetensors").stat().st_ino != inode


def links_of(parent):
    """What the descriptors of a process's children lead to."""
    with contextlib.suppress(OSError):
        for child in Path("/proc/%d/task/%d/children" % (parent, parent)).read_text().split():
            for descriptor in Path("/proc/%s/fd" % child).iterdir():
                with contextlib.suppress(OSError):
                    yield str(descriptor.readlink())


def test_an_older_model_that_would_be_opened_instead(tmp_path):
    files, _ = make_model(2)
    (tmp_path / "model.safetensors").write_bytes(SMALL)
    with serve(files) as server:
        said = fetch(server.url("/" + INDEX), "-o", tmp_path, code=3)
        assert "would be loaded instead" in said
        assert content(tmp_path) == {"model.safetensors": SMALL}
        fetch(server.url("/" + INDEX), "-o", tmp_path, "-f")
        assert content(tmp_path) == files


class FetchOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("progress", ctypes.c_void_p), ("progress_ctx", ctypes.c_void_p),
                ("threads", ctypes.c_uint32), ("force", ctypes.c_bool)]  # fmt: skip


def test_a_fetch_that_is_cancelled_is_gone_on_with(tmp_path, monkeypatch):
    monkeypatch.setenv("COFFER_NET_TIMEOUT", "60")
    monkeypatch.setenv("COFFER_NET_RETRIES", "0")
    with Server({"/m.safetensors": HUGE}) as server, Model(server.url("/m.safetensors")) as model:
        server.behave = lambda request: server.serve(request) if request.range[0] < 4 * PIECE else request.stall()
        there = 4 * PIECE // RECORD
        held = lambda: recorded(tmp_path)[:there] == b"\1" * there  # noqa: E731
        progress = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64)(lambda *_: held())
        options = FetchOptions(ctypes.sizeof(FetchOptions), ctypes.cast(progress, ctypes.c_void_p))
        folder = os.fsencode(tmp_path)
        count = ctypes.c_size_t(coffer._count(model.handle))
        status = coffer.LIB.coffer_fetch(model.handle, None, count, folder, ctypes.byref(options), ctypes.byref(model.err))
        assert coffer.CODE_NAMES[status] == "CANCELLED", model.message
        assert list(content(tmp_path)) == ["m.safetensors.coffer-part"]
        server.behave = server.serve
        server.log.clear()
        fetch(server.url("/m.safetensors"), "-o", tmp_path)
        assert content(tmp_path) == {"m.safetensors": HUGE}
        assert min(request.range[0] for request in server.log if request.range[0] > 0) == 4 * PIECE


# ---- Digests -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("how", ["hub", "store"])
def test_a_stated_digest_is_compared(tmp_path, how, right, monkeypatch):
    digest = hashlib.sha256(SMALL if right else LARGE)

    def behave(request):
        if how == "store":
            return request.ranges(SMALL, {"x-amz-checksum-sha256": base64.b64encode(digest.digest()).decode()})
        if "there" in request.path:
            return request.ranges(SMALL)
        return request.answer(302, {"Location": "/there/m.safetensors", "X-Linked-Etag": '"%s"' % digest.hexdigest(), "X-Repo-Commit": COMMIT})

    with Server(behave=behave) as server:
        said = fetch(server.url("/m.safetensors"), "-o", tmp_path, code=0 if right else 3)
    assert content(tmp_path) == ({"m.safetensors": SMALL} if right else {})
    assert right or "do not match the SHA-256 that the server states" in said


# ---- The Hub -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("words", "revision"), [([], "main"), (["--revision", "v2"], "v2")])
def test_a_repository(tmp_path, monkeypatch, words, revision):
    there = {"model.safetensors": SMALL, "config.json": CONFIG}

    def behave(request):
        bytes_ = there.get(request.path.rpartition("/")[2])
        return request.answer(404) if bytes_ is None else request.ranges(bytes_, {"X-Repo-Commit": COMMIT})

    with Server(behave=behave) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.origin)
        fetch("hf://owner/name", "-o", tmp_path, *words)
        # A Hub that does not say what the repository has: names are guessed, and all that follows the first file is of its commit.
        assert server.paths[:2] == ["/api/models/owner/name/revision/" + revision, "/owner/name/resolve/%s/model.safetensors" % revision]
        assert sorted(server.paths[2:]) == sorted("/owner/name/resolve/%s/%s" % (COMMIT, name) for name in BESIDE)
    assert content(tmp_path) == there


@pytest.mark.parametrize(
    ("url", "revision", "path"),
    [
        ("hf://datasets/owner/name", "v1", "/datasets/owner/name/resolve/v1/"),
        ("hf://spaces/owner/name/model.safetensors", "v1", "/spaces/owner/name/resolve/v1/"),
        ("hf://owner/name", "feature/new", "/owner/name/resolve/feature%2Fnew/"),
        ("hf://datasets/owner/name", "a/b/c", "/datasets/owner/name/resolve/a%2Fb%2Fc/"),
        ("hf://owner/name", "refs/pr/1", "/owner/name/resolve/refs%2Fpr%2F1/"),
        ("hf://owner/name/model@2.safetensors", "v1", "/owner/name/resolve/v1/"),
    ],
)
def test_revisions_of_all_kinds(monkeypatch, tmp_path, url, revision, path):
    def behave(request):
        return request.ranges(SMALL) if request.path.endswith(".safetensors") else request.answer(404)

    with Server(behave=behave) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.origin)
        fetch(url, "--revision", revision, "-o", tmp_path)
        files = [asked for asked in server.paths if not asked.startswith("/api/")]
        assert files[0].rpartition("/")[0] + "/" == path
        # What is asked of the Hub itself is asked of the same revision.
        quoted = urllib.parse.quote(revision, safe="")
        assert all(asked.endswith(f"/revision/{quoted}") for asked in server.paths if asked.startswith("/api/"))


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/m", "hf://owner/name@main", "hf://owner", "hf://datasets/owner/name@main", "hf://datasets/owner"])
def test_a_revision_of_what_has_none(url):
    assert "--revision is for hf://owner/name" in fetch(url, "--revision", "v2", code=2)


def asked(hub):
    return [path for _, path in hub.asked]


def test_names_come_from_the_listing(tmp_path, monkeypatch):
    files, _ = make_model(2)
    there = files | {"config.json": CONFIG, "merges.txt": b"<s>"}
    with Hub({"owner/name": Repository(there | {"README.md": b"no", "sub/tokenizer.json": b"{}"})}, lists=True) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.origin)
        fetch("hf://owner/name", "-o", tmp_path)
        paths = asked(hub)
        # One request for the names, and one for each file, where it is; all of them at the commit.
        assert paths[0] == "/api/models/owner/name/revision/main"
        assert sorted(path for path in paths[1:] if "/resolve/" in path) == sorted("/owner/name/resolve/%s/%s" % (HUB_COMMIT, name) for name in there)
    assert content(tmp_path) == there


def test_names_of_a_folder_of_a_repository(tmp_path, monkeypatch):
    files, _ = make_model(1)
    there = {"sub/" + name: text for name, text in (files | {"config.json": CONFIG}).items()}
    with Hub({"datasets/owner/name": Repository(there | {"tokenizer.json": b"{}"}, revisions=["a/b", HUB_COMMIT])}, lists=True) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.origin)
        fetch("hf://datasets/owner/name/sub/" + INDEX, "--revision", "a/b", "-o", tmp_path)
        assert asked(hub)[0] == "/api/datasets/owner/name/revision/a%2Fb"
        assert not any("tokenizer" in path for path in asked(hub))
    assert content(tmp_path) == files | {"config.json": CONFIG}


@pytest.mark.parametrize("listing", [b"", b"[]", b"{}", b'{"sha": "x", "siblings": []}', b'{"sha": "%s"}' % COMMIT.encode(), b'{"siblings": [{"rfilename": 1}]}',
                                     b'{"sha": "%s", "siblings": [{}] ' % COMMIT.encode()])  # fmt: skip
def test_a_listing_that_is_none(tmp_path, monkeypatch, listing):
    there = {"model.safetensors": SMALL, "config.json": CONFIG}

    def behave(request):
        bytes_ = listing if request.path.startswith("/api/") else there.get(request.path.rpartition("/")[2])
        return request.answer(404) if bytes_ is None else request.ranges(bytes_)

    with Server(behave=behave) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.origin)
        fetch("hf://owner/name", "-o", tmp_path)
    assert content(tmp_path) == there


OLD, NEW = "1" * 40, "2" * 40


@pytest.mark.parametrize("name", ["", "/model.safetensors"])
@pytest.mark.parametrize("how", ["asked", "offline", "away"])
def test_a_cached_branch_is_asked_for_its_commit(tmp_path, monkeypatch, name, how):
    cache = tmp_path / "cache" / "models--owner--name"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "main").write_text(OLD)
    (cache / "snapshots" / OLD).mkdir(parents=True)
    (cache / "snapshots" / OLD / "model.safetensors").write_bytes(SMALL)
    new = SMALL[:-1] + bytes([SMALL[-1] ^ 1])
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    with Hub({"owner/name": Repository({"model.safetensors": new}, revisions=["main", NEW], commit=NEW)}, lists=True) as hub:
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1" if how == "away" else hub.origin)
        if how == "offline":
            monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        if how == "away" and name == "":  # what lies beside the tensors cannot be asked for either
            assert "cannot be reached" in fetch("hf://owner/name", "-o", tmp_path / "to", code=3)
            return
        fetch("hf://owner/name" + name, "-o", tmp_path / "to")
        assert asked(hub)[:1] == (["/api/models/owner/name/revision/main"] if how == "asked" else [])
    assert content(tmp_path / "to") == {"model.safetensors": new if how == "asked" else SMALL}


def test_a_cached_branch_that_has_not_moved(tmp_path, monkeypatch):
    cache = tmp_path / "cache" / "models--owner--name"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "main").write_text(HUB_COMMIT)
    (cache / "snapshots" / HUB_COMMIT).mkdir(parents=True)
    (cache / "snapshots" / HUB_COMMIT / "model.safetensors").write_bytes(SMALL)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    with Hub({"owner/name": Repository({"model.safetensors": SMALL})}, lists=True) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.origin)
        fetch("hf://owner/name", "-o", tmp_path / "to")
        assert asked(hub) == ["/api/models/owner/name/revision/main"]
    assert content(tmp_path / "to") == {"model.safetensors": SMALL}


def test_what_people_call_a_repository():
    assert "; for the repository of the Hub: coffer fetch hf://openai-community/gpt2" in fetch("openai-community/gpt2", code=3)
    assert "hf://" not in fetch("openai-community/gpt2/model.safetensors", code=3)


# ---- What is no file -----------------------------------------------------------------------------------------------

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 5\n"
PAGE = b"<!DOCTYPE html><html><body>Sign in</body></html>"


@pytest.mark.parametrize(("body", "words"), [(LFS, "Git LFS pointer"), (PAGE, "a web page"), (b"Entry not found", 'plain text, "Entry not found"')])
@pytest.mark.parametrize("name", ["model.safetensors", INDEX])
def test_a_body_is_named_as_what_it_says(tmp_path, body, words, name):
    with Server({"/" + name: body}) as server:
        assert words in fetch(server.url("/" + name), "-o", tmp_path, code=1)
    assert content(tmp_path) == {}


@pytest.mark.parametrize("body", [PAGE, b"Entry not found", b"404: Not Found"])
def test_a_guess_that_is_answered_by_a_text(tmp_path, body):
    files, _ = make_model(1)
    there = files | {"vocab.txt": b"<s>\n</s>\nnot\n" + b"x" * 300, "chat_template.jinja": b"<|im_start|>"}
    with Server() as server:
        server.files = {"/" + name: text for name, text in there.items()}
        server.behave = lambda request: server.serve(request) if request.path in server.files else request.answer(200, {}, body)
        fetch(server.url("/" + INDEX), "-o", tmp_path)
    assert content(tmp_path) == there


def test_a_pointer_beside_the_tensors(tmp_path):
    files, _ = make_model(1)
    with serve(files | {"tokenizer.json": LFS}) as server:
        said = fetch(server.url("/" + INDEX), "-o", tmp_path, code=1)
        assert "tokenizer.json" in said and "Git LFS pointer" in said
    assert content(tmp_path) == {}


# ---- Progress ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [120, 60, 30])
def test_progress_has_rate_and_time_left(tmp_path, columns):
    def behave(request):
        first, last = request.range
        if first == 0:
            return server.serve(request)
        request.head(206, {"Content-Length": last + 1 - first, "Content-Range": "bytes %d-%d/%d" % (first, last, len(LARGE)), "ETag": '"1"'})
        for at in range(first, last + 1, 64 << 10):
            time.sleep(0.03)
            request.raw(LARGE[at : min(at + (64 << 10), last + 1)])
        return None

    with Server({"/m.safetensors": LARGE}) as server:
        server.behave = behave
        plain = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"TERM": "xterm"}
        code, said = terminal.run([CLI, "fetch", server.url("/m.safetensors"), "-o", str(tmp_path)], columns, env=plain)
    assert code == 0, said
    lines = [line for line in said.replace("\x1b[K", "").split("\r") if line.startswith("fetching")]
    assert lines and all(len(line) < columns for line in lines)
    shown = [line for line in lines if re.search(r"% .* MB of 9\.4 MB  [\d.]+ [kM]B/s  0:\d\d left$", line)]
    assert bool(shown) == (columns > 30), lines


# ---- Servers without ranges ----------------------------------------------------------------------------------------


def whole_only(files, breaks=0, chunked=False):
    """A server that sends every file whole; the first `breaks` answers of more than 1 MiB end in the middle."""

    def behave(request):
        text = files.get(request.path[1:])
        if text is None:
            return request.answer(404)
        if len(text) > 1 << 20 and request.number < breaks:
            request.head(200, {"Content-Length": len(text), "ETag": '"1"'})
            request.raw(text[: len(text) // 2])
            request.closes = True
            return None
        if chunked:
            request.head(200, {"Transfer-Encoding": "chunked"})
            request.raw(b"%x\r\n" % len(text) + text + b"\r\n0\r\n\r\n")
            return None
        with contextlib.suppress(OSError):
            return request.answer(200, {"ETag": '"1"'}, text)

    return Server(behave=behave)


def test_a_server_without_ranges(tmp_path):
    with whole_only({"m.safetensors": LARGE}) as server:
        with Model(server.url("/m.safetensors")) as model:
            assert model.code == "ANSWER" and "does not support ranges" in model.message
        asked = len(server.log)
        fetch(server.url("/m.safetensors"), "-o", tmp_path)
        # Once for the header, and once for the file.
        assert len(server.log) - asked == 2
    assert content(tmp_path) == {"m.safetensors": LARGE}


def test_a_model_of_a_server_without_ranges(tmp_path):
    names = ["model-%05d-of-00003.safetensors" % i for i in (1, 2, 3)]
    files = {name: file_with_header(200 << 10, 2, 1 << 20, [name + "a", name + "b"])[0] for name in names}
    files[INDEX] = json.dumps({"weight_map": {name + t: name for name in names for t in "ab"}}).encode()
    files["config.json"] = CONFIG
    with whole_only(files, breaks=4) as server:
        fetch(server.url("/" + INDEX), "-o", tmp_path / "all")
        fetch(server.url("/" + INDEX), "-o", tmp_path / "some", "--filter", "*b")
    assert content(tmp_path / "all") == files
    for name in names:
        verdict, data = coffer.open_and_read(tmp_path / "some" / name)
        assert verdict.accepted and data == {name + "b": files[name][-(1 << 20) :]}


def test_neither_ranges_nor_a_length(tmp_path):
    with whole_only({"m.safetensors": LARGE}, chunked=True) as server:
        assert "serve" in fetch(server.url("/m.safetensors"), "-o", tmp_path, code=3)
    assert content(tmp_path) == {}
