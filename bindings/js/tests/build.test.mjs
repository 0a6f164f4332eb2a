// SPDX-License-Identifier: Apache-2.0
/* Files that are built here have the bytes that the reference implementation and the library write. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";

import { build, buildStream, check, layOut, open } from "libcoffer";

import { folderOf, model } from "./files.mjs";

const PYTHON = process.env.COFFER_PYTHON ?? new URL("../../../.venv/bin/python", import.meta.url).pathname;
const hasReference = existsSync(PYTHON);
const bytesOf = async (blob) => new Uint8Array(await blob.arrayBuffer());

/** What the reference writes of the same tensors: with at most one key of metadata, whose order is chance there. */
const REFERENCE = `
import ctypes, json, sys, safetensors
NAMES = {"BOOL": "bool", "BF16": "bfloat16", "F8_E5M2": "float8_e5m2", "F8_E4M3": "float8_e4m3fn", "F8_E8M0": "float8_e8m0fnu", "C64": "complex64"}
KINDS = {"F": "float", "I": "int", "U": "uint"}
for line in sys.stdin:
    case = json.loads(line)
    kept, specs = [], {}
    for t in case["tensors"]:
        data = bytes.fromhex(t["data"])
        kept.append(ctypes.create_string_buffer(data, max(len(data), 1)))
        dtype = NAMES.get(t["dtype"]) or KINDS[t["dtype"][0]] + t["dtype"][1:]
        specs[t["name"]] = safetensors.TensorSpec(
            dtype=dtype, shape=t["shape"], data_ptr=ctypes.addressof(kept[-1]), data_len=len(data))
    print(bytes(safetensors.serialize(specs, case["metadata"])).hex())
`;

test("the bytes are the reference's", { skip: !hasReference && "no Python" }, async () => {
  const cases = Array.from({ length: 200 }, (_, seed) => ({
    tensors: model(seed),
    metadata: seed % 3 === 0 ? null : seed % 3 === 1 ? {} : { 'k"\n': "v\u2028é" },
  }));
  const lines = cases.map(({ tensors, metadata }) =>
    JSON.stringify({
      metadata,
      tensors: tensors.map((t) => ({ ...t, data: Buffer.from(t.data).toString("hex") })),
    }),
  );
  const written = execFileSync(PYTHON, ["-c", REFERENCE], { input: lines.join("\n") })
    .toString()
    .trim()
    .split("\n");
  for (const [i, { tensors, metadata }] of cases.entries()) {
    const blob = await build(tensors, metadata === null ? {} : { metadata });
    assert.equal(Buffer.from(await blob.arrayBuffer()).toString("hex"), written[i], `case ${i}`);
  }
});

test("what is built is read back", async () => {
  for (let seed = 0; seed < 50; seed++) {
    for (const format of ["safetensors", "bintensors"]) {
      const tensors = model(seed).filter(
        ({ dtype }) => format === "safetensors" || !["F8_E8M0", "C64"].includes(dtype),
      );
      const blob = await build(tensors, { format, metadata: { seed: String(seed) }, alignment: 64, slack: 100 });
      const { model: read, notes } = await check(blob, { format });
      assert(
        notes.every(({ kind }) => kind === "CONTROL_NAME" || kind === "UNALIGNED"),
        JSON.stringify(notes),
      );
      assert.deepEqual({ ...read.metadata }, { seed: String(seed) });
      assert.equal(read.files[0].dataOffset % 64, 0);
      assert.equal(read.tensors.size, tensors.length);
      for (const { name, data, shape } of tensors) {
        assert.deepEqual(await read.bytes(name), data);
        assert.deepEqual(read.tensors.get(name).shape, shape);
      }
    }
  }
});

test("a stream has the same bytes, and asks for each tensor when it is due", async () => {
  const tensors = model(7);
  const asked = [];
  const lazy = tensors.map((t) => ({ ...t, data: async () => (asked.push(t.name), new Blob([t.data])) }));
  const stream = await buildStream(lazy);
  assert.deepEqual(asked, []);
  const bytes = await bytesOf(await new Response(stream).blob());
  assert.deepEqual(bytes, await bytesOf(await build(tensors)));
  const { tensors: laid, size } = await layOut(tensors);
  assert.deepEqual(
    asked,
    laid.map(({ name }) => name),
  );
  assert.equal(size, bytes.length);
});

test("a file that is saved opens as the library's", async (t) => {
  const bytes = await bytesOf(await build(model(3)));
  const path = join(folderOf(t, { "x.safetensors": bytes }), "x.safetensors");
  const command = process.env.COFFER_CLI;
  if (command !== undefined && existsSync(command)) {
    execFileSync(command, ["check", path]);
  }
  assert.deepEqual(new Uint8Array(readFileSync(path)), bytes);
  await (await open(path)).close();
});

test("what cannot be written", async () => {
  const one = { name: "a", data: Float32Array.of(1) };
  const refused = (tensors, code, options) => assert.rejects(build(tensors, options), { code }, code);
  await refused([one, one], "DUPLICATE_NAME");
  await refused([{ ...one, name: "__metadata__" }], "NAME");
  await refused([{ ...one, name: "\ud800" }], "UTF8");
  await refused([{ ...one, shape: [2] }], "BUFFER_SIZE");
  await refused([{ ...one, dtype: "F33" }], "DTYPE");
  await refused([{ name: "a", data: new Blob([]) }], "ARGUMENT");
  await refused([{ ...one, dtype: "F4", shape: [3] }], "PARTIAL_BYTE");
  await refused([{ ...one, shape: [2n ** 63n] }], "OVERFLOW");
  await refused([one], "ARGUMENT", { alignment: 12 });
  await refused([{ ...one, dtype: "C64", shape: [1], data: new Uint8Array(8) }], "DTYPE", { format: "bintensors" });
});

test("arrays say their dtype", async () => {
  const arrays = [
    Int8Array,
    Uint8Array,
    Int16Array,
    Uint16Array,
    Int32Array,
    Uint32Array,
    Float32Array,
    Float64Array,
    BigInt64Array,
    BigUint64Array,
  ];
  const dtypes = ["I8", "U8", "I16", "U16", "I32", "U32", "F32", "F64", "I64", "U64"];
  const read = await open(await build(arrays.map((Type, i) => ({ name: dtypes[i], data: new Type(3) }))));
  for (const tensor of read.tensors) {
    assert.equal(tensor.dtype, tensor.name);
    assert.deepEqual(tensor.shape, [3]);
    assert.equal((await read.get(tensor.name)).constructor, arrays[dtypes.indexOf(tensor.name)]);
  }
});
