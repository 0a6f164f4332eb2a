# SPDX-License-Identifier: Apache-2.0
"""Many mutants of a C file in one text, of which the running program chooses one.

A mutant in a function's body becomes a second function, the original with that one change; the original begins with a switch
over the mutants it has and returns what the chosen one does. So a file is compiled once for all of them instead of once for
each. Relies on the sources' form: a function's braces stand alone at the beginning of the line, and nothing else's do.
"""

import re

BODY = re.compile(r"\n\{\n")
HEAD_ENDS = re.compile(r"(\*/|;|\})$")
HEAD = re.compile(r"(?P<before>(?:\w+[ *]+)+?)(?P<name>\w+)\((?P<parameters>[^()]*)\)")

CHOSEN = "coffer__mutant"
DECLARED = f"extern int {CHOSEN};\n"
# Linked into core: takes the number of the mutant from the environment, before the program begins.
CHOOSER = f"""#include <stdlib.h>
int {CHOSEN};
__attribute__((constructor)) static void choose(void)
{{
    const char *number = getenv("MUTANT");
    {CHOSEN} = number != NULL ? atoi(number) : 0;
}}
"""


class Function:
    """A function of a text: its head, and where its parts are."""

    def __init__(self, text, brace):
        lines = text[:brace].split("\n")
        first = len(lines)
        while first > 0 and lines[first - 1] and not HEAD_ENDS.search(lines[first - 1]) and lines[first - 1][0] != "#":
            first -= 1
        self.head = " ".join(line.strip() for line in lines[first:])
        self.start = len("\n".join(lines[:first])) + (first > 0)
        self.brace = brace
        self.end = text.index("\n}\n", brace) + 3

    def parts(self):
        """The head's parts, or None where no other function could be called with the same arguments."""
        found = HEAD.fullmatch(self.head)
        return found if found and "..." not in found["parameters"] else None

    def arguments(self):
        parameters = self.parts()["parameters"]
        if parameters.strip() == "void":
            return ""
        return ", ".join(re.search(r"(\w+)(?:\[[^]]*\])*$", p.strip())[1] for p in parameters.split(","))

    def changed(self, number, body):
        """The mutant's function: never inlined, or the original would have to hold all of them."""
        parts = self.parts()
        kind = re.sub(r"\b(static|inline|COFFER_API)\b ?", "", parts["before"])
        return f"static __attribute__((noinline)) {kind}{parts['name']}__{number}({parts['parameters']})\n{body}"

    def choice(self, numbers):
        """The statement that the original begins with."""
        parts = self.parts()
        call = f"{parts['name']}__{{}}({self.arguments()});"
        kind = re.sub(r"\b(static|inline|COFFER_API)\b ?", "", parts["before"])
        call = f"{call} return;" if kind.strip() == "void" else f"return {call}"
        return f"switch ({CHOSEN}) {{ " + " ".join(f"case {n}: {call.format(n)}" for n in numbers) + " }\n"


def functions_of(text):
    return [Function(text, found.start()) for found in BODY.finditer(text)]


def name_at(functions, at):
    """The name of the function that a place of the text is in, its head included."""
    for function in functions:
        if function.start <= at < function.end:
            return re.search(r"(\w+)\s*\(", function.head)[1]
    return "outside"


def home(functions, mutant):
    """The function that has the mutant in its body, when it can have it as a choice."""
    for function in functions:
        if function.brace + 2 < mutant.start and mutant.end < function.end:
            return function if function.parts() else None
    return None


def plant(text, mutants):
    """`text` with numbered mutants of it ({number: mutant}) as choices, and {line of the new text: number}."""
    functions = functions_of(text)
    homes = {}
    for number, mutant in mutants.items():
        homes.setdefault(home(functions, mutant), []).append(number)
    lines = {}
    # After the includes would do as well; but a file's first line is before all its functions.
    result, at = DECLARED, 0
    for function in functions:
        numbers = homes.get(function)
        if not numbers:
            continue
        result += text[at:function.start] + function.head + ";\n"
        for number in numbers:
            mutant = mutants[number]
            body = text[function.brace + 1:mutant.start] + mutant.replacement + text[mutant.end:function.end]
            first = result.count("\n") + 1
            result += function.changed(number, body)
            lines.update(dict.fromkeys(range(first, result.count("\n") + 1), number))
        result += text[function.start:function.brace] + "\n{\n" + function.choice(numbers)
        at = function.brace + 3
    return result + text[at:], lines
