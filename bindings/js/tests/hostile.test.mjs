// SPDX-License-Identifier: Apache-2.0
/* What programs hand in that should not: an error that says so, and never a wrong result. */
import assert from "node:assert/strict";
import test from "node:test";

import { build, buildStream, CofferError, decode, open, parseSafetensorsMetadata, useModule } from "libcoffer";

import { CountingSource, folderOf } from "./files.mjs";

const F = Float32Array.of(1, 2);
const tensor = (more) => [{ name: "a", data: F, ...more }];
const bytesOf = async (blob) => new Uint8Array(await blob.arrayBuffer());

test("what cannot be opened", async () => {
  const odd = [
    undefined,
    null,
    0,
    1n,
    true,
    Symbol("x"),
    {},
    () => 1,
    [1],
    new Date(),
    new Map([[1, 2]]),
    { head: 1, read: 2 },
  ];
  for (const from of [...odd, new Response(""), Promise.resolve("x"), Object("x")]) {
    await assert.rejects(open(from), { name: "TypeError", message: /^open takes/ });
  }
  for (const [from, code] of [
    ["", "NOT_FOUND"],
    ["a\0b", "IO"],
    ["http://", "URL"],
    ["https://[", "URL"],
    [[], "NO_MODEL"],
    [new Blob([]), "EMPTY"],
  ]) {
    await assert.rejects(open(from), { code }, String(from));
  }
  const blob = await build(tensor());
  assert.equal((await open([blob])).tensors.size, 1);
  const shared = new Uint8Array(new SharedArrayBuffer(blob.size));
  shared.set(await bytesOf(blob));
  assert.deepEqual(await (await open(shared.buffer)).get("a"), F);
});

test("messages say what is wrong, and not what broke", async (t) => {
  const other = /only URLs that begin with https:, http:, hf: or file: can be opened/;
  await assert.rejects(open("ftp://host/x.safetensors"), { code: "URL", message: other });
  await assert.rejects(open(new URL("s3://bucket/x.safetensors")), { code: "URL", message: other });
  await assert.rejects(open("http://127.0.0.1:1/x", { retries: 0 }), {
    code: "CONNECT",
    message: /cannot be reached(?! or)/,
  });

  const folder = folderOf(t, { "x.safetensors": await bytesOf(await build(tensor({ shape: [2] }))) });
  const model = await open(`${folder}/x.safetensors`);
  await model.close();
  await assert.rejects(model.get("a"), { code: "ARGUMENT", message: /the model was closed/ });

  for (const module of [undefined, 3, new Uint8Array(8)]) {
    assert.throws(() => useModule(module), { name: "TypeError", message: /^useModule takes/ });
  }
  for (const given of [undefined, null, 3, {}]) {
    await assert.rejects(build(given), { code: "ARGUMENT", message: /the tensors are a list/ });
  }
  await assert.rejects(build([{}]), { code: "ARGUMENT", message: /the name of a tensor is a text, not undefined/ });
  await assert.rejects(build([{ name: {} }]), { message: /is a text, not an object/ });
});

test("options that are none", async () => {
  const blob = await build(tensor());
  for (const maxHeaderSize of [-1, 1.5, NaN, 2 ** 64, "8"]) {
    await assert.rejects(open(blob, { maxHeaderSize }), { code: "ARGUMENT" }, String(maxHeaderSize));
  }
  await assert.rejects(open(blob, { format: "x" }), TypeError);
  const names = ["m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"];
  const files = await Promise.all(names.map(async (name) => new File([await build([{ name, data: F }])], name)));
  for (const parallel of [0, -1, NaN, 0.5, Infinity]) {
    assert.equal((await open(files, { parallel })).tensors.size, 2, String(parallel));
  }
});

test("sources that do not do what they are asked", async () => {
  const bytes = await bytesOf(await build(tensor({ data: new Float32Array(50_000) })));
  class Odd extends CountingSource {
    constructor(change) {
      super(bytes, "odd");
      Object.assign(this, change);
    }
  }
  const changes = [
    { read: async () => new Uint8Array(3) },
    { read: async (_, size) => new Uint8Array(size + 1) },
    { read: async () => "text" },
    { read: async () => undefined },
  ];
  for (const change of changes) {
    const model = await open(new Odd(change));
    await assert.rejects(model.get("a"), { code: "IO", path: "odd" });
    await assert.rejects(model.slice("a", "0:9"), { code: "IO" });
    await assert.rejects(model.contentDigest(), { code: "IO" });
    // A header of which more is needed.
    const head = async () => bytes.subarray(0, 12);
    await assert.rejects(open(new Odd({ ...change, head })), { code: "IO" });
  }
  for (const head of [async () => "text", async () => null]) {
    await assert.rejects(open(new Odd({ head })), { code: "IO" });
  }
  for (const size of [-1, NaN, 1.5, "9"]) {
    const source = { name: "x", size, head: async () => bytes, read: () => assert.fail() };
    await assert.rejects(open(source), { code: "ARGUMENT" }, String(size));
  }
  const mine = new Error("mine");
  await assert.rejects(open(new Odd({ head: () => Promise.reject(mine) })), mine);
});

test("names, slices and arrays", async () => {
  const model = await open(await build(tensor({ shape: [1, 2] })));
  for (const name of [undefined, null, 5, {}, "__proto__", "constructor", "\ud800", "x".repeat(1e6)]) {
    await assert.rejects(model.get(name), { code: "NO_TENSOR" });
  }
  await assert.rejects(model.get("\u202e\u0007"), { message: /there is no tensor "\\u\{202e\}\\x07"$/ });
  for (const slice of [undefined, null, 5, 1n, {}, [Symbol("x")], [{}], [() => 1], [true], ["0"]]) {
    await assert.rejects(model.slice("a", slice), { code: "ARGUMENT" });
  }
  for (const slice of [
    [NaN],
    [1.5],
    [Infinity],
    [[1.5]],
    ["x"].toString(),
    "x".repeat(1e5),
    [2n ** 70n],
    [[0, 2n ** 64n]],
  ]) {
    await assert.rejects(model.slice("a", slice), { code: "SLICE_SYNTAX" });
  }
  await assert.rejects(model.slice("a", ":,".repeat(5000)), CofferError);
  for (const algorithm of ["md5", 5, null]) {
    await assert.rejects(model.contentDigest(algorithm), { code: "ARGUMENT" });
  }
  for (const data of [null, undefined, "abc", [1, 2], new ArrayBuffer(4)]) {
    await assert.rejects(decode("F32", data), { code: "ARGUMENT" });
  }
  await assert.rejects(decode("F32", new Uint8Array(3)), { code: "BUFFER_SIZE" });
  await assert.rejects(decode("F32", F, 3), { code: "BUFFER_SIZE" });
  await assert.rejects(decode("F4", new Uint8Array(1), 3), { code: "BUFFER_SIZE" });
  await assert.rejects(decode("F32", F, -1), { code: "ARGUMENT" });
  assert.deepEqual([...(await decode("F32", F, 1))], [1]);
  assert.deepEqual([...(await decode("F4", Uint8Array.of(0x21), 1))], [0.5]);
});

test("what cannot be written", async () => {
  const refused = async (code, tensors, options) => {
    await assert.rejects(build(tensors, options), { code });
    await assert.rejects(
      buildStream(tensors, options).then((stream) => new Response(stream).arrayBuffer()),
      { code },
    );
  };
  for (const name of [undefined, null, 5, {}]) {
    await refused("ARGUMENT", [{ name, data: F }]);
  }
  await refused("UTF8", [{ name: "\ud800", data: F }]);
  for (const shape of ["2", 2, {}, [1.5], [-1], [NaN], ["2"], [null], [2n ** 64n], [-1n]]) {
    await refused("ARGUMENT", tensor({ shape }));
  }
  for (const data of [null, 5, "xx", [1, 2], {}, () => null, () => "x", async () => [1]]) {
    await refused("ARGUMENT", tensor({ dtype: "F32", shape: [2], data }));
  }
  for (const data of [new Uint8Array(3), () => new Uint8Array(9), new Blob(["x"])]) {
    await refused("BUFFER_SIZE", tensor({ dtype: "F32", shape: [2], data }));
  }
  for (const metadata of ["text", 5, { a: 5 }, { a: null }, { a: {} }]) {
    await refused("ARGUMENT", tensor(), { metadata });
  }
  await refused("UTF8", tensor(), { metadata: { a: "\udc00" } });
  for (const alignment of [1.5, NaN, -8, "8", 3]) {
    await refused("ARGUMENT", tensor(), { alignment });
  }
  for (const slack of [1.5, -1, "8", 2 ** 64]) {
    await refused("ARGUMENT", tensor(), { slack });
  }
});

test("answers that no server should give", async () => {
  const answer = (body, status = 200, headers = {}) => ({
    repo: "a/b",
    path: "x.safetensors",
    fetch: async () => new Response(body, { status, headers }),
  });
  const size = (text) => ({ "Content-Length": text });
  const range = (text) => ({ "Content-Range": text });
  for (const params of [
    answer("x"),
    answer(null, 204),
    answer("x".repeat(100), 206, range("bytes 5-104/105")),
    answer("x", 206, range("bytes 0-0/99999999999999999999999")),
    answer("x", 206, range("bytes x-y/z")),
    ...["-5", "abc", "1e9", "1e309", "99999999999999999999"].map((text) => answer("x", 200, size(text))),
  ]) {
    await assert.rejects(parseSafetensorsMetadata(params), CofferError);
  }
  const asked = [];
  const fetch = async (url) => (asked.push(url), new Response("x"));
  const params = { repo: "a/b", path: "a b#?.safetensors", revision: "../..", fetch };
  await assert.rejects(parseSafetensorsMetadata(params), CofferError);
  assert.deepEqual(asked, ["https://huggingface.co/a/b/resolve/..%2F../a b%23%3F.safetensors"]);
});
