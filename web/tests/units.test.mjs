// SPDX-License-Identifier: Apache-2.0
/* What needs no page: texts, URLs, the order and the tree of tensors, what is said of a model. */
import assert from "node:assert/strict";
import test from "node:test";

import { columns } from "./columns.mjs";
import { language } from "./models.mjs";
import { LIBCOFFER, source } from "./page.mjs";

test("escapes are the library's, for every character", async () => {
  const { escaped } = await source("base/text.ts");
  const { escapeText } = await import(LIBCOFFER);
  const all = [];
  for (let code = 0; code <= 0x10ffff; code++) {
    if (code < 0xd800 || code > 0xdfff) all.push(String.fromCodePoint(code));
  }
  // With marks between, so that every character has its own escape.
  const [ours, theirs] = [escaped(all.join("|")), await escapeText(all.join("|"))];
  assert.equal(ours, theirs);
  assert.equal(escaped("\ud800x"), "\\u{d800}x");
});

test("long texts are cut, and so escaped that nothing of an escape is cut", async () => {
  const { shown, shownMessage, shownLines } = await source("base/text.ts");
  const long = shown("\u202e".repeat(1 << 20));
  assert.match(long, /^(\\u\{202e\})+…(\\u\{202e\})+$/);
  assert.ok(long.length < 4000);
  assert.equal(shownMessage("the tensor \\x1b\x1b", 100), "the tensor \\x1b\\x1b");
  assert.equal(shownLines("a\nb\t\x07", 100), "a\nb\t\\x07");
});

test("numbers", async () => {
  const { bytes, count, exactly, plural } = await source("base/numbers.ts");
  assert.deepEqual([0, 999, 1000, 999_949, 999_950, 8_388_608, 15_200_000].map(bytes), [
    "0 B",
    "999 B",
    "1.0 kB",
    "999.9 kB",
    "1.0 MB",
    "8.4 MB",
    "15.2 MB",
  ]);
  assert.deepEqual([12, 7_240_000_000, 10n ** 12n].map(count), ["12", "7.24B", "1.00T"]);
  assert.equal(exactly(2n ** 64n - 1n), "18,446,744,073,709,551,615");
  assert.deepEqual([plural(1, "file"), plural(2000, "file")], ["1 file", "2,000 files"]);
});

test("URLs", async () => {
  const { modelUrl } = await source("base/urls.ts");
  const hub = "https://huggingface.co/o/m/resolve";
  const known = {
    "o/m": `${hub}/main/`,
    "hf://o/m": `${hub}/main/`,
    "hf://o/m/a/b.safetensors": `${hub}/main/a/b.safetensors`,
    " https://huggingface.co/o/m ": `${hub}/main/`,
    "https://huggingface.co/o/m/tree/v1": `${hub}/v1/`,
    "https://hf.co/o/m/tree/v1/unet": `${hub}/v1/unet/`,
    "https://huggingface.co/o/m/blob/main/x.safetensors?download=true": `${hub}/main/x.safetensors`,
    "https://huggingface.co/o/m/resolve/main/x.safetensors": `${hub}/main/x.safetensors`,
    "http://localhost:8000/x.safetensors": "http://localhost:8000/x.safetensors",
  };
  for (const [text, url] of Object.entries(known)) {
    assert.equal(modelUrl(text), url, text);
  }
  for (const text of ["", "x", "file:///etc/passwd", "javascript:alert(1)", "/x.safetensors", "data:,x"]) {
    assert.throws(() => modelUrl(text), /URL of a file/, text);
  }
});

test("models among files", async () => {
  const { choicesOf } = await source("model/choices.ts");
  const found = (...paths) =>
    choicesOf(
      paths.map((path) => ({
        file: new File(["x".repeat(path.length)], path.split("/").pop()),
        folder: path.replace(/[^/]*$/, ""),
      })),
    ).map(({ name, files }) => [name, files.map((file) => file.name)]);
  const shards = ["m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"];
  assert.deepEqual(found(...shards, "m.safetensors.index.json", "config.json"), [
    ["m.safetensors.index.json", ["m.safetensors.index.json", ...shards, "config.json"]],
  ]);
  assert.deepEqual(found(...shards), [["m-*-of-00002.safetensors", shards]]);
  assert.deepEqual(found("a/x.safetensors", "b/y.bt", "b/README.md"), [
    ["a/x.safetensors", ["x.safetensors"]],
    ["b/y.bt", ["y.bt"]],
  ]);
  assert.deepEqual(found("pytorch_model.bin", "x.txt"), [["pytorch_model.bin", ["pytorch_model.bin"]]]);
  assert.deepEqual(found(), []);
});

test("the natural order", async () => {
  const { compareNaturally } = await source("worker/natural_order.ts");
  const sorted = ["", "a", "a.0", "a.01", "a.1", "a.2.b", "a.2.c", "a.10", `a.1${"0".repeat(40)}`, "a.b", "b"];
  for (const [i, a] of sorted.entries()) {
    for (const [j, b] of sorted.entries()) {
      if (a !== "a.01" && b !== "a.01") {
        assert.equal(Math.sign(compareNaturally(a, b)), Math.sign(i - j), `${a} and ${b}`);
      }
    }
  }
  assert.equal(compareNaturally("7".repeat(1 << 20), "7".repeat(1 << 20)), 0);
  // As many numbers as a name of 1 MB can have.
  const many = "1a".repeat(1 << 19);
  assert.ok(compareNaturally(`${many}2`, `${many}10`) < 0);
});

test("what a filter finds, and in which order", async () => {
  const { arranged } = await source("worker/arrange.ts");
  const all = columns([
    ["h.10.attn.weight", "BF16", [4, 4]],
    ["h.2.attn.weight", "F32", [8, 4]],
    ["H.2.mlp.bias", "F32", [128]],
    ["steps", "I64", []],
  ]);
  const found = (filter, sort = "file", descending = false) => [...arranged(all, { filter, sort, descending })];
  assert.deepEqual(found(""), [0, 1, 2, 3]);
  assert.deepEqual(found("h.2"), [1, 2]);
  assert.deepEqual(found("WEIGHT h"), [0, 1]);
  assert.deepEqual(found("h.*.weight"), [0, 1]);
  assert.deepEqual(found("h.*.bias f32"), [2]);
  assert.deepEqual(found("[8,4]"), [1]);
  assert.deepEqual(found("dtype:f32"), [1, 2]);
  assert.deepEqual(found("dtype:f3"), []);
  assert.deepEqual(found("(.*)"), []);
  assert.deepEqual(found("", "name"), [2, 1, 0, 3]);
  assert.deepEqual(found("", "name", true), [3, 0, 1, 2]);
  assert.deepEqual(found("", "size", true), [2, 1, 0, 3]);
  assert.deepEqual(found("", "elements"), [3, 0, 1, 2]);
  assert.deepEqual(found("", "dtype"), [0, 1, 2, 3]);
  assert.deepEqual(found("", "shape"), [3, 0, 1, 2]);
  assert.deepEqual(found("", "file", true), [3, 2, 1, 0]);
});

/** A tree as indented lines. */
async function linesOf(tensors) {
  const { treeOf } = await source("worker/tree.ts");
  const all = columns(tensors);
  const tree = treeOf(
    all,
    Uint32Array.from({ length: all.count }, (_, i) => i),
  );
  return Array.from({ length: tree.count }, (_, i) => {
    const label = tree.labels.slice(i === 0 ? 0 : tree.labelEnds[i - 1], tree.labelEnds[i]);
    const alike = tree.alike[i] > 0 ? ` (${tree.alike[i]} alike)` : "";
    return `${"  ".repeat(tree.depths[i])}${label}${alike} ${tree.tensorCounts[i]}, ${tree.elements[i]}, ends ${tree.ends[i]}`;
  });
}

test("a tree, in which layers that are alike are folded", async () => {
  const of = (layer) => [
    [`m.h.${layer}.b`, "F32", [2]],
    [`m.h.${layer}.a.w`, "F32", [3]],
  ];
  const tensors = [
    ...of(0),
    ...of(1),
    ...of(10),
    ["m.h.2.b", "F32", [5]],
    ["m.norm.w", "F32", [1]],
    ["m.h", "F32", []],
  ];
  assert.deepEqual(await linesOf(tensors), [
    "m 9, 22, ends 16",
    "  h 7, 20, ends 14",
    "    0 … 1 (2 alike) 4, 10, ends 9",
    "      0 2, 5, ends 6",
    "        a.w 1, 3, ends 5",
    "        b 1, 2, ends 6",
    "      1 2, 5, ends 9",
    "        a.w 1, 3, ends 8",
    "        b 1, 2, ends 9",
    "    2 1, 5, ends 11",
    "      b 1, 5, ends 11",
    "    10 2, 5, ends 14",
    "      a.w 1, 3, ends 13",
    "      b 1, 2, ends 14",
    "  h 1, 1, ends 15",
    "  norm.w 1, 1, ends 16",
  ]);
});

test("layers within layers, and names that are no trees", async () => {
  const experts = [0, 1].flatMap((i) => [0, 1, 2].map((j) => [`l.${i}.e.${j}.w`, "U8", [4]]));
  assert.deepEqual((await linesOf(experts)).slice(0, 4), [
    "l 6, 24, ends 20",
    "  0 … 1 (2 alike) 6, 24, ends 20",
    "    0 3, 12, ends 11",
    "      e 3, 12, ends 11",
  ]);
  const deep = await linesOf([[".".repeat(1 << 20), "U8", [1]]]);
  assert.ok(deep.length < 30);
  assert.deepEqual(
    await linesOf([
      ["", "U8", [1]],
      ["a/b", "U8", [1]],
      ["a/c", "U8", [1]],
    ]),
    [" 1, 1, ends 1", "a 2, 2, ends 4", "  b 1, 1, ends 3", "  c 1, 1, ends 4"],
  );
  assert.deepEqual(await linesOf([]), []);
});

test("what is said of a model", async () => {
  const { summaryOf } = await source("worker/summary.ts");
  const { dtypes, ...summary } = summaryOf(columns(language(2)));
  assert.deepEqual(summary, { elements: 259_265n, bytes: 453_384n, alignment: 8 });
  assert.deepEqual(
    dtypes.map(({ dtype, tensors }) => [dtype, tensors]),
    [
      ["BF16", 10],
      ["F8_E4M3", 4],
      ["F16", 2],
      ["F32", 3],
      ["I64", 1],
    ],
  );
  assert.equal(summaryOf(columns([])).alignment, undefined);
});

test("how a model was quantised", async () => {
  const { configOf, quantisationHint, quantisationOf } = await source("worker/quantisation.ts");
  const hint = (...names) => quantisationHint(columns(names.map((name) => [`l.0.${name}`, "I32", [4]])), []);
  assert.equal(hint("q.weight"), undefined);
  const share = (dtype) => ({ dtype, tensors: 1, elements: 1n, bytes: 1n });
  assert.equal(quantisationHint(columns([]), ["F64", "F8_E4M3", "F4", "F6_E2M3"].map(share)), "F8_E4M3, F4, F6_E2M3");
  assert.equal(hint("q.qweight", "q.qzeros", "q.scales", "q.g_idx"), "GPTQ");
  assert.equal(hint("q.qweight", "q.qzeros", "q.scales"), "AWQ or GPTQ");
  assert.equal(hint("q.weight", "q.weight_scale_inv"), "FP8, scaled by blocks");
  assert.equal(hint("mlp.gate_up_proj_blocks", "mlp.gate_up_proj_scales"), "MXFP4");
  assert.equal(hint("q.weight", "q.weight.absmax"), "bitsandbytes, 4 bits");

  const packed = columns([
    ["l.0.q.qweight", "I32", [8, 16]],
    ["l.0.q.qzeros", "I32", [1, 2]],
    ["l.0.q.scales", "F16", [1, 16]],
    ["norm.weight", "F16", [10]],
  ]);
  const said = async (config) => {
    const files = [new File([typeof config === "string" ? config : JSON.stringify(config)], "config.json")];
    return quantisationOf(packed, "a hint", await configOf({ kind: "files", files, name: "" }, "a hint", fetch));
  };
  const gptq = { quantization_config: { quant_method: "gptq", bits: 4 } };
  assert.deepEqual(await said(gptq), { quantisation: "gptq, 4 bits", parameters: BigInt(8 * 16 * 8 + 10) });
  for (const config of ["{", "null", "[]", "3", { quantization_config: 3 }, { quantization_config: null }, {}]) {
    assert.deepEqual(await said(config), { quantisation: "a hint", parameters: undefined }, String(config));
  }
  const strange = { quantization_config: { quant_method: {}, bits: "x", format: [] } };
  assert.equal((await said(strange)).quantisation, "quantised");
});

test("values as people read them", async () => {
  const { figure, percent } = await source("base/figures.ts");
  assert.deepEqual(
    [0, -0, 3, -1234567, 0.1234567891, -1e-7, 0.00012345678, 1e15, 1.5e300, NaN, Infinity, -Infinity, -(2n ** 63n)].map((x) => figure(x)),
    ["0", "−0", "3", "−1,234,567", "0.123457", "−1e-7", "0.000123457", "1000000000000000", "1.5e300", "NaN", "∞", "−∞", "−9,223,372,036,854,775,808"],
  ); // prettier-ignore
  assert.deepEqual(
    [percent(0, 5), percent(5, 5), percent(1, 3), percent(1, 1e9), percent(1e9 - 1, 1e9), percent(0, 0)],
    ["0 %", "100 %", "33.3 %", "< 0.01 %", "> 99.99 %", "0 %"],
  );
});
