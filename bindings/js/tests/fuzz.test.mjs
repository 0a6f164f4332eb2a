// SPDX-License-Identifier: Apache-2.0
/*
 * The border to WebAssembly under bytes that nobody would write: no trap, no exception that is not a CofferError, no memory
 * beyond what docs/javascript.md states. Every run tries the same bytes. COFFER_JS_FUZZ_CASES changes their number.
 */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import test from "node:test";

import { build, CofferError, escapeText, MemorySource, open, readTable } from "libcoffer";

const CASES = Number(process.env.COFFER_JS_FUZZ_CASES ?? 20_000);
const folder = process.env.COFFER_VECTORS ?? new URL("../../../tests/vectors/", import.meta.url).pathname;
const seeds = readdirSync(folder)
  .filter((name) => /\.(safetensors|bt|bin)$/.test(name))
  .map((name) => new Uint8Array(readFileSync(`${folder}/${name}`)));

let state = 1;
const upTo = (n) => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * n);
};

/** One of the files with a few bytes changed, moved or lost. */
function changed(files = seeds) {
  const bytes = files[upTo(files.length)].slice(0, 4096);
  for (let times = upTo(4); times >= 0 && bytes.length > 0; times--) {
    const at = upTo(bytes.length);
    switch (upTo(4)) {
      case 0:
        bytes[at] = upTo(256);
        break;
      case 1:
        bytes[at] ^= 1 << upTo(8);
        break;
      case 2:
        bytes.copyWithin(at, upTo(bytes.length), upTo(bytes.length));
        break;
      default:
        bytes[at] = '{}[]",:0\\'.charCodeAt(upTo(9));
    }
  }
  return upTo(8) === 0 ? bytes.subarray(0, upTo(bytes.length + 1)) : bytes;
}

/** Its bytes as they come over a network: in any portions, and its size perhaps not known. */
class AnySource extends MemorySource {
  constructor(bytes, known) {
    super(bytes, "fuzz");
    this.known = known;
    this.all = bytes;
  }

  get size() {
    return this.known ? this.all.length : undefined;
  }

  set size(_) {}

  async head() {
    return this.all.subarray(0, 16 + upTo(256));
  }

  async read(offset, size) {
    // What is not there is made up, so that every wish is granted.
    const bytes = new Uint8Array(size);
    bytes.set(this.all.subarray(Number(offset), Number(offset) + size));
    return bytes;
  }
}

test("random bytes", async () => {
  const verdicts = new Map();
  const options = { maxHeaderSize: 1 << 20, allNotes: true };
  for (let i = 0; i < CASES; i++) {
    const bytes = changed();
    const format = [undefined, "safetensors", "bintensors", "bintensors-a"][upTo(4)];
    let verdict = "ok";
    try {
      const table = await readTable(new AnySource(bytes, upTo(2) === 0), {
        ...options,
        format,
        unknownDtypes: upTo(2) === 0,
      });
      for (let k = 0; k < table.count; k++) {
        assert(table.at(k).shape.every((dimension) => dimension >= 0));
      }
    } catch (error) {
      assert(error instanceof CofferError, `${error.stack}\n${Buffer.from(bytes).toString("hex")}`);
      verdict = error.code;
    }
    verdicts.set(verdict, (verdicts.get(verdict) ?? 0) + 1);
  }
  assert(verdicts.size > 25, [...verdicts].join(" "));
});

test("memory is bounded by the header's length", async () => {
  const { instances } = await import("./instances.mjs");
  const tiny = (i) => `"${i.toString(36)}":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`;
  const headers = {
    "many tensors": `{${Array.from({ length: 40_000 }, (_, i) => tiny(i)).join(",")}}`,
    "one long shape": `{"a":{"dtype":"U8","shape":[0${",0".repeat(1_000_000)}],"data_offsets":[0,0]}}`,
    "one long name": `{"${"a".repeat(2_000_000)}":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`,
    "many keys": `{"__metadata__":{${Array.from({ length: 100_000 }, (_, i) => `"${i.toString(36)}":""`).join(",")}}}`,
    "nothing but blanks": "{}".padEnd(2_000_000),
    "a deep value": `{"a":{"x":${"[".repeat(100)}${"]".repeat(100)},"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`,
  };
  for (const [what, text] of Object.entries(headers)) {
    const header = Buffer.from(text);
    const bytes = Buffer.alloc(8 + header.length);
    bytes.writeBigUInt64LE(BigInt(header.length));
    header.copy(bytes, 8);
    const grown = await instances(() => readTable(new MemorySource(new Uint8Array(bytes), what)));
    const most = 1_000_000 + 24 * header.length;
    assert(
      grown <= most,
      `${what}: ${grown} bytes for a header of ${header.length}, ${(grown / header.length).toFixed(1)} times`,
    );
    if (process.env.COFFER_JS_FIGURES) {
      console.log(what, header.length, grown, (grown / header.length).toFixed(1));
    }
  }
});

test("random indices, slices and digests", async () => {
  const { parseIndex } = await import("../dist/shards.js");
  const { withHasher } = await import("../dist/hashes.js");
  const corpus = new URL("../../../fuzz/corpus/fuzz_index/", import.meta.url);
  const indices = readdirSync(corpus).map((name) => new Uint8Array(readFileSync(new URL(name, corpus))));
  const model = await open(await build([{ name: "x", data: new Uint8Array(60), shape: [3, 4, 5] }]));
  const verdicts = new Set();
  const attempt = async (job) => {
    try {
      await job();
      verdicts.add("ok");
    } catch (error) {
      assert(error instanceof CofferError, error.stack);
      verdicts.add(error.code);
    }
  };
  for (let i = 0; i < CASES / 4; i++) {
    const bytes = changed(indices);
    await attempt(async () => {
      const { tensors, files, tensorFiles } = await parseIndex(bytes, "fuzz");
      // What the strict reader takes, JavaScript's own does, and it finds the same.
      const map = JSON.parse(Buffer.from(bytes).toString()).weight_map;
      assert.deepEqual(
        tensors.map((name, k) => [name, files[tensorFiles[k]]]),
        tensors.map((name) => [name, map[name]]),
      );
      assert.equal(tensors.length, Object.keys(map).length);
    });
    const text = Array.from({ length: upTo(9) }, () => ":,-0123456789. a"[upTo(16)]).join("");
    await attempt(async () => {
      const { shape, data } = await model.slice("x", text);
      assert.equal(
        data.length,
        shape.reduce((a, b) => a * b, 1),
        text,
      );
    });
    await withHasher(upTo(2) === 0 ? "sha256" : "xxh3-128", (hasher) => {
      hasher.update(bytes);
      hasher.finish();
    });
  }
  for (const code of ["ok", "JSON", "SHARD_NAME", "INDEX", "SLICE_SYNTAX"]) {
    assert(verdicts.has(code), code);
  }
});

test("memory is bounded by the index's length", async () => {
  const { withModelCore } = await import("../dist/core.js");
  const entry = (i) => `"${i.toString(36)}":"${(i % 50_000).toString(36)}"`;
  const texts = {
    "many files": `{"weight_map":{${Array.from({ length: 200_000 }, (_, i) => entry(i)).join(",")}}}`,
    "escaped names": `{"weight_map":{${Array.from({ length: 100_000 }, (_, i) => `"\\u0061${i}":"x"`).join(",")}}}`,
    "keys of no meaning": `{"weight_map":{"a":"x"},"m":{${Array.from({ length: 200_000 }, (_, i) => `"${i}":0`).join(",")}}}`,
  };
  for (const [what, text] of Object.entries(texts)) {
    const bytes = Buffer.from(text);
    await withModelCore((core) => {
      core.demand(core.exports.coffer_js_index(core.put(bytes), bytes.length, 0));
      const grown = core.buffer.byteLength;
      assert(grown <= 1_000_000 + 24 * bytes.length, `${what}: ${(grown / bytes.length).toFixed(1)} times`);
      if (process.env.COFFER_JS_FIGURES) {
        console.log(what, bytes.length, grown, (grown / bytes.length).toFixed(1));
      }
    });
  }
});

// ---- Instances ----------------------------------------------------------------------------------------------------------

test("an instance that trapped is not used again", async () => {
  const { withCore } = await import("../dist/core.js");
  let first;
  const trap = withCore((core) => {
    first = core;
    core.exports.coffer_js_escape(0xffff_fff0, 0x1000, 0);
  });
  await assert.rejects(trap, WebAssembly.RuntimeError);
  for (let i = 0; i < 20; i++) {
    await withCore((core) => assert.notEqual(core, first));
  }
  assert.equal(await escapeText("\u0007"), "\\x07");
});

test("addresses above 2 GB", async () => {
  const { withCore, AT, decodeText } = await import("../dist/core.js");
  const { Table } = await import("../dist/table.js");
  const bytes = new Uint8Array(
    await (await build([{ name: "é", data: Float32Array.of(1, 2), shape: [1, 2] }])).arrayBuffer(),
  );
  await withCore((core) => {
    // Nobody touches it, so it takes addresses and no memory.
    core.alloc(0x8000_0000);
    const head = core.put(bytes);
    assert(head > 0x8000_0000);
    core.demand(core.exports.coffer_js_read(head, bytes.length, BigInt(bytes.length), 0n, 0, 0));
    core.demand(core.exports.coffer_js_go_on());
    const table = new Table(core);
    assert.deepEqual(table.at(0), { name: "é", dtype: "F32", shape: [1, 2], offset: bytes.length - 8, size: 8 });
    const text = core.putText("\u0007");
    core.demand(core.exports.coffer_js_escape(text.address, text.size, 0));
    assert.equal(decodeText(core.bytes(core.u32(AT.bytes), core.u32(AT.bytesSize))), "\\x07");
    assert.throws(() => core.alloc(0x7fff_ffff), { code: "MEMORY" });
  });
});
