# SPDX-License-Identifier: Apache-2.0
"""As much of JSON Schema as docs/schemas uses, so that outputs can be compared with it. A keyword that is not known is a failure:
nothing in a schema is passed over."""

import json
from pathlib import Path

TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
}
WORDS = {"$schema", "$defs", "title", "description"}


class Schemas:
    """The schemas of a folder, which may refer to each other by their files' names."""

    def __init__(self, folder):
        self.seen = set()  # the rules of members that values had, by their identity
        self.all = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in Path(folder).glob("*.schema.json")}

    def faults(self, name, value):
        """What is wrong with a value, by the schema of a command: lines that begin with the place."""
        return self._check(f"{name}.schema.json", self.all[f"{name}.schema.json"], value, "$")

    def unseen(self):
        """The members that no value had that was compared, each with its place in its file."""
        return {f"{file}: {where}" for file, schema in self.all.items() for where, rule in members(schema)
                if id(rule) not in self.seen and not where.startswith("$defs.tsv")}

    def _check(self, file, schema, value, where):
        found = []
        for word, rule in schema.items():
            if word not in WORDS and word not in ("additionalProperties", "properties"):
                found += getattr(self, f"_{word.lstrip('$')}")(file, rule, value, where)
        if isinstance(value, dict) and ("properties" in schema or "additionalProperties" in schema):
            found += self._members(file, schema, value, where)
        return found

    def _members(self, file, schema, value, where):
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        found = []
        for name, member in value.items():
            rule = known.get(name, others)
            if name in known:
                self.seen.add(id(rule))
            if rule is False:
                found.append(f"{where}.{name}: is in no schema")
            elif rule is not True:
                found += self._check(file, rule, member, f"{where}.{name}")
        return found

    def _type(self, file, rule, value, where):
        del file
        names = [rule] if isinstance(rule, str) else rule
        return [] if any(is_a(value, name) for name in names) else [f"{where}: {value!r} is no {' or '.join(names)}"]

    def _enum(self, file, rule, value, where):
        del file
        return [] if value in rule else [f"{where}: {value!r} is none of {rule}"]

    def _required(self, file, rule, value, where):
        del file
        return [f"{where}: lacks {name}" for name in rule if isinstance(value, dict) and name not in value]

    def _items(self, file, rule, value, where):
        found = []
        for i, item in enumerate(value if isinstance(value, list) else []):
            found += self._check(file, rule, item, f"{where}[{i}]")
        return found

    def _anyOf(self, file, rule, value, where):  # noqa: N802, the keyword's name
        tried = []
        for one in rule:
            before = set(self.seen)
            tried.append(self._check(file, one, value, where))
            if not tried[-1]:
                return []
            self.seen = before
        return min(tried, key=len)

    def _ref(self, file, rule, value, where):
        other, _, pointer = rule.partition("#")
        schema = self.all[other or file]
        for step in filter(None, pointer.split("/")):
            schema = schema[step]
        return self._check(other or file, schema, value, where)


def is_a(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def members(schema, where=""):
    """(place, rule) of each member that a schema describes, at any depth."""
    found = []
    for word, rule in schema.items():
        if word in ("properties", "$defs"):
            found += [(f"{where}{word}.{name}", one) for name, one in rule.items() if word == "properties"]
            found += [member for name, one in rule.items() for member in members(one, f"{where}{word}.{name}.")]
        elif word in ("items", "additionalProperties") and isinstance(rule, dict):
            found += members(rule, f"{where}{word}.")
        elif word == "anyOf":
            found += [member for one in rule for member in members(one, f"{where}{word}.")]
    return found
