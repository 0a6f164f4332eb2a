// SPDX-License-Identifier: Apache-2.0
/* Files of bintensors: the package's own bytes, and further vectors where COFFER_BT_VECTORS names a folder of them. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";

import { build, check, CofferError, open } from "libcoffer";

import { model } from "./files.mjs";

const PYTHON = process.env.COFFER_PYTHON ?? new URL("../../../.venv/bin/python", import.meta.url).pathname;
const hasReference = existsSync(PYTHON);
const hexOf = async (blob) => Buffer.from(await blob.arrayBuffer()).toString("hex");

/** What the package writes of the same tensors, and what it reads of what was written here. */
const REFERENCE = `
import bintensors, json, sys
NAMES = {"BOOL": "bool", "BF16": "bfloat16", "F8_E5M2": "float8_e5m2", "F8_E4M3": "float8_e4m3fn"}
KINDS = {"F": "float", "I": "int", "U": "uint"}
def dtype(name):
    return NAMES.get(name) or KINDS[name[0]] + name[1:]
for line in sys.stdin:
    case = json.loads(line)
    items = {t["name"]: {"dtype": dtype(t["dtype"]), "shape": t["shape"], "data": bytes.fromhex(t["data"])} for t in case["tensors"]}
    read = dict(bintensors.deserialize(bytes.fromhex(case["built"])))
    same = {name: (t["dtype"], t["shape"], bytes(t["data"]).hex()) for name, t in read.items()} == {
        t["name"]: (t["dtype"], t["shape"], t["data"]) for t in case["tensors"]}
    print(json.dumps([bytes(bintensors.serialize(items, case["metadata"])).hex(), same]))
`;

test("the bytes are the package's", { skip: !hasReference && "no Python" }, async () => {
  const cases = [];
  for (let seed = 0; seed < 200; seed++) {
    const tensors = model(seed).filter(({ dtype }) => !["F8_E8M0", "C64"].includes(dtype));
    const metadata = [null, {}, { k: "v\u2028é" }, { b: "1", a: "2", é: "" }][seed % 4];
    const built = await hexOf(await build(tensors, { format: "bintensors", ...(metadata && { metadata }) }));
    cases.push({ tensors: tensors.map((t) => ({ ...t, data: Buffer.from(t.data).toString("hex") })), metadata, built });
  }
  const input = cases.map((one) => JSON.stringify(one)).join("\n");
  const lines = execFileSync(PYTHON, ["-c", REFERENCE], { input, maxBuffer: 1 << 28 })
    .toString()
    .trim()
    .split("\n");
  assert.equal(lines.length, cases.length);
  for (const [i, line] of lines.entries()) {
    const [written, same] = JSON.parse(line);
    assert.equal(cases[i].built, written, `case ${i}`);
    assert(same, `case ${i}`);
  }
});

const folder = process.env.COFFER_BT_VECTORS ?? "";
const vectors = folder === "" ? [] : JSON.parse(readFileSync(join(folder, "manifest.json"), "utf8")).vectors;

for (const { file, layout, expect, canonical } of vectors) {
  test(file, async () => {
    const bytes = new Uint8Array(readFileSync(join(folder, file)));
    const format = layout === "A" ? "bintensors-a" : "bintensors";
    const opened = await open(bytes, { format, hiddenBytes: true }).catch((error) => error);
    if (expect === undefined) {
      // What the package of then took of layout A, and what it refuses by limits of its own, is not the format's verdict.
      assert(layout === "B" || opened instanceof CofferError, file);
      return;
    }
    if (file.includes("duplicate")) {
      // The package takes a key twice, of which the last one counts.
      assert.match(opened.code, /^DUPLICATE_/);
      return;
    }
    assert(!(opened instanceof Error), `${opened}`);
    const start = 8 + expect.header_len;
    const digest = async (name) =>
      createHash("sha256")
        .update(await opened.bytes(name))
        .digest("hex");
    const found = await Promise.all(
      [...opened.tensors].map(async ({ name, dtype, shape, offset, size }) => ({
        name,
        dtype,
        shape,
        data_offsets: [offset - start, offset - start + size],
        sha256: await digest(name),
      })),
    );
    assert.deepEqual(found, expect.tensors);
    const [{ metadata, hasMetadata }] = opened.files;
    assert.deepEqual(hasMetadata ? { ...metadata } : null, expect.metadata);
    if (canonical && layout === "B") {
      const tensors = found.map(({ name, dtype, shape }) => ({ name, dtype, shape, data: () => opened.bytes(name) }));
      const again = await build(tensors, { format, ...(hasMetadata && { metadata }) });
      assert.equal(await hexOf(again), Buffer.from(bytes).toString("hex"));
    }
    assert((await check(bytes, { format, hiddenBytes: true })).ok);
  });
}
