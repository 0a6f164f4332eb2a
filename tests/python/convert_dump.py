# SPDX-License-Identifier: Apache-2.0
"""Runs tests/attacks/convert_dump.c, which is compiled once, and reads what it prints."""

import os
import struct
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

SOURCE = Path(os.environ.get("COFFER_SOURCE_DIR") or Path(__file__).resolve().parents[2])
BUILD = Path(os.environ.get("COFFER_BUILD_DIR") or Path(os.environ["COFFER_LIB"]).parent).resolve()
CC = os.environ.get("CC", "cc")
NONE, BOOL, INT, BIG, FLOAT, TEXT, BYTES, TUPLE, LIST, DICT, SET, GLOBAL, CALL, PERSISTENT = range(1, 15)


@dataclass
class Node:
    kind: int
    call: int
    state: int
    attributes: int
    value: object = None  # of a leaf
    python2: bool = False
    latin1: bool = False
    escaped: bool = False
    stored: tuple = ()  # place and size of a text's bytes in the stream
    items: list = field(default_factory=list)


@dataclass
class Dump:
    status: str = ""
    offset: int | None = None
    message: str = ""
    root: int = 0
    end: int = 0
    nodes: dict = field(default_factory=dict)
    seen: list = field(default_factory=list)
    reader: str = ""
    bytes_read: int = 0
    rows: list = field(default_factory=list)
    pieces: list = field(default_factory=list)
    findings: list = field(default_factory=list)
    account: tuple = ()


def unhex(word):
    return None if word == "-" else bytes.fromhex(word[1:])


def read_node(words):
    node = Node(*map(int, words[2:6]))
    rest = words[6:]
    if node.kind in (BOOL, INT):
        node.value = int(rest[0])
    elif node.kind == FLOAT:
        node.value = struct.unpack(">d", bytes.fromhex(rest[0]))[0]
    elif node.kind in (TEXT, BYTES):
        node.python2, node.latin1, node.escaped = (word == "1" for word in rest[:3])
        node.stored = int(rest[3]), int(rest[4])
        node.value = unhex(rest[5])
    elif node.kind == GLOBAL:
        node.value = unhex(rest[0]).decode(), unhex(rest[1]).decode()
    else:
        node.items = list(map(int, rest))
    return node


def read_dumps(text):
    dump = Dump()
    for line in text.splitlines():
        words = line.split(" ")
        match words[0]:
            case "status":
                dump.status, dump.message = words[1], " ".join(words[3:])
                dump.offset = None if words[2].startswith("-") else int(words[2])
            case "root":
                dump.root, dump.end = int(words[1]), int(words[2])
            case "node":
                dump.nodes[int(words[1])] = read_node(words)
            case "seen":
                dump.seen.append(int(words[1]))
            case "reader":
                dump.reader, dump.bytes_read = words[1], int(words[2])
            case "row":
                dump.rows.append((unhex(words[1]), *words[2:]))
            case "piece":
                dump.pieces.append(tuple(map(int, words[1:])))
            case "finding":
                dump.findings.append((int(words[1]), " ".join(words[2:])))
            case "account":
                dump.account = tuple(map(int, words[1:]))
            case "end":
                yield dump
                dump = Dump()


def build(folder, *before):
    """The program, compiled into a folder, with objects that come before the library."""
    program = Path(folder) / "convert_dump"
    rooms = [f"-I{room}" for room in sorted((SOURCE / "src").glob("**/"))]
    subprocess.run([CC, "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{SOURCE / 'include'}", *rooms,
                    SOURCE / "tests/attacks/convert_dump.c", *before, BUILD / "libcoffer.a", "-pthread", "-ldl", "-lm", "-o", program],
                   check=True)
    return program


def run(program, mode, paths, **options):
    """One Dump for each file. Whatever is in them, the program ends well and in time."""
    done = subprocess.run([program, mode, *paths], capture_output=True, timeout=120, **options)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    dumps = list(read_dumps(done.stdout.decode("utf-8", "surrogateescape")))
    assert len(dumps) == len(paths)
    return dumps
