# SPDX-License-Identifier: Apache-2.0
"""Manifests from Python: made, read, written and held against files, as the command does it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import coffer


@pytest.fixture
def model(path, tmp_path) -> Path:
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    shutil.copy(path, folder / "model.safetensors")
    (folder / "config.json").write_text("{}")
    (folder / "sub" / "ü.txt").write_text("text")
    (folder / ".gitattributes").write_text("none of it")
    return folder


def test_making_and_checking(model):
    manifest = coffer.Manifest.of(model)
    expected = {name: hashlib.sha256((model / name).read_bytes()).hexdigest() for name in ("config.json", "model.safetensors", "sub/ü.txt")}
    assert {entry.name: entry.digest for entry in manifest.entries} == expected
    assert manifest.format is None and manifest.check(model) == []
    (model / "config.json").write_text("[]")
    (model / "sub" / "ü.txt").unlink()
    (model / "more").write_text("")
    assert manifest.check(model) == [("config.json", "changed"), ("more", "extra"), ("sub/ü.txt", "missing")]
    assert manifest.check(model, extra=False) == [("config.json", "changed"), ("sub/ü.txt", "missing")]


@pytest.mark.parametrize("form", ["lines", "statement"])
def test_written_and_read(model, tmp_path, form):
    file = model / "manifest"
    coffer.Manifest.of(model, ignore=["manifest"]).write(file, form)
    read = coffer.Manifest.read(file)
    assert read.format == form and len(read.entries) == 3 and read.check(model) == []
    assert coffer.Manifest.parse(file.read_bytes()).entries == read.entries
    if form == "lines":
        subprocess.run(["sha256sum", "--check", "--quiet", file.name], cwd=model, check=True)


def test_the_command_agrees(model, tmp_path):
    cli = os.environ.get("COFFER_CLI")
    if cli is None:  # the wheel's tests have no command beside them
        return
    coffer.Manifest.of(model).write(tmp_path / "sums")
    subprocess.run([cli, "verify", model, "--manifest", tmp_path / "sums"], check=True, capture_output=True)


def test_signed(model, tmp_path):
    private, public = tmp_path / "private.pem", tmp_path / "public.pem"
    subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", private], check=True)
    subprocess.run(["openssl", "ec", "-in", private, "-pubout", "-out", public], check=True, capture_output=True)
    manifest = coffer.Manifest.of(model)
    manifest.write(tmp_path / "model.sig", "bundle", key=private.read_text())
    assert coffer.Manifest.read(tmp_path / "model.sig", key=public.read_text()).check(model) == []
    with pytest.raises(coffer.Error) as caught:
        coffer.Manifest.parse(manifest.text(), key=public.read_text())
    assert caught.value.code == "NOT_SIGNED"
    with pytest.raises(coffer.Error) as caught:
        manifest.text("bundle", key="none")
    assert caught.value.code == "KEY"


def test_one_file(model):
    file = model / "model.safetensors"
    for algorithm in ("sha256", "xxh3-128"):
        seen = []
        manifest = coffer.Manifest.of(file, algorithm, progress=lambda *p: seen.append(p))
        assert [entry[:2] for entry in manifest.entries] == [(".", algorithm)] and manifest.check(file) == []
        assert seen[-1] == (file.stat().st_size,) * 2
    file.write_bytes(b"")
    assert manifest.check(file) == [(".", "changed")]
    file.unlink()
    assert manifest.check(file) == [(".", "missing")]
    with pytest.raises(FileNotFoundError):
        coffer.Manifest.of(model).check(model / "sub" / "none")


def test_links(model, tmp_path):
    (model / "link").symlink_to("config.json")
    with pytest.raises(coffer.Error) as caught:
        coffer.Manifest.of(model)
    assert (caught.value.code, caught.value.path) == ("LINKED", str(model / "link"))
    manifest = coffer.Manifest.of(model, follow_links=True)
    assert len(manifest.entries) == 4 and manifest.check(model) == []


def test_a_progress_that_raises(model):
    def progress(done, total):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        coffer.Manifest.of(model, progress=progress)


def test_what_is_no_manifest(tmp_path):
    with pytest.raises(coffer.Error) as caught:
        coffer.Manifest.parse(b"nothing")
    assert caught.value.code == "MANIFEST"
    with pytest.raises(coffer.Error, match="format is"):
        coffer.Manifest.of(tmp_path).text("poem")
    with pytest.raises(coffer.Error):
        coffer._native.Hasher("md5")
    with pytest.raises(coffer.Error, match="size"):
        coffer._native.Manifest("m").add("a", "sha256", b"short")
