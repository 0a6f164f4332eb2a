// SPDX-License-Identifier: Apache-2.0
/* Models of several files, and folders: the same verdicts, in the same words, as those of the command. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import test from "node:test";

import { build, check, CofferError, open } from "libcoffer";

import { folderOf } from "./files.mjs";

const command = process.env.COFFER_CLI ?? "";
const skip = !existsSync(command) && "no command";
const CORPUS = new URL("../../../fuzz/corpus/fuzz_index/", import.meta.url);

const part = async (...names) =>
  new Uint8Array(await (await build(names.map((name) => ({ name, data: Float32Array.of(1, 2) })))).arrayBuffer());

const deep = (depth) => `{"weight_map":{"a":"x"},"more":${"[".repeat(depth)}${"]".repeat(depth)}}`;

/** Indices that are odd in one way each. */
const INDICES = [
  "",
  " ",
  "{}",
  "[]",
  "7",
  "nul",
  "<!doctype html><html></html>",
  '{"weight_map":{}}',
  '{"weight_map":[]}',
  '{"weight_map":null}',
  '{"weight_map":{"a":7}}',
  '{"weight_map":{"a":null}}',
  '{"weight_map":{"a":"x","a":"x"}}',
  '{"weight_map":{"a":"x","b":"y","\\u0061":"z"}}',
  '{"weight_map":{"a":"x"},"weight_map":{"b":"x"}}',
  '{"metadata":{},"weight_map":{"a":"x"},"metadata":{}}',
  '{"metadata":{"k":1,"k":2},"weight_map":{"a":"x"}}',
  '{"metadata":{"k":{"n":1,"\\u006e":2}},"weight_map":{"a":"x"}}',
  '{"metadata":7,"weight_map":{"a":"x"}}',
  '{"metadata":null,"weight_map":{"a":"x"}}',
  '{"metadata":{"total_size":1e999},"weight_map":{"a":"x"}}',
  '{"metadata":{"total_size":-1},"weight_map":{"a":"x"}}',
  '{"weight_map":{"a":"\\x"}}',
  '{"weight_map":{"a":"\\ud800"}}',
  '{"weight_map":{"\\udc00":"x"}}',
  '{"weight_map":{"a":"x"},}',
  '{"weight_map":{"a":"x",}}',
  '{"weight_map":{"a":"x"}} {}',
  '{"weight_map":{"a":"x"}}\0',
  '{"weight_map":{"a":"x"}',
  "{'weight_map':{}}",
  '\ufeff{"weight_map":{"a":"x"}}',
  '{"weight_map":{"a":"x"},"more":01}',
  '{"weight_map":{"a":"x"},"more":NaN}',
  '{"weight_map":{"a":"x\n"}}',
  deep(125),
  deep(126),
  deep(127),
  deep(5000),
  ...[
    "",
    ".",
    "..",
    "/x",
    "../x",
    "a/b",
    "a\\\\b",
    "c:x",
    "http://x/y",
    "%2e%2e",
    "%252e%252e",
    "a%2fb",
    "a%00",
    "x\\u0007",
  ].map(
    (name) => `{"weight_map":{"a":${JSON.stringify(name).replaceAll("\\\\\\\\", "\\\\").replaceAll("\\\\u", "\\u")}}}`,
  ),
  `{"weight_map":{"a":"${"n".repeat(255)}"}}`,
  `{"weight_map":{"a":"${"n".repeat(256)}"}}`,
  '{"weight_map":{"a":"\u202ex","b":"\u202ey"}}',
];

test("indices get the command's verdicts", { skip }, async (t) => {
  const texts = [...INDICES.map((text) => Buffer.from(text)), Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d])];
  for (const name of readdirSync(CORPUS)) {
    texts.push(readFileSync(new URL(name, CORPUS)));
  }
  const names = texts.map((_, i) => `${i}.safetensors.index.json`);
  const folder = folderOf(t, Object.fromEntries(names.map((name, i) => [name, texts[i]])));
  const { stdout } = spawnSync(command, ["check", "--json", ...names], {
    cwd: folder,
    encoding: "utf8",
    maxBuffer: 1 << 28,
  });
  const verdicts = new Map(JSON.parse(stdout).map((verdict) => [verdict.path, verdict]));
  const seen = new Set();
  for (const [i, name] of names.entries()) {
    const verdict = verdicts.get(name) ?? assert.fail(name);
    const error = await open(join(folder, name)).catch((failure) => failure);
    assert(error instanceof CofferError, `${texts[i]}: ${error}`);
    seen.add(error.code);
    assert.equal(error.code, verdict.error?.name, `${JSON.stringify(String(texts[i]))}: ${error.message}`);
    const { message, offset, tensor, expected, actual } = verdict.error;
    assert.deepEqual(
      [error.message.slice(error.path.length + 2), error.offset ?? null, error.tensor ?? null],
      [message, offset, tensor],
      JSON.stringify(String(texts[i])),
    );
    assert.deepEqual([error.expected ?? null, error.actual ?? null], [expected, actual]);
  }
  for (const code of [
    "JSON",
    "TYPE",
    "UTF8",
    "DEPTH",
    "DUPLICATE_KEY",
    "DUPLICATE_NAME",
    "SHARD_NAME",
    "MISSING_FIELD",
  ]) {
    assert(seen.has(code), code);
  }
});

/** What the command says of an index whose files are there. */
function commandCheck(path) {
  return JSON.parse(spawnSync(command, ["check", "--json", path], { encoding: "utf8" }).stdout)[0];
}

test("indices and their files", { skip }, async (t) => {
  const [one, two] = ["m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"];
  const files = { [one]: await part("a", "\u202eb"), [two]: await part("c") };
  const map = { a: one, "\u202eb": one, c: two };
  const cases = [
    { weight_map: map },
    { metadata: { total_size: 24 }, weight_map: map },
    { metadata: { total_size: 25 }, weight_map: map },
    { metadata: { total_size: "24" }, weight_map: map },
    { metadata: { total_size: null }, weight_map: map },
    '{"metadata":{"total_size":24.0},"weight_map":{"a":"m-00001-of-00002.safetensors"}}',
    '{"metadata":{"total_size":9007199254740993},"weight_map":{"a":"m-00001-of-00002.safetensors"}}',
    { weight_map: { a: one } },
    { weight_map: { c: two, a: one } },
    { weight_map: { ...map, "\u202eb": two } },
    { weight_map: { ...map, missing: two } },
    { weight_map: { ...map, d: "other.safetensors" } },
  ];
  for (const json of cases) {
    const text = typeof json === "string" ? json : JSON.stringify(json);
    const folder = folderOf(t, {
      ...files,
      "m-00001-of-00003.safetensors": files[one],
      "m.safetensors.index.json": text,
    });
    const path = join(folder, "m.safetensors.index.json");
    const expected = commandCheck(path);
    const report = await check(path);
    assert.equal(report.ok, expected.ok, text);
    assert.equal(report.error?.code, expected.error?.name, text);
    if (!report.ok) {
      const { message, offset, tensor } = expected.error;
      const { error } = report;
      assert.deepEqual(
        [error.message.slice(error.path.length + 2), error.offset ?? null, error.tensor ?? null],
        [message, offset, tensor],
      );
      continue;
    }
    const kinds = report.notes.map(({ text: words, count, offset }) => [words, count, offset ?? null]);
    const notes = (expected.notes ?? []).map(({ text: words, count, offset }) => [words, count, offset ?? null]);
    assert.deepEqual(kinds.sort(), notes.sort(), text);
    await report.model?.close();
  }
  // 2^53 + 1 is not the nearest number that JavaScript has.
  const { notes } = await check(new Blob([await part("a")]));
  assert.deepEqual(notes, []);
});

test("a tensor of which another file has a stale copy", { skip }, async (t) => {
  const [one, two] = ["m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"];
  const file = async (tensors) =>
    new Uint8Array(
      await (
        await build(Object.entries(tensors).map(([name, values]) => ({ name, data: Float32Array.from(values) })))
      ).arrayBuffer(),
    );
  // The stale copies lie before, between and behind what counts, and have another shape.
  const stale = await file({ a: [9], b: [1, 2], c: [9], d: [3], e: [9] });
  const good = await file({ a: [4, 5], c: [6], e: [7, 8] });
  const map = { a: two, b: one, c: two, d: one, e: two };
  const folderWith = (index) =>
    folderOf(t, { [one]: stale, [two]: good, "m.safetensors.index.json": JSON.stringify(index) });
  for (const [total, notes] of [[undefined], [44], [32], [31, "TOTAL_SIZE"]]) {
    const path = join(folderWith({ metadata: { total_size: total }, weight_map: map }), "m.safetensors.index.json");
    const { ok, model, notes: found } = await check(path);
    assert(ok);
    assert.deepEqual(found.map(({ kind }) => kind).sort(), ["SUPERSEDED", notes].filter(Boolean));
    const words = ({ text, count, offset }) => [text, count, offset ?? null];
    assert.deepEqual(found.map(words).sort(), commandCheck(path).notes.map(words).sort());
    assert.equal(basename(found.find(({ kind }) => kind === "SUPERSEDED").file), one);
    assert.deepEqual([...model.tensors.keys()], ["b", "d", "a", "c", "e"]);
    assert.deepEqual(
      [...model.tensors].map(({ name, shard }) => [name, shard]),
      ["b", "d", "a", "c", "e"].map((name, i) => [name, i < 2 ? 0 : 1]),
    );
    for (const [name, values] of Object.entries({ a: [4, 5], b: [1, 2], c: [6], d: [3], e: [7, 8] })) {
      assert.deepEqual([...(await model.get(name))], values, name);
      const i = [...model.tensors.keys()].indexOf(name);
      assert.deepEqual(model.tensors.at(i).toJSON(), model.tensors.get(name).toJSON());
    }
    assert.deepEqual([model.tensors.size, model.tensors.at(5), model.size], [5, undefined, 32]);
    const clean = await open(new Blob([await file({ a: [4, 5], b: [1, 2], c: [6], d: [3], e: [7, 8] })]));
    let seen = [];
    const progress = (...numbers) => (seen = numbers);
    assert.equal(await model.contentDigest("sha256", { progress }), await clean.contentDigest());
    assert.deepEqual(seen, [32, 32]);
    await model.close();
  }
  // Each file's digests are of all of its tensors; those of a whole model cannot be made of them.
  const folder = folderWith({ weight_map: map });
  execFileSync(command, ["hash", "--write", one, two], { cwd: folder });
  const index = join(folder, "m.safetensors.index.json");
  const model = await open(index);
  assert.equal(await model.verify(), 5);
  await model.close();
  const whole = folderOf(t, {
    [one]: await file({ b: [1, 2], d: [3] }),
    [two]: good,
    "m.safetensors.index.json": JSON.stringify({ weight_map: map }),
  });
  execFileSync(command, ["hash", "--write", "m.safetensors.index.json"], { cwd: whole });
  const { metadata } = JSON.parse(readFileSync(join(whole, "m.safetensors.index.json"), "utf8"));
  assert("coffer.content_digest" in metadata);
  writeFileSync(index, JSON.stringify({ metadata, weight_map: map }));
  const verdict = spawnSync(command, ["verify", index], { encoding: "utf8" });
  const overlay = await open(index);
  await assert.rejects(overlay.verify(), (error) => {
    assert.equal(error.code, "UNSUPPORTED");
    return verdict.stderr.includes(error.message.slice(error.path.length + 2));
  });
  await overlay.close();
  // What no index tells apart is still in two files: a name that it lacks, and a set without one.
  const lacking = folderWith({ weight_map: { ...map, c: undefined } });
  await assert.rejects(open(join(lacking, "m.safetensors.index.json")), (error) => {
    assert.deepEqual([error.code, error.tensor, basename(error.path)], ["TWO_SHARDS", "c", two]);
    return error.message.includes(one);
  });
  await assert.rejects(open(folderOf(t, { [one]: stale, [two]: good })), { code: "TWO_SHARDS" });
  // And what the index's file does not have is no copy of it.
  await assert.rejects(
    open(join(folderWith({ weight_map: { ...map, b: two } }), "m.safetensors.index.json")),
    ({ code, tensor }) => code === "NOT_IN_SHARD" && tensor === "b",
  );
});

/** Folders that hold a model, or something like one. */
async function folders() {
  const file = await part("a");
  const set = (...names) => Object.fromEntries(names.map((name, i) => [name, i === 0 ? file : null]));
  const index = (name) => `{"weight_map":{"a":"${name}"}}`;
  return {
    nothing: {},
    "not ours": { "readme.md": "", "x.bin": "" },
    single: { "x.safetensors": file },
    hidden: { ".x.safetensors": file },
    "no name": { ".safetensors": file },
    usual: { "model.safetensors": file, "x.safetensors": file },
    "diffusers, too": { "diffusion_pytorch_model.safetensors": file, "x.safetensors": file },
    "its index": {
      "model.safetensors.index.json": index("x.safetensors"),
      "x.safetensors": file,
      "y.safetensors": file,
    },
    two: { "b.safetensors": file, "a.safetensors": file, "\u202ec.safetensors": file },
    "two indices": { "a.safetensors.index.json": index("x"), "b.safetensors.index.json": index("x") },
    "an index": { "a.safetensors.index.json": index("x.safetensors"), "x.safetensors": file, "y.safetensors": file },
    "a set": set("m-00001-of-00001.safetensors"),
    "with an underscore": set("m_00001-of-00001.safetensors"),
    "without a sign": set("m00001-of-00001.safetensors"),
    "other digits": set("m-00001-of-000001.safetensors"),
    "number 0": set("m-00000-of-00001.safetensors"),
    "one of two": set("m-00001-of-00002.safetensors"),
    "the other one": set("m-00002-of-00002.safetensors"),
    "two of five": { "m-00002-of-00005.safetensors": file, "m-00004-of-00005.safetensors": file },
    "one of six": set("m-000003-of-000006.safetensors"),
    "of a million": set("m-000003-of-999999.safetensors"),
    "two sets": { "m-00001-of-00001.safetensors": file, "n-00001-of-00001.safetensors": file },
    "two totals": { "m-00001-of-00001.safetensors": file, "m-00001-of-00002.safetensors": file },
    "a set and one": { "m-00001-of-00001.safetensors": file, "n.safetensors": file },
    "an interrupted save": { "m-00001-of-00001.safetensors": file, "m.safetensors.index.json.coffer-ready": "" },
    "an old index": { "a.safetensors": file, "b.safetensors": file, "m.safetensors.index.json.coffer-old": "{}" },
    "only what is left": { "m.safetensors.index.json.coffer-old": "{}" },
    "a new index": { "m-00001-of-00001.safetensors": file, "m.safetensors.index.json.coffer-new": "" },
    "one beside what is left": { "a.safetensors": file, "m.safetensors.index.json.coffer-ready": "" },
    "an empty pipeline": { "model_index.json": "{}" },
    "a pipeline": { "model_index.json": "{}", "unet/diffusion_pytorch_model.safetensors": file },
    "both parts": { "model_index.json": "{}", "unet/model.safetensors": file, "transformer/m.safetensors": file },
    "an empty part": { "model_index.json": "{}", "unet/model.safetensors": file, "transformer/config.json": "{}" },
    "a pipeline in a pipeline": { "model_index.json": "{}", "unet/model_index.json": "{}" },
    "a pipeline's own model": { "model_index.json": "{}", "x.safetensors": file, "unet/y.safetensors": file },
    "no pipeline": { "unet/model.safetensors": file },
  };
}

test("folders get the command's verdicts", { skip }, async (t) => {
  const root = folderOf(t, {});
  for (const [name, files] of Object.entries(await folders())) {
    const folder = join(root, "folder");
    mkdirSync(folder);
    for (const [file, bytes] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, file)), { recursive: true });
      writeFileSync(join(folder, file), bytes ?? "");
    }
    const { stderr, status } = spawnSync(command, ["ls", folder], { encoding: "utf8" });
    const model = await open(folder).catch((error) => error);
    if (status === 0) {
      assert(!(model instanceof Error), `${name}: ${model}`);
      assert.deepEqual([...model.tensors.keys()], ["a"], name);
      await model.close();
    } else {
      assert(model instanceof CofferError, `${name}: ${stderr}`);
      // The command has another place for the name of a file that is missing.
      const message = model.message.slice(model.path.length + 2);
      const file = model.path === folder ? "" : ` (file ${basename(model.path)})`;
      assert.equal(`coffer: ${folder}: ${message}${file}\n`, stderr, name);
    }
    rmSync(folder, { recursive: true });
  }
});

test("a folder that was chosen in a page", async () => {
  const file = await part("a");
  const chosen = (path, bytes) =>
    Object.defineProperty(new File([bytes], path.split("/").at(-1)), "webkitRelativePath", { value: path });
  const pipeline = [
    chosen("flux/model_index.json", "{}"),
    chosen("flux/vae/diffusion_pytorch_model.safetensors", await part("v")),
    chosen("flux/transformer/diffusion_pytorch_model.safetensors", file),
  ];
  assert.deepEqual([...(await open(pipeline)).tensors.keys()], ["a"]);
  await assert.rejects(open(pipeline.slice(0, 2)), { code: "NO_MODEL" });
  // Without a model at the top, wherever it is.
  assert.deepEqual([...(await open([chosen("a/b/x.safetensors", file), chosen("a/y.txt", "")])).tensors.keys()], ["a"]);
});
