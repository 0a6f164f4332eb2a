# SPDX-License-Identifier: Apache-2.0
"""`coffer scan` of what holds other things: every reader's file is a pickle first, archives and folders are clean only if all in
them was looked at, and code that is no pickle is told."""

import base64
import json
import os
import struct
import subprocess

import make_ranks
import make_shards
import pytest
from attacks_tar import nemo_file, tar_file, tar_member, tar_parts
from pickles_by_hand import call, dict_of, name, number, stream, text, tuple_of
from zips_by_hand import Archive, Member, deflated, torch_file

COMMAND = os.environ["COFFER_CLI"]
SECONDS = 60
BARE = b"cposix\nsystem\n(S'echo'\ntR."  # without PROTO, as protocol 0 has it
EVIL = stream(call(name("posix", "system"), text("echo")))
CALL = "posix.system("  # of text or bytes
HARMLESS = stream(number(1))
CLEAN, FOUND, UNREAD = 0, 1, 3


def scan(*paths, code=None):
    run = subprocess.run([COMMAND, "scan", "--json", *paths], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert code is None or run.returncode == code, run.stdout + run.stderr
    return json.loads(run.stdout)


def texts(told):
    return [f"{each['weight']}: {each['text']} ({each['member']})" for file in told for each in file.get("findings", ())]


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def zipped(**members):
    return Archive([Member(called.encode(), data) for called, data in members.items()]).bytes()


def archive(*members):
    return Archive([Member(called, data) if isinstance(data, bytes) else Member(called, **data) for called, data in members]).bytes()


def npy(kind, shape):
    """The head of an array."""
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head


# ---- every input is a pickle first --------------------------------------------------------------------------------------


def onnx_that_is_a_pickle():
    """BINBYTES is the tag of opset_import, and passes over all of it and the head of an unknown field that has the pickle."""
    return b"B\x06" + bytes(3) + b"\x08\x01\x10" + b"\xf2\x01" + bytes([len(BARE)]) + BARE + b"\x08\x08\x3a\x00"


POLYGLOTS = {
    "name.nemo": nemo_file(),
    "first.nemo": tar_file(tar_member(BARE, b""), tar_member(b"./model_weights.ckpt", torch_file())),
    "first.tar": tar_file(tar_member(BARE, b"text")),
    "graph.onnx": onnx_that_is_a_pickle(),
}


@pytest.mark.parametrize("called", list(POLYGLOTS))
def test_a_file_is_looked_at_as_a_pickle_before_its_reader_gets_it(tmp_path, called):
    told = scan(write(tmp_path / called, POLYGLOTS[called]), code=CLEAN if called == "name.nemo" else FOUND)
    assert called == "name.nemo" or any(CALL in each for each in texts(told)), told


def test_what_was_found_is_not_lost_to_damage(tmp_path):
    told = texts(scan(write(tmp_path / "m.nemo", POLYGLOTS["first.nemo"][:1200]), code=FOUND))
    assert any(CALL in each for each in told) and any("the rest was not looked at" in each for each in told)


@pytest.mark.parametrize("before", [b"\x89PNG\r\n\x1a\n", b"text\n", npy("<f4", "(0,)")])
@pytest.mark.parametrize("comment", [b"", b"x" * 60000])
def test_an_archive_at_the_end_is_found(tmp_path, before, comment):
    """As zipfile finds it, whatever the file begins with."""
    content = before + Archive([Member(b"a.pkl", EVIL)], comment=comment).bytes()
    assert any(CALL in each for each in texts(scan(write(tmp_path / "m", content), code=FOUND)))


def test_a_checkpoint_at_the_end_is_found(tmp_path):
    """torch writes the record with longer numbers as well, which moves the directory."""
    members = [Member(b"a/data.pkl", EVIL), Member(b"a/version", b"3\n")]
    plain = Archive(members).bytes()
    start = plain.index(b"PK\1\2")
    size = plain.index(b"PK\5\6") - start
    longer = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, 2, 2, size, start) + struct.pack("<4sIQI", b"PK\6\7", 0, start + size, 1)
    content = b"GIF89a" + Archive(members, zip64=longer, directory_size=size).bytes()
    assert any(CALL in each for each in texts(scan(write(tmp_path / "m.gif", content), code=FOUND)))


def test_an_archive_behind_parts_is_found(tmp_path):
    for called, content in dcp_with(torch_file(HARMLESS)).items():
        write(tmp_path / called, content + (archive((b"x", EVIL)) if called == "__0_0.distcp" else b""))
    assert any(CALL in each for each in texts(scan(tmp_path / "__0_0.distcp", code=FOUND)))


# ---- archives -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("called", "data"), [
    (b"DATA.pkl", EVIL), (b"data.PKL", EVIL), (b"any/where/x.pkl", EVIL), (b"notes.txt", EVIL), (b"weights", BARE),
    (b"x.joblib", BARE), (b"notes.txt", deflated(EVIL)), (b"weights", deflated(BARE)), (b"inner.zip", zipped(x=EVIL)),
    (b"inner", deflated(zipped(x=EVIL))), (b"inner.tar", tar_file(tar_member(b"y", EVIL))),
    (b"inner", deflated(tar_file(tar_member(b"y", zipped(x=BARE))))), (b"model.pt", torch_file(EVIL)),
    (b"array", npy("|O", "()") + EVIL),
], ids=str)
@pytest.mark.parametrize("other", [b"readme", b"archive/data.pkl"])
def test_every_member_is_looked_at(tmp_path, called, data, other):
    path = write(tmp_path / "m.zip", archive((other, HARMLESS if other != b"readme" else b"hello"), (called, data)))
    assert any(CALL in each for each in texts(scan(path, code=FOUND)))


@pytest.mark.parametrize("key", [b"x", b"0/x", b"0.pth", b"0.pkl"])
@pytest.mark.parametrize("data", [EVIL, BARE, zipped(x=EVIL)])
def test_only_numbers_are_keys_of_storages(tmp_path, key, data):
    path = write(tmp_path / "m.pt", archive((b"a/data.pkl", HARMLESS), (b"a/data/" + key, data), (b"a/version", b"3\n")))
    assert any(CALL in each for each in texts(scan(path, code=FOUND)))


def test_an_archive_of_harmless_members_is_clean(tmp_path):
    members = zipped(a=b"hello", **{"b.pkl": HARMLESS, "c.json": b'{"class_name": "Dense", "auto": "x"}', "d.pt": torch_file()})
    assert [each["clean"] for each in scan(write(tmp_path / "m.zip", members), code=CLEAN)] == [True]


def nest(data, depth, pack):
    for _ in range(depth):
        data = archive((b"x", pack(data)))
    return data


@pytest.mark.parametrize("pack", [bytes, deflated])
def test_nested_archives_are_bounded_and_what_is_beyond_is_told(tmp_path, pack):
    assert any(CALL in each for each in texts(scan(write(tmp_path / "some.zip", nest(EVIL, 4, pack)), code=FOUND)))
    deep = texts(scan(write(tmp_path / "deep.zip", nest(HARMLESS, 9, pack)), code=FOUND))
    assert any("it was not looked at" in each for each in deep)


def test_what_is_too_large_to_inflate_is_told(tmp_path):
    path = write(tmp_path / "m.zip", archive((b"zeros", deflated(bytes((64 << 20) + 1)))))
    assert any("was not looked at" in each for each in texts(scan(path, code=FOUND)))


@pytest.mark.parametrize("packed", [b"\x1f\x8b\x08\0", b"BZh91AY&SY", b"\xfd7zXZ\0\0", b"\x28\xb5\x2f\xfd\x24"])
def test_what_is_compressed_once_more_is_told(tmp_path, packed):
    assert any("compressed once more" in each for each in texts(scan(write(tmp_path / "m.zip", zipped(x=packed + bytes(20))), code=FOUND)))


def test_a_damaged_archive_within_is_told(tmp_path):
    for inner in (zipped(x=b"hello")[:-9], tar_file(tar_member(b"y", b"hello"), tar_member(b"z", bytes(600)))[:-1500]):
        assert any("not looked at" in each for each in texts(scan(write(tmp_path / "m.zip", zipped(x=inner)), code=FOUND)))


@pytest.mark.parametrize("member", [
    tar_member(b"./tokenizer.pkl", EVIL), tar_member(b"./tokenizer", BARE), tar_member(b"./other.ckpt", torch_file(EVIL)),
    tar_member(b"./mp_rank_01/model_weights.ckpt", torch_file(EVIL)), tar_member(b"./more.tar", tar_file(tar_member(b"x", EVIL))),
])
def test_all_members_of_nemos_archives_are_looked_at(tmp_path, member):
    assert any(CALL in each for each in texts(scan(write(tmp_path / "m.nemo", nemo_file(member)), code=FOUND)))


def test_members_behind_a_head_without_a_name_are_not_passed_over_unsaid(tmp_path):
    """tarfile goes on after such a head; only a block of zeros ends an archive."""
    nameless = bytearray(tar_member(b"", b""))
    content = tar_file(tar_member(b"a", b"text"), bytes(nameless), tar_member(b"b", EVIL))
    assert scan(write(tmp_path / "m.tar", content), code=None)[0].get("clean") is not True
    after = tar_file(tar_member(b"a", b"text")) + tar_member(b"b", EVIL)
    assert any("after the end" in each for each in texts(scan(write(tmp_path / "n.tar", after), code=FOUND)))
    scan(write(tmp_path / "o.tar", tar_file(tar_member(b"a", b"text")) + bytes(9000)), code=CLEAN)


@pytest.mark.parametrize("member", [tar_member(b"../x", b"text"), tar_member(b"/x", b"text"), tar_member(b"a/../../x", b"text"),
                                    tar_member(b"x", b"", b"2", b"/etc/passwd"), tar_member(b"x", b"", b"1", b"../x"), tar_member(b"x", b"", b"3")])
def test_what_unpacking_a_tar_would_do_besides_is_told(tmp_path, member):
    assert texts(scan(write(tmp_path / "m.tar", tar_file(tar_member(b"./", b"", b"5"), member)), code=FOUND))


def test_all_pickles_of_the_oldest_checkpoints_are_looked_at(tmp_path):
    storages, tensors, pickle = tar_parts()
    made = {
        "list": (storages.replace(stream(b"]"), EVIL), tensors),
        "storage": (storages.replace(stream(tuple_of(number(7), text("cpu"), name("torch", "FloatStorage"))), EVIL), tensors),
        "tensor": (storages, tensors.replace(stream(tuple_of(number(1), number(7), name("torch", "FloatTensor"))), EVIL)),
    }
    for called, (first, second) in made.items():
        content = tar_file(tar_member(b"storages", first), tar_member(b"tensors", second), pickle)
        assert any(CALL in each for each in texts(scan(write(tmp_path / f"{called}.tar", content), code=FOUND))), called


# ---- stable-baselines3, Keras -------------------------------------------------------------------------------------------


def baselines(serialized, key=":serialized:", pack=bytes):
    data = json.dumps({"policy_class": {":type:": "<class>", key: serialized}, "n": 1}).encode()
    return archive((b"data", pack(data)), (b"policy.pth", torch_file()), (b"_stable_baselines3_version", b"2.0"))


def test_pickles_in_the_text_of_stable_baselines_are_looked_at(tmp_path):
    encoded = base64.b64encode(EVIL).decode()
    broken = "!".join(encoded) + "=="  # as Python decodes it
    for written in (encoded, broken, base64.b64encode(BARE).decode()):
        for pack in (bytes, deflated):
            told = texts(scan(write(tmp_path / "m.zip", baselines(written, pack=pack)), code=FOUND))
            assert any(CALL in each for each in told), written
    content = archive((b"data", json.dumps({"a": 1}).encode()[:-1] + b', "\\u003aserialized:": "' + encoded.encode() + b'"}'))
    assert any(CALL in each for each in texts(scan(write(tmp_path / "e.zip", content), code=FOUND)))
    scan(write(tmp_path / "good.zip", baselines(base64.b64encode(HARMLESS).decode())), code=CLEAN)


def test_their_policies_are_archives_that_are_looked_at(tmp_path):
    content = archive((b"data", b"{}"), (b"policy.pth", torch_file(EVIL)))
    told = scan(write(tmp_path / "m.zip", content), code=FOUND)
    assert [each["member"] for each in told[0]["findings"]] == ["policy.pth/a/data.pkl"]
    place = content.index(b"cposix") + len(b"cposix\nsystem\n(") + len(text("echo")) + 1
    assert [each["offset"] for each in told[0]["findings"]] == [place]


def test_json_that_cannot_be_read_is_told(tmp_path):
    assert any("cannot be read" in each for each in texts(scan(write(tmp_path / "m.zip", zipped(data=b'{"a\\q": 1}')), code=FOUND)))


def test_layers_of_code_are_told(tmp_path):
    content = zipped(**{"config": json.dumps({"class_name": "__lambda__", "config": {"code": "4wE="}}).encode()})
    assert any("Keras" in each for each in texts(scan(write(tmp_path / "m.zip", content), code=FOUND)))


@pytest.mark.parametrize(("written", "weight"), [
    ("a: !!python/object/apply:os.system ['x']", "danger"), ("%TAG ! tag:yaml.org,2002:python/\na: !object/apply:os.system ['x']", "danger"),
    ("model:\n  _target_: os.system\n", "opaque"), ('"_target_" : "subprocess.Popen"', "opaque"), ("target: mine.Model", "opaque"),
    ("_target_: torch.hub.load", "opaque"), ("a: {_target_: torch.nn.GELU, b: nemo.x.Y}\ntarget: nemo.collections.asr.Model\n", None),
    ("target: 5.5\ntargets: os.system\nmy_target_: a.b\n_target_:\n", None),
])
def test_what_yaml_names_is_told(tmp_path, written, weight):
    """In a model of NeMo, and beside a model, where it is text that is passed over if it names nothing."""
    nemo = nemo_file(tar_member(b"./x.yaml", written.encode()))
    found = scan(write(tmp_path / "m.nemo", nemo), code=FOUND if weight else CLEAN)[0]["findings"]
    assert {each["weight"] for each in found} - {"note"} == ({weight} if weight else set())
    write(tmp_path / "m/config.yml", written.encode())
    assert verdicts(tmp_path / "m", FOUND if weight else CLEAN) == {"config.yml": False if weight else "text"}


# ---- AOTInductor --------------------------------------------------------------------------------------------------------


def compiled(*more):
    return archive((b"m/data/aotinductor/model/x.wrapper.so", b"\x7fELF" + bytes(60)), (b"m/data/aotinductor/model/x.wrapper.cpp", b"int x;"),
                   (b"m/data/aotinductor/model/x_metadata.json", b"{}"), (b"m/archive_format", b"pt2"), (b"m/byteorder", b"little"), *more)


def test_compiled_programs_are_danger_and_are_not_converted(tmp_path):
    path = write(tmp_path / "m.pt2", compiled())
    told = scan(path, code=FOUND)
    assert [(each["weight"], each["member"][-4:]) for each in told[0]["findings"]] == [("danger", "r.so"), ("danger", ".cpp")]
    run = subprocess.run([COMMAND, "convert", path, "-o", tmp_path / "m.safetensors"], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert run.returncode == 1 and "AOTInductor" in run.stderr
    assert not (tmp_path / "m.safetensors").exists()


def test_weights_beside_a_compiled_program_are_converted_and_it_is_told(tmp_path):
    config = {"config": {"w": {"path_name": "weight_0", "use_pickle": False, "tensor_meta": {
        "dtype": 7, "sizes": [{"as_int": 4}], "strides": [{"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7}}}}
    path = write(tmp_path / "m.pt2", compiled((b"m/data/weights/model_weights_config.json", json.dumps(config).encode()),
                                              (b"m/data/weights/weight_0", struct.pack("<4f", 1, 2, 3, 4))))
    run = subprocess.run([COMMAND, "convert", path, "-o", tmp_path / "m.safetensors"], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert run.returncode == 0 and "AOTInductor" in run.stderr and "1 tensor" in run.stderr, run.stderr


# ---- folders ------------------------------------------------------------------------------------------------------------


def verdicts(folder, code):
    return {os.path.relpath(each["path"], folder): each["passed_over"] if "passed_over" in each else
            each["error"]["name"] if "error" in each else each["clean"] for each in scan(folder, code=code)}


def test_every_file_below_a_folder_gets_its_verdict(tmp_path):
    folder = tmp_path / "model"
    write(folder / "model.bin", torch_file())
    write(folder / "sub/deep/model.bin", torch_file())
    write(folder / "config.json", b'{"model_type": "llama"}')
    write(folder / "README.md", "grün\n".encode() * 40000)
    write(folder / "image.png", b"\x89PNG\r\n\x1a\n" + bytes(20))
    write(folder / "empty", b"")
    write(folder / "ckpt-1.data-00000-of-00001", bytes(100))
    write(folder / "tokenizer.model", b"".join(b"\x0a\x0e\x0a\x05" + each + b"\x15\0\0\0\0\x18\x02" for each in (b"<unk>", b"<bos>", b"<eos>")))
    assert verdicts(folder, CLEAN) == {
        "model.bin": True, "sub/deep/model.bin": True, "config.json": "text", "README.md": "text", "image.png": "an image", "empty": "empty",
        "ckpt-1.data-00000-of-00001": "tensors of TensorFlow",
        "tokenizer.model": "a vocabulary"}
    write(folder / "sub/deep/training.bin", EVIL)
    assert verdicts(folder, FOUND)["sub/deep/training.bin"] is False


@pytest.mark.parametrize(("called", "content", "weight"), [
    ("modeling_x.py", b"import os\n", "opaque"), ("config.json", b'{"x": [1], "auto_map": {"AutoModel": "modeling_x.X"}}', "opaque"),
    ("tokenizer_config.json", b'{"a": "' + b"x" * 9000 + b'", "auto_map": {}}', "opaque"), ("run.sh", b"echo\n", "opaque"),
    ("start", b"#!/bin/sh\n", "opaque"), ("ops.so", b"\x7fELF" + bytes(60), "danger"), ("ops", b"\x7fELF" + bytes(60), "danger"),
    ("x.pyc", b"\xa7\x0d\r\n" + bytes(20), "danger"), ("kernel.cu", b"int x;", "opaque"),
])
def test_code_beside_a_model_is_told(tmp_path, called, content, weight):
    write(tmp_path / "m/model.bin", torch_file())
    write(tmp_path / "m" / called, content)
    assert [each["weight"] for file in scan(tmp_path / "m", code=FOUND) for each in file.get("findings", ())] == [weight]


@pytest.mark.parametrize(("called", "content"), [
    ("odd", bytes(range(256))), ("pytorch_model.bin", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"),
    ("cut.bin", torch_file()[:-30]), ("packed.gz", b"\x1f\x8b\x08\0" + bytes(30)), ("zeros", bytes(100)), ("text", b"text\0"),
])
def test_what_was_not_looked_at_is_never_clean(tmp_path, called, content):
    write(tmp_path / "m/model.bin", torch_file())
    write(tmp_path / "m" / called, content)
    assert isinstance(verdicts(tmp_path / "m", UNREAD)[called], str)


def test_a_folder_without_files_was_not_scanned(tmp_path):
    (tmp_path / "sub").mkdir()
    assert scan(tmp_path, code=UNREAD) == []


def test_links_are_followed_to_files_and_never_in_circles(tmp_path):
    folder = tmp_path / "m"
    write(folder / "model.bin", torch_file())
    write(tmp_path / "blobs/0", EVIL)
    (folder / "evil.bin").symlink_to("../blobs/0")
    run = subprocess.run([COMMAND, "scan", folder], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert run.returncode == FOUND and CALL in run.stdout
    assert f"leads out of the folder, to {tmp_path / 'blobs/0'}" in run.stderr
    assert [each.get("links_to") for each in scan(folder, code=FOUND)] == [str(tmp_path / "blobs/0"), None]
    (folder / "evil.bin").unlink()
    (folder / "again").symlink_to(".")
    assert verdicts(folder, UNREAD) == {"model.bin": True, "again": "NOT_REGULAR"}
    (folder / "again").unlink()
    (folder / "nowhere").symlink_to("nothing")
    assert verdicts(folder, UNREAD) == {"model.bin": True, "nowhere": "NOT_REGULAR"}
    (folder / "nowhere").unlink()
    os.mkfifo(folder / "pipe")
    assert verdicts(folder, UNREAD) == {"model.bin": True, "pipe": "NOT_REGULAR"}


def test_every_rank_is_looked_at(tmp_path):
    for called, files in (("zero", make_ranks.zero()), ("zero3", make_ranks.zero(stage=3)), ("fsdp", make_ranks.fsdp())):
        for each, content in files.items():
            write(tmp_path / called / each, content)
        scan(tmp_path / called, code=CLEAN)
        write(tmp_path / called / sorted(files)[-1], torch_file(EVIL))
        assert any(CALL in each for each in texts(scan(tmp_path / called, code=FOUND))), called


def dcp_with(item):
    """A distributed checkpoint that has an object besides its tensor."""
    files = make_shards.checkpoint()
    at = len(files["__1_0.distcp"])
    files["__1_0.distcp"] += item
    place = make_shards.index_of("step", ()), make_shards.place_of("__1_0.distcp", at, len(item))
    stored = make_shards.stored((4, 6), [make_shards.chunk(*part) for part in make_shards.GRID])
    root = make_shards.new(make_shards.METADATA, "Metadata", make_shards.attributes(
        state_dict_metadata=dict_of((text("w"), stored), (text("step"), make_shards.new(make_shards.METADATA, "BytesStorageMetadata", b"}"))),
        planner_data=b"N", storage_data=dict_of(place)))
    files[".metadata"] = stream(root)
    return files


@pytest.mark.parametrize("item", [torch_file(EVIL), EVIL, BARE], ids=["archive", "pickle", "bare"])
def test_objects_in_distributed_checkpoints_are_looked_at(tmp_path, item):
    for called, content in dcp_with(item).items():
        write(tmp_path / "evil" / called, content)
    for named in (tmp_path / "evil", tmp_path / "evil/.metadata", tmp_path / "evil/__1_0.distcp"):
        assert any(CALL in each and "step" in each for each in texts(scan(named, code=FOUND)))
    scan(tmp_path / "evil/__0_0.distcp", code=CLEAN)
    (tmp_path / "evil/.metadata").unlink()
    assert scan(tmp_path / "evil/__1_0.distcp")[0].get("clean") is not True
    scan(tmp_path / "evil/__0_0.distcp", code=UNREAD)


def test_a_harmless_distributed_checkpoint_is_clean(tmp_path):
    for called, content in dcp_with(torch_file(HARMLESS)).items():
        write(tmp_path / "good" / called, content)
    assert verdicts(tmp_path / "good", CLEAN) == dict.fromkeys((".metadata", "__0_0.distcp", "__1_0.distcp"), True)


@pytest.mark.parametrize("size", [128, 384, 1408, 0x10180, 0x4E0280, 0x2123, 0x227B])
def test_a_header_whose_size_reads_as_the_beginning_of_a_pickle_is_no_damage(tmp_path, size):
    header = json.dumps({"w": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}).encode().ljust(size)
    good = struct.pack("<Q", size) + header + b"\0"
    assert [each["from"] for each in scan(write(tmp_path / "good.safetensors", good), code=CLEAN)] == ["safetensors"]


def test_the_shards_of_an_index_are_looked_at(tmp_path):
    """A header whose size reads as two marks and more, so that the file is a pickle too."""
    header = json.dumps({"w": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}).encode()
    good = struct.pack("<Q", len(header)) + header + b"\0"
    index = {"metadata": {"total_size": 1}, "weight_map": {"w": "model-00001-of-00001.safetensors"}}
    write(tmp_path / "m/model-00001-of-00001.safetensors", good)
    path = write(tmp_path / "m/model.safetensors.index.json", json.dumps(index).encode())
    assert [(os.path.basename(each["path"]), each["clean"]) for each in scan(path, code=CLEAN)] == [("model-00001-of-00001.safetensors", True)]
    write(tmp_path / "m/model-00001-of-00001.safetensors", good[:-1] + archive((b"x", EVIL)))
    assert scan(path, code=None)[0].get("clean") is not True
