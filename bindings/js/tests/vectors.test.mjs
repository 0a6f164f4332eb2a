// SPDX-License-Identifier: Apache-2.0
/* The vectors: the name of each file is its verdict, the same in every language. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import test from "node:test";

import { CofferError, MemorySource, open, readTable } from "libcoffer";

const folder = process.env.COFFER_VECTORS ?? new URL("../../../tests/vectors/", import.meta.url).pathname;
const files = readdirSync(folder).filter((name) => /\.(safetensors|bt|bin)$/.test(name));

const FORMATS = [
  [".alpha.bt", "bintensors-a"],
  [".bt", "bintensors"],
  [".safetensors", "safetensors"],
];

/** What a reader says of a file, in the words of its name. */
async function verdict(source, options) {
  try {
    const table = await readTable(source, { allNotes: true, ...options });
    return table.notes.length === 0
      ? "ok"
      : table.notes.map(({ kind, offset }) => `note_${kind}_at${offset}`).join(" ");
  } catch (error) {
    assert(error instanceof CofferError, String(error.stack));
    return `err_${error.code}_at${error.offset ?? 0}`;
  }
}

/** Hands out a file as a slow source would: a few bytes first, and the rest when it is asked for. */
class Trickle extends MemorySource {
  constructor(bytes, name, first) {
    super(bytes, name);
    this.first = first;
  }

  async head() {
    return (await super.head()).subarray(0, this.first);
  }
}

function optionsOf(file) {
  return {
    ...(file.endsWith(".bin") ? {} : { format: FORMATS.find(([ending]) => file.endsWith(ending))[1] }),
    unknownDtypes: file.includes("note_UNKNOWN_DTYPE"),
    hiddenBytes: file.includes("note_PADDING"),
  };
}

test("there are vectors", () => assert(files.length > 700));

for (const file of files) {
  const expected = file.split("__")[0];
  const bytes = new Uint8Array(readFileSync(`${folder}/${file}`));
  test(file, async () => {
    assert.equal(await verdict(new MemorySource(bytes, file), optionsOf(file)), expected);
    // What a file is instead, more of its bytes tell.
    for (const first of expected.startsWith("err_IS_") ? [] : [16, 17, 40]) {
      assert.equal(await verdict(new Trickle(bytes, file, first), optionsOf(file)), expected, `by ${first} bytes`);
    }
  });
}
