// SPDX-License-Identifier: Apache-2.0
/* Recorded digests: what docs/integrity.md defines, here by a second implementation. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import test from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

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
  await assert.rejects(verified({ ...records(), "coffer.digests": "1:xxh3-128:AAAA" }), { code: "DIGESTS" });
});

/** What docs/integrity.md has of its model. */
const DOCUMENTED = [
  { name: "a", dtype: "F32", shape: [2, 3], data: Uint8Array.from({ length: 24 }, (_, i) => i) },
  { name: "scalar", dtype: "U8", shape: [], data: Uint8Array.of(7) },
  { name: "empty", dtype: "BF16", shape: [0, 4], data: new Uint8Array(0) },
  { name: "é", dtype: "I16", shape: [2], data: Uint8Array.of(1, 0, 255, 255) },
];

test("the content's digest", async () => {
  const text = readFileSync(new URL("../../../docs/integrity.md", import.meta.url), "utf8");
  const model = await open(await build(DOCUMENTED));
  for (const algorithm of ["sha256", "xxh3-128"]) {
    const [, digest] = new RegExp(`${algorithm} \\| the content \\| \`([0-9a-f]+)\``).exec(text);
    assert.equal(await model.contentDigest(algorithm), digest);
  }
  assert.equal(await model.contentDigest(), await model.contentDigest("sha256"));
});

/** A tensor of several pieces, so that it is hashed piece by piece. */
const LONG = Uint8Array.from({ length: (33 << 20) + 5 }, (_, i) => (i * 7919) >> 3);

test("long tensors, without the platform's help too", async (t) => {
  const model = await open(await build([{ name: "x", data: LONG }]));
  const expected = await model.contentDigest();
  const here = dirname(dirname(fileURLToPath(import.meta.url)));
  // As in a page that is not from https: no SubtleCrypto, and no Node.
  const program = `
    import { build, open } from ${JSON.stringify(pathToFileURL(join(here, "dist/index.js")).href)};
    const LONG = Uint8Array.from({ length: ${LONG.length} }, (_, i) => (i * 7919) >> 3);
    const blob = await build([{ name: "x", data: LONG }]);
    const small = await build([{ name: "y", data: LONG.subarray(0, 1000) }]);
    Object.defineProperty(globalThis, "crypto", { value: {} });
    Object.defineProperty(process, "versions", { value: {} });
    console.log(await (await open(blob)).contentDigest(), await (await open(small)).contentDigest());
  `;
  const small = await (await open(await build([{ name: "y", data: LONG.subarray(0, 1000) }]))).contentDigest();
  const output = execFileSync(process.execPath, ["--input-type=module", "--eval", program], { encoding: "utf8" });
  assert.equal(output.trim(), `${expected} ${small}`);
  const data = sha256(Buffer.from(LONG));
  const record = sha256([Buffer.from("coffer.tensor.1\0"), ...s("x"), ...s("U8"), u64(1), u64(LONG.length), data]);
  assert.equal(sha256([Buffer.from("coffer.content.1\0"), u64(1), record]).toString("hex"), expected);
});

test("messages of every length", async () => {
  const { withHasher } = await import("../dist/hashes.js");
  await withHasher("sha256", (hasher) => {
    for (let length = 0; length < 260; length++) {
      const bytes = LONG.subarray(length, 2 * length);
      // In two pieces, at a place that is another one each time.
      hasher.update(bytes.subarray(0, (length * 31) % (length + 1)));
      hasher.update(bytes.subarray((length * 31) % (length + 1)));
      assert.deepEqual(Buffer.from(hasher.finish()), sha256(Buffer.from(bytes)), `${length} bytes`);
    }
  });
});

const command = process.env.COFFER_CLI ?? "";

test("what the command recorded", { skip: !existsSync(command) && "no command" }, async (t) => {
  const folder = folderOf(t, { "x.safetensors": new Uint8Array(await (await build(TENSORS)).arrayBuffer()) });
  const path = join(folder, "x.safetensors");
  for (const algorithm of ["xxh3", "sha256"]) {
    execFileSync(command, ["hash", "--write", "-q", "-a", algorithm, path], { stdio: "pipe" });
    await verifiedAndDamaged(new Uint8Array(readFileSync(path)));
  }
});

async function verifiedAndDamaged(bytes) {
  const model = await open(bytes);
  const seen = [];
  assert.equal(await model.verify({ progress: (done, total) => seen.push([done, total]) }), 3);
  assert.deepEqual(seen.at(-1), [26, 26]);
  bytes[bytes.length - 1] ^= 1;
  await assert.rejects(model.verify(), { code: "TENSOR_DIGEST" });
}

test("what an index records", { skip: !existsSync(command) && "no command" }, async (t) => {
  const bytesOf = async (tensors) => new Uint8Array(await (await build(tensors)).arrayBuffer());
  const whole = [...DOCUMENTED, ...TENSORS.slice(0, 1)];
  const folder = folderOf(t, { "whole.safetensors": await bytesOf(whole) });
  const run = (...args) => execFileSync(command, args, { cwd: folder, stdio: "pipe" });
  run("split", "-q", "whole.safetensors", "-o", "m.safetensors", "--max-shard-size", "24", "--digest", "xxh3");
  const index = join(folder, "m.safetensors.index.json");
  const text = readFileSync(index, "utf8");
  const model = await open(index);
  assert(model.files.length > 1);
  assert.equal(await model.verify(), whole.length);
  const digest = await model.contentDigest("xxh3-128");
  const one = await open(join(folder, "whole.safetensors"));
  assert.equal(digest, await one.contentDigest("xxh3-128"));
  await one.close();
  await model.close();

  const damaged = async (change, code, file) => {
    writeFileSync(index, JSON.stringify(change(JSON.parse(text))));
    const again = await open(index);
    const message = await again.verify().then(
      () => assert.fail(code),
      (error) => {
        assert.equal(error.code, code, error.message);
        assert.equal(error.path, file ?? index);
        return error.message;
      },
    );
    await again.close();
    const { stdout, stderr, status } = spawnSync(command, ["verify", index], { encoding: "utf8" });
    assert.equal(status, 1);
    assert(`${stdout}${stderr}`.includes(message.slice(message.indexOf(": ") + 2)), `${stdout}${stderr}\n${message}`);
  };
  const metadata = (more) => (json) => ({ ...json, metadata: { ...json.metadata, ...more } });
  const shards = (list) => `1:xxh3-128:${Buffer.concat(list).toString("base64")}`;
  const recorded = JSON.parse(text).metadata;
  const list = Buffer.from(recorded["coffer.shard_digests"].split(":")[2], "base64");
  const parts = Array.from({ length: list.length / 16 }, (_, i) => list.subarray(16 * i, 16 * i + 16));
  await damaged(metadata({ "coffer.content_digest": shards([parts[0]]) }), "CONTENT_DIGEST");
  await damaged(metadata({ "coffer.content_digest": null }), "DIGESTS");
  await damaged(metadata({ "coffer.content_digest": shards(parts) }), "DIGESTS");
  await damaged(metadata({ "coffer.content_digest": 7 }), "DIGESTS");
  await damaged(metadata({ "coffer.shard_digests": shards([...parts, parts[0]]) }), "CONTENT_DIGEST");
  const files = [...new Set(Object.values(JSON.parse(text).weight_map))].sort();
  await damaged(metadata({ "coffer.shard_digests": shards(parts.slice(1)) }), "CONTENT_DIGEST", join(folder, files[0]));
  writeFileSync(
    index,
    JSON.stringify(metadata({ "coffer.content_digest": null, "coffer.shard_digests": null })(JSON.parse(text))),
  );
  const nothing = await open(index);
  assert.equal(await nothing.verify(), whole.length);
  await nothing.close();
});
