# SPDX-License-Identifier: Apache-2.0
"""s3:// against moto, which somebody else wrote, with the signatures that botocore makes: what moto_store.py says is checked."""

import contextlib
import json
import os
import pathlib
import subprocess

import pytest

from network import FIRST, LARGE, LARGE_BODY, SMALL, SMALL_BODY, Model, file_with_header, quick  # noqa: F401
from test_network_models import INDEX, make_model

CLI = os.environ["COFFER_CLI"]
PYTHON = pathlib.Path(os.environ["COFFER_SOURCE_DIR"]) / "build" / "moto-venv" / "bin" / "python"
ODD_KEYS = ["a/b/c-d_e.f~g", "with space", "100%25 + a=b&c;d#f", "!*'()[]{}@:$,", "ä世", "a//b", "trailing.", "%", "+", "a?b"]


def objects():
    """What the bucket holds, by key."""
    files, bodies = make_model(3, longer=(2,))
    contents = {"large": LARGE, "model/" + INDEX: files.pop(INDEX)} | {"model/" + name: content for name, content in files.items()}
    contents |= {key: SMALL for key in ODD_KEYS} | {"empty": b"", "long": file_with_header(FIRST + 1)[0]}
    return contents, bodies


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The store: `endpoint`, `bodies` of the model's tensors, and environments for its users."""
    folder = tmp_path_factory.mktemp("store")
    contents, bodies = objects()
    paths = {}
    for number, (key, content) in enumerate(contents.items()):
        paths[key] = str(folder / str(number))
        pathlib.Path(paths[key]).write_bytes(content)
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([PYTHON, pathlib.Path(__file__).with_name("moto_store.py")], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=log, text=True)  # fmt: skip
        process.stdin.write(json.dumps(paths) + "\n")
        process.stdin.flush()
        made = json.loads(process.stdout.readline() or '"%s"' % (folder / "log").read_text())
        yield made | {"bodies": bodies}
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.wait(60)


@pytest.fixture
def become(store, monkeypatch):
    """Changes who asks."""

    def change(who, **others):
        monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
        for name, value in (store[who] | others).items():
            monkeypatch.setenv(name, value)

    monkeypatch.setenv("AWS_ENDPOINT_URL", store["endpoint"])
    monkeypatch.setenv("COFFER_NET_TIMEOUT", "30")
    change("user")
    return change


def test_a_file(store, become):
    with Model("s3://bucket/large") as model:
        assert model.code == "OK", model.message
        assert model.read("t1") == LARGE_BODY[3 << 20 : 6 << 20]


@pytest.mark.parametrize("key", ODD_KEYS)
def test_keys_with_odd_characters(store, become, key):
    with Model("s3://bucket/" + key) as model:
        assert model.code == "OK", model.message
        assert model.read("t0") + model.read("t1") == SMALL_BODY


def test_a_header_that_takes_two_requests(store, become):
    with Model("s3://bucket/long") as model:
        assert model.code == "OK", model.message


def test_an_empty_object(store, become):
    with Model("s3://bucket/empty") as model:
        assert model.code == "EMPTY", model.message


def test_a_model_by_its_index(store, become):
    with Model("s3://bucket/model/" + INDEX) as model:
        assert model.code == "OK", model.message
        assert {name: model.read(name) for name in store["bodies"]} == store["bodies"]


def test_a_folder(store, become):
    with Model("s3://bucket/model/") as model:
        assert model.code == "OK", model.message
        assert model.read("s2.t1") == store["bodies"]["s2.t1"]


def test_a_slice(store, become, tmp_path):
    words = [CLI, "get", "s3://bucket/large", "t2[100:3000000:7]", "-o", tmp_path / "part.raw"]
    result = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "part.raw").read_bytes() == LARGE_BODY[6 << 20 :][100:3000000:7]


def test_fetching(store, become, tmp_path):
    result = subprocess.run([CLI, "fetch", "s3://bucket/model/" + INDEX, "-o", tmp_path], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    files, _ = make_model(3, longer=(2,))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name != INDEX} == {
        name: content for name, content in files.items() if name != INDEX
    }


# ---- Who may ----------------------------------------------------------------------------------------------------------


def test_a_session_token(store, become):
    become("session")
    with Model("s3://bucket/100%25 + a=b&c;d#f") as model:
        assert model.code == "OK", model.message


@pytest.mark.parametrize(
    ("who", "others", "status", "reason"),
    [
        ("user", {"AWS_SECRET_ACCESS_KEY": "wrong"}, 403, "SignatureDoesNotMatch"),
        ("session", {"AWS_SECRET_ACCESS_KEY": "wrong"}, 403, "SignatureDoesNotMatch"),
        ("session", {"AWS_SESSION_TOKEN": "wrong"}, 400, "InvalidToken"),
        ("user", {"AWS_SESSION_TOKEN": "not a session's"}, 400, "InvalidToken"),
        ("user", {"AWS_ACCESS_KEY_ID": "AKIANOBODY"}, 403, "InvalidAccessKeyId"),
        ("nobody", {}, 403, "AccessDenied"),
    ],
)
def test_who_may_not(store, become, who, others, status, reason):
    become(who, **others)
    with Model("s3://bucket/large") as model:
        assert model.code == "ACCESS", model.message
        assert model.err.http_status == status
        assert "(%d %s)" % (status, reason) in model.message


def test_without_a_key(store, become, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with Model("s3://bucket/large") as model:
        assert model.code == "ACCESS", model.message


def test_an_object_that_is_not_there(store, become):
    with Model("s3://bucket/nothing") as model:
        assert model.code == "NOT_FOUND", model.message
        assert "(404 NoSuchKey)" in model.message


def test_a_bucket_that_is_not_there(store, become):
    with Model("s3://no-bucket/large") as model:
        assert model.code == "NOT_FOUND", model.message
        assert "(404 NoSuchBucket)" in model.message
