# SPDX-License-Identifier: Apache-2.0
"""Every file of tests/attacks/make_attacks.py ends in a refusal or in a report, within bounds of memory and time.

Refused is what a converter must not take, with the byte where there is one. What converts all the same has its tensors alone, and
the report names what was left out. A scan finds every call, whatever the way to it, and every archive that two programs
would read in two ways.
"""

import resource

import convert_dump
import make_attacks
import pytest

MEMORY = 512 << 20
SECONDS = 30
REFUSALS = {"DAMAGED", "PICKLE", "ARRAY", "VIEW", "NAME", "DUPLICATE_NAME", "NO_EQUIVALENT", "ROOT", "UNKNOWN_INPUT",
            "CHECKSUM", "MEMORY", "OPAQUE", "UNSUPPORTED", "DUPLICATE_KEY", "SHARD_NAME", "SHARD_MISSING"}
NOTE = 0
# What is legal although it looks bad, and what only the bytes of tensors tell: their CRC is checked when they are written.
CONVERTS = {"zip-crc.pt", "zip-one-crc-0.pt", "stream-version.pt", "graph-cycle-of-dict.pt", "graph-names.pt",
            "npz-pickle-member.npz", "npz-pickle-without-ending.npz", "npz-objects-without-ending.npz",
            "npz-objects-as-storage.npz", "pickle-array-beside.pkl", "pickle-array-without-ending-beside.pkl",
            "pickle-call-inside-changed-function.pkl", "pickle-call-inside-changed-items.pkl",
            "program-weight.pt2", "program-weight-protocol-0.pt2", "program-weight-of-strings.pt2",
            "program-weight-deflated.pt2", "program-weight-archive.pt2", "program-constant.pt2",
            "gguf-key-tensors.gguf", "flax-extension-other.msgpack"}
# Where a scan has nothing to say: it asks what a loader would run, not what would come out.
NOT_CALLS = ("graph-", "tensor-", "stream-", "npy-", "tar-", "nemo-", "gguf-", "flax-", "onnx-", "hdf5-", "tf-", *(f"{make_attacks.kind_of(module)}-" for module in make_attacks.MODULES))
SCANNED_CLEAN = {called for called in CONVERTS if not called.startswith(("npz-", "pickle-", "program-"))} | {"zip-crc-of-pickle.pt", "zip-bomb-1032.pt", "zip-short-storage.pt", "zip-long-storage.pt",
                            "zip-no-storage.pt", "zip-two-pickles.pt"} | \
    {f"pickle-plain-mark-below-{opcode}.pkl" for opcode in ("30", "31", "64", "6c", "74", "91")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("attacks")


@pytest.fixture(scope="module")
def program(folder):
    return convert_dump.build(folder)


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


@pytest.fixture(scope="module")
def results(folder, program):
    """The plan and the scan of each file, by its name."""
    files = {called: bytes_ for called, bytes_ in (*make_attacks.attacks(), *make_attacks.good_files())}
    paths = []
    for i, (called, bytes_) in enumerate(files.items()):
        paths.append(folder / f"{i}.{called.rsplit('.', 1)[1]}")
        paths[-1].write_bytes(bytes_)
    plans = convert_dump.run(program, "plan", paths, preexec_fn=limit)
    scans = convert_dump.run(program, "scan", paths, preexec_fn=limit)
    return {called: (plan, scan, len(files[called])) for called, plan, scan in zip(files, plans, scans)}


NAMES = [called for called, _ in make_attacks.attacks()]


def test_names_are_unique():
    assert len(set(NAMES)) == len(NAMES) and len(NAMES) > 350


@pytest.mark.parametrize("called", [called for called, _ in make_attacks.good_files()])
def test_what_they_are_changes_of_converts(results, called):
    plan, scan, _ = results[called]
    assert plan.status == "OK", plan.message
    assert len(plan.rows) == 1 and plan.account[0] == plan.account[1] + plan.account[4]
    assert scan.status == "OK" and not [finding for finding in scan.findings if finding[0] > NOTE]


@pytest.mark.parametrize("called", NAMES)
def test_refused_or_reported(results, called):
    plan, _, size = results[called]
    if plan.status == "OK":
        reported = [finding for finding in plan.findings if finding[0] > NOTE]
        assert called in CONVERTS or (reported and called.startswith("pickle-")), plan
        # Nothing but the tensors of the good part.
        assert {row[0] for row in plan.rows} <= {b"w", b"x"} or called == "graph-names.pt"
        return
    assert plan.status in REFUSALS, plan
    assert called not in CONVERTS
    assert plan.message.isprintable() and len(plan.message) > 10
    assert plan.offset is None or plan.offset <= size or plan.status in ("PICKLE", "VIEW"), plan


# What a refusal says, one file for each sentence that readers have for what is wrong with a container.
SENTENCES = {
    "zip-duplicate.pt": "two members of the name", "zip-local-name.pt": "another name before its data",
    "zip-crc-of-pickle.pt": "have the CRC-32", "zip-local-sizes-0.pt": "other sizes, or another CRC, before its data",
    "zip-zip64-cut.pt": "whose extra fields or disk are wrong", "zip-zip64-2^63.pt": "whose member reaches into the directory",
    "zip-size.pt": "overlaps the one before it", "zip-stored-not-size.pt": "contradict each other",
    "zip-count-less.pt": "that is no entry", "zip-count-more.pt": "members in 165 bytes, which is too many",
    "zip-directory-before.pt": "contradicts what is before it", "zip-two-ends.pt": "has two end records",
    "zip-flag-1.pt": "is encrypted", "zip-method-1.pt": "by another method than deflate",
    "zip-local-method.pt": "other flags or another method before its data", "zip-bomb-1032.pt": "the pickle says 16",
    "zip-deflated-cut.pt": "they end too early", "zip-deflated-garbage.pt": "an unknown kind",
    "zip-deflated-short.pt": "fewer than the archive says", "zip-deflated-long.pt": "more than the archive says",
    "zip-name-0.pt": "not simply one below a folder", "zip-folder-with-bytes.pt": "is a folder and has bytes",
    "zip-no-storage.pt": "which the file does not have", "zip-two-pickles.pt": "outside of the folder",
    "zip-cut-0043.pt": "it was cut", "pickle-plain-empty.pkl": "this file is empty", 
    "graph-laughs.pt": "contain each other too many times",
    "graph-depth.pt": "more than 1000 containers", "tensor-beyond.pt": "lead out of its storage",
    "tensor-offset-2^62.pt": "as many strides as sizes", "tensor-count-negative.pt": "the size of its storage",
    "tensor-id-short.pt": "another id than", "tensor-storage-unknown.pt": "the class of its storage",
    "tensor-rebuild-few.pt": "the number of arguments", "npy-behind.npy": "something follows the dict",
    "npy-text.npy": "its elements are text", "npy-dates.npy": "dates or times", "npy-long-double.npy": "longer floats",
    "npy-empty-header.npy": "a dict should be here", "npy-unended.npy": "a comma is missing",
    "npy-shape-int.npy": "the shape is no tuple", "npy-order-int.npy": "True or False should be here",
    "npy-header-beyond.npy": "it ends within its header", "tar-link.tar": "storages of the archive is no plain file",
    "tar-absolute.tar": "an archive (tar) without a checkpoint", "tar-size-beyond.tar": "reaches past the end of the file",
    "tar-count-negative.tar": "does not describe its storages and tensors", "tar-cut.tar": "lacks storages, tensors or pickle",
    "tar-pax-size-2^64.tar": "a record at byte 512", "tar-pax-large.tar": "describes a member in 70.0 kB",
    "tar-pax-many.tar": "no member of an archive (tar)",
    "tar-named-by-pax-too.tar": "has pickle twice", "tar-pax-other-name.tar": "lacks storages",
    "tar-base-256-2^64.tar": "no member of an archive (tar)", "tar-base-256-beyond.tar": "reaches past the end of the file",
    "nemo-no-weights.nemo": "no \"model_weights.ckpt\", as models of NeMo have", "nemo-twice.nemo": "\"model_weights.ckpt\" twice",
    "nemo-link.nemo": "no plain file", "nemo-folder-of-weights.nemo": "unpack it (tar -xf)", "nemo-rank.nemo": "\"mp_rank_00/model_weights.ckpt\"",
    "nemo-rank-besides.nemo": "divided among processes", "nemo-many.nemo": "more than 1000 members",
    "stream-keys-no-list.pt": "no list of storages", "stream-keys-twice.pt": "comes twice", "stream-cut-273.pt": "is cut off",
    "gguf-cut-0100.gguf": "it ends within its keys or the list of its tensors", "gguf-cut-0180.gguf": "beyond the end of the file",
    "gguf-version-1.gguf": "of which only 2 and 3 are read", "gguf-count-keys.gguf": "more tensors or keys than it has bytes for",
    "gguf-dimensions-2^32.gguf": "beyond 2^64-1", "gguf-dimensions-size-wraps.gguf": "size is beyond 2^64-1",
    "gguf-dimensions-zero-and-huge.gguf": "beyond 2^64-1", "gguf-rank-5.gguf": "more than 4 dimensions",
    "gguf-alignment-0.gguf": "no power of two", "gguf-overlap.gguf": "two tensors share bytes",
    "gguf-offset-unaligned.gguf": "not on the file's alignment", "gguf-offset-2^64.gguf": "beyond the end of the file",
    "gguf-type-unknown.gguf": "type 43, which no published version", "gguf-rows-not-blocks.gguf": "not whole blocks",
    "gguf-type-blocks.gguf": "not whole blocks", "gguf-array-of-arrays.gguf": "an array of arrays",
    "gguf-value-of-13.gguf": "of a type that is not known", "gguf-key-2^63.gguf": "longer than 65,535 bytes",
    "gguf-key-no-utf-8.gguf": "the name of a key is not UTF-8", "gguf-key-twice.gguf": '"gguf.a" twice', "gguf-text-2^63.gguf": "it ends within its keys",
    "flax-cut-20.msgpack": "reaches past the end", "flax-more.msgpack": "bytes follow its only object",
    "flax-reserved-byte.msgpack": "there is no object", "flax-map-2^32.msgpack": "reaches past the end",
    "flax-depth.msgpack": "more than 1,000 deep", "flax-depth-of-lists.msgpack": "more than 1,000 deep",
    "flax-key-number.msgpack": "is no text", "flax-key-no-utf-8.msgpack": "a key is not UTF-8",
    "flax-key-twice.msgpack": 'the key "w" twice', "flax-key-twice-of-maps.msgpack": 'the key "a" twice',
    "flax-extension-long.msgpack": "reaches past the end", "flax-extension-rest.msgpack": "bytes follow an array",
    "flax-array-of-two.msgpack": "no list of three", "flax-array-bytes-beyond.msgpack": "reaches past the end",
    "flax-shape-few.msgpack": "other bytes than its sizes", "flax-shape-negative.msgpack": "below 0",
    "flax-shape-wraps.msgpack": "other bytes than its sizes", "flax-rank-65.msgpack": "more than 64 dimensions",
    "flax-dtype-unknown.msgpack": "which safetensors does not have", "flax-dtype-complex128.msgpack": "--complex128 f64x2",
    "flax-chunks-gap.msgpack": "missing, or not in order", "flax-chunks-order.msgpack": "missing, or not in order",
    "flax-chunks-few.msgpack": "other bytes than its sizes", "flax-chunks-dtypes.msgpack": "do not fit together",
    "flax-chunked-more.msgpack": "other entries than three", "flax-chunked-shape-wraps.msgpack": "other bytes than its sizes",
    "onnx-cut-28.onnx": "is no field of it", "onnx-varint-11.onnx": "is no field of it", "onnx-group.onnx": "is no field of it",
    "onnx-graph-twice.onnx": "twice that can be there once", "onnx-depth.onnx": "more than 64 deep",
    "onnx-graph-of-number.onnx": "of another kind", "onnx-sparse.onnx": "sparse tensor", "onnx-name-none.onnx": "has no name",
    "onnx-name-long.onnx": "too long", "onnx-name-two.onnx": "a field twice", "onnx-type-none.onnx": "has no type",
    "onnx-type-29.onnx": "of type 29", "onnx-raw-short.onnx": "other elements than its sizes", "onnx-raw-none.onnx": "other elements than its sizes",
    "onnx-raw-and-numbers.onnx": "in more than one way", "onnx-raw-and-external.onnx": "in more than one way", "onnx-segment.onnx": "several segments",
    "onnx-dims-negative.onnx": "one below 0", "onnx-dims-wrap.onnx": "more than 2^64-1", "onnx-dims-65.onnx": "more than 64 dimensions",
    "onnx-complex128.onnx": "--complex128 f64x2", "onnx-int4.onnx": "--packed keeps", "onnx-float4-odd.onnx": "--packed keeps",
    "onnx-numbers-field.onnx": "the field of another type", "onnx-numbers-parts.onnx": "in several parts", "onnx-numbers-apart.onnx": "in several parts",
    "onnx-numbers-tag-long.onnx": "a spelling of its own", "onnx-numbers-few.onnx": "other elements than its sizes",
    "onnx-external-parent.onnx": "only plain paths", "onnx-external-absolute.onnx": "only plain paths",
    "onnx-external-escape.onnx": "only plain paths", "onnx-external-twice.onnx": "says twice", "onnx-external-offset-2^64.onnx": "no number",
    "onnx-external-none.onnx": "does not say in which file", "onnx-external-length.onnx": "another length",
    "hdf5-cut-0184.h5": "its end is missing", "hdf5-superblock-1.h5": "a superblock of version 1", "hdf5-offsets-4.h5": "not 8 bytes wide",
    "hdf5-tree-cycle.h5": "another level than it should have", "hdf5-tree-entries.h5": "too many nodes", "hdf5-group-cycle.h5": "a group is in itself",
    "hdf5-soft-link.h5": "a soft link", "hdf5-external-link.h5": "an external link, to another file,", "hdf5-user-link.h5": "a link of a user's own kind",
    "hdf5-called-parent.h5": "the name of a link is no name", "hdf5-called-twice.h5": 'two objects of the name "a"',
    "hdf5-same-bytes.h5": "two tensors share byte", "hdf5-sizes-wraps.h5": "too many elements", "hdf5-sizes-few.h5": "not as many as it has elements",
    "hdf5-bytes-more.h5": "not as many as it has elements", "hdf5-address-nowhere.h5": "nothing was written to", "hdf5-virtual.h5": "it is virtual",
    "hdf5-external.h5": "its data are in another file", "hdf5-filter-32000.h5": "compressed by LZF", "hdf5-filter-4.h5": "compressed by szip",
    "hdf5-shared-type.h5": "a shared message", "hdf5-dense-links.h5": "a dense group", "hdf5-dense-attributes.h5": "dense attributes",
    "hdf5-labels-parent.h5": 'a weight "../w" of layer "l", which it does not have', "hdf5-labels-count.h5": "longer than its bytes",
    "hdf5-text-data.h5": "leads to something else", "hdf5-names-beyond.h5": "the names of a group reach beyond",
    "hdf5-chunk-missing.h5": "never written", "hdf5-chunk-order.h5": "missing or out of order", "hdf5-chunk-overlap.h5": "two tensors share byte",
    "hdf5-chunk-more.h5": "more chunks than its sizes", "hdf5-chunk-short.h5": "as its filters allow", "hdf5-chunk-level-255.h5": "another level",
    "hdf5-chunk-size-0.h5": "have no size", "hdf5-chunk-size-large.h5": "larger than 8 MiB", "hdf5-chunk-many.h5": "too many chunks",
    "hdf5-chunk-cycle.h5": "another level", "hdf5-chunk-bomb.h5": "as its filters allow",
    "tf-block-crc.index": "has the CRC-32C", "tf-block-snappy.index": "is compressed", "tf-handle-wraps.index": "a block reaches beyond",
    "tf-handle-varint-11.index": "not where one can be", "tf-shared.index": "shares more with the one before", "tf-order.index": "keys are not in order",
    "tf-twice.index": "or one comes twice", "tf-restarts-many.index": "a restart leads to no entry", "tf-restarts-inside.index": "a restart leads to no entry",
    "tf-restarts-none-at-0.index": "a restart leads to no entry", "tf-leveldb.index": "no checkpoint of TensorFlow", "tf-version-1.index": "TensorFlow's first version",
    "tf-files-2^40.index": "the number of its files", "tf-tensor-shard-negative.index": "in a file that it does not have",
    "tf-tensor-size.index": "another size than its shape", "tf-tensor-sizes.index": "beyond 2^64-1", "tf-tensor-kind-99.index": "dtype 99",
    "tf-tensor-size-twice.index": "says things twice", "tf-slice-of-nothing.index": "a slice of no tensor",
    "tf-sliced-beyond.index": "or does not lie within it", "tf-sliced-rank.index": "or does not lie within it", "tf-sliced-dtype.index": "of another dtype",
    "tf-sliced-shape.index": "of another dtype or shape", "tf-sliced-size.index": "another size than its shape", "tf-slice-missing.index": "is not there",
    "tf-sliced-sizes.index": "beyond 2^64-1", "tf-sliced-nothing.index": "are not all of it",
    "stream-count-lie.pt": "has 5 elements, and the pickle says 4", "stream-protocol-0.pt": "saved with protocol 0",
}
for module in make_attacks.MODULES:
    SENTENCES |= {f"{make_attacks.kind_of(module)}-{called}.{module.ENDING}": text for called, text in module.SENTENCES.items()}


@pytest.mark.parametrize("called", SENTENCES)
def test_a_refusal_says_what_is_wrong(results, called):
    assert SENTENCES[called] in results[called][0].message


@pytest.mark.parametrize("called", NAMES)
def test_scanned(results, called):
    _, scan, _ = results[called]
    found = scan.status != "OK" or any(weight > NOTE for weight, _ in scan.findings)
    assert found or called in SCANNED_CLEAN or called.startswith(NOT_CALLS), scan


def test_a_scan_names_what_would_be_called(results):
    for called, (_, scan, _) in results.items():
        text = scan.message + "".join(sentence for _, sentence in scan.findings)
        if called.startswith(("pickle-call-stack-global", "pickle-call-memo", "pickle-call-python2", "pickle-call-newobj",
                              "pickle-call-inst", "pickle-call-obj",
                              "npz-objects", "npz-pickle", "npy-objects-call", "pickle-array-", "program-weight.", "program-weight-protocol-0",
                              "program-weight-deflated", "program-weight-archive", "program-constant", "pickle-call-inside-popped", "pickle-call-inside-arguments-computed")):
            assert "builtins.eval" in text, (called, text)
        if called.startswith("polyglot-"):
            assert "os.system" in text, (called, text)
        if called.startswith("script-"):
            assert "__torch__.model.Net" in text, (called, text)
        if called.startswith("pickle-call-inside-environment"):
            assert "os.environ" in text
        if called.startswith(("pickle-call-changed", "pickle-call-inside-changed")):
            assert "would change" in text, (called, text)


def test_what_follows_an_array_is_a_finding(results):
    """A program that loads from the same file again unpickles what is not an array."""
    assert any(weight > NOTE for weight, _ in results["npy-long.npy"][1].findings)


def test_a_file_is_read_a_few_times_at_most(results):
    """Readers ask for no more than the file, its directory and its pickles again: no loop over the same bytes."""
    for called, (plan, scan, size) in results.items():
        for dump in (plan, scan):
            assert dump.bytes_read <= 8 * size + 4096, (called, dump.bytes_read, size)
