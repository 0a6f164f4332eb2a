# SPDX-License-Identifier: Apache-2.0
"""hf:// and s3://: where they lead, what of the environment counts, and that credentials go to their own host alone."""

import base64
import ctypes
import hashlib
import hmac
import json
import os
import re
import subprocess

import pytest

import coffer_ctypes as coffer
from hub_server import COMMIT as HEAD
from hub_server import Hub, Repository
from network import LARGE, LARGE_BODY, SMALL, SMALL_BODY, Model, quick, refused  # noqa: F401
from web_server import Server

COMMIT = "0123456789abcdef0123456789abcdef01234567"


# ---- The Hub -------------------------------------------------------------------------------------------------------


@pytest.fixture
def hub(monkeypatch):
    """A server that speaks the Hub's routes for one file."""
    with Server() as server:

        def behave(request):
            match = re.fullmatch(r"/((?:datasets/|spaces/)?(?:owner/)?name)/resolve/([^/]+)/(.+)", request.path)
            if match is None or match[3] != "model.safetensors":
                return request.answer(404)
            return request.ranges(SMALL, {"X-Repo-Commit": COMMIT})

        server.behave = behave
        monkeypatch.setenv("HF_ENDPOINT", server.origin + "/")
        yield server


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("hf://owner/name/model.safetensors", "/owner/name/resolve/main/model.safetensors"),
        ("hf://owner/name@v1.0/model.safetensors", "/owner/name/resolve/v1.0/model.safetensors"),
        ("hf://owner/name@refs/pr/1/model.safetensors", "/owner/name/resolve/refs%2Fpr%2F1/model.safetensors"),
        ("hf://owner/name@refs%2fpr%2f1/model.safetensors", "/owner/name/resolve/refs%2Fpr%2F1/model.safetensors"),
        ("hf://datasets/owner/name/model.safetensors", "/datasets/owner/name/resolve/main/model.safetensors"),
        ("hf://spaces/owner/name@v1/model.safetensors", "/spaces/owner/name/resolve/v1/model.safetensors"),
        ("hf://name@main/model.safetensors", "/name/resolve/main/model.safetensors"),
        ("hf://name@refs/pr/1/model.safetensors", "/name/resolve/refs%2Fpr%2F1/model.safetensors"),
        ("hf://name@main", "/name/resolve/main/model.safetensors"),
        ("hf://datasets/name@v1/model.safetensors", "/datasets/name/resolve/v1/model.safetensors"),
    ],
)
def test_names_of_the_hub(hub, name, path):
    with Model(name) as model:
        assert model.code == "OK", model.message
        assert model.read("t0") == SMALL_BODY[:300]
        assert model.err.path == b""
    assert hub.paths == [path]


@pytest.mark.parametrize(
    "name",
    [
        "hf://owner", "hf://owner/", "hf://owner/..", "hf://owner/name/../x", "hf://owner/name@/x", "hf://owner/name@../x",
        "hf://owner/name//x", "hf://owner/name@a%2f..%2fb/x", "hf://@main/name", "hf://name@", "hf://datasets/", "hf://datasets/name",
    ],
)  # fmt: skip
def test_names_that_lead_elsewhere(hub, name):
    with Model(name) as model:
        assert model.code == "URL", model.message
    assert hub.log == []


def test_the_token_goes_to_the_hub_alone(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with Server({"/there": SMALL}) as other:
        hub.behave = lambda request: request.redirect(other.url("/there"))
        with Model("hf://owner/name/model.safetensors") as model:
            assert model.code == "OK", model.message
        with Model(other.url("/there")) as model:
            assert model.code == "OK", model.message
        # Also where the Hub's URL is written out.
        with Model(hub.url("/owner/name/resolve/main/x")) as model:
            assert model.code == "OK", model.message
        assert [request.headers.get("authorization") for request in hub.log] == ["Bearer hf_secret"] * 2
        assert len(other.log) == 3
        assert not any("authorization" in request.headers for request in other.log)


def test_a_redirect_back_to_the_hub_has_the_token(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")

    def behave(request):
        return request.redirect("/renamed") if request.path != "/renamed" else request.ranges(SMALL)

    hub.behave = behave
    with Model("hf://owner/name/model.safetensors") as model:
        assert model.code == "OK", model.message
    assert [request.headers.get("authorization") for request in hub.log] == ["Bearer hf_secret"] * 2


@pytest.mark.parametrize("stated", [None, "hf_environment"])
def test_the_token_of_the_options(hub, monkeypatch, stated):
    if stated:
        monkeypatch.setenv("HF_TOKEN", stated)
    for token in (b"hf_option", b""):
        with Model("hf://owner/name/model.safetensors", token=token) as model:
            assert model.code == "OK", model.message
    assert [request.headers.get("authorization") for request in hub.log] == ["Bearer hf_option", None]


@pytest.mark.parametrize("token", [b"two words", b"a\r\nX-Other: b", b"\xc3\xa4", b"a\n", b"a\r", b"\n", b"x" * 4096])
def test_what_is_no_token(hub, token):
    with Model("hf://owner/name/model.safetensors", token=token) as model:
        assert model.code == "ARGUMENT"
        assert "token" in model.message
    assert hub.log == []


def test_long_tokens_are_sent(hub, monkeypatch):
    """Those of some services are: a thousand characters and more."""
    monkeypatch.setenv("HF_TOKEN", "x" * 4095)
    for token in ("y" * 511, "y" * 512, "y" * 4095, None):
        with Model("hf://owner/name/model.safetensors", **({} if token is None else {"token": token.encode()})) as model:
            assert model.code == "OK", model.message
        assert hub.log[-1].headers["authorization"] == "Bearer " + (token or "x" * 4095)


WRONG = ["two words", "a\nX-Other: b", "a\r", "a\n", "\n", "\x01", "\x7f", "ä", "x" * 4096]


@pytest.mark.parametrize("variable", ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"])
@pytest.mark.parametrize("token", WRONG)
def test_what_is_no_token_in_the_environment(hub, monkeypatch, variable, token):
    monkeypatch.setenv(variable, token)
    with Model("hf://owner/name/model.safetensors") as model:
        assert model.code == "ARGUMENT"
        assert "HF_TOKEN is not a token" in model.message
        assert token not in model.message
    assert hub.log == []
    # A token that is given goes before it.
    with Model("hf://owner/name/model.safetensors", token=b"given") as model:
        assert model.code == "OK", model.message


@pytest.mark.parametrize("token", [*(word for word in WRONG if word.strip()), "a\nb\n", "a\0", "\0", "a\0b\n", " a", "x" * 5000])
def test_what_is_no_token_in_the_file(hub, monkeypatch, tmp_path, token):
    if token.strip(" \t\r\n\v\f") in ("a",) and not token.startswith(" "):
        token = "a b"  # what follows a token is no part of it
    (tmp_path / "token").write_text(token, newline="")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with Model("hf://owner/name/model.safetensors") as model:
        assert model.code == "ARGUMENT", model.message
        assert "the file with the Hub's token" in model.message
    assert hub.log == []


@pytest.mark.parametrize("text", ["", "\n", " \r\n", "\t"])
def test_a_file_without_a_token(hub, monkeypatch, tmp_path, text):
    (tmp_path / "token").write_text(text, newline="")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with Model("hf://owner/name/model.safetensors") as model:
        assert model.code == "OK", model.message
    assert "authorization" not in hub.log[0].headers


@pytest.mark.parametrize(("value", "sent"), [("1", False), ("true", False), ("0", True), ("", True)])
def test_implicit_tokens_can_be_forbidden(hub, monkeypatch, tmp_path, value, sent):
    (tmp_path / "token").write_text("hf_file\n")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", value)
    for variable in (None, "HF_TOKEN"):
        if variable:
            monkeypatch.setenv(variable, "hf_environment")
        with Model("hf://owner/name/model.safetensors") as model:
            assert model.code == "OK", model.message
        assert ("authorization" in hub.log[-1].headers) == sent
    with Model("hf://owner/name/model.safetensors", token=b"hf_given") as model:
        assert model.code == "OK", model.message
    assert hub.log[-1].headers["authorization"] == "Bearer hf_given"


def test_the_token_is_for_the_configuration_too(hub):
    asked = []

    def behave(request):
        asked.append((request.path.rpartition("/")[2], request.headers.get("authorization")))
        return request.ranges(b"{}" if request.path.endswith("config.json") else SMALL)

    hub.behave = behave
    with Model("hf://owner/name", token=b"hf_option") as model:
        assert model.code == "OK", model.message
        counts = (ctypes.c_uint8 * 4096)()
        assert coffer.LIB.coffer_count_parameters(model.handle, None, ctypes.c_size_t(0), counts, None) == 0
    assert asked == [("model.safetensors", "Bearer hf_option"), ("config.json", "Bearer hf_option")]


def test_how_long_the_options_wait(hub, monkeypatch):
    monkeypatch.setenv("COFFER_NET_TIMEOUT", "60")
    monkeypatch.setenv("COFFER_NET_RETRIES", "1")
    hub.behave = lambda request: request.stall()
    with Model("hf://owner/name/model.safetensors", timeout_ms=150) as model:
        assert model.code == "TIMEOUT", model.message
        assert "150 ms" in model.message
    assert len(hub.log) == 2


@pytest.mark.parametrize(
    ("status", "word", "code"),
    [
        (401, "RepoNotFound", "NO_REPOSITORY"), (404, "RepoNotFound", "NO_REPOSITORY"), (404, "RevisionNotFound", "NO_REVISION"),
        (401, "GatedRepo", "GATED"), (403, "GatedRepo", "GATED"), (404, "EntryNotFound", "NOT_FOUND"), (403, "Else", "ACCESS"),
        (401, "x" * 200, "ACCESS"),
    ],
)  # fmt: skip
def test_what_the_hub_says_is_wrong(hub, status, word, code):
    hub.behave = lambda request: request.answer(status, {"X-Error-Code": word})
    with Model("hf://owner/name") as model:
        assert model.code == code, model.message
        assert model.err.http_status == (0 if code == "NOT_FOUND" else status)
        assert model.err.path.decode().startswith("hf://owner/name")
    # Only of a file that is not there is another one looked for: five names of models, and that of a pipeline.
    assert len(hub.log) == (6 if code == "NOT_FOUND" else 1)


@pytest.mark.parametrize("place", ["HF_TOKEN_PATH", "HF_HOME", "HOME"])
def test_the_token_from_a_file(hub, monkeypatch, tmp_path, place):
    file = tmp_path / {"HF_TOKEN_PATH": "secret", "HF_HOME": "token", "HOME": ".cache/huggingface/token"}[place]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("hf_filed\n")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv(place, str(file if place == "HF_TOKEN_PATH" else tmp_path))
    with Model("hf://owner/name/model.safetensors") as model:
        assert model.code == "OK", model.message
    assert hub.log[0].headers["authorization"] == "Bearer hf_filed"


def make_cache(folder, revision, files):
    """The cache as clients of the Hub keep it."""
    repository = folder / "models--owner--name"
    snapshot = repository / "snapshots" / COMMIT
    (repository / "blobs").mkdir(parents=True)
    snapshot.mkdir(parents=True)
    (repository / "refs" / revision).parent.mkdir(parents=True)
    (repository / "refs" / revision).write_text(COMMIT)
    for name, content in files.items():
        blob = repository / "blobs" / hashlib.sha256(content).hexdigest()
        blob.write_bytes(content)
        (snapshot / name).symlink_to(os.path.relpath(blob, snapshot))


@pytest.mark.parametrize("variable", ["HF_HOME", "HF_HUB_CACHE"])
@pytest.mark.parametrize("revision", ["main", "refs/pr/1", COMMIT])
def test_the_cache_comes_first(hub, monkeypatch, tmp_path, variable, revision):
    monkeypatch.setenv(variable, str(tmp_path))
    make_cache(tmp_path if variable == "HF_HUB_CACHE" else tmp_path / "hub", revision, {"model.safetensors": LARGE})
    at = "" if revision == "main" else "@" + revision
    with Model("hf://owner/name%s/model.safetensors" % at) as model:
        assert model.code == "OK", model.message
        assert model.read("t2") == LARGE_BODY[6 << 20 :]
    assert hub.log == []


def test_what_the_cache_lacks_is_asked_for_at_its_commit(hub, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    make_cache(tmp_path, "main", {"config.json": b"{}"})
    with Model("hf://owner/name/model.safetensors") as model:
        assert model.code == "OK", model.message
    assert hub.paths == ["/owner/name/resolve/%s/model.safetensors" % COMMIT]


@pytest.mark.parametrize("value", ["1", "ON", "yes", "True"])
def test_offline(hub, monkeypatch, tmp_path, value):
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with Model("hf://owner/name/model.safetensors") as model:
        assert model.code == "OFFLINE", model.message
    make_cache(tmp_path, "main", {"model.safetensors": SMALL})
    with Model("hf://owner/name/model.safetensors") as model:
        assert model.code == "OK", model.message
    assert hub.log == []


def test_not_offline(hub, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    with Model("hf://owner/name/model.safetensors") as model:
        assert model.code == "OK", model.message


def test_an_endpoint_that_is_none(monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "huggingface.co")
    with Model("hf://owner/name/model.safetensors") as model:
        assert model.code == "ARGUMENT"
        assert "HF_ENDPOINT" in model.message


# ---- Object stores -------------------------------------------------------------------------------------------------

KEY, SECRET, REGION = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "eu-central-1"


def signature(request, secret, region):
    """The signature that a request should have: AWS Signature Version 4, from what came over the line."""
    said = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, ?SignedHeaders=([^,]+), ?Signature=(\w+)",
                        request.headers["authorization"])  # fmt: skip
    key, day, said_region, signed, _ = said.groups()
    assert (key, said_region) == (KEY, region)
    names = signed.split(";")
    assert names == sorted(names) and {"host", "x-amz-date", "x-amz-content-sha256"} <= set(names)
    path, _, query = request.path.partition("?")
    lines = "".join("%s:%s\n" % (name, " ".join(request.headers[name].split())) for name in names)
    canonical = "\n".join([request.method, path, query, lines, signed, request.headers["x-amz-content-sha256"]])
    scope = "%s/%s/s3/aws4_request" % (day, region)
    text = "\n".join(["AWS4-HMAC-SHA256", request.headers["x-amz-date"], scope, hashlib.sha256(canonical.encode()).hexdigest()])
    signing = ("AWS4" + secret).encode()
    for piece in (day, region, "s3", "aws4_request", text):
        signing = hmac.new(signing, piece.encode(), hashlib.sha256).digest()
    return signing.hex()


@pytest.fixture
def store(monkeypatch):
    """A server that knows one key and answers nobody else."""
    with Server() as server:

        def behave(request):
            said = request.headers.get("authorization", "").rpartition("Signature=")[2]
            if not said or said != signature(request, SECRET, REGION):
                return request.answer(403, {}, b"<Error><Code>SignatureDoesNotMatch</Code></Error>")
            return request.ranges(LARGE)

        server.behave = behave
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.origin)
        monkeypatch.setenv("AWS_REGION", REGION)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        yield server


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("model.safetensors", "/bucket/model.safetensors"),
        ("a/b/c-d_e.f~g", "/bucket/a/b/c-d_e.f~g"),
        ("with space", "/bucket/with%20space"),
        ("100%25 + a=b&c;d?e#f", "/bucket/100%2525%20%2B%20a%3Db%26c%3Bd%3Fe%23f"),
        ("!*'()[]{}@:$,", "/bucket/%21%2A%27%28%29%5B%5D%7B%7D%40%3A%24%2C"),
        ("\u00e4\u4e16", "/bucket/%C3%A4%E4%B8%96"),
        ("a//b", "/bucket/a//b"),
    ],
)
def test_requests_are_signed(store, key, path):
    with Model("s3://bucket/" + key) as model:
        assert model.code == "OK", model.message
        assert model.read("t0") == LARGE_BODY[: 3 << 20]
    assert set(store.paths) == {path}
    assert len(store.log) >= 2


def test_a_key_with_dots_is_signed_as_it_is_or_not_at_all(store):
    """From 8.16 on libcurl does not do that; what it would do instead is another object."""
    with Model("s3://bucket/a/../b/./c") as model:
        if model.code == "OK":
            assert set(store.paths) == {"/bucket/a/../b/./c"}
        else:
            assert "does not sign a path with /./" in model.message
            assert store.log == []


def test_a_wrong_secret_is_refused(store, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET + "x")
    with Model("s3://bucket/key") as model:
        assert model.code == "ACCESS", model.message
        assert model.err.http_status == 403
    assert len(store.log) == 1


def test_a_session_has_its_token(store, monkeypatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session//token==")
    with Model("s3://bucket/key") as model:
        assert model.code == "OK", model.message
    headers = store.log[0].headers
    assert headers["x-amz-security-token"] == "session//token=="
    assert "x-amz-security-token" in headers["authorization"]


def test_another_region_by_its_other_name(store, monkeypatch):
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with Model("s3://bucket/key") as model:
        assert model.code == "OK", model.message


def test_without_a_key_nothing_is_signed(store, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    store.behave = lambda request: request.ranges(SMALL)
    with Model("s3://bucket/key") as model:
        assert model.code == "OK", model.message
    assert "authorization" not in store.log[0].headers


def test_a_key_without_its_secret(store, monkeypatch):
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with Model("s3://bucket/key") as model:
        assert model.code == "ARGUMENT"
        assert "AWS_SECRET_ACCESS_KEY" in model.message


def test_a_redirect_to_another_host_is_not_signed(store, monkeypatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    with Server({"/there": SMALL}) as other:
        store.behave = lambda request: request.redirect(other.url("/there"), 307)
        with Model("s3://bucket/key") as model:
            assert model.code == "OK", model.message
        assert not {"authorization", "x-amz-security-token", "x-amz-content-sha256"} & set(other.log[0].headers)


def test_other_hosts_are_not_signed_for(store):
    with Server({"/m": SMALL}) as other, Model(other.url("/m")) as model:
        assert model.code == "OK", model.message
        assert "authorization" not in other.log[0].headers


def test_a_bucket_in_another_region(store):
    store.behave = lambda request: request.answer(301)
    with Model("s3://bucket/key") as model:
        assert model.code == "REDIRECT"
        assert "AWS_REGION" in model.message


def checksum(content):
    return base64.b64encode(hashlib.sha256(content).digest()).decode()


def serve_objects(store, objects, stated=checksum, absent=404):
    """Objects by their paths. A digest is stated with the whole of one alone, as Amazon does it, and of what is not there `absent`."""

    def behave(request):
        content = objects.get(request.path)
        if content is None:
            return request.answer(absent, {}, b"<Error><Code>AccessDenied</Code></Error>" if absent == 403 else b"")
        said = {"x-amz-checksum-sha256": stated(content), "ETag": '"1"'}
        assert request.headers["x-amz-checksum-mode"] == "ENABLED"
        if request.method == "HEAD":
            return request.head(200, {"Content-Length": len(content)} | said)
        whole = request.range is None or (request.range[0] == 0 and request.range[1] >= len(content) - 1)
        return request.ranges(content, said if whole else {})

    store.behave = behave


INDEX = json.dumps({"metadata": {}, "weight_map": {"t0": "m-1.safetensors", "t1": "m-1.safetensors"}}).encode()
MODEL_OF_ONE = {"/bucket/m.safetensors.index.json": INDEX, "/bucket/m-1.safetensors": SMALL}


@pytest.mark.parametrize("is_signed", [True, False])
@pytest.mark.parametrize("wrong", [None, "/bucket/m-1.safetensors", "/bucket/m.safetensors.index.json"])
@pytest.mark.parametrize("name", ["m-1.safetensors", "m.safetensors.index.json"])
def test_the_digest_of_a_whole_object_is_checked(store, monkeypatch, is_signed, wrong, name):
    if not is_signed:
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    serve_objects(store, MODEL_OF_ONE, lambda content: checksum(content + (b"x" if content == MODEL_OF_ONE.get(wrong) else b"")))
    with Model("s3://bucket/" + name) as model:
        if wrong is None or (wrong.endswith(".json") and not name.endswith(".json")):
            assert model.code == "OK", model.message
        else:
            assert model.code == "ANSWER", model.message
            assert "do not match the SHA-256 that the server states" in model.message
            assert model.err.path.decode() == "s3:/" + wrong
    assert {request.method for request in store.log} == {"GET"}


@pytest.mark.parametrize("right", [True, False])
def test_a_store_is_asked_for_the_digest_of_what_came_in_parts(store, tmp_path, right):
    serve_objects(store, {"/bucket/m.safetensors": LARGE}, lambda content: checksum(content if right else b""))
    with Model("s3://bucket/m.safetensors") as model:
        assert model.read("t0") == LARGE_BODY[: 3 << 20]
    # Nobody asks who does not read all of it.
    assert {request.method for request in store.log} == {"GET"}
    command = [os.environ["COFFER_CLI"], "fetch", "s3://bucket/m.safetensors", "-o", tmp_path]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (result.returncode == 0) == right, result.stderr
    assert [request.path for request in store.log if request.method == "HEAD"] == ["/bucket/m.safetensors"]
    assert (tmp_path / "m.safetensors").exists() == right


@pytest.mark.parametrize("stated", ["", "AAAA-3", "short"])
def test_a_digest_that_is_none_is_not_checked(store, tmp_path, stated):
    """An object that was uploaded in parts has one of its parts' digests."""
    serve_objects(store, MODEL_OF_ONE | {"/bucket/m": LARGE}, lambda content: stated)
    with Model("s3://bucket/m.safetensors.index.json") as model:
        assert model.code == "OK", model.message
    command = [os.environ["COFFER_CLI"], "fetch", "s3://bucket/m", "-o", tmp_path]
    assert subprocess.run(command, timeout=60).returncode == 0


@pytest.mark.parametrize("absent", [404, 403])
@pytest.mark.parametrize("folder", ["", "folder/"])
@pytest.mark.parametrize("index", [True, False])
def test_what_may_not_be_listed_may_be_absent(store, absent, folder, index):
    """Who may read objects and not list them is told 403 of those that are not there."""
    there = {"model.safetensors.index.json": INDEX, "m-1.safetensors": SMALL} if index else {"model.safetensors": SMALL}
    serve_objects(store, {"/bucket/" + folder + name: content for name, content in there.items()}, absent=absent)
    with Model("s3://bucket/" + folder) as model:
        assert model.code == "OK", model.message
        assert model.read("t0") == SMALL_BODY[:300]


@pytest.mark.parametrize(("absent", "code"), [(404, "NOT_FOUND"), (403, "ACCESS")])
def test_a_bucket_without_a_model(store, absent, code):
    serve_objects(store, {}, absent=absent)
    with Model("s3://bucket/") as model:
        assert model.code == code
        assert (absent != 403) or "(403 AccessDenied)" in model.message
    assert len(store.log) == (6 if absent == 404 else 5)


def test_a_web_server_s_403_is_no_absence():
    with Server(behave=lambda request: request.answer(403)) as server:
        with Model(server.url("/folder/")) as model:
            assert model.code == "ACCESS"
        assert len(server.log) == 1


@pytest.mark.parametrize("variable", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"])
@pytest.mark.parametrize("value", ["a\r\nX-Other: b", "a\n", "\r", "\x01a", "a\x7f", "ä"])
def test_keys_that_would_end_a_line_are_not_sent(store, monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    with Model("s3://bucket/key") as model:
        assert model.code == "ARGUMENT"
        assert variable in model.message
    assert store.log == []


def test_a_key_with_a_colon_would_be_another_one(store, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a:b")
    with Model("s3://bucket/key") as model:
        assert model.code == "ARGUMENT"
    assert store.log == []


@pytest.mark.parametrize("url", ["s3://bucket", "s3:///key"])
def test_urls_without_an_object(store, url):
    with Model(url) as model:
        assert model.code == "URL"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("s3://bucket/a/b", "bucket.s3.eu-central-1.amazonaws.com"),
        # A name with a dot has no certificate of its own.
        ("s3://my.bucket/a/b", "s3.eu-central-1.amazonaws.com"),
    ],
)
def test_where_amazons_buckets_are(store, monkeypatch, url, host):
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    asked = []

    def proxy(request):
        asked.append((request.method, request.path))
        request.answer(502)

    store.behave = proxy
    monkeypatch.setenv("https_proxy", store.origin)
    monkeypatch.setenv("COFFER_NET_RETRIES", "0")
    with Model(url) as model:
        assert model.code == "CONNECT", model.message
        assert host in model.message
    assert asked == [("CONNECT", host + ":443")]


# ---- Adapters and pipelines ----------------------------------------------------------------------------------------

PARTS = {"model_index.json": b'{"_class_name": "StableDiffusionPipeline"}', "vae/diffusion_pytorch_model.safetensors": SMALL}


def command(*words, hub):
    environment = os.environ | {"HF_ENDPOINT": hub.origin}
    return subprocess.run([os.environ["COFFER_CLI"], *map(str, words)], capture_output=True, text=True, env=environment, timeout=60)


@pytest.mark.parametrize("lists", [False, True])
def test_an_adapter_is_found(tmp_path, lists):
    there = {"adapter_model.safetensors": SMALL, "adapter_config.json": b'{"r": 4}'}
    with Hub({"o/lora": Repository(there)}, lists=lists) as hub:
        for words in ["info"], ["check"], ["hash", "--content"], ["ls"]:
            done = command(*words, "hf://o/lora", hub=hub)
            assert done.returncode == 0, done.stderr
        done = command("fetch", "hf://o/lora", "-o", tmp_path, hub=hub)
        assert done.returncode == 0, done.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == there


@pytest.mark.parametrize("part", ["transformer", "unet"])
def test_a_pipeline_is_its_main_model(part):
    """As a folder on the disk is."""
    index = json.dumps({"weight_map": {"t0": "diffusion_pytorch_model-00001-of-00001.safetensors"}}).encode()
    name = "diffusion_pytorch_model"
    for files in ({f"{part}/{name}.safetensors": SMALL},
                  {f"{part}/{name}.safetensors.index.json": index, f"{part}/{name}-00001-of-00001.safetensors": SMALL}):  # fmt: skip
        with Hub({"o/pipe": Repository(PARTS | files)}) as hub:
            for url in "hf://o/pipe", "hf://o/pipe/":
                done = command("ls", url, hub=hub)
                assert done.returncode == 0 and "t0" in done.stdout, done.stderr
            assert len(hub.log) < 40


def test_what_is_no_pipeline_is_not_looked_into():
    with Hub({"o/none": Repository({"unet/diffusion_pytorch_model.safetensors": SMALL})}) as hub:
        done = command("ls", "hf://o/none", hub=hub)
        assert done.returncode != 0 and "adapter_model.safetensors" in done.stderr
        assert not any("/unet/" in path for _, path in hub.asked)


def test_a_pipeline_of_pipelines_ends():
    """A server that has every model_index.json, and nothing else."""
    answer = lambda request: request.answer(200, {}, b"{}") if "model_index.json" in request.path else request.answer(404)  # noqa: E731
    with Server(behave=answer) as server:
        done = subprocess.run([os.environ["COFFER_CLI"], "ls", server.url("/a/")], capture_output=True, text=True, timeout=60)
        assert done.returncode != 0 and len(server.log) < 30


SHARDED = "diffusion_pytorch_model-00001-of-00001.safetensors"
# What a pipeline consists of, and what lies beside it in repositories.
PIPELINE = {
    "model_index.json": json.dumps({"_class_name": "P", "_diffusers_version": "1", "unet": ["diffusers", "U"], "vae": ["diffusers", "V"],
                                    "text_encoder": ["transformers", "T"], "scheduler": ["diffusers", "S"],
                                    "tokenizer": ["transformers", "K"], "safety_checker": [None, None],
                                    "requires_safety_checker": False}).encode(),
    "unet/config.json": b"{}",
    "unet/diffusion_pytorch_model.safetensors.index.json": json.dumps({"weight_map": {"t0": SHARDED, "t1": SHARDED}}).encode(),
    "unet/" + SHARDED: SMALL,
    "vae/config.json": b"{}",
    "vae/diffusion_pytorch_model.safetensors": SMALL,
    "text_encoder/config.json": b"{}",
    "text_encoder/model.safetensors": SMALL,
    "scheduler/scheduler_config.json": b'{"s": 1}',
    "tokenizer/tokenizer_config.json": b"{}",
    "tokenizer/vocab.json": b'{"a": 0, "b": 1, "ab": 2}',
    "tokenizer/merges.txt": b"#version: 0.2\na b\n",
}  # fmt: skip
OTHERS = {
    "unet/diffusion_pytorch_model.fp16.safetensors": SMALL, "unet/diffusion_pytorch_model.bin": b"x", "flux.safetensors.txt": b"x",
    "vae/diffusion_pytorch_model.bin": b"x", "text_encoder/pytorch_model.bin": b"x", "README.md": b"x", "safety_checker/config.json": b"{}",
}  # fmt: skip


def everything(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("lists", [False, True])
def test_a_pipeline_is_fetched_whole(tmp_path, lists):
    with Hub({"o/pipe": Repository(PIPELINE | OTHERS)}, lists=lists) as hub:
        done = command("fetch", "hf://o/pipe", "-o", tmp_path / "all", hub=hub)
        assert done.returncode == 0, done.stderr
        assert everything(tmp_path / "all") == PIPELINE
        # What arrived is a pipeline.
        for words in ["info"], ["check"], ["doctor", "--strict"]:
            found = command(*words, tmp_path / "all", hub=hub)
            assert found.returncode == 0, found.stdout + found.stderr
        # It is all there: nothing is downloaded or written again.
        hub.log.clear()
        times = {path: path.stat().st_mtime_ns for path in (tmp_path / "all").rglob("*")}
        done = command("fetch", "hf://o/pipe", "-o", tmp_path / "all", hub=hub)
        assert done.returncode == 0 and "all of it is there already" in done.stderr and "0 small files" in done.stderr, done.stderr
        assert {path: path.stat().st_mtime_ns for path in (tmp_path / "all").rglob("*")} == times
        # A part of it is a model as any other.
        done = command("fetch", "hf://o/pipe/vae/", "-o", tmp_path / "vae", hub=hub)
        assert done.returncode == 0 and set(everything(tmp_path / "vae")) == {"config.json", "diffusion_pytorch_model.safetensors"}


@pytest.mark.parametrize("words", [["info"], ["info", "--json"], ["doctor"], ["doctor", "--json"], ["check"]])
def test_the_part_of_a_pipeline_is_named(words):
    with Hub({"o/pipe": Repository(PIPELINE)}) as hub:
        for url in "hf://o/pipe", "hf://o/pipe/":
            done = command(*words, url, hub=hub)
            assert done.returncode == 0, done.stdout + done.stderr
            assert "this is a pipeline of unet, vae, text_encoder, scheduler, tokenizer; only its part unet is looked at" in done.stderr
            assert "hf://o/pipe/PART/" in done.stderr
        done = command(*words, "hf://o/pipe/vae/", hub=hub)
        assert done.returncode == 0 and "a pipeline of" not in done.stderr, done.stderr


def test_a_pipeline_in_a_folder_of_a_server_is_fetched(tmp_path):
    """Also of one that has a page for every small file that it lacks."""
    page = b"<!DOCTYPE html><html>nothing here</html>"

    def answer(request):
        content = PIPELINE.get(request.path.removeprefix("/pipe/"))
        if content is None and "safetensors" in request.path:
            return request.answer(404)
        return request.ranges(page if content is None else content, {"ETag": '"1"'})

    with Server(behave=answer) as server:
        done = subprocess.run([os.environ["COFFER_CLI"], "fetch", server.url("/pipe/"), "-o", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert everything(tmp_path) == PIPELINE


def test_a_pipeline_that_was_interrupted_is_finished(tmp_path):
    content = PIPELINE["vae/diffusion_pytorch_model.safetensors"]
    with Hub({"o/pipe": Repository(PIPELINE)}) as hub:
        (tmp_path / "vae").mkdir()
        (tmp_path / "vae/diffusion_pytorch_model.safetensors").write_bytes(b"in the way")
        done = command("fetch", "hf://o/pipe", "-o", tmp_path, hub=hub)
        # The part before it has come, and nothing says yet that this is a pipeline.
        assert done.returncode != 0 and (tmp_path / "unet" / SHARDED).exists() and not (tmp_path / "model_index.json").exists()
        (tmp_path / "vae/diffusion_pytorch_model.safetensors").write_bytes(content)
        (tmp_path / "vae/config.json").write_bytes(PIPELINE["vae/config.json"])
        done = command("fetch", "hf://o/pipe", "-o", tmp_path, hub=hub)
        assert done.returncode == 0, done.stderr
    assert everything(tmp_path) == PIPELINE


def test_all_of_a_pipeline_is_of_one_commit(tmp_path):
    with Hub({"o/pipe": Repository(PIPELINE)}, lists=True) as hub:
        done = command("fetch", "hf://o/pipe", "-o", tmp_path, hub=hub)
        assert done.returncode == 0, done.stderr
        asked = [path for _, path in hub.asked if "/resolve/" in path]
        assert any(f"/resolve/{HEAD}/model_index.json" in path for path in asked)
        assert all(f"/resolve/{HEAD}/" in path for path in asked if "scheduler" in path or "tokenizer" in path)


@pytest.mark.parametrize(("changes", "said"), [
    ({"model_index.json": b'{"../up": ["diffusers", "U"], "vae": ["diffusers", "V"]}'}, "no plain name"),
    ({"model_index.json": b'{".hidden": ["diffusers", "U"]}'}, "no plain name"),
    ({"model_index.json": b'{"a/b": ["diffusers", "U"]}'}, "no plain name"),
    ({"model_index.json": b"[]"}, "not a JSON object"),
    ({"model_index.json": b'{"_class_name": "P"}'}, "names no part"),
    ({"vae/diffusion_pytorch_model.safetensors": None}, "part vae has no safetensors"),
    ({"scheduler/scheduler_config.json": None}, "part scheduler has no safetensors"),
    ({"scheduler/scheduler_config.json": b"{"}, "scheduler/scheduler_config.json is not JSON"),
    ({"text_encoder/model.safetensors": SMALL[:20]}, "text_encoder"),
])  # fmt: skip
def test_a_pipeline_is_judged_before_anything_is_written(tmp_path, changes, said):
    files = {name: content for name, content in (PIPELINE | changes).items() if content is not None}
    with Hub({"o/pipe": Repository(files)}) as hub:
        done = command("fetch", "hf://o/pipe", "-o", tmp_path / "all", hub=hub)
        assert done.returncode not in (0, 2) and said in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_pipeline_replaces_no_file_unasked(tmp_path):
    (tmp_path / "scheduler").mkdir()
    (tmp_path / "scheduler/scheduler_config.json").write_bytes(b"mine")
    with Hub({"o/pipe": Repository(PIPELINE)}) as hub:
        done = command("fetch", "hf://o/pipe", "-o", tmp_path, hub=hub)
        assert done.returncode != 0 and everything(tmp_path) == {"scheduler/scheduler_config.json": b"mine"}
        done = command("fetch", "hf://o/pipe", "-o", tmp_path, "-f", hub=hub)
        assert done.returncode == 0 and everything(tmp_path) == PIPELINE
        # Tensors are chosen of one model.
        done = command("fetch", "hf://o/pipe", "-o", tmp_path / "some", "--filter", "*", hub=hub)
        assert done.returncode != 0 and "pipeline of several models" in done.stderr and not (tmp_path / "some").exists()


def test_an_adapter_at_a_url_is_merged(tmp_path):
    def file(tensors):
        header, data = {}, b""
        for name, shape in tensors.items():
            size = 4 * shape[0] * shape[1]
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + size]}
            data += (b"\0\0\0\0" if name == "x.weight" else b"\0\0\x80?") * (size // 4)
        text = json.dumps(header).encode()
        return len(text).to_bytes(8, "little") + text + data

    prefix = "base_model.model.x.lora_"
    there = {"adapter_model.safetensors": file({prefix + "A.weight": [2, 4], prefix + "B.weight": [4, 2]}),
             "adapter_config.json": b'{"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["x"]}'}  # fmt: skip
    (tmp_path / "base.safetensors").write_bytes(file({"x.weight": [4, 4]}))
    with Hub({"o/lora": Repository(there)}) as hub:
        done = command("merge-lora", tmp_path / "base.safetensors", "hf://o/lora", "-o", tmp_path / "merged.safetensors", hub=hub)
    assert done.returncode == 0, done.stderr
    # 4 / 2 times the sum of two ones: 4 in every place.
    assert (tmp_path / "merged.safetensors").read_bytes().endswith(b"\0\0\x80@" * 16)
