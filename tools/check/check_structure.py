#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what a compiler does not: who includes whom, circles of files, what is exported, that names are unique, lengths.

    tools/check/check_structure.py [--build DIR]    check this checkout; DIR holds libcoffer.so and libcoffer.a
    tools/check/check_structure.py --self-test      see each check catch a violation that is planted for it

Every check is a function of a Tree that returns its violations, one line each. docs/architecture.md has the reasons.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from functools import cached_property
from pathlib import Path

# Which rooms the files of a room may include, their own apart. A room within a room is one of its own: both say whom they
# include.
ROOMS = {
    "core": set(),
    "format": {"core"},
    "os": set(),
    "os/posix": {"os"},
    "os/linux": {"os", "os/posix"},
    "os/windows": {"os"},
    "os/none": {"os"},
    "io": {"core", "format", "os"},
    "hash": {"core", "os", "io"},
    "net": {"core", "os", "io"},
    "manifest": {"core", "os", "io", "hash"},
    "transfer": {"core", "io", "hash"},
    "engine": {"core", "io"},
    "model": {"core", "format", "codec", "os", "io", "net", "hash", "transfer"},
    "write": {"core", "format", "codec", "os", "io", "net", "hash", "transfer", "model"},
    "codec": {"core"},
    "import": {"core", "format", "codec", "os", "io", "hash", "transfer", "model", "write"},
    "import/archive": {"core", "codec", "hash", "model", "import"},
    "import/pickle": {"core", "codec", "io", "hash", "model", "import", "import/archive"},
    "import/scan": {"core", "io", "import", "import/archive", "import/pickle"},
    "import/*": {"core", "format", "codec", "io", "hash", "model", "import", "import/archive", "import/pickle", "import/scan"},
    "export": {"core", "codec", "io", "hash", "transfer", "model", "write", "import/archive", "import/pickle", "import/gguf"},
    "merge": {"core", "format", "codec", "os", "io", "hash", "net", "transfer", "model", "write"},
    "doctor": {"core", "os", "io", "hash", "model", "write", "import", "merge"},
    "device": {"core", "os", "io"},
    "load/plan": {"core", "io", "model", "device"},
    "load/schedule": {"core", "io", "engine", "model", "load/plan"},
    "load/cache": {"core", "os", "io", "model"},
    "load/staging": {"core", "os", "io", "engine", "model", "device", "load/plan", "load/schedule", "load/cache"},
    "load/delivery": {"core", "os", "io", "device", "load/plan", "load/schedule"},
    "load/group": {"core", "os", "io", "model", "load/schedule", "load/staging"},
    "load/exchange": {"core", "io", "engine", "model", "load/plan", "load/schedule", "load/staging", "load/delivery"},
    "load": {"core", "os", "io", "hash", "engine", "model", "device", "load/plan", "load/schedule", "load/cache", "load/staging",
             "load/delivery", "load/group"},
}
# Any other folder of src/import is a reader's: it sees what all readers stand on, and no other reader.
READERS = "import/*"
# Rooms that run where there is no system: of libc they want four functions.
PURE_ROOMS = ("core", "format", "codec")
# Folders that use the library as anyone would: the public headers and files of their own.
USERS = ("cli", "examples", "bench", "bindings")
# But what is compiled to WebAssembly is made of the pure rooms, and reaches into them; and into these files of others, which
# are as pure.
SHIM = "bindings/js/wasm/"
SHIM_HEADERS = {"hash.h", "sha256_portable.h", "folder_names.h", "index.h", "model_dir_name.h"}

# The reader of JSON that strangers wrote, which is lenient where Python's is: doctor's rules and the command read the same files.
COMMAND_HEADERS = {"block.h", "json_document.h", "json_tokens.h"}

# emmintrin.h is the compiler's own: instructions, behind an #if and with a scalar twin.
CORE_HEADERS = {"emmintrin.h", "float.h", "limits.h", "stdarg.h", "stdbool.h", "stddef.h", "stdint.h", "string.h"}
C11_HEADERS = CORE_HEADERS | {
    "assert.h", "complex.h", "ctype.h", "errno.h", "fenv.h", "inttypes.h", "iso646.h", "locale.h", "math.h",
    "setjmp.h", "signal.h", "stdalign.h", "stdatomic.h", "stdio.h", "stdlib.h", "stdnoreturn.h", "tgmath.h", "threads.h",
    "time.h", "uchar.h", "wchar.h", "wctype.h",
}
PUBLIC_SYSTEM_HEADERS = {"stdbool.h", "stddef.h", "stdint.h"}
# Of other libraries, what is compiled in.
ROOM_HEADERS = {"core": CORE_HEADERS, "format": CORE_HEADERS, "codec": CORE_HEADERS, "hash": C11_HEADERS | {"xxhash.h"}}
OS_FILES = re.compile(r"src/os/(\w+/)?os(_\w+)?\.[ch]")
# Which of its folders are compiled for Windows alone, and which for other systems alone.
OS_WINDOWS, OS_OTHERS = ("os/windows",), ("os/posix", "os/linux")
# Who starts threads, besides the operating system's files, and by what.
THREAD_FILE = "src/io/thread_pool.c"
THREAD_START = re.compile(r"\b(coffer__os_thread_\w*(start|create)\w*|pthread_create|thrd_create)\s*\(")

# What the objects of the pure rooms may want from outside: four functions of libc (their checked twins too, which compilers put in
# their place where _FORTIFY_SOURCE is on by default) and the compiler's own helpers.
CORE_UNDEFINED = re.compile(
    r"(__)?(memcpy|memmove|memset|memcmp)(_chk)?|_GLOBAL_OFFSET_TABLE_|__stack_chk_(fail|guard)|__popcountdi2|__cpu_(model|indicator_init)")

# The rooms of the page, and which of them a file's values may come from; types may come from anywhere.
WEB_ROOMS = {"base": set(), "model": {"base"}, "worker": {"base", "model"}, "views": {"base", "model"}}
WEB_IMPORT = re.compile(r'^import\s+(type\s)?[^;"]*?from\s+"\.\./(\w+)/[^"]*"', flags=re.M)

# Of a public function that neither the command nor a binding uses.
SAYS_FOR_WHOM = re.compile(r"\bFor\s+(the\s+same\s+)?(engines|programs|embedders|transports)\b")

LONGEST_LINE = 120
# Of a function of the library or of the command, in lines from the first of the signature to the closing brace, with the comments
# and empty lines between them.
LONGEST_FUNCTION = 60

# Words that were once ours, and what the field says instead. They do not come back as a part of a name.
WORDS = {
    "alike_numbers": "compatible", "at_hand": "cached", "company": "companions", "crew": "thread pool", "door": "origin",
    "doubted": "untrusted", "fickle": "unstable", "inlet": "file reader", "keeper": "cache server", "KEPT_APART": "NOINLINE",
    "LAID_OUT": "ALWAYS_INLINE", "landing": "output target", "LEAST": "MIN", "mend": "fix", "mended": "fixed",
    "misfits": "mismatches", "MOST": "MAX", "nest": "region", "outlet": "device queue", "publication": "commit",
    "RARELY": "UNLIKELY", "room": "capacity", "several": "sharded", "spot": "allocation", "survey": "scan", "told": "reported",
    "whereabouts": "residency",
}

# Three verbs give back what somebody has: _free memory, _close what holds a resource of the system (a descriptor, a map, a thread, a
# lock, a library), _release one use of what others use too. These are not among them. `_end` may be a noun of what returns
# something (zip_find_end).
OTHER_VERBS = re.compile(r"_(deinit|destroy|dispose|fini|forget|let_go|drop|end)$")

# Tables of the library that a file outside of it derives names from.
TABLES = {"bindings/python/native/py_dtypes.c": {"dtype_table.h"}}

CODE_FOLDERS = ("include", "src", "cli", "tests", "fuzz", "bench", "examples", "bindings")
NOT_OURS = {".git", ".venv", ".cache", ".pytest_cache", ".hypothesis", "__pycache__", "build", "dist", "generated", "node_modules"}
DATA = re.compile(r"(tests/vectors|fuzz/corpus)/.*(?<!\.py)(?<!\.md)")
# Spelt in pieces, so that this file does not hold what it looks for.
PRIVATE_PATH = re.compile("/(" + "|".join(("home", "Users", "work", "farm", "root")) + r")/\w")


class Tree:
    """A checkout and, for the checks of symbols, the folder where it was built."""

    def __init__(self, root, build):
        self.root = Path(root)
        self.build = Path(build)

    @cached_property
    def files(self):
        """Every file that people wrote, by its path from the root. Folders of others are not entered: environments have
        a hundred thousand files."""
        found = []
        for folder, folders, names in os.walk(self.root):
            folders[:] = set(folders) - (NOT_OURS - {"build"} if Path(folder) == self.root / "tools" else NOT_OURS)
            found += [(Path(folder) / name).relative_to(self.root).as_posix() for name in names if name not in NOT_OURS]
        return sorted(file for file in found if (self.root / file).is_file() and not DATA.fullmatch(file))

    def code(self, *folders):
        """The C files below the folders."""
        return [f for f in self.files if f.split("/")[0] in folders and f.endswith((".c", ".h"))]

    def text(self, file):
        return (self.root / file).read_text(encoding="utf-8")

    def includes(self, file):
        """(line number, name) of each #include."""
        for number, line in enumerate(self.text(file).splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
            if match:
                yield number, match[1]

    def topics(self):
        """The public headers that have declarations; include/coffer.h includes them."""
        return [f for f in self.code("include") if f.startswith("include/coffer/")]

    def functions(self, file):
        """(line number, name, lines) of each function, without the comment above it. clang-format sees to it that only
        functions have a brace in the first column, and nothing empty between that and the signature."""
        lines = self.text(file).splitlines()
        for number, line in enumerate(lines):
            if line == "{":
                first = number
                while first > 0 and re.match(r"[\w ]", lines[first - 1]) and not lines[first - 1].endswith("*/"):
                    first -= 1
                end = lines.index("}", number)
                name = re.search(r"(\w+)\(", " ".join(lines[first:number]))
                yield first + 1, name[1] if name else "?", end - first + 1

    def public_functions(self):
        text = re.sub(r"/\*.*?\*/", "", "".join(map(self.text, self.topics())), flags=re.S)
        return set(re.findall(r"^COFFER_API\b[^;(]*?\b(\w+)\(", text, flags=re.M))

    def nm(self, library, *options):
        """(member, kind, symbol) of each symbol."""
        output = subprocess.run(["nm", "-A", "-P", *options, str(self.build / library)],
                                check=True, capture_output=True, text=True).stdout
        for line in output.splitlines():
            place, symbol, kind = line.split()[:3]
            member = re.search(r"\[(.*)\]:$", place)
            yield member[1] if member else library, kind, symbol.split("@")[0]


# ---- Who includes whom ----------------------------------------------------------------------------------------------


def room_of(file):
    """The room of a file of src, and its row of ROOMS; None for a folder that is no room."""
    room = file.removeprefix("src/").rpartition("/")[0]
    return room, room if room in ROOMS else READERS if re.fullmatch(r"import/\w+", room) else None


def check_layers(tree):
    """Files of a room include only rooms below it; the command, examples and benchmarks only the public headers."""
    home = {Path(f).name: f for f in tree.code("src")}
    public = {f.removeprefix("include/") for f in tree.code("include")}
    for file in tree.code("src"):
        room, row = room_of(file)
        if row is None:
            yield f"{file}: src/{room} is not a room; tools/check/check_structure.py lists them"
            continue
        for line, name in tree.includes(file):
            target = home.get(Path(name).name)
            if target and name not in public and room_of(target)[0] not in ROOMS[row] | {room}:
                yield f"{file}:{line}: src/{room} must not include {target}"
    for folder in USERS:
        own = {Path(f).name for f in tree.code(folder)}
        for file in tree.code(folder):
            for line, name in tree.includes(file):
                target = home.get(Path(name).name)
                pure = target and (room_of(target)[0] in PURE_ROOMS or name in SHIM_HEADERS)
                reaches = (file.startswith(SHIM) and pure) or (folder == "cli" and name in COMMAND_HEADERS)
                if target and not reaches and name not in own | public | TABLES.get(file, set()):
                    yield f"{file}:{line}: {folder} must not include {name}, only coffer.h"


def check_public_headers(tree):
    """The public headers include each other alone, and coffer.h includes all of them."""
    public = {Path(f).name for f in tree.topics()}
    for file in tree.topics():
        for line, name in tree.includes(file):
            if name not in public | PUBLIC_SYSTEM_HEADERS:
                yield f"{file}:{line}: a public header must not include {name}"
    included = {f"include/{name}" for _, name in tree.includes("include/coffer.h")}
    for file in sorted(included ^ set(tree.topics())):
        yield f"include/coffer.h: includes what is not a public header, or leaves one out: {file}"


def check_includes_exist(tree):
    """A quoted include names a file of the tree."""
    known = {Path(f).name for f in tree.code(*CODE_FOLDERS)}
    for file in tree.code(*CODE_FOLDERS):
        for number, line in enumerate(tree.text(file).splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
            if match and Path(match[1]).name not in known:
                yield f'{file}:{number}: no file of the tree is "{match[1]}"'


def check_system_headers(tree):
    """Core includes only headers without side effects; the operating system is named in src/os alone,
    libcurl nowhere."""
    own = {Path(f).name for f in tree.code("src", "include")}
    for file in tree.code("src"):
        allowed = ROOM_HEADERS.get(room_of(file)[0], C11_HEADERS)
        if OS_FILES.fullmatch(file):
            continue
        for line, name in tree.includes(file):
            if Path(name).name not in own and name not in allowed:
                yield f"{file}:{line}: must not include <{name}>"


def check_threads(tree):
    """One file starts threads, the thread pool; src/os may have one of its own."""
    for file in tree.code("src"):
        if file == "src/io/thread_pool.c" or OS_FILES.fullmatch(file):
            continue
        for number, line in enumerate(tree.text(file).splitlines(), 1):
            if "coffer__os_thread_start" in line:
                yield f"{file}:{number}: starts a thread, which only src/io/thread_pool.c may do"


def check_thread_starts(tree):
    """One file of src starts threads."""
    for file in tree.code("src"):
        if file != THREAD_FILE and not OS_FILES.fullmatch(file):
            for number, line in enumerate(tree.text(file).splitlines(), 1):
                if THREAD_START.search(line):
                    yield f"{file}:{number}: only {THREAD_FILE} starts threads"


def check_web_rooms(tree):
    """Files of the page take values only from the rooms below their own."""
    for file in tree.files:
        parts = file.split("/")
        if parts[:2] != ["web", "src"] or len(parts) < 4 or not file.endswith((".ts", ".tsx")):
            continue
        if parts[2] not in WEB_ROOMS:
            yield f"{file}: web/src/{parts[2]} is not a room; tools/check/check_structure.py lists them"
            continue
        for match in WEB_IMPORT.finditer(tree.text(file)):
            if match[1] is None and match[2] not in WEB_ROOMS[parts[2]]:
                yield f"{file}: web/src/{parts[2]} must not import values from web/src/{match[2]}"


# ---- Circles --------------------------------------------------------------------------------------------------------


def circles(edges):
    """Each group of nodes that reach each other, sorted; edges: {node: nodes}. By Tarjan's algorithm, without recursion."""
    index, low, stack, on_stack = {}, {}, [], set()
    for root in sorted(edges):
        work = [(root, None)] if root not in index else []
        while work:
            node, targets = work.pop()
            if targets is None:
                index[node] = low[node] = len(index)
                stack.append(node)
                on_stack.add(node)
                targets = iter(sorted(edges.get(node, ())))
            for target in targets:
                if target not in index:
                    work += [(node, targets), (target, None)]
                    break
                if target in on_stack:
                    low[node] = min(low[node], low[target])
            else:
                if low[node] == index[node]:
                    at = stack.index(node)
                    group = stack[at:]
                    del stack[at:]
                    on_stack -= set(group)
                    if len(group) > 1:
                        yield sorted(group)
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])


def check_include_circles(tree):
    """No units of src include each other in a circle; a unit is a source and the header of its name, or either alone."""
    home = {Path(f).name: str(Path(f).with_suffix("")) for f in tree.code("src")}
    edges = defaultdict(set)
    for file in tree.code("src"):
        unit = home[Path(file).name]
        edges[unit] |= {home[Path(name).name] for _, name in tree.includes(file) if Path(name).name in home} - {unit}
    for group in circles(edges):
        yield f"files that include each other in a circle: {', '.join(group)}"


def check_symbol_circles(tree):
    """No objects of the static library need each other in a circle: each file can be read and tested with those below it."""
    symbols = list(tree.nm("libcoffer.a", "--extern-only"))
    owner = {symbol: member for member, kind, symbol in symbols if kind in "TDRBVW"}
    edges = defaultdict(set)
    for member, kind, symbol in symbols:
        if kind == "U" and owner.get(symbol, member) != member:
            edges[member].add(owner[symbol])
    for group in circles(edges):
        wanted = sorted({symbol for member, kind, symbol in symbols
                         if kind == "U" and member in group and owner.get(symbol, member) in set(group) - {member}})
        yield f"objects that need each other in a circle: {', '.join(group)}; by {', '.join(wanted)}"


# ---- Lengths --------------------------------------------------------------------------------------------------------


def check_function_lengths(tree):
    """No function of the library or the command is longer than LONGEST_FUNCTION lines, with signature and braces."""
    for file in tree.code("src", "cli"):
        for line, name, length in tree.functions(file):
            if length > LONGEST_FUNCTION:
                yield f"{file}:{line}: {name} has {length} lines, and {LONGEST_FUNCTION} are allowed"


# ---- Symbols --------------------------------------------------------------------------------------------------------


def check_core_symbols(tree):
    """The objects of the pure rooms want nothing from outside but memcpy, memmove, memset and memcmp."""
    members = {room: {Path(f).name + ".o" for f in tree.code("src") if f.startswith(f"src/{room}/")} for room in PURE_ROOMS}
    defined = [(member, symbol) for member, _, symbol in tree.nm("libcoffer.a", "--defined-only")]
    for room in PURE_ROOMS:
        below = set().union(members[room], *(members[other] for other in ROOMS[room]))
        own = {symbol for member, symbol in defined if member in below}
        for member, _, symbol in tree.nm("libcoffer.a", "--undefined-only"):
            if member in members[room] and symbol not in own and not CORE_UNDEFINED.fullmatch(symbol):
                yield f"{member}: src/{room} must not need {symbol}"


def check_exports(tree):
    """The shared library exports exactly the functions that the public headers declare."""
    exported = {symbol for _, _, symbol in tree.nm("libcoffer.so", "-D", "--defined-only")}
    declared = tree.public_functions()
    for symbol in sorted(exported - declared):
        yield f"libcoffer.so: exports {symbol}, which no public header declares"
    for symbol in sorted(declared - exported):
        yield f"libcoffer.so: does not export {symbol}, which a public header declares"
    for symbol in sorted(exported | declared):
        if not symbol.startswith("coffer_") or symbol.startswith("coffer__"):
            yield f"{symbol}: a public name begins with coffer_"


def check_static_symbols(tree):
    """Every global name of the static library begins with coffer_: it shares its name space with its user's program."""
    for member, kind, symbol in tree.nm("libcoffer.a", "--defined-only", "--extern-only"):
        if not symbol.startswith("coffer_"):
            yield f"{member}: the global {symbol} does not begin with coffer_"


# ---- Names ----------------------------------------------------------------------------------------------------------


def check_file_names(tree):
    """The names by which sources and headers are included are unique in the tree."""
    places, topics = defaultdict(list), set(tree.topics())
    for file in tree.code(*CODE_FOLDERS):
        places[file.removeprefix("include/") if file in topics else Path(file).name].append(file)
    for files in places.values():
        if len(files) > 1:
            yield f"one name, several files: {', '.join(files)}"


def check_static_names(tree):
    """Names of file-local functions, objects and types are unique in what is compiled together, so that one file made of
    all of it compiles. The files of Windows and those of other systems never are."""
    declaration = re.compile(r"^static\s[^;={(]*?(\w+)\s*(?:\[[^\]]*\]\s*)*[(=;]|^(?:typedef\b[^;]*)?\} (\w+);", flags=re.M)
    names = {file: {a or b for a, b in declaration.findall(tree.text(file))} for file in tree.code("src")}
    windows = {file for file in names if room_of(file)[0] in OS_WINDOWS}
    others = {file for file in names if room_of(file)[0] in OS_OTHERS}
    clashes = set()
    for left_out in (windows, others):
        places = defaultdict(set)
        for file in names.keys() - left_out:
            for name in names[file]:
                places[name].add(file)
        clashes |= {(name, ", ".join(sorted(files))) for name, files in places.items() if len(files) > 1}
    for name, files in sorted(clashes):
        yield f"the static {name} is in several files: {files}"


def check_homonyms(tree):
    """No hidden name is a public one but for an underscore: they would be read as the same."""
    public = set(re.findall(r"\bcoffer_[a-z0-9]\w*", "".join(map(tree.text, tree.topics()))))
    for file in tree.code("src"):
        for name in sorted(set(re.findall(r"\bcoffer__\w+", tree.text(file)))):
            if name.replace("coffer__", "coffer_", 1) in public:
                yield f"{file}: {name} is a public name but for an underscore"


def check_words(tree):
    """Names are made of the field's words. Comments and texts are not looked at: there a word may mean what it says."""
    old = re.compile(r"(?<![A-Za-z])(" + "|".join(WORDS) + r")(?![A-Za-z])")
    no_names = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', flags=re.S)
    for file in tree.code("include", "src", "cli"):
        text = no_names.sub(lambda match: "\n" * match[0].count("\n"), tree.text(file))
        for number, line in enumerate(text.splitlines(), 1):
            for word in old.findall(line):
                yield f"{file}:{number}: {word} in a name; the field says {WORDS[word]}"


def check_resource_verbs(tree):
    """What gives a resource back is called _free, _close or _release, and no function for it has another verb."""
    returns_nothing = re.compile(r"^(?:static |COFFER_API )*void (\w+)\(|\bvoid \(\*(\w+)\)\(", flags=re.M)
    for file in tree.code("include", "src", "cli") + [f for f in tree.code("bindings") if "/native/" in f]:
        text = tree.text(file)
        for match in returns_nothing.finditer(text):
            verb = OTHER_VERBS.search("_" + (match[1] or match[2]))
            if verb:
                yield f"{file}:{text.count(chr(10), 0, match.start()) + 1}: {match[1] or match[2]}: say _free, _close or _release"


# ---- The public headers, and every file -----------------------------------------------------------------------------


def check_header_documented(tree):
    """Every public function and type has a comment of its own, which ends on the line before it."""
    for file in tree.topics():
        lines = tree.text(file).splitlines()
        for number, (before, line) in enumerate(zip(lines, lines[1:]), 2):
            declares = line.startswith("COFFER_API") or re.match(r"typedef (struct|enum)\b", line)
            if declares and not before.rstrip().endswith("*/"):
                yield f"{file}:{number}: a public declaration without a comment of its own"


def check_users(tree):
    """Every public function is used by the command or a binding, or its comment says who it is for: what nobody needs goes."""
    used = set()
    for file in tree.code("cli", "bindings"):
        if "tests" not in file.split("/"):
            used |= set(re.findall(r"\bcoffer_\w+", tree.text(file)))
    comment_and_name = re.compile(r"(/\*(?:(?!\*/).)*\*/)\s*COFFER_API\b[^;(]*?\b(\w+)\(", flags=re.S)
    for file in tree.topics():
        for comment, name in comment_and_name.findall(tree.text(file)):
            if name not in used and not SAYS_FOR_WHOM.search(comment):
                yield f"{file}: {name} is used by no command and no binding, and its comment does not say who it is for"


def check_line_length(tree):
    """Lines of the public headers fit in 120 columns; clang-format sees to code, not to comments."""
    for file in (f for f in tree.files if f.startswith("include/")):
        for number, line in enumerate(tree.text(file).splitlines(), 1):
            if len(line) > LONGEST_LINE:
                yield f"{file}:{number}: {len(line)} columns, more than {LONGEST_LINE}"


def check_licence(tree):
    """Every source file states its licence in its first three lines."""
    for file in tree.files:
        name = Path(file).name
        if not (name.endswith((".c", ".h", ".cpp", ".hpp", ".py", ".sh", ".cmake", ".cmake.in", ".ts", ".tsx", ".mjs", ".js", ".css")) or name in ("CMakeLists.txt", "Makefile")):
            continue
        if not any("SPDX-License-Identifier: Apache-2.0" in line for line in tree.text(file).splitlines()[:3]):
            yield f"{file}: no SPDX-License-Identifier line"


def check_private_paths(tree):
    """No file names a folder of somebody's machine."""
    for file in tree.files:
        try:
            lines = tree.text(file).splitlines()
        except UnicodeDecodeError:
            continue  # not text
        for number, line in enumerate(lines, 1):
            if PRIVATE_PATH.search(line):
                yield f"{file}:{number}: a path of one machine"


def check_ignored(tree):
    """Git holds nothing that .gitignore names: it would take the place of what people have there."""
    if (tree.root / ".git").exists():
        output = subprocess.run(["git", "-C", str(tree.root), "ls-files", "--cached", "--ignored", "--exclude-standard"],
                                check=True, capture_output=True, text=True).stdout
        yield from (f"{file}: .gitignore names it, and git holds it" for file in output.splitlines())


def check_pins(tree):
    """No two files of requirements pin different versions of a package: one environment may be made of both."""
    pins = {}
    for file in tree.files:
        if not re.fullmatch(r"(.*/)?requirements[^/]*\.txt", file):
            continue
        for number, line in enumerate(tree.text(file).splitlines(), 1):
            match = re.match(r"([\w.-]+)(?:\[.*?\])?==(\S+)", line)
            if match:
                name = re.sub(r"[-_.]+", "-", match[1]).lower()
                version, place = pins.setdefault(name, (match[2], f"{file}:{number}"))
                if version != match[2]:
                    yield f"{file}:{number}: {name} {match[2]}, but {version} in {place}"


CHECKS = [value for name, value in list(globals().items()) if name.startswith("check_")]
NEED_GIT = (check_ignored,)
NEED_BUILD = (check_core_symbols, check_exports, check_static_symbols, check_symbol_circles)


# ---- Seeing them fail -----------------------------------------------------------------------------------------------

SPDX = "/* SPDX-License-Identifier: Apache-2.0 */\n"
SOUND = {
    "include/coffer.h": SPDX + '#include "coffer/sum.h"\n',
    "include/coffer/sum.h": SPDX + "/* A contract. */\n#include <stddef.h>\n"
                               '#define COFFER_API __attribute__((visibility("default")))\n\n'
                               "/* Sums. */\nCOFFER_API int coffer_sum(int a);\n"
                               "/* All. For engines that add\n   much. */\nCOFFER_API int coffer_sum_all(int a);\n",
    "src/core/sum.h": SPDX + "int coffer__add(int a);\n",
    "src/core/sum.c": SPDX + '#include "sum.h"\n#include "coffer.h"\n#include <string.h>\n'
                             "static const int sum_table[2] = { 1, 2 };\n"
                             "int coffer__add(int a)\n{\n    return a + sum_table[a & 1];\n}\n"
                             "int coffer_sum(int a)\n{\n    return coffer__add(a);\n}\n",
    "src/format/spelling.h": SPDX,
    "src/engine/engine.h": SPDX,
    "src/load/start.h": SPDX,
    "src/load/group/group.h": SPDX,
    "src/transfer/transfer.h": SPDX,
    "src/os/windows/os_windows.h": SPDX,
    "src/os/os.h": SPDX + "#include <pthread.h>\n",
    "src/model/all.c": SPDX + '#include "coffer.h"\n#include "os.h"\n#include "sum.h"\n'
                              "static int all_twice(int a)\n{\n    return 2 * a;\n}\n"
                              "int coffer_sum_all(int a)\n{\n    return coffer__add(all_twice(a));\n}\n",
    "src/import/reader.h": SPDX + '#include "sum.h"\n',
    "src/import/clay/shapes.h": SPDX + '#include "reader.h"\n',
    "src/export/export.h": SPDX + '#include "sum.h"\n',
    "cli/main.c": SPDX + '#include "coffer.h"\n#include "output.h"\n#include <unistd.h>\nint main(void)\n{\n'
                         "    return coffer_sum(1);\n}\n",
    "cli/output.h": SPDX,
    "bindings/js/wasm/shim.c": SPDX + '#include "sum.h"\n#include "spelling.h"\n',
    "web/src/views/app.tsx": "// SPDX-License-Identifier: Apache-2.0\nimport { a } from \"../model/a.js\";\n"
                             "import type { B } from \"../worker/b.js\";\n",
    "tests/run.sh": "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n",
    "tests/requirements.txt": "# Pinned.\nsome_thing==1.0\n",
    "README.md": "A file without code.\n",
    ".gitignore": "/.venv\n",
}
CORE_C = SPDX + '#include "coffer.h"\n'
HEADER = SOUND["include/coffer/sum.h"]
# (the check, a file, its planted contents, words of the violation that the check must report)
PLANTED = [
    (check_layers, "src/core/up.c", SPDX + '#include "os.h"\n', "src/core must not include src/os/os.h"),
    (check_layers, "src/core/format_up.c", SPDX + '#include "spelling.h"\n', "src/core must not include src/format/spelling.h"),
    (check_layers, "src/format/up.c", SPDX + '#include "os.h"\n', "src/format must not include src/os/os.h"),
    (check_layers, "src/io/up.h", SPDX + '#include "../model/deep.h"\n', "src/io must not include src/model/deep.h"),
    (check_layers, "src/attic/old.c", SPDX, "src/attic is not a room"),
    (check_layers, "src/os/posix/up.c", SPDX + '#include "os_windows.h"\n', "src/os/posix must not include src/os/windows/os_windows.h"),
    (check_layers, "src/transfer/up.c", SPDX + '#include "engine.h"\n', "src/transfer must not include src/engine/engine.h"),
    (check_layers, "src/engine/up.c", SPDX + '#include "transfer.h"\n', "src/engine must not include src/transfer/transfer.h"),
    (check_layers, "src/load/group/up.c", SPDX + '#include "start.h"\n', "src/load/group must not include src/load/start.h"),
    (check_layers, "src/load/exchange/up.c", SPDX + '#include "group.h"\n', "src/load/exchange must not include src/load/group/group.h"),
    (check_layers, "src/load/attic/old.c", SPDX, "src/load/attic is not a room"),
    (check_layers, "src/load/plan/up.c", SPDX + '#include "start.h"\n', "src/load/plan must not include src/load/start.h"),
    (check_layers, "src/import/toy/old/toy.c", SPDX, "src/import/toy/old is not a room"),
    (check_layers, "src/import/toy/toy.c", SPDX + '#include "reader.h"\n#include "shapes.h"\n', "src/import/toy must not include src/import/clay"),
    (check_layers, "src/import/toy/toy.h", SPDX + '#include "export.h"\n', "src/import/toy must not include src/export/export.h"),
    (check_layers, "src/import/plan.c", SPDX + '#include "shapes.h"\n', "src/import must not include src/import/clay/shapes.h"),
    (check_layers, "src/import/archive/zip.c", SPDX + '#include "shapes.h"\n', "src/import/archive must not include src/import/clay"),
    (check_layers, "src/codec/inflate.c", SPDX + '#include "reader.h"\n', "src/codec must not include src/import/reader.h"),
    (check_layers, "src/load/ready.c", SPDX + '#include "export.h"\n', "src/load must not include src/export/export.h"),
    (check_layers, "cli/cmd.c", SPDX + '#include "sum.h"\n', "cli must not include sum.h"),
    (check_layers, "examples/show.c", SPDX + '#include "sum.h"\n', "examples must not include sum.h"),
    (check_layers, "bindings/python/native/sums.c", SPDX + '#include "sum.h"\n', "bindings must not include sum.h"),
    (check_layers, "bindings/js/wasm/up.c", SPDX + '#include "os.h"\n', "bindings must not include os.h"),
    (check_public_headers, "include/coffer/sum.h", HEADER + "#include <stdio.h>\n", "must not include stdio.h"),
    (check_public_headers, "include/coffer/more.h", SPDX, "leaves one out: include/coffer/more.h"),
    (check_includes_exist, "src/core/lost.c", SPDX + '#include "nowhere.h"\n', "nowhere.h"),
    (check_system_headers, "src/core/print.c", SPDX + "#include <stdio.h>\n", "<stdio.h>"),
    (check_system_headers, "src/model/posix.c", SPDX + "#include <unistd.h>\n", "<unistd.h>"),
    (check_threads, "src/model/alone.c", SPDX + "void coffer__go(void)\n{\n    coffer__os_thread_start();\n}\n",
     "src/model/alone.c:4: starts a thread"),
    (check_thread_starts, "src/model/busy.c", SPDX + "int coffer__busy(void)\n{\n    return pthread_create();\n}\n", "busy.c:4"),
    (check_web_rooms, "web/src/base/up.ts", '// SPDX-License-Identifier: Apache-2.0\nimport {\n  a,\n} from "../model/state.js";\n',
     "web/src/base must not import values from web/src/model"),
    (check_web_rooms, "web/src/attic/old.tsx", "// SPDX-License-Identifier: Apache-2.0\n", "web/src/attic is not a room"),
    (check_include_circles, "src/core/sum.h", SPDX + '#include "deep.h"\n', "src/core/sum, src/model/deep"),
    (check_symbol_circles, "src/core/sum.c", SOUND["src/core/sum.c"].replace("return a + ", "return coffer_sum_all(a) + "),
     "all.c.o, sum.c.o; by coffer__add, coffer_sum_all"),
    (check_function_lengths, "src/core/long.c",
     SPDX + "int coffer__long(\n    int a)\n{\n" + "    a++;\n" * 56 + "    return a;\n}\n", "coffer__long has 61 lines"),
    (check_core_symbols, "src/core/size.c",
     CORE_C + "unsigned long strlen(const char *);\nint coffer__n(const char *s);\n"
              "int coffer__n(const char *s)\n{\n    return (int)strlen(s);\n}\n", "must not need strlen"),
    (check_system_headers, "src/format/print.c", SPDX + "#include <stdio.h>\n", "<stdio.h>"),
    (check_core_symbols, "src/format/size.c",
     CORE_C + "unsigned long strlen(const char *);\nint coffer__n(const char *s);\n"
              "int coffer__n(const char *s)\n{\n    return (int)strlen(s);\n}\n", "src/format must not need strlen"),
    (check_core_symbols, "src/core/up.c",
     CORE_C + "int coffer__up(int a);\nint coffer__up(int a)\n{\n    return coffer_sum_all(a);\n}\n", "must not need coffer_sum_all"),
    (check_exports, "src/core/more.c",
     CORE_C + "COFFER_API int coffer_more(int a);\nint coffer_more(int a)\n{\n    return a;\n}\n",
     "exports coffer_more, which no"),
    (check_exports, "include/coffer/sum.h", HEADER + "COFFER_API int coffer_never(int a);\n",
     "does not export coffer_never"),
    (check_exports, "src/core/bare.c",
     CORE_C + "COFFER_API int bare(int a);\nint bare(int a)\n{\n    return a;\n}\n", "bare: a public name"),
    (check_exports, "src/core/hidden.c",
     CORE_C + "COFFER_API int coffer__x(int a);\nint coffer__x(int a)\n{\n    return a;\n}\n",
     "coffer__x: a public name"),
    (check_static_symbols, "src/core/plain.c", SPDX + "int helper = 1;\n", "the global helper"),
    (check_file_names, "tests/unit/sum.h", SPDX, "src/core/sum.h, tests/unit/sum.h"),
    (check_static_names, "src/core/twice.c", SPDX + "static int all_twice(int a)\n{\n    return a;\n}\n", "all_twice"),
    (check_static_names, "src/os/windows/os_windows_all.c", SPDX + "static int all_twice(int a)\n{\n    return a;\n}\n", "os_windows_all.c"),
    (check_static_names, "src/io/names.c", SPDX + "static const int sum_table[] = { 1 };\n", "sum_table"),
    (check_static_names, "src/io/types.c", SPDX + "typedef struct all_twice {\n    int a;\n} all_twice;\n", "all_twice"),
    (check_homonyms, "src/core/near.c", SPDX + "int coffer__sum_all(int a);\n", "coffer__sum_all is a public name"),
    (check_words, "src/core/odd.c", SPDX + "/* A crew. */\nint old_crew;\n", "src/core/odd.c:3: crew in a name"),
    (check_users, "include/coffer/sum.h", HEADER + "/* Twice. For once. */\nCOFFER_API int coffer_sum_twice(int a);\n",
     "coffer_sum_twice is used by no command"),
    (check_users, "cli/main.c", SPDX + "/* Without coffer.h. */\n", "coffer_sum is used by no command"),
    (check_resource_verbs, "src/core/verbs.c", SPDX + "void coffer__sum_end(int *a)\n{\n    *a = 0;\n}\n", "verbs.c:2: coffer__sum_end"),
    (check_resource_verbs, "src/core/verbs.h", SPDX + "struct ops {\n    void (*let_go)(int *a);\n};\n", "verbs.h:3: let_go"),
    (check_line_length, "include/coffer/sum.h", HEADER + "/* " + "é" * 115 + " */\n", "121 columns"),
    (check_header_documented, "include/coffer/sum.h", HEADER + "COFFER_API int coffer_new(void);\n", "without a comment"),
    (check_licence, "src/core/free.c", "int coffer__free;\n", "src/core/free.c"),
    (check_licence, "web/src/base/free.ts", "export {};\n", "web/src/base/free.ts"),
    (check_licence, "tests/CMakeLists.txt", "project(x)\n", "tests/CMakeLists.txt"),
    (check_ignored, ".venv", "a link, once\n", ".venv: .gitignore names it"),
    (check_pins, "tests/more/requirements-all.txt", "Some.Thing[all]==2.0\n", "some-thing 1.0, but 2.0 in"),
    (check_private_paths, "README.md", "See /" + "home/ann/coffer.\n", "README.md:1"),
]


def make_tree(root, planted=()):
    files = dict(SOUND, **dict(planted))
    files.setdefault("src/model/deep.h", SPDX + '#include "sum.h"\n')
    for file, text in files.items():
        path = Path(root, file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Tree(root, Path(root, "build"))


def build_tree(tree):
    tree.build.mkdir()
    objects = []
    for source in tree.code("src"):
        if source.endswith(".c"):
            objects.append(str(tree.build / (Path(source).name + ".o")))
            rooms = sorted({f"-I{(tree.root / file).parent}" for file in tree.code("src")})
            subprocess.run(["cc", "-std=c11", "-O1", "-fno-builtin", "-fPIC", "-fvisibility=hidden", f"-I{tree.root}/include",
                            *rooms, "-c", f"{tree.root}/{source}", "-o", objects[-1]], check=True)
    subprocess.run(["ar", "rc", str(tree.build / "libcoffer.a"), *objects], check=True)
    subprocess.run(["cc", "-shared", "-o", str(tree.build / "libcoffer.so"), *objects], check=True)


def track_tree(tree):
    for command in (["init", "-q"], ["add", "--force", "."]):
        subprocess.run(["git", "-C", str(tree.root), *command], check=True)


def self_test():
    """Every check is content with a sound tree and catches what is planted for it."""
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        tree = make_tree(folder)
        track_tree(tree)
        build_tree(tree)
        for check in CHECKS:
            problems += [f"{check.__name__} complains about a sound tree: {v}" for v in check(tree)]
    for check, file, text, words in PLANTED:
        with tempfile.TemporaryDirectory() as folder:
            tree = make_tree(folder, {file: text}.items())
            if check in NEED_GIT:
                track_tree(tree)
            if check in NEED_BUILD:
                build_tree(tree)
            found = list(check(tree))
            if not any(words in violation for violation in found):
                problems.append(f"{check.__name__} misses what was planted in {file}: it found {found}")
    untested = {c.__name__ for c in CHECKS} - {c.__name__ for c, *_ in PLANTED}
    problems += [f"{name} has no planted violation" for name in sorted(untested)]
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/check-gcc", help="where libcoffer.so and libcoffer.a were built")
    parser.add_argument("--self-test", action="store_true", help="see each check catch a planted violation")
    options = parser.parse_args()
    if options.self_test:
        problems = self_test()
        summary = f"{len(PLANTED)} planted violations caught"
    else:
        tree = Tree(Path(__file__).resolve().parents[2], options.build)
        problems = [violation for check in CHECKS for violation in check(tree)]
        summary = f"{len(CHECKS)} checks of the structure passed"
    print("\n".join(problems) or summary)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
