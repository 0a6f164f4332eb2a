# SPDX-License-Identifier: Apache-2.0
"""PyPI model-signing and Coffer verify what the other signed, and refuse what the other refuses."""

import json
import os
import subprocess
import sys

import pytest
from model_signing import hashing, signing, verifying
from model_signing._signing import signing as payloads
from test_cli_integrity import CURVES, key_pair, run


@pytest.fixture(name="model")
def fixture_model(tmp_path):
    """A folder in which order and spelling of names can go wrong."""
    model = tmp_path / "a model"
    for name in ("sub/b", "sub.txt", "sub-b", "Sub", "a/b/c/d", "z", "é", "line\nbreak", 'q"uote\\', "-", "~", "empty", ".hidden"):
        path = model / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name * 100 if name != "empty" else "")
    for name in (".git/config", ".gitattributes", ".github/workflow", "sub/.gitignore"):
        path = model / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("not the model's")
    return model


def sign(model, signature, private):
    signing.Config().use_elliptic_key_signer(private_key=private).sign(model, signature)


def verify(model, signature, public):
    verifying.Config().use_elliptic_key_verifier(public_key=public).verify(model, signature)


def statement_of(text):
    return payloads.dsse_payload_to_manifest(json.loads(text))


@pytest.mark.parametrize("curve", CURVES)
def test_its_tool_verifies_ours(model, tmp_path, curve):
    private, public = key_pair(tmp_path, curve)
    for path in (model, model / "z"):
        signature = tmp_path / "ours.sig"
        run("hash", path, "--sign", private, "-fo", signature)
        verify(path, signature, public)
        (model / "z").write_text("changed")
        with pytest.raises(ValueError, match="Hash mismatch"):
            verify(path, signature, public)
        run("verify", path, "-m", signature, "--key", public, code=1)
        (model / "z").write_text("z" * 100)


@pytest.mark.parametrize("curve", CURVES)
def test_ours_verifies_its(model, tmp_path, curve):
    private, public = key_pair(tmp_path, curve)
    for path in (model, model / "z"):
        signature = tmp_path / "its.sig"
        sign(path, signature, private)
        run("verify", path, "-m", signature, "--key", public)
        (model / "z").write_text("changed")
        run("verify", path, "-m", signature, "--key", public, code=1)
        (model / "z").write_text("z" * 100)


def test_the_statement_is_the_same(model, tmp_path):
    """But for the order of members, and of the paths to ignore, which its own differ in from run to run."""
    private, _ = key_pair(tmp_path)
    run("hash", model, "-mo", tmp_path / "ours.json")
    ours = statement_of((tmp_path / "ours.json").read_text())
    its = hashing.Config().hash(model)
    assert ours == its
    assert [r.identifier for r in ours.resource_descriptors()] == [r.identifier for r in its.resource_descriptors()]
    assert ours.model_name == its.model_name
    mine, theirs = ours.serialization_type, its.serialization_type
    assert sorted(mine.pop("ignore_paths")) == sorted(theirs.pop("ignore_paths"))
    assert mine == theirs


def test_the_signature_may_lie_in_the_folder(model, tmp_path):
    """As its command does it, which passes over the signature that it writes or reads."""
    private, public = key_pair(tmp_path)
    command = [sys.executable, "-m", "model_signing"]
    inside = model / "model.sig"
    run("hash", model, "--sign", private, "-o", inside)
    subprocess.run([*command, "verify", "key", model, "--signature", inside, "--public_key", public], check=True)
    subprocess.run([*command, "sign", "key", model, "--signature", inside, "--private_key", private], check=True)
    run("verify", model, "-m", inside, "--key", public)


def test_what_is_added_and_missing(model, tmp_path):
    private, public = key_pair(tmp_path)
    signature = tmp_path / "its.sig"
    sign(model, signature, private)
    (model / "new").write_text("")
    with pytest.raises(ValueError, match="Extra files"):
        verify(model, signature, public)
    assert "is not in the manifest" in run("verify", model, "-m", signature, "--key", public, code=1).stdout
    run("verify", model, "-m", signature, "--key", public, "--ignore-extra")
    os.rename(model / "z", model / "new")
    with pytest.raises(ValueError, match="Missing files"):
        verify(model, signature, public)
    assert "z: is missing" in run("verify", model, "-m", signature, "--ignore-extra", code=1).stdout


def test_links(model, tmp_path):
    private, public = key_pair(tmp_path)
    signature = tmp_path / "links.sig"
    (model / "link").symlink_to(tmp_path / "prime256v1.pub")
    (model / "folder").symlink_to(tmp_path)
    with pytest.raises(ValueError, match="symlink"):
        sign(model, signature, private)
    run("hash", model, "--sign", private, "-o", signature, code=3)
    config = hashing.Config().set_allow_symlinks(True)
    signing.Config().use_elliptic_key_signer(private_key=private).set_hashing_config(config).sign(model, signature)
    run("verify", model, "-m", signature, "--key", public)
    run("hash", model, "--sign", private, "--follow-links", "-fo", signature)
    following = verifying.Config().use_elliptic_key_verifier(public_key=public).set_hashing_config(config)
    following.verify(model, signature)


def test_another_key(model, tmp_path):
    private, _ = key_pair(tmp_path)
    _, stranger = key_pair(tmp_path, "secp384r1")
    run("hash", model, "--sign", private, "-o", tmp_path / "ours.sig")
    with pytest.raises(ValueError, match="Key mismatch"):
        verify(model, tmp_path / "ours.sig", stranger)
    run("verify", model, "-m", tmp_path / "ours.sig", "--key", stranger, code=1)


@pytest.mark.parametrize("config", [
    hashing.Config().use_shard_serialization(shard_size=8),
    hashing.Config().use_file_serialization(hashing_algorithm="blake2"),
    hashing.Config().use_file_serialization(hashing_algorithm="blake3"),
], ids=["shards", "blake2", "blake3"])
def test_what_is_not_read_is_refused(model, tmp_path, config):
    """As docs/integrity.md says; a new version of its that signs so by its command would have to be learned."""
    private, public = key_pair(tmp_path)
    signature = tmp_path / "its.sig"
    signing.Config().use_elliptic_key_signer(private_key=private).set_hashing_config(config).sign(model, signature)
    run("verify", model, "-m", signature, "--key", public, code=1)
