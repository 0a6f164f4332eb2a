// SPDX-License-Identifier: Apache-2.0
/* Opening models, wherever they are, and reading tensors of them. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";

import { build, check, CofferError, decode, MemorySource, open } from "libcoffer";

import { CountingSource, folderOf } from "./files.mjs";
import { startHub } from "./hub_server.mjs";

const counting = (count, Type = Float32Array) => Type.from({ length: count }, (_, i) => i);
const bytesOf = async (blob) => new Uint8Array(await blob.arrayBuffer());

async function sample() {
  return bytesOf(
    await build(
      [
        { name: "a", data: counting(24), shape: [4, 6] },
        { name: "b", data: counting(5, Uint8Array) },
        { name: "c", data: BigInt64Array.of(2n ** 60n), shape: [] },
      ],
      { metadata: { format: "pt" } },
    ),
  );
}

async function looksRight(model) {
  assert.deepEqual([...model.tensors.keys()].sort(), ["a", "b", "c"]);
  const { shape, dtype, elements, size } = model.tensors.get("a");
  assert.deepEqual({ shape, dtype, elements, size }, { shape: [4, 6], dtype: "F32", elements: 24, size: 96 });
  assert.deepEqual(await model.get("a"), counting(24));
  assert.deepEqual(await model.get("b"), counting(5, Uint8Array));
  assert.deepEqual(await model.get("c"), BigInt64Array.of(2n ** 60n));
  await assert.rejects(model.get("d"), { code: "NO_TENSOR", status: 80 });
  await model.close();
}

test("from all kinds of places", async (t) => {
  const bytes = await sample();
  const folder = folderOf(t, { "model.safetensors": bytes, "readme.md": "" });
  const path = join(folder, "model.safetensors");
  const hub = await startHub(new Map([["o/m/model.safetensors", Buffer.from(bytes)]]));
  t.after(hub.stop);
  const url = `${hub.hubUrl}/o/m/resolve/main/model.safetensors`;
  const places = {
    blob: new Blob([bytes]),
    file: new File([bytes], "model.safetensors"),
    ArrayBuffer: bytes.buffer,
    view: bytes,
    path,
    "file URL": pathToFileURL(path),
    folder,
    url,
    URL: new URL(url),
    "folder by URL": `${hub.hubUrl}/o/m/resolve/main/`,
    source: new CountingSource(bytes, "x"),
    files: [new File([bytes], "model.safetensors"), new File(["{}"], "config.json")],
  };
  for (const [kind, place] of Object.entries(places)) {
    const model = await open(place).catch((error) => assert.fail(`${kind}: ${error.stack}`));
    assert.deepEqual({ ...model.metadata }, { format: "pt" });
    await looksRight(model);
  }
});

test("several files", async (t) => {
  const part = async (name, from) => bytesOf(await build([{ name, data: Float32Array.of(from, from + 1) }]));
  const files = {
    "model-00001-of-00002.safetensors": await part("x", 1),
    "model-00002-of-00002.safetensors": await part("y", 3),
  };
  const index = {
    metadata: { total_size: 16 },
    weight_map: { x: "model-00001-of-00002.safetensors", y: "model-00002-of-00002.safetensors" },
  };
  const name = "model.safetensors.index.json";
  const right = async (from, notes = []) => {
    const report = await check(from);
    assert.deepEqual(report.error, undefined);
    assert.deepEqual(
      report.notes.map(({ kind }) => kind),
      notes,
    );
    assert.deepEqual(await report.model.get("y"), Float32Array.of(3, 4));
    assert.equal(report.model.tensors.get("y").shard, 1);
    assert.equal(report.model.tensors.at(1).name, "y");
    await report.model.close();
  };
  const with_ = (change) => ({ ...files, [name]: JSON.stringify({ ...index, ...change }) });
  await right(folderOf(t, with_({})));
  await right(join(folderOf(t, with_({})), name));
  await right(folderOf(t, files), ["NO_INDEX"]);
  await right(folderOf(t, with_({ metadata: { total_size: 15 } })), ["TOTAL_SIZE"]);
  await right(Object.entries(with_({})).map(([file, bytes]) => new File([bytes], file)));
  await right(Object.entries(with_({})).map(([file, bytes]) => new MemorySource(Buffer.from(bytes), file)));
  const extra = { "model-00003-of-00003.safetensors": await part("z", 1) };
  await right(folderOf(t, { ...with_({}), ...extra }), ["EXTRA_SHARD"]);

  const refused = async (code, files_, more = name) =>
    assert.rejects(open(join(folderOf(t, files_), more)), { code }, code);
  await refused("SHARD_MISSING", { [name]: JSON.stringify(index) });
  await refused("SHARD_NAME", with_({ weight_map: { x: "../x.safetensors" } }));
  await refused("NOT_IN_SHARD", with_({ weight_map: { ...index.weight_map, z: "model-00001-of-00002.safetensors" } }));
  await refused("NOT_IN_SHARD", with_({ weight_map: { ...index.weight_map, x: "model-00002-of-00002.safetensors" } }));
  await refused("MISSING_FIELD", { [name]: "{}" });
  await refused("JSON", { [name]: "{" });
  await refused(
    "TWO_SHARDS",
    {
      "model-00001-of-00002.safetensors": await part("x", 1),
      "model-00002-of-00002.safetensors": await part("x", 1),
    },
    "",
  );
  await refused("SHARD_MISSING", { "model-00001-of-00002.safetensors": await part("x", 1) }, "");
  await refused("NO_MODEL", {}, "");
  await refused("AMBIGUOUS", { "a.safetensors": await part("x", 1), "b.safetensors": await part("x", 1) }, "");
  await refused("NOT_FOUND", {}, "nothing.safetensors");
});

test("slices are those of arrays", async () => {
  const shape = [5, 4, 3];
  const data = counting(60, Int16Array);
  const model = await open(await build([{ name: "x", data, shape }]));
  const at = (i, j, k) => data[(i * 4 + j) * 3 + k];
  const range = (start, stop, step = 1) =>
    Array.from({ length: Math.max(0, Math.ceil((stop - start) / step)) }, (_, i) => start + i * step);
  const expected = (is, js, ks) => Int16Array.from(is.flatMap((i) => js.flatMap((j) => ks.map((k) => at(i, j, k)))));
  const cases = [
    ["", [5, 4, 3], expected(range(0, 5), range(0, 4), range(0, 3))],
    ["1", [4, 3], expected([1], range(0, 4), range(0, 3))],
    [[1], [4, 3], expected([1], range(0, 4), range(0, 3))],
    ["1:3, ::2, -1", [2, 2], expected([1, 2], [0, 2], [2])],
    [[[1, 3], [null, null, 2], -1], [2, 2], expected([1, 2], [0, 2], [2])],
    ["..., 1", [5, 4], expected(range(0, 5), range(0, 4), [1])],
    ["::-2, 0, ::-1", [3, 3], expected([4, 2, 0], [0], [2, 1, 0])],
    [[null, [3]], [5, 1, 3], expected(range(0, 5), [3], range(0, 3))],
    ["2:2", [0, 4, 3], new Int16Array(0)],
  ];
  for (const [slice, result, values] of cases) {
    const found = await model.slice("x", slice);
    assert.deepEqual(found, { shape: result, data: values }, JSON.stringify(slice));
  }
  await assert.rejects(model.slice("x", "5"), { code: "INDEX" });
  await assert.rejects(model.slice("x", "0:1:0"), { code: "STEP" });
  await assert.rejects(model.slice("x", "a"), { code: "SLICE_SYNTAX", offset: 0 });
});

test("only what is needed is read", async () => {
  const data = new Uint8Array(40 << 20).map((_, i) => i % 251);
  const bytes = await bytesOf(
    await build([
      { name: "x", data, shape: [40, 1 << 20] },
      { name: "y", data: data.subarray(0, 9) },
    ]),
  );
  const source = new CountingSource(bytes, "x");
  const model = await open(source);
  assert.deepEqual(source.reads.splice(0), [[0, 98304]]);
  const row = await model.slice("x", "7, 100:200");
  assert.deepEqual(row.data, data.subarray((7 << 20) + 100, (7 << 20) + 200));
  assert.deepEqual(
    source.reads.splice(0).map(([, size]) => size),
    [100],
  );
  const column = await model.slice("x", ":, 5");
  assert.deepEqual(
    column.data,
    Uint8Array.from({ length: 40 }, (_, i) => data[(i << 20) + 5]),
  );
  assert.deepEqual(
    source.reads.splice(0).map(([, size]) => size),
    new Array(40).fill(1),
  );
  const seen = [];
  assert.deepEqual(await model.get("x", { progress: (done, total) => seen.push([done, total]) }), data);
  assert.deepEqual(
    source.reads.splice(0).map(([, size]) => size),
    [16 << 20, 16 << 20, 8 << 20],
  );
  assert.deepEqual(seen.at(-1), [40 << 20, 40 << 20]);
});

test("a part of a tensor's bytes", async () => {
  const data = counting(40 << 20, Uint8Array);
  const source = new CountingSource(await bytesOf(await build([{ name: "x", data }])), "x");
  const model = await open(source);
  source.reads.length = 0;
  assert.deepEqual(await model.bytes("x", { begin: 100, end: 103 }), Uint8Array.of(100, 101, 102));
  assert.deepEqual(
    source.reads.map(([, size]) => size),
    [3],
  );
  assert.deepEqual(await model.bytes("x", { begin: 40 << 20 }), new Uint8Array(0));
  const long = await model.bytes("x", { begin: 1, end: (33 << 20) + 1 }); // by several reads
  assert.deepEqual([long.length, long[0], long.at(-1)], [33 << 20, 1, 0]);
  for (const [begin, end] of [
    [-1, 2],
    [3, 2],
    [0, (40 << 20) + 1],
    [0.5, 2],
    [0, NaN],
  ]) {
    await assert.rejects(model.bytes("x", { begin, end }), RangeError, `${begin} to ${end}`);
  }
});

test("numbers of small floats", async () => {
  const values = async (dtype, bytes) => [...(await decode(dtype, Uint8Array.from(bytes)))];
  assert.deepEqual(await values("BF16", [0x80, 0x3f, 0x00, 0xc0]), [1, -2]);
  assert.deepEqual(await values("F16", [0x00, 0x3c, 0x01, 0x00]), [1, 2 ** -24]);
  assert.deepEqual(await values("F8_E4M3", [0x38, 0xb8, 0x7e]), [1, -1, 448]);
  assert.deepEqual(await values("F4", [0x21, 0xf7]), [0.5, 1, 6, -6]);
  assert.deepEqual(await values("C64", [0, 0, 128, 63, 0, 0, 0, 192]), [1, -2]);
  const many = Uint16Array.from({ length: 70_000 }, (_, i) => i);
  const decoded = await decode("F16", many);
  assert.equal(decoded.length, 70_000);
  assert.equal(decoded[0x3c00], 1);
  assert.equal(decoded[65_536 + 0x3c00 - 65_536 + 0], 1);
});

test("numbers beyond 2^53", async () => {
  const huge = 2n ** 63n;
  const text = `{"a":{"dtype":"U8","shape":[0,${huge}],"data_offsets":[0,0]}}`;
  const bytes = new Uint8Array(8 + text.length);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(text.length), true);
  bytes.set(new TextEncoder().encode(text), 8);
  const model = await open(bytes);
  assert.deepEqual(model.tensors.get("a").shape, [0, huge]);
  assert.equal(model.tensors.get("a").elements, 0);
  // Of a source whose size is not known, so that nobody sees that it is not so large.
  const far = `{"a":{"dtype":"U8","shape":[${2n ** 60n}],"data_offsets":[0,${2n ** 60n}]}}`;
  const head = new Uint8Array(8 + far.length);
  new DataView(head.buffer).setBigUint64(0, BigInt(far.length), true);
  head.set(new TextEncoder().encode(far), 8);
  const source = { name: "far", size: undefined, head: async () => head, read: async () => assert.fail("read") };
  const { size, elements } = (await open(source)).tensors.get("a");
  assert.deepEqual({ size, elements }, { size: 2n ** 60n, elements: 2n ** 60n });
});

test("an abort ends it", async () => {
  const bytes = await sample();
  await assert.rejects(open(new Blob([bytes]), { signal: AbortSignal.abort() }), { name: "AbortError" });
  const model = await open(new Blob([bytes]));
  await assert.rejects(model.get("a", { signal: AbortSignal.abort(new Error("enough")) }), { message: "enough" });
});

test("a report says why", async () => {
  const bytes = await sample();
  const cut = await check(bytes.subarray(0, -1));
  assert.equal(cut.ok, false);
  assert(cut.error instanceof CofferError);
  assert.deepEqual([cut.error.code, cut.error.status, cut.error.actual], ["DATA_TRUNCATED", 25, bytes.length - 1]);
  await assert.rejects(check("/nowhere/at/all"), { code: "NOT_FOUND" });
  const page = await check(new Blob(["<!doctype html><title>Sign in</title>"]));
  assert.equal(page.error.code, "IS_HTML");
});

test("a file that changes is not mixed", async (t) => {
  const bytes = Buffer.from(await bytesOf(await build([{ name: "x", data: counting(100_000) }])));
  const hub = await startHub(new Map([["o/m/x.safetensors", bytes]]));
  t.after(hub.stop);
  const model = await open(`${hub.hubUrl}/o/m/resolve/main/x.safetensors`);
  assert.deepEqual(await model.get("x"), counting(100_000));
  hub.files.set("o/m/x.safetensors", Buffer.concat([bytes, bytes]));
  await assert.rejects(model.get("x"), { code: "CHANGED" });
});

test("a server without ranges", async () => {
  const bytes = await bytesOf(await build([{ name: "x", data: counting(100_000) }]));
  for (const headers of [{ "Content-Length": String(bytes.length) }, {}]) {
    let asked = 0;
    const fetch = async () => (asked++, new Response(bytes.slice(), { headers }));
    const model = await open("https://host.invalid/x.safetensors", { fetch });
    assert.equal(asked, 1);
    assert.deepEqual((await model.slice("x", "50000:50010")).data, counting(100_000).slice(50_000, 50_010));
  }
  for (const [status, code] of [
    [404, "NOT_FOUND"],
    [403, "ACCESS"],
    [500, "HTTP"],
  ]) {
    const fetch = async () => new Response("", { status });
    await assert.rejects(open("https://u:secret@host.invalid/x?token=secret", { fetch, retries: 0 }), (error) => {
      assert.deepEqual([error.code, error.httpStatus], [code, status]);
      return !error.message.includes("secret");
    });
  }
  const fetch = async () => Promise.reject(new TypeError("fetch failed"));
  await assert.rejects(open("https://host.invalid/x", { fetch }), { code: "CONNECT" });
});

/** The modules: what each may take, in bytes and zipped. */
const MODULES = [
  ["coffer.wasm", "exports.txt", 60_000, 25 * 1024],
  ["model.wasm", "model_exports.txt", 54_000, 26 * 1024],
  ["packed.wasm", "packed_exports.txt", 20_000, 10 * 1024],
];

for (const [file, exported, most, mostZipped] of MODULES) {
  test(`${file} exports what is listed, imports nothing, and is small`, async () => {
    const wasm = readFileSync(new URL(`../dist/${file}`, import.meta.url));
    const module = await WebAssembly.compile(wasm);
    const listed = readFileSync(new URL(`../wasm/${exported}`, import.meta.url), "utf8")
      .trim()
      .split("\n");
    assert.deepEqual(WebAssembly.Module.imports(module), []);
    assert.deepEqual(
      WebAssembly.Module.exports(module)
        .map(({ name }) => name)
        .sort(),
      listed.sort(),
    );
    assert(wasm.length <= most, `${wasm.length} bytes`);
    const zipped = gzipSync(wasm, { level: 9 }).length;
    assert(zipped <= mostZipped, `${zipped} bytes, zipped`);
  });
}

// ---- Servers that fail --------------------------------------------------------------------------------------------------

/** A server that answers requests by what `answers` has, the last one of it for all that follow. */
function failing(bytes, ...answers) {
  const asked = [];
  const fetch = async (_, { headers, signal }) => {
    signal?.throwIfAborted();
    const [, first, last] = /(\d+)-(\d+)/.exec(headers.Range).map(Number);
    asked.push(first);
    const answer = answers[Math.min(asked.length, answers.length) - 1];
    if (answer === "unreachable") {
      throw new TypeError("fetch failed");
    }
    if (typeof answer === "object") {
      return new Response("busy", answer);
    }
    const body = bytes.subarray(first, last + 1);
    const range = `bytes ${first}-${first + body.length - 1}/${bytes.length}`;
    const stream = new ReadableStream({
      start(controller) {
        controller.enqueue(body.slice(0, answer ?? body.length));
        if (answer === undefined) {
          controller.close();
        }
      },
      pull(controller) {
        controller.error(new TypeError("terminated"));
      },
    });
    return new Response(stream, { status: 206, headers: { "Content-Range": range, ETag: '"1"' } });
  };
  return { fetch, asked };
}

const busy = { status: 503, headers: { "Retry-After": "0" } };

test("what passes is tried again", async () => {
  const bytes = await bytesOf(await build([{ name: "x", data: counting(100_000) }]));
  const get = async (server, options) =>
    (await open("https://host.invalid/x", { fetch: server.fetch, ...options })).get("x");
  for (const status of [408, 429, 500, 503]) {
    const server = failing(bytes, { ...busy, status }, undefined, { ...busy, status }, undefined);
    assert.deepEqual(await get(server), counting(100_000), `${status}`);
    assert.equal(server.asked.length, 4);
  }
  // From the byte where it ended.
  const broken = failing(bytes, undefined, 1000, 2000, "unreachable", undefined);
  assert.deepEqual(await get(broken), counting(100_000));
  const begin = broken.asked[1];
  assert.deepEqual(broken.asked, [0, begin, begin + 1000, begin + 3000, begin + 3000]);
  const head = failing(bytes, 1000, undefined);
  assert.deepEqual(await get(head), counting(100_000));
  assert.deepEqual(head.asked.slice(0, 2), [0, 1000]);
});

test("a long header tells how far it is", async (t) => {
  const tensors = Array.from({ length: 20_000 }, (_, i) => ({
    name: `a.rather.long.name.${i}`,
    data: Uint8Array.of(1),
  }));
  const bytes = await bytesOf(await build(tensors));
  const hub = await startHub(new Map([["o/m/model.safetensors", Buffer.from(bytes)]]));
  t.after(hub.stop);
  for (const place of [`${hub.hubUrl}/o/m/resolve/main/model.safetensors`, new Blob([bytes])]) {
    const seen = [];
    const model = await open(place, { headerProgress: (done, total) => seen.push([done, total]) });
    const { dataOffset } = model.files[0];
    assert.deepEqual(seen.at(-1), [dataOffset, dataOffset]);
    assert(seen.every(([done, total], i) => total === dataOffset && (i === 0 || done >= seen[i - 1][0])));
    assert(seen.length >= (typeof place === "string" ? 3 : 1), `${seen.length}`);
  }
  const none = [];
  await open(await build(tensors.slice(0, 9)), { headerProgress: (...numbers) => none.push(numbers) });
  assert.deepEqual(none, []);
});

test("but not for ever, and not what does not pass", async () => {
  const bytes = await bytesOf(await build([{ name: "x", data: counting(100_000) }]));
  const tries = async (code, options, ...answers) => {
    const server = failing(bytes, ...answers);
    const job = open("https://host.invalid/x", { fetch: server.fetch, ...options }).then((model) => model.get("x"));
    await assert.rejects(job, { code });
    return server.asked.length;
  };
  assert.equal(await tries("HTTP", {}, busy), 4);
  assert.equal(await tries("HTTP", { retries: 1 }, busy), 2);
  assert.equal(await tries("HTTP", { retries: 0 }, busy), 1);
  assert.equal(await tries("HTTP", {}, { status: 501, headers: { "Retry-After": "0" } }), 1);
  assert.equal(await tries("HTTP", {}, { status: 503, headers: { "Retry-After": "61" } }), 1);
  const later = new Date(Date.now() + 90_000).toUTCString();
  assert.equal(await tries("HTTP", {}, { status: 503, headers: { "Retry-After": later } }), 1);
  assert.equal(await tries("CONNECT", {}, "unreachable"), 1);
  assert.equal(await tries("NOT_FOUND", {}, { status: 404 }), 1);
  assert.equal(await tries("ANSWER", { retries: 1 }, undefined, 10), 3);
  assert.equal(await tries("ANSWER", { retries: 0 }, undefined, 0), 2);
});

test("an abort ends the waiting, too", async () => {
  const { fetch } = failing(new Uint8Array(8), { status: 503, headers: { "Retry-After": "60" } });
  const ending = new AbortController();
  const job = open("https://host.invalid/x", { fetch, signal: ending.signal });
  setTimeout(() => ending.abort(new Error("enough")), 20);
  await assert.rejects(job, { message: "enough" });
});

test("hf://", async (t) => {
  const bytes = Buffer.from(await sample());
  const hub = await startHub(new Map());
  t.after(hub.stop);
  const { hubUrl } = hub;
  const paths = async (text, files) => {
    hub.files.clear();
    files.forEach((file) => hub.files.set(file, bytes));
    const model = await open(text, { hubUrl, accessToken: "hf_secret" });
    await looksRight(model);
    const asked = hub.take();
    assert(asked.every(({ auth }) => auth === "Bearer hf_secret"));
    return [model.name, asked[0].url];
  };
  const cases = [
    ["hf://o/m", "/o/m/resolve/main/model.safetensors", "hf://o/m/model.safetensors"],
    ["hf://o/m/", "/o/m/resolve/main/model.safetensors", "hf://o/m/model.safetensors"],
    ["hf://o/m@v1", "/o/m/resolve/v1/model.safetensors", "hf://o/m@v1/model.safetensors"],
    ["hf://o/m@refs/pr/1/a/x.safetensors", "/o/m/resolve/refs%2Fpr%2F1/a/x.safetensors"],
    ["hf://o/m@a%2Fb/x y.safetensors", "/o/m/resolve/a%2Fb/x%20y.safetensors"],
    ["hf://o/m/part/", "/o/m/resolve/main/part/model.safetensors", "hf://o/m/part/model.safetensors"],
  ];
  for (const [text, url, name = text] of cases) {
    const file = decodeURIComponent(url.split("/").slice(5).join("/"));
    assert.deepEqual(await paths(text, [`o/m/${file}`]), [name, url]);
  }
  for (const odd of [
    "hf://",
    "hf://m",
    "hf://o/",
    "hf://o/..",
    "hf://../m",
    "hf://o/m@",
    "hf://o/m/../x",
    "hf://o/m//x",
  ]) {
    await assert.rejects(open(odd, { hubUrl }), { code: "URL" }, odd);
  }
  await assert.rejects(open("hf://o/nothing", { hubUrl }), (error) => {
    assert.deepEqual([error.code, error.path], ["NOT_FOUND", "hf://o/nothing/"]);
    return true;
  });
});
