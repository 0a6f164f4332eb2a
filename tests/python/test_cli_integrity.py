# SPDX-License-Identifier: Apache-2.0
"""What hash and verify notice: every flipped bit, signatures by another key, files that were changed after they were verified.
What they say is in tests/golden."""

import hashlib
import json
import os
import random
import subprocess
import time

import pytest
from model_files import floats, make

CLI = os.environ["COFFER_CLI"]
CURVES = ("prime256v1", "secp384r1", "secp521r1")


def run(*arguments, code=0, **more):
    result = subprocess.run([CLI, *map(str, arguments)], capture_output=True, text=True, encoding="utf-8", timeout=60,
                            check=False, **more)
    assert result.returncode == code, result.stdout + result.stderr
    return result


def key_pair(folder, curve="prime256v1"):
    private, public = folder / f"{curve}.pem", folder / f"{curve}.pub"
    subprocess.run(["openssl", "ecparam", "-name", curve, "-genkey", "-noout", "-out", private], check=True)
    subprocess.run(["openssl", "ec", "-in", private, "-pubout", "-out", public], check=True, capture_output=True)
    return private, public


@pytest.fixture(name="model")
def fixture_model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    make(folder / "a.safetensors", {"x": ("F32", [2], floats(1, 2)), "y": ("U8", [3], b"abc")}, {"format": "pt"})
    (folder / "config.json").write_text("{}")
    return folder


def test_every_flipped_bit_of_a_file(model, tmp_path):
    """The manifest catches all of them, those without meaning for the tensors, too."""
    for options in ([], ["-a", "xxh3"]):
        sums = tmp_path / "sums"
        sums.write_text(run("hash", *options, "a.safetensors", cwd=model).stdout)
        path = model / "a.safetensors"
        whole = path.read_bytes()
        for bit in random.Random(1).sample(range(8 * len(whole)), 60):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            path.write_bytes(flipped)
            assert "was changed" in run("verify", path, "-m", sums, code=1).stdout
        for other in (whole[:-1], whole + b"\0", whole[:8], b""):
            path.write_bytes(other)
            run("verify", path, "-m", sums, code=1)
        path.write_bytes(whole)
        run("verify", path, "-m", sums)


def test_files_that_changed_places(model, tmp_path):
    run("hash", model, "-mo", tmp_path / "m.json")
    os.rename(model / "config.json", model / "c")
    os.rename(model / "a.safetensors", model / "config.json")
    os.rename(model / "c", model / "a.safetensors")
    verdicts = json.loads(run("verify", model, "-m", tmp_path / "m.json", "--json", code=1).stdout)
    assert [(os.path.basename(v["path"]), v["verdict"]) for v in verdicts] == \
        [("a.safetensors", "changed"), ("config.json", "changed")]


@pytest.mark.parametrize("curve", CURVES)
def test_signatures(model, tmp_path, curve):
    private, public = key_pair(tmp_path, curve)
    _, stranger = key_pair(tmp_path, "prime256v1" if curve != "prime256v1" else "secp384r1")
    signature = tmp_path / "model.sig"
    run("hash", model, "--sign", private, "-o", signature)
    assert "that this key signed" in run("verify", model, "-m", signature, "--key", public).stderr
    assert "another key" in run("verify", model, "-m", signature, "--key", stranger, code=1).stderr
    bundle = json.loads(signature.read_text())
    payload = bundle["dsseEnvelope"]["payload"]
    bundle["dsseEnvelope"]["payload"] = ("f" if payload[0] == "e" else "e") + payload[1:]
    signature.write_text(json.dumps(bundle))
    run("verify", model, "-m", signature, "--key", public, code=1)
    bundle["dsseEnvelope"]["payload"] = payload
    del bundle["verificationMaterial"]["publicKey"]["hint"]
    signature.write_text(json.dumps(bundle, indent=3))
    run("verify", model, "-m", signature, "--key", public)
    assert "is not by this key" in run("verify", model, "-m", signature, "--key", stranger, code=1).stderr


@pytest.mark.parametrize("curve", CURVES)
def test_keys_that_are_spelt_in_other_ways(model, tmp_path, curve):
    """With a compressed point it is the same key, and the bundle the same but for the signature. Parameters instead of a name
    could be those of any curve."""
    private, public = key_pair(tmp_path, curve)
    spelt = {}
    for name, options in {"compressed": ["-conv_form", "compressed"], "hybrid": ["-conv_form", "hybrid"],
                          "explicit": ["-param_enc", "explicit"]}.items():
        spelt[name] = tmp_path / f"{name}.pem", tmp_path / f"{name}.pub"
        subprocess.run(["openssl", "ec", "-in", private, *options, "-out", spelt[name][0]], check=True, capture_output=True)
        subprocess.run(["openssl", "ec", "-in", private, "-pubout", *options, "-out", spelt[name][1]], check=True,
                       capture_output=True)
    hints = set()
    for name in ("compressed", "hybrid"):
        signature = tmp_path / f"{name}.sig"
        run("hash", model, "--sign", spelt[name][0], "-o", signature)
        hints.add(json.loads(signature.read_text())["verificationMaterial"]["publicKey"]["hint"])
        for key in (public, spelt["compressed"][1], spelt["hybrid"][1]):
            run("verify", model, "-m", signature, "--key", key)
        said = run("verify", model, "-m", signature, "--key", spelt["explicit"][1], code=3).stderr
        assert "-param_enc named_curve" in said
    pem = public.read_bytes()
    assert hints == {hashlib.sha256(pem).hexdigest()}
    assert "spells out the parameters" in run("hash", model, "--sign", spelt["explicit"][0], code=3).stderr
    subprocess.run(["openssl", "ec", "-in", spelt["explicit"][1], "-pubin", "-param_enc", "named_curve", "-out", tmp_path / "named"],
                   check=True, capture_output=True)
    run("verify", model, "-m", tmp_path / "compressed.sig", "--key", tmp_path / "named")


def test_keys_of_other_curves_and_kinds(model, tmp_path):
    other, edwards = tmp_path / "other.pem", tmp_path / "ed.pem"
    subprocess.run(["openssl", "ecparam", "-name", "secp256k1", "-genkey", "-noout", "-out", other], check=True)
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", edwards], check=True)
    assert "of another curve" in run("hash", model, "--sign", other, code=3).stderr
    assert "of another kind" in run("hash", model, "--sign", edwards, code=3).stderr


def test_a_key_with_a_password_is_refused_without_asking(model, tmp_path):
    private, _ = key_pair(tmp_path)
    secret = tmp_path / "secret.pem"
    subprocess.run(["openssl", "pkcs8", "-topk8", "-in", private, "-out", secret, "-passout", "pass:x"], check=True)
    assert "is encrypted" in run("hash", model, "--sign", secret, code=3, stdin=subprocess.DEVNULL).stderr


def test_a_manifest_leads_nowhere_else(model, tmp_path):
    (tmp_path / "secret").write_text("")
    nothing = hashlib.sha256(b"").hexdigest()
    for name in ("../secret", str(tmp_path / "secret"), "sub/../../secret"):
        said = run("verify", model, "-m", "-", input=f"{nothing}  {name}\n", code=1)
        assert said.stdout == "" and "below its folder" in said.stderr


# ---- The state --------------------------------------------------------------------------------------------------------


@pytest.fixture(name="verified")
def fixture_verified(model, tmp_path):
    """A model that was verified, its manifest and its state."""
    time.sleep(0.1)  # files that were just written are not kept: their times could stand still while they change
    run("hash", model, "-mo", tmp_path / "m.json")
    run("verify", model, "-m", tmp_path / "m.json", "--state", tmp_path / "state")
    return model, ["-m", tmp_path / "m.json", "--state", tmp_path / "state"]


def read_again(model, options, code=0):
    """The files that are not passed over."""
    verdicts = json.loads(run("verify", model, *options, "--json", code=code).stdout)
    return {os.path.basename(v["path"]) for v in verdicts if v["message"] != "verified before"}


def test_what_was_verified_is_passed_over(verified):
    assert read_again(*verified) == set()


def test_what_changed_is_read_again_though_size_and_time_are_the_same(verified):
    model, options = verified
    path = model / "a.safetensors"
    times = path.stat()
    body = bytearray(path.read_bytes())
    body[-1] ^= 1
    path.write_bytes(body)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert read_again(model, options, code=1) == {"a.safetensors"}


def test_what_was_replaced_is_read_again(verified):
    model, options = verified
    other = model.parent / "other"
    other.write_bytes((model / "config.json").read_bytes())
    os.replace(other, model / "config.json")
    assert read_again(model, options) == {"config.json"}


def test_another_manifest_has_nothing_verified(verified):
    model, options = verified
    text = run("hash", "-a", "xxh3", ".", cwd=model).stdout
    options[1].write_text(text)
    assert read_again(model, options) == {"a.safetensors", "config.json"}


def test_a_file_that_was_just_written_is_not_kept(model, tmp_path):
    run("hash", model, "-mo", tmp_path / "m.json")
    later = time.time() + 3600
    os.utime(model / "config.json", (later, later))
    run("verify", model, "-m", tmp_path / "m.json", "--state", tmp_path / "state")
    assert "config.json" in read_again(model, ["-m", tmp_path / "m.json", "--state", tmp_path / "state"])
