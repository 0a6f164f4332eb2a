# SPDX-License-Identifier: Apache-2.0
"""`coffer scan hf://owner/name`: every file that the Hub lists is looked at, page by page, with the token, and what was not looked
at is named."""

import json
import os
import subprocess

import pytest
from hub_server import COMMIT, Hub, Repository
from test_scan import CALL, CLEAN, COMMAND, EVIL, FOUND, SECONDS, UNREAD, archive
from zips_by_hand import torch_file

SAFETENSORS = (b"\x32\0\0\0\0\0\0\0" + b'{"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}').replace(b"\x32", b"\x35", 1)
FILES = {"README.md": b"A model.", "model.safetensors": SAFETENSORS, "config.json": b'{"model_type": "gpt2"}', "pytorch_model.bin": torch_file(),
         "onnx/deep/er/x.zip": archive((b"a", b"text")), "name with spaces & more?.txt": b"text", "g\u00fcte/\u6a21.txt": b"text"}  # fmt: skip


def scan(hub, *urls, code, options=("--json",), **environment):
    """With nothing of the Hub's cache."""
    settings = {"HF_ENDPOINT": hub.origin, "HF_HUB_CACHE": "/nonexistent", "HF_TOKEN_PATH": "/nonexistent", "PATH": os.environ["PATH"], **environment}
    run = subprocess.run([COMMAND, "scan", *options, *urls], capture_output=True, text=True, timeout=SECONDS, env=settings, check=False)
    assert run.returncode == code, run.stdout + run.stderr
    return (json.loads(run.stdout), run.stderr) if "--json" in options else (run.stdout, run.stderr)


def verdicts(told, url="hf://owner/name"):
    return {file["path"].removeprefix(url + "/"): file.get("clean", file.get("passed_over", file.get("error"))) for file in told}


@pytest.mark.parametrize("page", [1000, 3, 1])
def test_every_file_of_a_repository_gets_its_verdict(page):
    with Hub({"owner/name": Repository(FILES)}, page=page) as hub:
        told, _ = scan(hub, "hf://owner/name", code=CLEAN)
        assert verdicts(told) == {name: True if name.endswith((".safetensors", ".bin", ".zip")) else "text" for name in FILES}
        pages = [path for path in hub.paths if "/tree/" in path]
        assert len(pages) == -(-(len(FILES) + 4) // page)
        bad = {**FILES, "z/evil.bin": EVIL}
    with Hub({"owner/name": Repository(bad)}, page=page) as hub:
        told, _ = scan(hub, "hf://owner/name", code=FOUND)
        assert [name for name, clean in verdicts(told).items() if clean is False] == ["z/evil.bin"]
        assert CALL in told[-1]["findings"][0]["text"]


@pytest.mark.parametrize(("url", "names"), [
    ("hf://owner/name/onnx/", {"deep/er/x.zip"}), ("hf://owner/name@" + COMMIT, set(FILES)), ("hf://owner/name/", set(FILES)),
    ("hf://datasets/owner/data", {"a.txt"}), ("hf://spaces/owner/app", {"b.txt"}), ("hf://gpt2@main", {"c.txt"}), ("hf://owner/name@main/onnx/deep/", {"er/x.zip"}),
])  # fmt: skip
def test_folders_revisions_and_other_kinds(url, names):
    repositories = {"owner/name": FILES, "datasets/owner/data": {"a.txt": b"text"}, "spaces/owner/app": {"b.txt": b"text"}, "gpt2": {"c.txt": b"text"}}
    with Hub({name: Repository(files) for name, files in repositories.items()}) as hub:
        told, _ = scan(hub, url, code=CLEAN)
        assert set(verdicts(told, url.rstrip("/"))) == names
        assert sum("/tree/" in path for path in hub.paths) == 1


def test_the_token_goes_with_the_list_and_the_files():
    with Hub({"owner/name": Repository({"a.txt": b"text"}, token="hf_secret")}) as hub:
        told, _ = scan(hub, "hf://owner/name", code=CLEAN, HF_TOKEN="hf_secret")
        assert verdicts(told) == {"a.txt": "text"}
        told, _ = scan(hub, "hf://owner/name", code=UNREAD)
        assert "token" in told[0]["error"]["message"]


def test_what_was_not_looked_at_is_named():
    files = {"../up.txt": b"text", "a//b": b"text", "good.txt": b"text", "unknown": b"\0\1\2\3" * 20, "empty": b"", "bad\n.bin": b"text"}
    with Hub({"owner/name": Repository(files)}) as hub:
        told, said = scan(hub, "hf://owner/name", code=UNREAD)
        assert {name: kind for name, kind in verdicts(told).items() if not isinstance(kind, dict)} == {"good.txt": "text", "empty": "empty"}
        assert all(f"{name}:" in said for name in ("../up.txt", "a//b", "bad\\x0a.bin", "unknown")), said
        assert not any("up.txt" in path for path in hub.paths)
        shown, _ = scan(hub, "hf://owner/name", code=UNREAD, options=())
        assert "hf://owner/name: 4 not looked at, or not to the end, 2 passed over (text, media: nothing runs them)" in shown


@pytest.mark.parametrize("said", [
    lambda hub, path: f'<http://127.0.0.1:1{path}>; rel="next"', lambda hub, path: '<https://elsewhere.example/api>; rel="next"', lambda hub, path: '<nonsense>; rel="next"',
])  # fmt: skip
def test_a_list_that_goes_on_elsewhere_is_not_followed(said):
    with Hub({"owner/name": Repository(FILES)}, page=5) as hub:
        hub.next_page = lambda path: said(hub, path)
        told, _ = scan(hub, "hf://owner/name", code=UNREAD)
        assert "another host" in told[-1]["error"]["message"]


@pytest.mark.parametrize("said", [
    lambda hub, path: f'<{hub.url(path)}>; rel=next', lambda hub, path: f'<{hub.url("/x")}>; rel="prev", <{hub.url(path)}>; title="a, b"; rel="next"',
])  # fmt: skip
def test_other_spellings_of_a_link(said):
    with Hub({"owner/name": Repository(FILES)}, page=5) as hub:
        hub.next_page = lambda path: said(hub, path)
        assert len(verdicts(scan(hub, "hf://owner/name", code=CLEAN)[0])) == len(FILES)


@pytest.mark.parametrize("answer", [b"", b"{}", b"[1]", b'[{"type":"file"}]', b'[{"type":"file","path":"a.txt"}', b'[{"path":5}]', b"<html>"])
def test_an_answer_that_is_no_list_was_not_scanned(answer):
    with Hub({"owner/name": Repository(FILES)}) as hub:
        hub.tree = lambda request, *_: hub.answer(request, 200, {}, answer)
        told, _ = scan(hub, "hf://owner/name", code=UNREAD)
        assert "not understood" in told[-1]["error"]["message"]


def test_nothing_to_list():
    with Hub({"owner/empty": Repository({})}) as hub:
        assert "no files" in scan(hub, "hf://owner/empty", code=UNREAD)[1]
        scan(hub, "hf://owner/none", code=UNREAD)
        told, _ = scan(hub, "hf://owner/empty", code=UNREAD, HF_HUB_OFFLINE="1")
        assert "offline" in told[0]["error"]["message"]
