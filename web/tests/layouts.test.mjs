// SPDX-License-Identifier: Apache-2.0
/* What the byte map, the treemap and the comparison are drawn from: every byte, parameter and name is somewhere, once. */
import assert from "node:assert/strict";
import test from "node:test";

import { source } from "./page.mjs";

const { SEGMENT_KINDS, segmentsOf, segmentAt, cellsOf, sharesOf } = await source("model/bytemap.ts");
const { nameTreeOf, branchAt, treemapOf, partsOf } = await source("worker/treemap.ts");
const { DIFF_KINDS } = await source("model/diff_kinds.ts");
const { diffTensors, diffPairs } = await source("worker/diff.ts");
const { columnsOf } = await source("worker/tensor_columns.ts");
const { build, open } = await import("../../bindings/js/dist/index.js");

async function columns(tensors, options) {
  const given = tensors.map(([name, dtype, shape]) => {
    const bytes = (shape.reduce((a, b) => a * b, 1) * { F32: 32, BF16: 16, U8: 8, I64: 64 }[dtype]) / 8;
    return { name, dtype, shape, data: new Uint8Array(bytes) };
  });
  const model = await open(await build(given, options));
  return { model, columns: columnsOf(model.tensors) };
}

const kindsOf = ({ kinds }) => [...kinds].map((kind) => SEGMENT_KINDS[kind]);

test("segments of a file", () => {
  const file = { format: "safetensors", size: 200, dataOffset: 100, slack: 12, first: 0, end: 3 };
  const segments = segmentsOf(file, Float64Array.of(100, 140, 140), Float64Array.of(30, 0, 40));
  assert.deepEqual(kindsOf(segments), ["length", "header", "slack", "tensor", "gap", "tensor", "gap"]);
  assert.deepEqual([...segments.begins], [0, 8, 88, 100, 130, 140, 180]);
  assert.deepEqual([...segments.ends], [8, 88, 100, 130, 140, 180, 200]);
  assert.deepEqual([...segments.tensors], [-1, -1, -1, 0, -1, 2, -1]);
  assert.deepEqual(
    [0, 7, 8, 129, 130, 199, 200].map((byte) => segmentAt(segments, byte)),
    [0, 0, 1, 3, 4, 6, -1],
  );
  const shares = sharesOf(segments, Uint32Array.of(1, 1, 0));
  assert.deepEqual(shares.map(({ kind, dtype, segments: n, bytes }) => [kind, dtype, n, bytes]), [
    ["length", 0, 1, 8], ["header", 0, 1, 80], ["slack", 0, 1, 12],
    ["tensor", 0, 1, 40], ["tensor", 1, 1, 30], ["gap", 0, 2, 30],
  ]); // prettier-ignore
  const other = segmentsOf(
    { format: "bintensors", size: undefined, dataOffset: 64, slack: 0, first: 1, end: 2 },
    Float64Array.of(0, 64),
    Float64Array.of(9, 6),
  );
  assert.deepEqual(
    [kindsOf(other), [...other.ends], [...other.tensors]],
    [
      ["header", "tensor"],
      [64, 70],
      [-1, 1],
    ],
  );
});

test("cells of a picture", () => {
  const file = { format: "safetensors", size: 1e9, dataOffset: 1000, slack: 0, first: 0, end: 2 };
  const segments = segmentsOf(file, Float64Array.of(1000, 5e8), Float64Array.of(5e8 - 1000, 4e8));
  const cells = cellsOf(segments, 0, 1e9, 10);
  // The header's millionth is still seen.
  assert.deepEqual(
    [...cells].map((i) => kindsOf(segments)[i]),
    ["length", ...Array(8).fill("tensor"), "gap"],
  );
  assert.deepEqual(
    [...cells].map((i) => segments.tensors[i]),
    [-1, 0, 0, 0, 0, 1, 1, 1, 1, -1],
  );
  const near = cellsOf(segments, 0, 2000, 4);
  assert.deepEqual(
    [...near].map((i) => kindsOf(segments)[i]),
    ["length", "header", "tensor", "tensor"],
  );
  assert.deepEqual(
    [...cellsOf(segments, 9e8, 1.2e9, 3)].map((i) => i >= 0),
    [true, false, false],
  );
  assert.deepEqual([...cellsOf(segments, 4e8, 4e8 + 3, 3)], [2, 2, 2]);
});

test("names as a tree", async () => {
  assert.deepEqual(partsOf("model.layers.0/w"), ["model", ".layers", ".0", "/w"]);
  assert.deepEqual(partsOf("..a."), [".", ".a", "."]);
  assert.equal(partsOf("a.".repeat(100_000)).length, 24);
  assert.deepEqual(partsOf(""), [""]);
  const { columns: all } = await columns([
    ["a.b", "F32", [2]], ["a.b.c", "F32", [3]], ["a.b.d", "BF16", [5]], ["e", "U8", [7]], ["", "U8", [1]],
  ]); // prettier-ignore
  const root = nameTreeOf(all);
  assert.deepEqual([root.count, root.elements, root.sizes], [5, 18, 8 + 12 + 10 + 7 + 1]);
  assert.equal(branchAt(root, "a.b").count, 2);
  assert.equal(branchAt(root, "a").count, 3);
  assert.equal(branchAt(root, "x"), undefined);
  assert.equal(branchAt(root, ""), root);
});

const area = ({ edges }, i) => (edges[4 * i + 2] - edges[4 * i]) * (edges[4 * i + 3] - edges[4 * i + 1]);

test("a treemap's areas are in proportion", async () => {
  const { columns: all } = await columns([
    ["x", "F32", [600]], ["y", "F32", [300]], ["z", "BF16", [100]], ["none", "F32", [0]],
  ]); // prettier-ignore
  const map = treemapOf(all, nameTreeOf(all), { width: 100, height: 50, measure: "elements" });
  assert.deepEqual(map.labels, ["", "x", "y", "z"]);
  assert.deepEqual(
    [...map.tensors].map((i) => (i < 0 ? i : all.elements[i])),
    [-1, 600n, 300n, 100n],
  );
  for (const [i, share] of [1, 0.6, 0.3, 0.1].entries()) {
    assert.ok(Math.abs(area(map, i) - 5000 * share) < 1, `${map.labels[i]}: ${area(map, i)}`);
  }
  const bytes = treemapOf(all, nameTreeOf(all), { width: 100, height: 50, measure: "sizes" });
  assert.ok(Math.abs(area(bytes, 3) - (5000 * 200) / 3800) < 1);
});

test("groups that are too small to be divided are one rectangle", async () => {
  const tensors = [["big", "F32", [1_000_000]]];
  for (let i = 0; i < 50; i++) tensors.push([`small.${i}`, i < 30 ? "BF16" : "F32", [10]]);
  const { columns: all } = await columns(tensors);
  const map = treemapOf(all, nameTreeOf(all), { width: 300, height: 300, measure: "elements" });
  const small = map.labels.indexOf("small");
  assert.deepEqual([map.tensors[small], map.counts[small], map.open[small], map.labels.length], [-1, 50, 0, 3]);
  const near = treemapOf(all, branchAt(nameTreeOf(all), "small"), { width: 300, height: 300, measure: "elements" });
  assert.equal([...near.tensors].filter((tensor) => tensor >= 0).length, 50);
  const middling = [
    ["big", "F32", [10_000]],
    ["part.a", "BF16", [30]],
    ["part.b", "F32", [20]],
  ];
  const { columns: others } = await columns(middling);
  const drawn = treemapOf(others, nameTreeOf(others), { width: 300, height: 300, measure: "elements" });
  const part = drawn.labels.indexOf("part");
  assert.deepEqual([drawn.tensors[part], drawn.counts[part], drawn.open[part]], [-1, 2, 0]);
  assert.equal(others.dtypeNames[drawn.dtypes[part]], "BF16");
});

test("a name of a million dots", async () => {
  const { columns: all } = await columns([
    [".".repeat(1_000_000), "F32", [2]],
    ["a", "F32", [2]],
  ]);
  const map = treemapOf(all, nameTreeOf(all), { width: 200, height: 200, measure: "elements" });
  assert.equal([...map.tensors].filter((tensor) => tensor >= 0).length, 2);
});

test("what two models have in common", async () => {
  const { columns: a } = await columns([
    ["same", "F32", [2, 3]],
    ["dtype", "F32", [4]],
    ["shape", "F32", [4]],
    ["rank", "F32", [6]],
    ["old", "U8", [1]],
  ]);
  const { columns: b } = await columns([
    ["new", "I64", [1]],
    ["rank", "F32", [6, 1]],
    ["shape", "F32", [5]],
    ["dtype", "BF16", [4]],
    ["same", "F32", [2, 3]],
  ]);
  const { kinds, before, after } = diffTensors(a, b);
  const { nameAt } = await source("model/columns.ts");
  const found = [...kinds].map((kind, i) => [
    before[i] < 0 ? nameAt(b, after[i]) : nameAt(a, before[i]),
    DIFF_KINDS[kind],
  ]);
  assert.deepEqual(Object.fromEntries(found), {
    dtype: "changed", shape: "changed", rank: "changed", same: "same", old: "removed", new: "added",
  }); // prettier-ignore
  assert.equal(found.length, 6);
  assert.deepEqual(
    diffPairs(
      [
        ["a", "1"],
        ["b", "2"],
        ["__proto__", "3"],
      ],
      [
        ["b", "3"],
        ["c", "4"],
        ["__proto__", "3"],
      ],
    ),
    [
      { key: "a", kind: "removed", before: "1", after: undefined },
      { key: "b", kind: "changed", before: "2", after: "3" },
      { key: "c", kind: "added", before: undefined, after: "4" },
    ],
  );
});
