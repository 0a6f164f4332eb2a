// SPDX-License-Identifier: Apache-2.0
/* Packed files: the vectors, with the verdicts that their names say, and what the command packs against what it packed. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";

import { build, check, open } from "libcoffer";

import { folderOf } from "./files.mjs";

const FOLDER = join(
  process.env.COFFER_VECTORS ?? new URL("../../../tests/vectors", import.meta.url).pathname,
  "packed",
);
const FILES = readdirSync(FOLDER).filter((name) => name.endsWith(".safetensors"));
const CLI = process.env.COFFER_CLI;

/** The first number whose bits are not those of the other array; -1 when all are. */
function firstOther(a, b) {
  return a.length === b.length ? a.findIndex((byte, i) => byte !== b[i]) : Math.min(a.length, b.length);
}

/** A generator of numbers below 256. */
function random(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state >>> 24;
  };
}

/** A plain file of every size of element, and what the command packs of it. */
async function plainAndPacked(t) {
  const tensors = [
    ["bf16", "BF16", [300, 701], 2],
    ["f32", "F32", [3, 130, 257], 4],
    ["f64", "F64", [70000], 8],
    ["e4m3", "F8_E4M3", [70, 1500], 1],
    ["c64", "C64", [90, 400], 8],
    ["small", "F32", [], 4],
    ["none", "F16", [0, 300], 2],
  ].map(([name, dtype, shape, size], i) => {
    const next = random(i);
    const data = new Uint8Array(shape.reduce((all, n) => all * n, size));
    for (let k = 0; k < data.length; k++) {
      data[k] = k % size === size - 1 ? 56 + (next() & next() & 7) : next();
    }
    return { name, dtype, shape, data };
  });
  const folder = folderOf(t, {});
  const plain = join(folder, "plain.safetensors");
  const packed = join(folder, "packed.safetensors");
  const blob = await build(tensors, { metadata: { format: "pt" } });
  writeFileSync(plain, new Uint8Array(await blob.arrayBuffer()));
  execFileSync(CLI, ["pack", plain, "-o", packed]);
  return { plain, packed };
}

test("vectors", async (t) => {
  assert.ok(FILES.length > 30);
  for (const file of FILES) {
    await t.test(file, async () => {
      const [, code] = /^(?:ok__\w+|err_([A-Z_]+)__\w+)\.safetensors$/.exec(file);
      const model = await open(join(FOLDER, file));
      assert.equal(model.files[0].packedSize, readFileSync(join(FOLDER, file)).length);
      const all = (async () => {
        for (const name of model.tensors.keys()) {
          await model.bytes(name);
        }
      })();
      await (code === undefined ? all : assert.rejects(all, { name: "CofferError", code }));
      await model.bytes("plain");
      await model.close();
    });
  }
});

test("the same bytes as the plain file", { skip: CLI === undefined && "no command" }, async (t) => {
  const { plain, packed } = await plainAndPacked(t);
  const [a, b] = [await open(plain), await open(packed)];
  assert.ok(b.files[0].packedSize < a.files[0].size * 0.9);
  assert.equal(b.files[0].size, a.files[0].size);
  assert.equal(a.files[0].packedSize, undefined);
  assert.deepEqual(JSON.stringify([...b.tensors]), JSON.stringify([...a.tensors]));
  assert.deepEqual({ ...b.metadata }, { ...a.metadata });
  for (const { name, size } of a.tensors) {
    assert.equal(firstOther(await a.bytes(name), await b.bytes(name)), -1, name);
    for (const [begin, end] of [
      [0, 1],
      [1, 2049],
      [131071, 131074],
      [size - 1, size],
    ]) {
      if (begin >= 0 && end <= size) {
        assert.deepEqual(await b.bytes(name, { begin, end }), await a.bytes(name, { begin, end }), `${name} ${begin}`);
      }
    }
  }
  for (const [name, slice] of [
    ["bf16", "200:203, ::7"],
    ["f32", ":, 64:, 3"],
    ["e4m3", "-1"],
    ["c64", "::-13, 5:9"],
  ]) {
    assert.deepEqual(await b.slice(name, slice), await a.slice(name, slice), name);
  }
  assert.equal(await b.contentDigest(), await a.contentDigest());
  assert.equal(await b.verify(), a.tensors.size);
  assert.ok((await check(packed)).ok);
  await Promise.all([a.close(), b.close()]);
});

test("another SHA-256 is noticed", async () => {
  const content = readFileSync(join(FOLDER, "ok__bf16_raw_huff.safetensors"));
  const at = content.indexOf(":", content.indexOf('"1:') + 3) + 9;
  content[at] ^= 1; // a digit that remains one
  const model = await open(new Uint8Array(content));
  await assert.rejects(model.verify(), { code: "PACK_CHECKSUM" });
});

test("a file that contradicts itself", async (t) => {
  const content = readFileSync(join(FOLDER, "ok__bf16_raw_huff.safetensors"));
  const changes = [
    ['"1:', '"2:', /version/],
    ['"1:', '"1:9', /contradicts itself|header/],
    ["coffer.header", "coffer.heaver", /no header of the original/],
    ['\\"plain\\"', '\\"plaim\\"', /lacks a tensor/],
  ];
  for (const [old, fresh, said] of changes) {
    await t.test(fresh, async () => {
      const at = content.indexOf(old);
      assert.ok(at > 0);
      const changed = Buffer.from(content);
      changed.write(fresh, at);
      await assert.rejects(
        open(new Uint8Array(changed)),
        (error) => /^(PACK_FILE|[A-Z_]+)$/.test(error.code) && said.test(error.message),
      );
      assert.equal((await check(new Uint8Array(changed))).ok, false);
    });
  }
});
