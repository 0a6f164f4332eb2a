#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What crashes and power cuts leave: every call of the command that changes the file system is the last one, or fails.

    tools/assurance/crash.py [--fs ext4,xfs,btrfs,tmpfs] [--only NAME] [--self-test]

Each scenario saves or edits something in a folder of each file system. On each:

  killed     before its first call, its second, and so on (tools/assurance/crash_recorder.c counts them): what lies there then is the old
             model, the new one, or refused; after `coffer meta --recover` it is old or new, and nothing lies about
  failed     the same calls fail with EIO, and with ENOSPC
  again      where recovery has something to do, it is killed before each of its own calls, and then run once more

And once for all, as no file system is asked:

  power cut  after every call, with what no fsync had made durable there or not: nothing, all, each operation alone missing, each
             alone there, the last names missing, and some at random (with a fixed seed)

File systems lie in loop images, for which one has to be root; those that cannot be mounted are named, and not tried. The exit code
is 1 when something was lost, or when no file system could be tried.
"""

import argparse
import hashlib
import itertools
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COFFER = Path(os.environ.get("COFFER_CLI", ROOT / "build" / "check-gcc" / "coffer"))
EIO, ENOSPC = 5, 28
IMAGE_SIZE = "400M"  # XFS wants 300
MAKE = {"ext4": ["mkfs.ext4", "-q"], "xfs": ["mkfs.xfs", "-q"], "btrfs": ["mkfs.btrfs", "-q"]}
RANDOM_SUBSETS = 12
# What is removed last is removed without waiting for the disk: a power cut may leave it, beside a new model that is complete.
TIDIED = (".coffer-old", ".coffer-force")

# ---- models -----------------------------------------------------------------------------------------------------------------


def model_bytes(seed, count=8, size=3000, slack=0):
    tensors, data = {}, b""
    for i in range(count):
        piece = hashlib.shake_128(f"{seed} {i}".encode()).digest(size + i)
        tensors[f"t{i}"] = {"dtype": "U8", "shape": [len(piece)], "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    header = json.dumps({"__metadata__": {"seed": seed}, **tensors}).encode() + b" " * slack
    return len(header).to_bytes(8, "little") + header + data


def read_file(path):
    """Metadata and tensors; raises for a file that is not whole."""
    whole = path.read_bytes()
    size = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8:8 + size])
    metadata = header.pop("__metadata__", {})
    data = whole[8 + size:]
    end = max((t["data_offsets"][1] for t in header.values()), default=-1)
    if end != len(data):
        raise ValueError("bytes follow the tensors" if 0 <= end < len(data) else "the size is not the header's")
    return metadata, {name: (t["shape"], hashlib.sha256(data[slice(*t["data_offsets"])]).hexdigest()) for name, t in header.items()}


def load(folder):
    """What whoever asks for the model there gets: a value to compare, "nothing", "refused", or what is broken."""
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if (folder / "model.safetensors.coffer-undo").exists():
        return "refused"
    try:
        if single.exists():
            metadata, tensors = read_file(single)
            return json.dumps([metadata.get("seed"), metadata.get("key"), tensors], sort_keys=True)
        if index.exists():
            tensors, values = {}, set()
            files = json.loads(index.read_text())["weight_map"]
            for file in sorted(set(files.values())):
                if (folder / f"{file}.coffer-undo").exists():
                    return "refused"
                metadata, found = read_file(folder / file)
                values.add((metadata.get("seed"), metadata.get("key")))
                tensors |= found
            if set(files) - set(tensors):
                raise ValueError("tensors are missing")
            return json.dumps([*sorted(values, key=str), tensors], sort_keys=True)
    except (ValueError, KeyError, OSError) as error:
        return f"broken: {error}"
    return "nothing"


def give_identity(folder):
    """A forced save names the file that it may take away by inode and time of change (src/write/commit.h), which a copy of
    the folder does not have."""
    record = folder / "model.safetensors.index.json.coffer-force"
    if not record.exists() or record.stat().st_size != 32:
        return
    for old in (folder / "model.safetensors", folder / "model.safetensors.coffer-old"):
        if old.exists() and old.stat().st_size == int.from_bytes(record.read_bytes()[16:24], "little"):
            found = old.stat()
            record.write_bytes(record.read_bytes()[:8] + struct.pack("<QQq", found.st_ino, found.st_size, found.st_mtime_ns))


def state_files(folder):
    return sorted(p.name for p in folder.iterdir() if ".coffer-" in p.name and not p.name.startswith("."))


# ---- scenarios --------------------------------------------------------------------------------------------------------------


class Scenario:
    def __init__(self, name, command, prepare, safe_from_power=True):
        self.name, self.command, self.prepare, self.safe_from_power = name, command, prepare, safe_from_power

    def arguments(self, folder, sources):
        return [a.format(folder=folder, model=folder / "model.safetensors", **sources) for a in self.command]


def put(data):
    return lambda folder, sources: (folder / "model.safetensors").write_bytes(data)


def split(source, size):
    return lambda folder, sources: run("split", "-q", sources[source], "-o", folder, "--max-shard-size", size)


def split_recorded(folder, sources):
    run("split", "-q", sources["old"], "-o", folder, "--max-shard-size", "10KB")


def split_with_room(folder, sources):
    """Room in all files but one, so that headers wait beside files and new files do."""
    split("old", "10KB")(folder, sources)
    for file in sorted(folder.glob("model-*.safetensors"))[1:]:
        run("meta", "-q", "--rewrite", file)


def split_with_wrong_index(folder, sources):
    split("old", "10KB")(folder, sources)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({**json.loads(index.read_text()), "metadata": {"total_size": 1}}))


SLACK = 4000
SCENARIOS = [
    Scenario("save", ["convert", "-qf", "{new}", "-o", "{model}"], lambda folder, sources: None, safe_from_power=False),
    Scenario("save over a file", ["convert", "-qf", "{new}", "-o", "{model}"], put(model_bytes("old"))),
    Scenario("edit within the header", ["meta", "-q", "--set", "key=value", "{model}"], put(model_bytes("old", slack=SLACK))),
    Scenario("edit without room", ["meta", "-q", "--set", "key=value", "{model}"], put(model_bytes("old"))),
    Scenario("edit by insertion", ["meta", "-q", "--insert", "--set", "key=value", "{model}"], put(model_bytes("old")), False),
    Scenario("drop", ["drop", "-qf", "{model}", "t3"], put(model_bytes("old"))),
    Scenario("split", ["split", "-q", "{new}", "-o", "{folder}", "--max-shard-size", "10KB"], lambda folder, sources: None, False),
    Scenario("split over files", ["split", "-qf", "{new}", "-o", "{folder}", "--max-shard-size", "7KB", "--digest", "sha256"],
             split("old", "10KB")),
    Scenario("split over one file", ["split", "-qf", "{new}", "-o", "{folder}", "--max-shard-size", "10KB"], put(model_bytes("old"))),
    Scenario("join over files", ["split", "-qf", "{new}", "-o", "{folder}"], split("old", "10KB")),
    Scenario("record digests", ["hash", "-q", "--write", "{folder}"], split_recorded),
    Scenario("cut off what follows", ["meta", "-q", "--fix", "{model}"], put(model_bytes("old") + bytes(range(1, 256)) * 40)),
    Scenario("an index alone", ["index", "-q", "{folder}"], split_with_wrong_index),
    Scenario("names in files", ["rename", "-q", "{folder}", "t*=u*", "--in-place"], split("old", "10KB")),
    Scenario("metadata of files", ["meta", "-q", "--set", "key=value", "{folder}"], split_with_room),
    Scenario("metadata without room", ["meta", "-q", "--set", "key=value", "{folder}"], split("old", "10KB")),
    Scenario("names without room", ["rename", "-q", "{folder}", "t0=" + 99 * "x", "t*=u*", "--in-place"], split("old", "10KB")),
]

# ---- running ----------------------------------------------------------------------------------------------------------------


def run(*arguments, environment=None):
    return subprocess.run([COFFER, *map(str, arguments)], capture_output=True, check=False, stdin=subprocess.DEVNULL,
                          env={**os.environ, **(environment or {})})


class Matrix:
    def __init__(self, recorder, sources, scratch):
        self.recorder, self.sources, self.scratch = recorder, sources, scratch
        self.states, self.faults, self.there = 0, [], {}

    def watched(self, folder, arguments, at=None, error=None, log=None):
        environment = {"LD_PRELOAD": str(self.recorder), "CRASH_UNDER": str(folder), "CRASH_LOG": str(log or os.devnull)}
        environment |= {"CRASH_AT": str(at)} if at else {}
        environment |= {"CRASH_ERROR": str(error)} if error else {}
        return run(*arguments, environment=environment)

    def fresh(self, folder, scenario):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        scenario.prepare(folder, self.sources)

    def restore(self, folder, state):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(state, folder)
        give_identity(folder)

    def fault(self, *what):
        self.faults.append(": ".join(map(str, what)))
        print("  LOST", self.faults[-1], flush=True)

    def recover(self, folder):
        return run("meta", "-q", "--recover", folder / "model.safetensors"), [
            run("meta", "-q", "--recover", file) for file in sorted(folder.glob("model-*.safetensors"))]

    def judge(self, folder, where, old, new, tidied=()):
        """Before recovery and after it. Old, new, or refused; then old or new, and nothing lies about but what ends in one of
        `tidied` when it is the new one."""
        self.states += 1
        before = load(folder)
        allowed = {old, new, "refused"} | ({"nothing"} if state_files(folder) else set())
        if before not in allowed:
            self.fault(where, "before recovery", short(before))
        self.recover(folder)
        after = load(folder)
        if after not in (old, new):
            self.fault(where, "after recovery", short(after), state_files(folder))
        allowed_left = (".coffer-undo.new", *(tidied if after == new else ()))
        left = [name for name in state_files(folder) if not name.endswith(allowed_left)]
        if after in (old, new) and left:
            self.fault(where, "left behind", left)
        index = folder / "model.safetensors.index.json"
        whole = after != "nothing" and not after.startswith("broken")
        if whole and run("check", "-q", index if index.exists() else folder / "model.safetensors").returncode != 0:
            self.fault(where, "coffer check refuses what is there")

    def ends(self, folder, scenario, log):
        """Runs it whole: the old value, the new one, and how many calls it takes."""
        self.fresh(folder, scenario)
        old = load(folder)
        self.there = {path: (path.read_bytes(), path.stat().st_ino) for path in folder.iterdir()}
        log.unlink(missing_ok=True)
        done = self.watched(folder, scenario.arguments(folder, self.sources), log=log)
        new = load(folder)
        lines = log.read_text().splitlines()
        return old, new, int(lines[-1].split("\t")[1]), lines[:-1], done

    def kill(self, folder, scenario, fs):
        log = self.scratch / "log"
        old, new, calls, _, done = self.ends(folder, scenario, log)
        if done.returncode != 0:
            print(f"  {scenario.name}: not here ({done.stderr.decode().strip().splitlines()[-1][:100]})")
            return
        states = 0
        for at in range(1, calls + 1):
            for error in (None, EIO, ENOSPC):
                self.fresh(folder, scenario)
                self.watched(folder, scenario.arguments(folder, self.sources), at, error)
                where = f"{fs}: {scenario.name}: call {at} " + ("killed" if error is None else f"fails with {error}")
                if error is None and state_files(folder):
                    states += self.kill_recovery(folder, where, old, new)
                self.judge(folder, where, old, new)
        print(f"  {scenario.name}: {calls} calls, killed, EIO, ENOSPC; recovery killed {states} times", flush=True)

    def kill_recovery(self, folder, where, old, new):
        state = self.scratch / "state"
        self.restore(state, folder)
        for at in itertools.count(1):
            self.restore(folder, state)
            ended = self.watched(folder, ["meta", "-q", "--recover", folder / "model.safetensors"], at)
            if ended.returncode >= 0:  # it came to its end
                self.restore(folder, state)
                return at - 1
            self.judge(folder, f"{where}, recovery killed at {at}", old, new)

    # ---- power cuts ----

    def cut_power(self, folder, scenario):
        log = self.scratch / "log"
        old, new, _, lines, done = self.ends(folder, scenario, log)
        if done.returncode != 0 or not scenario.safe_from_power:
            return
        there = self.there
        operations = [line.split("\t") for line in lines]
        seen, before = set(), self.states
        for end in range(1, len(operations) + 1):
            for dropped in subsets(operations[:end]):
                disk = Disk(there)
                for i, operation in enumerate(operations[:end]):
                    disk.apply(operation, i not in dropped)
                key = disk.key()
                if key not in seen:
                    seen.add(key)
                    disk.write(folder)
                    self.judge(folder, f"power cut: {scenario.name}: after {end}, without {sorted(dropped)}", old, new, TIDIED)
        print(f"  {scenario.name}: {len(operations)} operations, {self.states - before} states", flush=True)


def short(value):
    return value if len(value) < 80 else "a mixture, or a third model: " + value[:60]


NAMES = ("create", "link", "rename", "unlink")


def pending(operations):
    """The operations that nothing made durable before the end."""
    left = set()
    for i, operation in enumerate(operations):
        kind, *rest = operation
        if kind in NAMES or kind in ("write", "size", "insert"):
            left.add(i)
        elif kind == "bytes":
            left -= {j for j in left if operations[j][0] in ("write", "size", "insert") and operations[j][1] == rest[0]}
        elif kind == "names":
            left -= {j for j in left if operations[j][0] in NAMES and os.path.dirname(operations[j][-1]) == rest[0]}
    return sorted(left)


def subsets(operations):
    """Which of the pending operations a power cut loses."""
    left = pending(operations)
    names = [i for i in left if operations[i][0] in NAMES]
    data = [i for i in left if i not in names]
    yield from ({*()}, {*left}, {*data}, {*names})
    for i in left:
        yield {i}
        yield {*left} - {i}
    for i in range(len(names)):
        yield {*names[i:]}
        yield {*names[i:], *data}
    chance = random.Random(len(operations))
    for _ in range(RANDOM_SUBSETS if len(left) > 2 else 0):
        yield {i for i in left if chance.random() < 0.5}


class Disk:
    """Names that lead to files; a file is its bytes. What is lost of an operation is its effect, not the place that it takes."""

    def __init__(self, there):
        self.names = {str(path): bytearray(data) for path, (data, _) in there.items()}
        self.by_number = {str(number): self.names[str(path)] for path, (_, number) in there.items()}

    def file(self, number):
        return self.by_number[number]

    def apply(self, operation, kept):
        kind, *rest = operation
        if kind in ("unnamed", "create"):
            self.by_number[rest[0]] = bytearray()
        if not kept:
            return
        if kind in ("create", "link"):
            self.names[rest[1]] = self.file(rest[0])
        elif kind == "rename":
            self.names.pop(rest[1], None)
            self.names[rest[2]] = self.file(rest[0])
        elif kind == "unlink":
            self.names.pop(rest[0], None)
        elif kind == "write":
            file, offset, data = self.file(rest[0]), int(rest[1]), bytes.fromhex(rest[2])
            file.extend(bytes(max(0, offset - len(file))))
            file[offset:offset + len(data)] = data
        elif kind == "size":
            file, size = self.file(rest[0]), int(rest[1])
            del file[size:]
            file.extend(bytes(size - len(file)))

    def key(self):
        return hashlib.sha256(repr(sorted((name, bytes(data)) for name, data in self.names.items())).encode()).digest()

    def write(self, folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, data in self.names.items():
            Path(name).write_bytes(data)
        give_identity(folder)


# ---- file systems -----------------------------------------------------------------------------------------------------------


def mount(fs, scratch):
    """A folder of that file system, or why there is none."""
    place = scratch / f"mnt-{fs}"
    place.mkdir()
    if fs == "tmpfs":
        made = [["mount", "-t", "tmpfs", "tmpfs", str(place)]]
    else:
        image = scratch / f"{fs}.img"
        maker = shutil.which(MAKE[fs][0], path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        if maker is None:
            return None, f"{MAKE[fs][0]} is not installed"
        made = [["truncate", "-s", IMAGE_SIZE, str(image)], [maker, *MAKE[fs][1:], str(image)], ["mount", "-o", "loop", str(image), str(place)]]
    for command in made:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return None, f"{command[0]}: {done.stderr.strip() or 'failed'}"
    return place, None


def build_recorder(scratch):
    recorder = scratch / "crash_recorder.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-std=gnu11", "-o", recorder, ROOT / "tools/assurance/crash_recorder.c", "-ldl"],
                   check=True)
    return recorder


def self_test(matrix, scratch):
    """That each kind of loss is seen: a command that overwrites in place is no way to save."""
    folder = scratch / "self"
    copy = Scenario("a copy in place", [], put(model_bytes("old")))
    matrix.fresh(folder, copy)
    old, new = load(folder), load_of(scratch, model_bytes("new"))
    (folder / "model.safetensors").write_bytes(model_bytes("new")[:9000])
    matrix.judge(folder, "planted: cut short", old, new)
    (folder / "model.safetensors").write_bytes(model_bytes("third"))
    matrix.judge(folder, "planted: a third model", old, new)
    (folder / "model.safetensors").unlink()
    matrix.judge(folder, "planted: gone", old, new)
    (folder / "model.safetensors").write_bytes(model_bytes("old"))
    operations = [["create", "1", "/d/new"], ["write", "1", "0", "61"], ["rename", "1", "/d/new", "/d/old"], ["names", "/d"]]
    disk = Disk({Path("/d/old"): (b"o", 9)})
    for i, operation in enumerate(operations):
        disk.apply(operation, i != 1)
    if pending(operations) != [1] or disk.names != {"/d/old": bytearray()}:
        sys.exit("the disk does not forget what it should")
    if len(matrix.faults) < 5:
        sys.exit(f"of what was planted only this was seen: {matrix.faults}")
    print(f"{len(matrix.faults)} planted losses seen")
    matrix.faults.clear()


def load_of(scratch, data):
    folder = scratch / "one"
    folder.mkdir(exist_ok=True)
    (folder / "model.safetensors").write_bytes(data)
    return load(folder)


def main():
    parser = argparse.ArgumentParser(description="what crashes and power cuts leave")
    parser.add_argument("--fs", default="ext4,xfs,btrfs,tmpfs")
    parser.add_argument("--only", default="", help="scenarios whose name has this in it")
    parser.add_argument("--self-test", action="store_true", help="that losses are seen, and nothing else")
    options = parser.parse_args()
    if not COFFER.exists():
        sys.exit(f"{COFFER} is not there: tools/build/build.sh check-gcc")
    scratch = Path(tempfile.mkdtemp(prefix="coffer-crash-"))
    mounted = []
    try:
        sources = {}
        for name in ("old", "new"):
            sources[name] = scratch / f"{name}.safetensors"
            sources[name].write_bytes(model_bytes(name))
        matrix = Matrix(build_recorder(scratch), sources, scratch)
        if options.self_test:
            self_test(matrix, scratch)
            return 0
        tried = 0
        scenarios = [scenario for scenario in SCENARIOS if options.only in scenario.name]
        for fs in options.fs.split(","):
            place, why = mount(fs, scratch)
            if place is None:
                print(f"{fs}: not tried: {why}", flush=True)
                continue
            mounted.append(place)
            tried += 1
            print(f"{fs}:", flush=True)
            for scenario in scenarios:
                matrix.kill(place / "d", scenario, fs)
        print("power cuts:", flush=True)
        for scenario in scenarios:
            matrix.cut_power(scratch / "d", scenario)
        print(f"{matrix.states} states, {len(matrix.faults)} lost; {tried} file systems")
        return 1 if matrix.faults or tried == 0 else 0
    finally:
        for place in mounted:
            subprocess.run(["umount", str(place)], check=False)
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
