// SPDX-License-Identifier: Apache-2.0
/*
 * The library's tables as TypeScript: numbers and names of errors and notes from the public headers, dtypes from the one
 * table of them. What is spelt in C is not spelt a second time.
 */
import { readFileSync } from "node:fs";

/** @param {string} root of the checkout */
export function tables(root) {
  const text = (/** @type {string} */ file) => readFileSync(`${root}/${file}`, "utf8");
  const members = (/** @type {string} */ source, /** @type {RegExp} */ pattern) =>
    [...source.matchAll(pattern)].map(([, name, number]) => /** @type {[string, number]} */ ([name, Number(number)]));

  const statuses = members(text("include/coffer/base.h"), /\bCOFFER_(?:ERR_)?([A-Z0-9_]+)\s*=\s*(\d+)/g);
  const notes = members(text("include/coffer/table.h"), /\bCOFFER_NOTE_([A-Z_]+)\s*=\s*(\d+)/g);
  const texts = new Map(
    [...text("src/core/table.c").matchAll(/\[COFFER_NOTE_([A-Z_]+)\]\s*=\s*"([^"]*)"/g)].map(([, kind, is]) => [
      kind,
      is,
    ]),
  );
  const dtypes = text("src/core/dtype_table.h")
    .split("\n")
    .map((line) => /^ {4}(?:PLAIN\(|TAGGED\( *\d+,) *(\w+), *\d+, *(\d+), *(\d+), *(\w+),/.exec(line))
    .filter((row) => row !== null)
    .map(([, name, bits, alignment, kind]) => ({ name, bits: Number(bits), alignment: Number(alignment), kind }));

  return `// Made by scripts/tables.mjs from the library's headers.

/** What each status of the library is called. */
export const STATUSES = ${JSON.stringify(Object.fromEntries(statuses.map(([name, number]) => [number, name])))} as const;

/** The name of an error, which never changes; docs/errors.md describes each with its cause and the next step. */
export type Code = Exclude<(typeof STATUSES)[keyof typeof STATUSES], "OK" | "NEED_MORE">;

/** Kinds of notes, by their number. */
export const NOTE_KINDS = ${JSON.stringify(notes.sort((a, b) => a[1] - b[1]).map(([name]) => name))} as const;

/** What each is in words. */
export const NOTE_TEXTS: Readonly<Record<NoteKind, string>> = ${JSON.stringify(Object.fromEntries(notes.map(([name]) => [name, texts.get(name)])))};

/** What is legal but suspicious. */
export type NoteKind = (typeof NOTE_KINDS)[number];

/** Dtypes, by their number less one. */
export const DTYPE_ROWS = [
${dtypes.map((row) => `  ${JSON.stringify(row)},`).join("\n")}
] as const;

/** The element types of the format. */
export type Dtype = (typeof DTYPE_ROWS)[number]["name"];
`;
}
