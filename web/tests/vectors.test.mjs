// SPDX-License-Identifier: Apache-2.0
/*
 * The vectors, by what the page's worker does with a file that someone drops: the verdict is that of the file's name, as in every
 * language, and what conforms can be summed up, listed, sorted and made a tree, however odd it is.
 */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";

import { source } from "./page.mjs";

const folder = process.env.COFFER_VECTORS ?? fileURLToPath(new URL("../../tests/vectors", import.meta.url));
const { openWanted, troubleOf, arranged, treeOf, adviceFor } = await source(
  "worker/open_wanted.ts",
  "worker/trouble.ts",
  "worker/arrange.ts",
  "worker/tree.ts",
  "model/advice.ts",
);

const context = { signal: new AbortController().signal, progress: () => undefined };

/** What the page's worker says, in the words of a vector's name. */
async function verdict(file, isLenient) {
  try {
    const opened = await openWanted({ kind: "files", files: [file], name: file.name, isLenient }, context);
    assert.doesNotThrow(() => structuredClone(opened));
    const { columns, notes } = opened;
    const all = Uint32Array.from({ length: columns.count }, (_, i) => i);
    for (const sort of ["file", "name", "dtype", "shape", "elements", "size"]) {
      assert.deepEqual(arranged(columns, { filter: "", sort, descending: true }).sort(), all);
    }
    const { tensors } = treeOf(columns, all);
    assert.equal(tensors.filter((tensor) => tensor !== 0xffff_ffff).length, columns.count);
    return notes.map(({ kind, offset }) => `note_${kind}_at${offset}`).join(" ") || "ok";
  } catch (error) {
    const trouble = structuredClone(troubleOf(error));
    const { title, step } = adviceFor(trouble);
    assert.ok(title !== "This cannot be shown" && step !== undefined, String(error.stack));
    return `err_${trouble.code}_at${trouble.offset ?? 0}`;
  }
}

for (const name of readdirSync(folder).filter((file) => /\.(safetensors|bin)$/.test(file))) {
  test(name, async () => {
    const isLenient = /note_(UNKNOWN_DTYPE|PADDING)/.test(name);
    const found = await verdict(new File([readFileSync(join(folder, name))], name), isLenient);
    const wanted = name.slice(0, name.indexOf("__"));
    assert.ok(found === wanted || found.split(" ").includes(wanted), `${found} in place of ${wanted}`);
  });
}
