// SPDX-License-Identifier: Apache-2.0
/* Recorded digests: what docs/integrity.md defines, here by a second implementation. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";

import { build, open } from "libcoffer";

import { folderOf } from "./files.mjs";

const u64 = (n) => Buffer.from(BigUint64Array.of(BigInt(n)).buffer);
const s = (text) => [u64(Buffer.byteLength(text)), Buffer.from(text)];
const sha256 = (...parts) => createHash("sha256").update(Buffer.concat(parts.flat())).digest();

const TENSORS = [
  { name: "x", dtype: "F32", shape: [2, 3], data: Float32Array.from([1, 2, 3, 4, 5, 6]) },
  { name: "é", dtype: "BF16", shape: [], data: Uint16Array.of(7) },
  { name: "empty", dtype: "I64", shape: [0], data: new BigInt64Array(0) },
];

function records(change = (record) => record) {
  const list = TENSORS.map(({ name, dtype, shape, data }) =>
    sha256([
      Buffer.from("coffer.tensor.1\0"),
      ...s(name),
      ...s(dtype),
      u64(shape.length),
      ...shape.map(u64),
      sha256([Buffer.from(data.buffer)]),
    ]),
  );
  const digests = `1:sha256:${Buffer.concat(change(list)).toString("base64")}`;
  const pairs = { "😀": "1", "\uffee": "2", a: "b", "coffer.digests": digests };
  // In UTF-8 the emoji comes last, in UTF-16 it does not.
  const order = ["a", "coffer.digests", "\uffee", "😀"];
  const text = order.flatMap((key) => [...s(key), ...s(pairs[key])]);
  const digest = sha256([Buffer.from("coffer.metadata.1\0"), u64(order.length), ...text]);
  return { ...pairs, "coffer.metadata_digest": `1:sha256:${digest.toString("base64")}` };
}

async function verified(metadata, tensors = TENSORS) {
  return (await open(await build(tensors, { metadata }))).verify();
}

test("what is as it was recorded", async () => {
  assert.equal(await verified(records()), 3);
  assert.equal(await verified(records((list) => list.reverse())), 3);
});

test("what is not", async () => {
  const [x, ...rest] = TENSORS;
  await assert.rejects(verified(records(), [{ ...x, data: Float32Array.from([1, 2, 3, 4, 5, 7]) }, ...rest]), {
    code: "TENSOR_DIGEST",
    tensor: "x",
  });
  await assert.rejects(verified(records(), [{ ...x, shape: [3, 2] }, ...rest]), { code: "TENSOR_DIGEST", tensor: "x" });
  await assert.rejects(verified(records(), rest), { code: "TENSOR_DIGEST", expected: 3, actual: 2 });
  await assert.rejects(verified({ ...records(), a: "c" }), { code: "METADATA_DIGEST" });
  await assert.rejects(verified({ ...records(), more: "" }), { code: "METADATA_DIGEST" });
  await assert.rejects(verified({ a: "b" }), { code: "NO_DIGESTS" });
  const { "coffer.digests": digests, "coffer.metadata_digest": metadata } = records();
  await assert.rejects(verified({ "coffer.metadata_digest": metadata }), { code: "DIGESTS" });
  await assert.rejects(verified({ "coffer.digests": digests }), { code: "DIGESTS" });
  for (const odd of ["", "2:sha256:", "1:md5:", "1:sha256", "1:sha256:AAA", "1:sha256:AAAA", `${digests}=`]) {
    await assert.rejects(verified({ ...records(), "coffer.digests": odd }), { code: "DIGESTS" }, odd);
  }
  await assert.rejects(verified({ ...records(), "coffer.digests": "1:xxh3-128:AAAA" }), { code: "NO_ALGORITHM" });
});

const command = process.env.COFFER_CLI ?? "";

test("what the command recorded", { skip: !existsSync(command) && "no command" }, async (t) => {
  const folder = folderOf(t, { "x.safetensors": new Uint8Array(await (await build(TENSORS)).arrayBuffer()) });
  const path = join(folder, "x.safetensors");
  execFileSync(command, ["hash", "--write", "-q", path], { stdio: "pipe" });
  const bytes = new Uint8Array(readFileSync(path));
  const model = await open(bytes);
  const seen = [];
  assert.equal(await model.verify({ progress: (done, total) => seen.push([done, total]) }), 3);
  assert.deepEqual(seen.at(-1), [26, 26]);
  bytes[bytes.length - 1] ^= 1;
  await assert.rejects(model.verify(), { code: "TENSOR_DIGEST" });
});
