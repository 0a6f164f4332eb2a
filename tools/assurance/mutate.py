#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Changes src/core and src/format in one place at a time, and sees whether the unit tests and the vectors notice.

    tools/assurance/mutate.py [--file NAME]... [--sample N [--seed S]] [--quick] [--jobs N]
    tools/assurance/mutate.py --self-test    see each verdict given to a planted mutant

A mutant is the sources with one token changed, one condition negated or one statement removed. Where its objects are the
original's, to the byte, nothing was changed, and it does not count. Otherwise the test programs of core's topics are run with
it, the likeliest first, up to the first failure; looping without end, or taking memory without end, is a failure. What lives
is compared with the original once more, more optimised, and run once more, under the sanitizers, as `make check` does.
Mutants of functions are compiled together, and the program is told which to be (planting.py); the others one at a time. All
are tried in an order that is drawn once, so that a run which is stopped has tried a sample.
Survivors are judged in tests/mutants.md, which has a reason for each and says where it is; a survivor that is not there, and an
entry there that fits no survivor, are failures.

What was found out is kept in build/mutate/results.jsonl, by the changed file's text, and not found out again: a killed mutant
stays killed while its file is the same, a survivor survives until a source, a test or a vector changes. Remove the folder to
begin anew.
"""

import argparse
import hashlib
import json
import math
import multiprocessing
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import planting

ROOT = Path(__file__).resolve().parents[2]
JUDGED = "tests/mutants.md"
MIN_SCORE = 95.0
COPIED = ("include", "src", "tests/unit", "tests/vectors")

CORE_ROOMS = ("src/core/", "src/format/")  # both together are "core" in what follows
# Programs that look at core from more than one side. The others are named after the file that they test. What is slow runs
# when all else is through, on what is left.
SLOW_TEST = "test_large"
GENERAL_TESTS = ("parse", "vectors", "large")
MEMORY_LIMIT = 3 << 30

CORE_FLAGS = {"gcc": ["-fno-builtin-strlen", "-fno-tree-loop-distribute-patterns"], "clang": ["-fno-builtin-strlen"]}
FLAGS = ["-std=c11", "-Werror=return-type", "-Werror=implicit-function-declaration", "-fPIC", "-D_FILE_OFFSET_BITS=64",
         "-D_TIME_BITS=64"]
PLAIN, TOGETHER, OPTIMISED = ["-O0"], ["-O1"], ["-O2"]
# By clang, which sees pointers that leave their objects before anybody reads there.
SANITIZED = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "allocator_may_return_null=1:detect_stack_use_after_return=1:strict_string_checks=1:hard_rss_limit_mb=3000",
}

# ---- Making mutants -------------------------------------------------------------------------------------------------

TOKEN = re.compile(
    r"""(?P<space>\s+|/\*.*?\*/|//[^\n]*|\\\n)
      | (?P<string>"(?:\\.|[^"\\])*")
      | (?P<char>'(?:\\.|[^'\\])*')
      | (?P<number>0[xX][0-9a-fA-F]+[uUlL]*|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?[uUlLfF]*)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<op><<=|>>=|\.\.\.|->|\+\+|--|&&|\|\||[-+*/%&|^=!<>]=|<<|>>|\#\#|.)""",
    re.X | re.S)
DIRECTIVE = re.compile(r"[ \t]*#(?:[^\n\\]|\\\n|\\.)*")
DEFINITION = re.compile(r"[ \t]*#[ \t]*define[ \t]+\w+(?:\([^)]*\))?")

CAPITALS = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]*")
STATUS = re.compile(r"COFFER_(OK|ERR_)")
NO_VALUE = re.compile(r"U?INT(8|16|32|64|MAX)_C|COFFER_API|COFFER_VERSION_STRING|\w+_H")
KEYWORDS = {"if", "else", "for", "while", "do", "switch", "case", "default", "goto", "return", "break", "continue", "sizeof",
            "typedef", "static", "extern", "const", "inline", "volatile", "register", "struct", "union", "enum"}
BASIC_TYPES = {"void", "bool", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "const", "struct",
               "union", "enum", "size_t", "va_list", "__m128i"}

BINARY = {
    "<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",),
    "+": ("-",), "-": ("+",), "*": ("/",), "/": ("*",), "%": ("/",),
    "<<": (">>",), ">>": ("<<",), "&": ("|",), "|": ("&",), "^": ("|",), "&&": ("||",), "||": ("&&",),
    "+=": ("-=",), "-=": ("+=",), "*=": ("/=",), "/=": ("*=",), "%=": ("/=",),
    "<<=": (">>=",), ">>=": ("<<=",), "&=": ("|=",), "|=": ("&=",), "^=": ("|=",),
    "++": ("--",), "--": ("++",),
}
COMPARISONS = {"<", "<=", ">", ">=", "==", "!="}
MAY_BE_UNARY = {"+", "-", "*", "&"}
BEFORE_CONDITION = {"=", "+=", "-=", "|=", "&=", "return", "(", ",", ";", "{", "[", "?", ":"}


class Token:
    """One token of a C file, with its place in the text."""

    def __init__(self, kind, text, start, directive):
        self.kind, self.text, self.start, self.end = kind, text, start, start + len(text)
        self.directive = directive  # in the body of a #define
        self.partner = None         # of a bracket: the other one's index


def tokens_of(text):
    """The tokens that may be changed: no comments, and of the preprocessor's lines the bodies of definitions alone."""
    found = []
    at = 0
    while at < len(text):
        directive = DIRECTIVE.match(text, at) if at == 0 or text[at - 1] == "\n" else None
        if directive:
            body = DEFINITION.match(text, at)
            found += lex(text, body.end(), directive.end(), True) if body else []
            at = directive.end()
            continue
        # As far as the next line that is a directive.
        stop = re.compile(r"\n(?=[ \t]*#)").search(text, at)
        comment = text.find("/*", at)
        if stop and 0 <= comment < stop.start() and text.find("*/", comment) > stop.start():
            end = text.find("*/", comment) + 2  # a line in a comment that only looks like one
        else:
            end = stop.end() if stop else len(text)
        found += lex(text, at, end, False)
        at = end
    open_brackets = []
    for i, token in enumerate(found):
        if token.text in "([{" and token.kind == "op":
            open_brackets.append(i)
        elif token.text in ")]}" and token.kind == "op" and open_brackets:
            token.partner = open_brackets.pop()
            found[token.partner].partner = i
    return found


def lex(text, at, end, directive):
    while at < end:
        match = TOKEN.match(text, at, end)
        if match.lastgroup != "space":
            yield Token(match.lastgroup, match[0], at, directive)
        at = match.end()


def types_named_in(texts):
    """Names of types: of the language, and those that the files define."""
    names = set(BASIC_TYPES)
    for text in texts:
        names |= set(re.findall(r"typedef\s+(?:struct|enum|union)\s+(\w+)", text))
        names |= set(re.findall(r"^(?:struct|enum|union)\s+(\w+)", text, flags=re.M))
        names |= set(re.findall(r"\}\s*(\w+)\s*;", text))
        names |= set(re.findall(r"typedef\s[^;{}]*?\b(\w+)\s*(?:\([^;]*\))?;", text))
    return names


class Mutant:
    """A file with text[start:end] replaced."""

    def __init__(self, file, text, start, end, replacement):
        self.file, self.text, self.start, self.end, self.replacement = file, text, start, end, replacement

    def source(self):
        return self.text[:self.start] + self.replacement + self.text[self.end:]

    def line(self):
        return self.text.count("\n", 0, self.start) + 1

    def in_function(self):
        """Whether it is in a function's body: their braces stand alone, at the beginning of the line."""
        return self.text.rfind("\n{\n", 0, self.start) > self.text.rfind("\n}", 0, self.start)

    def lines(self):
        """Where the lines that differ begin and end."""
        return self.text.rfind("\n", 0, self.start) + 1, self.text.find("\n", self.end)

    def change(self):
        """(original, mutated): the lines that differ, with single spaces. With the place, what tests/mutants.md knows a mutant by."""
        begin, end = self.lines()
        after = self.text[begin:self.start] + self.replacement + self.text[self.end:end]
        return " ".join(self.text[begin:end].split()), " ".join(after.split())

    def place(self):
        """Which of the lines that read the same it is in: its function's name and, where that has several, its number among them; empty
        where the file has no other."""
        begin, end = self.lines()
        before, _ = self.change()
        line = re.compile(r"^[ \t]*" + r"\s+".join(map(re.escape, before.split())) + r"[ \t]*$", re.M)
        starts = [found.start() for found in line.finditer(self.text)]
        if len(starts) < 2:
            return ""
        functions = planting.functions_of(self.text)
        here = planting.name_at(functions, begin)
        same = [start for start in starts if planting.name_at(functions, start) == here]
        return here if len(same) == 1 else f"{here} {same.index(begin) + 1}"

    def key(self):
        return hashlib.sha256(f"{self.file}\n{self.source()}".encode()).hexdigest()


class Mutator:
    """Every mutant of one file, in the order of the text."""

    def __init__(self, file, text, types):
        self.file, self.text = file, text
        self.types = types
        self.tokens = tokens_of(text)

    def is_type(self, token):
        return token.text in self.types or re.fullmatch(r"u?int\w*_t", token.text) is not None

    def is_cast(self, close):
        """Whether the parenthesis that closes here holds a type."""
        begin = self.tokens[close].partner
        inner = self.tokens[begin + 1:close] if begin is not None else []
        before = self.tokens[begin - 1] if begin else None
        called = before is not None and (before.kind == "name" and before.text not in KEYWORDS)
        return bool(inner) and not called and all(t.text == "*" or self.is_type(t) for t in inner)

    def is_binary(self, i):
        """Whether the operator has something on its left to work on."""
        if i == 0:
            return False
        before = self.tokens[i - 1]
        if before.kind in ("number", "char", "string"):
            return True
        if before.kind == "name":
            return before.text not in KEYWORDS and not self.is_type(before)
        return before.text == "]" or (before.text == ")" and not self.is_cast(i - 1))

    def replace(self, token, *texts):
        for text in texts:
            yield Mutant(self.file, self.text, token.start, token.end, text)

    def of_operator(self, i, token):
        if token.text in BINARY and (token.text not in MAY_BE_UNARY or self.is_binary(i)):
            yield from self.replace(token, *BINARY[token.text])
        elif token.text in ("!", "~", "-") and not self.is_binary(i):
            yield from self.replace(token, "")
        elif token.text == "?":
            yield from self.of_choice(i)

    def of_choice(self, i):
        """The condition before a question mark, negated."""
        begin = i
        while begin > 0 and self.tokens[begin - 1].text not in BEFORE_CONDITION:
            begin -= 1
            if self.tokens[begin].text in (")", "]", "}") and self.tokens[begin].partner is not None:
                begin = self.tokens[begin].partner
        yield from self.negated(begin, i)

    def negated(self, begin, end):
        """Tokens begin to end (exclusive), negated; but not a single comparison, whose opposite is made of its operator."""
        if sum(t.text in COMPARISONS for t in self.tokens[begin:end]) == 1 and \
                not any(t.text in ("&&", "||") for t in self.tokens[begin:end]):
            return
        start, stop = self.tokens[begin].start, self.tokens[end - 1].end
        yield Mutant(self.file, self.text, start, stop, f"!({self.text[start:stop]})")

    def of_number(self, token):
        digits, suffix = re.fullmatch(r"(0[xX][0-9a-fA-F]+|.*?)([uUlL]*)", token.text).groups()
        if re.fullmatch(r"0[xX][0-9a-fA-F]+|\d+", digits) is None:
            yield from self.replace(token, f"({token.text} * 2)" if float(digits) else "1.0", "0.0")
            return
        value = int(digits, 0)
        for other in dict.fromkeys((value + 1, value - 1, 0)):
            if other != value:
                yield from self.replace(token, f"{other}{suffix}" if other >= 0 else f"(0{suffix} - 1)")

    def of_name(self, i, token):
        following = self.tokens[i + 1].text if i + 1 < len(self.tokens) else ""
        if token.text in ("true", "false"):
            yield from self.replace(token, "false" if token.text == "true" else "true")
        elif CAPITALS.fullmatch(token.text) and not NO_VALUE.fullmatch(token.text) and following != "(":
            yield from self.replace(token, f"({token.text} + 1)")
            if not STATUS.match(token.text):
                yield from self.replace(token, f"({token.text} - 1)")
        elif token.text in ("if", "while") and following == "(":
            yield from self.negated(i + 2, self.tokens[i + 1].partner)
        elif token.text == "for" and following == "(":
            first, second = [k for k in range(i + 2, self.tokens[i + 1].partner) if self.tokens[k].text == ";"]
            if second > first + 1:
                yield from self.negated(first + 1, second)

    def of_statement(self, i):
        """The statement that begins at a token, removed."""
        if i == 0 or self.tokens[i].directive or self.tokens[i - 1].text not in (";", "{", "}", ":", ")"):
            return
        first, second = self.tokens[i], self.tokens[i + 1] if i + 1 < len(self.tokens) else None
        if second is None or self.text[self.text.rfind("\n", 0, first.start) + 1:first.start].strip():
            return
        leaves = first.text in ("return", "break", "continue")
        if first.text in KEYWORDS - {"return", "break", "continue"} or self.is_type(first) and second.text != "(":
            return
        if not leaves and first.kind == "name" and (second.kind == "name" or second.text in (",", ";", "}", ":")):
            return
        if first.kind != "name" and first.text not in ("*", "(", "++", "--"):
            return
        end = i
        while self.tokens[end].text != ";":
            partner = self.tokens[end].partner
            if self.tokens[end].text in (")", "]", "}") or end + 1 == len(self.tokens):
                return
            end = partner + 1 if partner is not None else end + 1
            if end >= len(self.tokens):
                return
        yield Mutant(self.file, self.text, first.start, self.tokens[end].end, ";")

    def all(self):
        asserted = 0  # up to where a static assertion reaches
        for i, token in enumerate(self.tokens):
            if token.text in ("_Static_assert", "static_assert", "__attribute__"):
                asserted = self.tokens[self.tokens[i + 1].partner].end
            if token.start < asserted:
                continue
            yield from self.of_statement(i)
            if token.kind == "op":
                yield from self.of_operator(i, token)
            elif token.kind == "number":
                yield from self.of_number(token)
            elif token.kind == "char":
                yield from self.replace(token, f"({token.text} + 1)")
            elif token.kind == "name":
                yield from self.of_name(i, token)


def mutants_of(root, files):
    texts = {f: (root / f).read_text(encoding="utf-8") for f in core_files(root)}
    types = types_named_in([*texts.values(), *(p.read_text(encoding="utf-8") for p in root.glob("include/**/*.h"))])
    return [mutant for file in files for mutant in Mutator(file, texts[file], types).all()]


def core_files(root):
    """Headers last: their mutants take longest."""
    files = [p.relative_to(root).as_posix() for room in CORE_ROOMS for p in (root / room).glob("*.[ch]")]
    return sorted(files, key=lambda f: (f.endswith(".h"), f))


# ---- Building -------------------------------------------------------------------------------------------------------


def run_quietly(command, folder):
    return subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)


class BrokenBench(Exception):
    """What was to be changed does not build, or fails its tests, as it is."""


class Bench:
    """A copy of the sources in a folder, and the test programs built of it, with core as a shared library of its own."""

    def __init__(self, root, folder, flags):
        self.root, self.folder, self.flags = root, folder, flags
        self.compiler = "clang" if flags == SANITIZED else "gcc"
        self.rooms = [f"-I{p.relative_to(root).as_posix()}" for p in sorted((root / "src").rglob("*")) if p.is_dir()]
        topics = {Path(f).stem for f in core_files(root)} | set(GENERAL_TESTS)
        self.tests = [p.stem for p in sorted((root / "tests/unit").glob("test_*.c")) if p.stem[5:] in topics]
        units = [p.relative_to(root).as_posix() for p in sorted((root / "src").rglob("*.c"))]
        self.core = [u for u in units if u.startswith(CORE_ROOMS)]
        self.rest = [u for u in units if u not in self.core]
        self.support = [p.relative_to(root).as_posix() for p in sorted((root / "tests/unit").glob("support*.c"))]
        self.units = self.core + self.rest + self.support + [f"tests/unit/{t}.c" for t in self.tests]
        self.needs = {}  # unit: the files that it is compiled from

    def set_up(self):
        for part in COPIED:
            shutil.rmtree(self.folder / part, ignore_errors=True)
            shutil.copytree(self.root / part, self.folder / part)
        for part in ("objects", "mutated"):
            (self.folder / part).mkdir(exist_ok=True)
        self.prepare()
        for unit in self.units:
            problem = self.compile(unit, self.object(unit), self.flags + ["-MMD"])
            while problem and self.fixes(problem):
                problem = self.compile(unit, self.object(unit), self.flags + ["-MMD"])
            if problem:
                raise BrokenBench(f"{unit} does not compile\n{problem}")
            needs = (self.folder / self.object(unit)).with_suffix(".d").read_text(encoding="utf-8")
            self.needs[unit] = set(needs.replace("\\\n", " ").split()[1:])
        if not self.link():
            raise BrokenBench(f"the test programs do not link in {self.folder}")

    def prepare(self):
        """What is to be done between copying the sources and compiling them."""

    def fixes(self, problem):
        """Whether the sources were changed so that what the compiler says may not be said again."""
        return False

    @staticmethod
    def object(unit, folder="objects"):
        return f"{folder}/{Path(unit).stem}.o"

    def compile(self, unit, target, flags):
        """What the compiler says when it refuses."""
        core = CORE_FLAGS[self.compiler] if unit.startswith(CORE_ROOMS) else []
        result = run_quietly([self.compiler, *FLAGS, *core, *flags, "-Iinclude", "-Itests/unit", *self.rooms, "-c", unit, "-o", target],
                             self.folder)
        return result.stderr.decode() or "the compiler failed" if result.returncode else None

    def link(self, mutated=()):
        """Links the programs that some mutated units are part of, or all; False when that fails."""
        place = lambda unit: self.object(unit, "mutated" if unit in mutated else "objects")
        link = lambda target, *objects: run_quietly([self.compiler, *self.flags, "-o", target, *objects], self.folder).returncode == 0
        shared = [u for u in self.rest + self.support if not mutated or u in mutated]
        if (not mutated or set(mutated) & set(self.core)) and not link("libcore.so", "-shared", *map(place, self.core)):
            return False
        return all(link(test, *map(place, [f"tests/unit/{test}.c", *self.support, *self.rest]), "libcore.so", "-lcmocka",
                        "-lpthread", "-lm", "-Wl,-rpath,$ORIGIN")
                   for test in self.tests if shared or not mutated or f"tests/unit/{test}.c" in mutated)

    def users(self, mutant):
        """The units that a mutant is compiled into. Of a function in a header only those of core, and the tests that name the
        header; the other rooms keep the original, which can only save a mutant."""
        users = [u for u in self.units if mutant.file in self.needs[u]]
        if not mutant.file.endswith(".h") or not mutant.in_function():
            return users
        include = f'#include "{Path(mutant.file).name}"'
        return [u for u in users if u in self.core or include in (self.folder / u).read_text(encoding="utf-8")]

    def build(self, mutant, flags):
        """Compiles what a mutant changes; the objects' bytes, or None when they do not compile."""
        path = self.folder / mutant.file
        path.write_text(mutant.source(), encoding="utf-8")
        users = self.users(mutant)
        done = all(self.compile(u, self.object(u, "mutated"), flags) is None for u in users)
        path.write_text(mutant.text, encoding="utf-8")
        return [(self.folder / self.object(u, "mutated")).read_bytes() for u in users] if done else None



class Together(Bench):
    """A bench with many mutants of functions, which the programs choose from when they are run."""

    def __init__(self, root, folder, flags, mutants):
        super().__init__(root, folder, flags)
        self.mutants = dict(enumerate(mutants, 1))
        self.lines = {}  # file: {line: number}
        self.core.append("src/core/chooser.c")
        self.units.insert(0, "src/core/chooser.c")

    def prepare(self):
        (self.folder / "src/core/chooser.c").write_text(planting.CHOOSER, encoding="utf-8")
        for file in {m.file for m in self.mutants.values()}:
            self.plant(file)

    def plant(self, file):
        mine = {n: m for n, m in self.mutants.items() if m.file == file}
        text, self.lines[file] = planting.plant((self.root / file).read_text(encoding="utf-8"), mine)
        (self.folder / file).write_text(text, encoding="utf-8")

    def fixes(self, problem):
        """Leaves out the mutants that the compiler names."""
        named = set()
        for file, line in re.findall(r"^(src/(?:core|format)/[\w.]+):(\d+):\d+: (?:error|note: (?:in expansion|expanded from))", problem, flags=re.M):
            named.add(self.lines.get(file, {}).get(int(line)))
        found = [self.mutants.pop(number).file for number in named - {None}]
        for file in set(found):
            self.plant(file)
        return bool(found)

    def numbers(self):
        return {mutant.key(): number for number, mutant in self.mutants.items()}


# ---- Running --------------------------------------------------------------------------------------------------------


def children_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Runner:
    """Runs the test programs of a bench, each within a few times what it takes with the original."""

    def __init__(self, bench, sanitized):
        self.bench, self.sanitized = bench, sanitized
        self.seconds = {}
        self.spent = Counter()  # (file, test): seconds that it ran with the file's mutants
        self.kills = Counter()  # (file, test): how many of these it killed
        self.environment = dict(os.environ, COFFER_VECTORS=str(bench.folder / "tests/vectors"),
                                **(SANITIZER_OPTIONS if sanitized else {}))

    def measure(self):
        for test in self.bench.tests:
            before = children_seconds()
            if self.fails(test, 600):
                raise BrokenBench(f"{test} fails without a mutant; run {self.bench.folder / test}")
            self.seconds[test] = children_seconds() - before

    def limit(self, seconds):
        os.setsid()
        signal.setitimer(signal.ITIMER_PROF, seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds) + 1))  # for what it starts
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if not self.sanitized:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))

    def fails(self, test, seconds, number=0):
        """Whether a test program fails, with a mutant that it is to choose; it is stopped at its first failure, and at
        `seconds` of the processor's time."""
        with tempfile.TemporaryDirectory() as folder:
            environment = dict(self.environment, TMPDIR=folder, MUTANT=str(number))
            with subprocess.Popen([self.bench.folder / test], cwd=folder, env=environment, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, preexec_fn=lambda: self.limit(seconds)) as process:
                deadline = time.monotonic() + 60 + 20 * seconds  # for one that waits instead of working
                said = b""
                while b"[  FAILED  ]" not in said and time.monotonic() < deadline:
                    if select.select([process.stdout], [], [], 1)[0]:
                        more = os.read(process.stdout.fileno(), 65536)
                        if not more:
                            return process.wait() != 0
                        said = said[-64:] + more
                os.killpg(process.pid, 9)
                return True

    def killer(self, mutant, tests, number=0):
        """The first of some test programs that fails. First comes what killed the most of the file's mutants for its time so
        far."""
        own = f"test_{Path(mutant.file).stem}"
        rate = lambda t: (self.kills[mutant.file, t] + 1 + (t == own)) / (self.spent[mutant.file, t] + self.seconds[t] + 0.01)
        for test in sorted(tests, key=rate, reverse=True):
            before = children_seconds()
            failed = self.fails(test, 3 * self.seconds[test] + 0.2, number)
            self.spent[mutant.file, test] += children_seconds() - before
            self.kills[mutant.file, test] += failed
            if failed:
                return test
        return None


class Reach:
    """Which lines of core each test program comes to: it cannot fail by any other."""

    def __init__(self, root, folder):
        self.bench = Bench(root, folder, [*PLAIN, "--coverage"])
        self.bench.folder.mkdir(parents=True, exist_ok=True)
        self.bench.set_up()
        self.known = set()  # (file, line)
        self.reached = {}   # test: the same
        for test in self.bench.tests:
            self.reached[test] = self.measure(Runner(self.bench, False), test)

    def measure(self, runner, test):
        objects = self.bench.folder / "objects"
        for counts in objects.glob("*.gcda"):
            counts.unlink()
        if runner.fails(test, 600):
            raise BrokenBench(f"{test} fails without a mutant; run {self.bench.folder / test}")
        said = subprocess.run(["gcov", "--json-format", "--stdout", *map(str, sorted(objects.glob("*.gcda")))],
                              cwd=self.bench.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
        reached = set()
        for file in (f for document in said.splitlines() for f in json.loads(document)["files"]):
            self.known |= {(file["file"], line["line_number"]) for line in file["lines"]}
            reached |= {(file["file"], line["line_number"]) for line in file["lines"] if line["count"]}
        return reached

    def tests(self, mutant, slow):
        """The slow test program, or the others, but only those that come to the mutant's lines, where these are of code."""
        tests = [t for t in self.bench.tests if (t == SLOW_TEST) == slow]
        last = mutant.line() + mutant.text.count("\n", mutant.start, mutant.end)
        places = {(mutant.file, line) for line in range(mutant.line(), last + 1)}
        if not mutant.in_function() or not places & self.known:
            return tests
        return [t for t in tests if places & self.reached[t]]


def plant_all(root, folder, mutants, flags):
    """Runners of benches that have many of the mutants together: those of core's files, and those of its headers."""
    runners = []
    texts = {m.file: m.text for m in mutants}
    functions = {file: planting.functions_of(text) for file, text in texts.items()}
    for kind in (".c", ".h"):
        chosen = [m for m in mutants if m.file.endswith(kind) and planting.home(functions[m.file], m)]
        if chosen:
            bench = Together(root, folder / f"together{kind[1:]}", flags, chosen)
            bench.folder.mkdir(parents=True, exist_ok=True)
            bench.set_up()
            runners.append(Runner(bench, flags == SANITIZED))
            runners[-1].measure()
    return runners


class Judge:
    """One worker: a bench for each way in which a mutant is tried by itself, and the runners of those that are together."""

    def __init__(self, root, folder, together, reach):
        self.root, self.folder, self.reach = root, folder, reach
        self.together = {name: [(runner, runner.bench.numbers()) for runner in runners] for name, runners in together.items()}
        self.runners = {}
        self.originals = {}  # (units, flags): objects

    def runner(self, name, flags):
        if name not in self.runners:
            bench = Bench(self.root, self.folder / name, flags)
            bench.folder.mkdir(parents=True, exist_ok=True)
            bench.set_up()
            self.runners[name] = Runner(bench, name == "sanitized")
            self.runners[name].measure()
        return self.runners[name]

    def original(self, bench, mutant, flags):
        """What a mutant's objects are compared with."""
        key = (*bench.users(mutant), *flags)
        if key not in self.originals:
            self.originals[key] = bench.build(Mutant(mutant.file, mutant.text, mutant.start, mutant.start, ""), flags)
        return self.originals[key]

    def killer(self, name, flags, mutant, slow):
        """The test that kills a mutant, chosen where it is among others, else compiled by itself; None also where it does not
        compile."""
        tests = self.reach.tests(mutant, slow)
        for runner, numbers in self.together.get(name, ()):
            if mutant.key() in numbers:
                return runner.killer(mutant, tests, numbers[mutant.key()])
        runner = self.runner(name, flags)
        original = self.original(runner.bench, mutant, flags)
        if not tests or runner.bench.build(mutant, flags) in (None, original):
            return None
        users = runner.bench.users(mutant)
        killer = runner.killer(mutant, tests) if runner.bench.link(users) else "the linker"
        if mutant.file.endswith(".h"):
            runner.bench.link()  # programs with the original's units; core is linked with every mutant
        return killer

    def verdict(self, mutant):
        """(verdict, by what), by the quick tests."""
        killer = self.killer("plain", PLAIN, mutant, False)
        if killer:
            return "killed", killer
        bench = self.runner("plain", PLAIN).bench
        original = self.original(bench, mutant, OPTIMISED)
        objects = bench.build(mutant, OPTIMISED)
        return "not compiling" if objects is None else "equivalent" if objects == original else "lives", ""

    def last_verdict(self, mutant):
        """The same of one that lives so far, by the slow test, and by the quick ones under the sanitizers."""
        for name, flags, slow in (("plain", PLAIN, True), ("sanitized", SANITIZED, False)):
            killer = self.killer(name, flags, mutant, slow)
            if killer:
                return "killed", f"{killer}, sanitized" if name == "sanitized" else killer
        return "survived", ""


# ---- Results --------------------------------------------------------------------------------------------------------


def fingerprint(root):
    """Of everything that a survivor may be killed by the change of."""
    digest = hashlib.sha256()
    for part in COPIED:
        for path in sorted((root / part).rglob("*")):
            if path.is_file():
                digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


class Results:
    """What is known already: a file that grows by a line for each verdict."""

    def __init__(self, path, state):
        self.path, self.state = path, state
        self.known = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                if row["verdict"] not in ("lives", "survived") or row["state"] == state:
                    self.known[row["key"]] = (row["verdict"], row["by"])
                else:
                    self.known.pop(row["key"], None)

    def knows(self, key, unsettled):
        """Whether there is a verdict, a last one or one of those."""
        return key in self.known and (self.known[key][0] != "lives" or "lives" in unsettled)

    def add(self, key, verdict):
        self.known[key] = verdict
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "verdict": verdict[0], "by": verdict[1], "state": self.state}) + "\n")


_judge = None


def start_worker(root, folder, together, reach):
    global _judge
    number = multiprocessing.current_process()._identity
    _judge = Judge(root, folder / f"worker{number[0] if number else 0}", together, reach)


def judge_one(mutant):
    return mutant.key(), _judge.verdict(mutant)


def judge_again(mutant):
    return mutant.key(), _judge.last_verdict(mutant)


def judge_all(root, folder, mutants, results, jobs, quick):
    """Finds out what is not known yet: by the quick tests first, then, of what lives, by those that take longest."""
    reach = None
    steps = [(judge_one, ("lives",), {"plain": TOGETHER})]
    steps += [(judge_again, (), {"plain": TOGETHER, "sanitized": SANITIZED})] if not quick else []
    for judge, known, benches in steps:
        unknown = list({m.key(): m for m in mutants if not results.knows(m.key(), known)}.values())
        started = time.monotonic()
        if not unknown:
            continue
        reach = reach or Reach(root, folder / "reach")
        together = {name: plant_all(root, folder / name, unknown, flags) for name, flags in benches.items()}
        with multiprocessing.Pool(min(jobs, len(unknown)), start_worker, (root, folder, together, reach)) as pool:
            for done, (key, verdict) in enumerate(pool.imap_unordered(judge, unknown), 1):
                results.add(key, verdict)
                print(f"\r{done} of {len(unknown)} in {time.monotonic() - started:.0f} s", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)


def judged_mutants(path):
    """(file, place, original, mutated) of each mutant that tests/mutants.md has a reason for: under a heading with the file's name,
    a paragraph, then indented lines: @ the places, where the file has the line more than once, - the original, + the mutated, one
    or more."""
    judged = set()
    file = original = None
    places = [""]
    reason = False
    text = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for number, line in enumerate(text, 1):
        if line.startswith("## "):
            file, reason = line[3:].strip(), False
        elif line.startswith("    @ "):
            places = [" ".join(place.split()) for place in line[6:].split(",")]
        elif line.startswith("    - "):
            # Of the line below its places, or the only one of its kind.
            places = places if text[number - 2].startswith("    @ ") else [""]
            original = " ".join(line[6:].split())
        elif line.startswith("    + "):
            if not reason or file is None:
                sys.exit(f"{path}:{number}: a mutant without a reason")
            judged |= {(file, place, original, " ".join(line[6:].split())) for place in places}
        elif line.strip():
            reason = True
    return judged


def entry_of(mutant):
    return (mutant.file, mutant.place(), *mutant.change())


def place_line(place):
    return f"    @ {place}\n" if place else ""


def percent(part, whole):
    return 100.0 * part / whole if whole else 100.0


def report(mutants, results, judged, complete):
    """Prints what came of the mutants; returns what is wrong."""
    verdicts = [(m, results.known[m.key()]) for m in mutants]
    count = Counter(verdict for _, (verdict, _) in verdicts)
    sanitized = sum(by.endswith("sanitized") for _, (_, by) in verdicts)
    survivors = [m for m, (verdict, _) in verdicts if verdict in ("lives", "survived")]
    known = [m for m in survivors if entry_of(m) in judged]
    problems = []
    for mutant in survivors:
        if mutant not in known:
            before, after = mutant.change()
            print(f"{mutant.file}:{mutant.line()}: survived\n{place_line(mutant.place())}    - {before}\n    + {after}")
            problems.append("a survivor is not judged")
    if complete:
        for file, place, before, after in sorted(judged - {entry_of(m) for m in survivors}):
            print(f"{JUDGED}: no such survivor in {file}\n{place_line(place)}    - {before}\n    + {after}")
            problems.append("an entry fits no survivor")
    tried = count["killed"] + len(survivors)
    print(f"{len(mutants)} mutants: {count['not compiling']} do not compile, {count['equivalent']} compile to the same, "
          f"{tried} count\n"
          f"{count['killed']} of these are killed ({sanitized} of them only under the sanitizers), {len(survivors)} survive, "
          f"{len(known)} of these judged\n"
          f"score {percent(count['killed'], tried):.2f} %; without those that are judged "
          f"{percent(count['killed'], tried - len(known)):.2f} %")
    if complete and percent(count["killed"], tried) < MIN_SCORE:
        problems.append(f"the score is below {MIN_SCORE} %")
    return problems


def mutate(root, folder, options):
    folder.mkdir(parents=True, exist_ok=True)
    files = core_files(root)
    chosen = [f for f in files if not options.file or Path(f).name in options.file or f in options.file]
    if options.file and len(chosen) < len(set(options.file)):
        sys.exit("mutate: --file takes names of files of src/core and src/format")
    mutants = mutants_of(root, chosen)
    # A larger sample has the smaller one in it, and a change of one file leaves the others' as they are.
    mutants.sort(key=lambda m: hashlib.sha256(f"{options.seed}{m.file}{m.change()}".encode()).digest())
    mutants = mutants[:options.sample]
    results = Results(folder / "results.jsonl", fingerprint(root))
    judge_all(root, folder, mutants, results, options.jobs, options.quick)
    problems = report(mutants, results, judged_mutants(root / JUDGED), not (options.file or options.sample or options.quick))
    for problem, times in Counter(problems).items():
        print(f"mutate: {problem}" + (f" ({times} times)" if times > 1 else ""))
    return 1 if problems else 0


# ---- Seeing it judge ------------------------------------------------------------------------------------------------

SPDX = "/* SPDX-License-Identifier: Apache-2.0 */\n"
SOUND = {
    "include/coffer.h": SPDX + "unsigned coffer_sum(const unsigned char *bytes, unsigned count);\n",
    "src/core/sum.h": SPDX + "#define SUM_STEP 1u\n",
    "src/core/sum.c": SPDX + """#include "coffer.h"

#include "sum.h"

unsigned coffer_sum(const unsigned char *bytes, unsigned count)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < count; i += SUM_STEP) {
        sum += bytes[i] == 255 ? 0 : bytes[i];
    }
    return count > 100 ? 0u : sum / 1;
}
""",
    "tests/unit/test_sum.c": SPDX + """#include "coffer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void test_sum(void **state)
{
    (void)state;
    unsigned char *bytes = calloc(3, 1);
    memcpy(bytes, "\\1\\2\\3", 3);
    assert_int_equal(coffer_sum(bytes, 3), 6);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_sum) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
""",
}
# (what the mutated line holds, the verdict, by what)
PLANTED = [
    ("unsigned sum = 1;", "killed", "test_sum"),
    ("sum -= bytes[i]", "killed", "test_sum"),
    ("i < count; i -= SUM_STEP", "killed", "test_sum"),    # reads before the bytes, or ends too early
    ("#define SUM_STEP 0u", "killed", "test_sum"),         # without end
    ("#define SUM_STEP 2u", "killed", "test_sum"),         # through a header
    ("i <= count;", "killed", "test_sum, sanitized"),      # one byte too far, a zero as it happens
    ("sum * 1", "equivalent", ""),
    ("count >= 100", "survived", ""),
    ("bytes[i] == 256", "survived", ""),
]


def self_test():
    """Every verdict is given where it should be; and what is judged, or is not, is told."""
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        (root / "tests/vectors").mkdir(parents=True)
        for file, text in SOUND.items():
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text(text, encoding="utf-8")
        mutants = mutants_of(root, core_files(root))
        together = {name: plant_all(root, root / "build" / name, mutants, flags)
                    for name, flags in (("plain", TOGETHER), ("sanitized", SANITIZED))}
        judge = Judge(root, root / "build", together, Reach(root, root / "build/reach"))
        for words, *expected in PLANTED:
            found = [m for m in mutants if words in m.change()[1]]
            if len(found) != 1:
                problems.append(f"{len(found)} mutants with {words}")
            for mutant in found:
                got = judge.verdict(mutant)
                got = judge.last_verdict(mutant) if got[0] == "lives" else got
                problems += [f"{words}: {got}"] if list(got) != expected else []
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file", action="append", help="only the mutants of this file; may come several times")
    parser.add_argument("--sample", type=int, help="only so many, drawn by --seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("JOBS", os.cpu_count() or 1)))
    parser.add_argument("--quick", action="store_true", help="without the slow tests and the sanitizers")
    parser.add_argument("--self-test", action="store_true", help="see each verdict given to a planted mutant")
    options = parser.parse_args()
    if options.self_test:
        problems = self_test()
        print("\n".join(problems) or f"{len(PLANTED)} planted mutants judged rightly")
        return 1 if problems else 0
    try:
        return mutate(ROOT, ROOT / "build/mutate", options)
    except BrokenBench as problem:
        sys.exit(f"mutate: {problem}")


if __name__ == "__main__":
    sys.exit(main())
