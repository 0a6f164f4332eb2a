// SPDX-License-Identifier: Apache-2.0
/*
 * The heat map's numbers are those of the tensor at the places that it says, for every choice of axes, dtype and step, and what
 * is read for it stays within the budget however large the tensor is.
 */
import assert from "node:assert/strict";
import test from "node:test";

import { source } from "./page.mjs";

const { planHeatMap } = await source("model/heat_plan.ts");
const { heatMapOf } = await source("worker/heatmap.ts");
const { build, decode, open } = await import("../../bindings/js/dist/index.js");

const PLENTY = { points: 512, bytes: 1 << 30, reads: 1 << 20 };
const BITS = { F32: 32, BF16: 16, U8: 8, C64: 64, F4: 4, F6_E2M3: 6 };

async function tensor(dtype, shape) {
  const count = shape.reduce((a, b) => a * b, 1);
  const data = Uint8Array.from({ length: (count * BITS[dtype]) / 8 }, (_, i) => (i * 37) & 0x3b);
  const model = await open(await build([{ name: "x", dtype, shape, data }]));
  return { model, numbers: await decode(dtype, data) };
}

/** The map, compared with the tensor number by number. */
async function compare({ model, numbers }, dtype, plane, budget = PLENTY) {
  const full = { bits: BITS[dtype], indices: plane.shape.map(() => 0), ...plane };
  const plan = planHeatMap(full, budget);
  const { data } = await model.slice("x", plan.slice);
  const map = await heatMapOf(full, plan, dtype, data);
  const { shape, rowAxis, columnAxis, indices } = full;
  const each = dtype === "C64" ? 2 : 1;
  assert.equal(map.values.length, map.rows.count * map.columns.count);
  for (let row = 0; row < map.rows.count; row++) {
    for (let column = 0; column < map.columns.count; column++) {
      const place = [...indices];
      if (rowAxis !== undefined) place[rowAxis] = map.rows.begin + row * map.rows.step;
      if (columnAxis !== undefined) place[columnAxis] = map.columns.begin + column * map.columns.step;
      const at = place.reduce((all, index, axis) => all * shape[axis] + index, 0);
      const where = `${dtype} ${shape} at ${place} by ${plan.slice}`;
      assert.equal(map.values[row * map.columns.count + column], numbers[at * each], where);
      if (each === 2) {
        assert.equal(map.imaginary[row * map.columns.count + column], numbers[at * each + 1], where);
      }
    }
  }
  return map;
}

test("every pair of axes, and every dtype's size", async () => {
  const shape = [5, 6, 8];
  for (const dtype of Object.keys(BITS)) {
    const given = await tensor(dtype, shape);
    for (const rowAxis of [0, 1, 2]) {
      for (const columnAxis of [0, 1, 2].filter((axis) => axis !== rowAxis)) {
        await compare(given, dtype, { shape, rowAxis, columnAxis, indices: [4, 3, 5] });
        const map = await compare(
          given,
          dtype,
          { shape, rowAxis, columnAxis, indices: [4, 3, 5] },
          { ...PLENTY, points: 3 },
        );
        assert.deepEqual(
          [map.rows.count, map.columns.count].every((count) => count <= 3),
          true,
        );
        await compare(given, dtype, {
          shape,
          rowAxis,
          columnAxis,
          rows: { begin: 1, end: 4 },
          columns: { begin: 2, end: 5 },
        });
      }
    }
    await compare(given, dtype, { shape, rowAxis: undefined, columnAxis: 2, indices: [2, 2, 0] });
    await compare(given, dtype, { shape, rowAxis: undefined, columnAxis: 0, indices: [0, 5, 7] });
  }
});

test("tensors of one dimension and of none", async () => {
  const line = await tensor("BF16", [1000]);
  const map = await compare(
    line,
    "BF16",
    { shape: [1000], rowAxis: undefined, columnAxis: 0 },
    { ...PLENTY, points: 300 },
  );
  assert.deepEqual([map.rows.count, map.columns.count, map.columns.step], [1, 250, 4]);
  await compare(await tensor("F32", []), "F32", { shape: [], rowAxis: undefined, columnAxis: undefined });
  await compare(
    await tensor("F4", [16]),
    "F4",
    { shape: [16], rowAxis: undefined, columnAxis: 0 },
    { ...PLENTY, points: 5 },
  );
});

test("reading stays within the budget", () => {
  const budget = { points: 512, bytes: 64 << 20, reads: 4096 };
  const shapes = [
    [32000, 4096], [4096, 32000], [151936, 8192], [128, 4096, 4096], [600, 8_000_000], [8_000_000, 600],
    [1_000_000, 1_000_000], [64, 64, 64, 4096],
  ]; // prettier-ignore
  for (const shape of shapes) {
    for (const bits of [4, 8, 16, 32, 64]) {
      for (let rowAxis = 0; rowAxis < shape.length; rowAxis++) {
        for (let columnAxis = 0; columnAxis < shape.length; columnAxis++) {
          if (rowAxis === columnAxis) continue;
          const plan = planHeatMap({ shape, bits, rowAxis, columnAxis, indices: shape.map(() => 0) }, budget);
          const what = `${shape} of ${bits} bits, ${rowAxis} × ${columnAxis}: ${plan.bytes} bytes, ${plan.reads} reads`;
          assert.ok(plan.bytes <= budget.bytes && plan.reads <= budget.reads, what);
          assert.ok(plan.rows.count >= 16 && plan.columns.count >= 16, what);
        }
      }
    }
  }
});

test("what is read is about what the plan says", async () => {
  for (const [shape, rowAxis, columnAxis] of [
    [[64, 70_000], 0, 1],
    [[64, 70_000], 1, 0],
    [[40_000, 4, 10], 0, 2],
  ]) {
    const { model } = await tensor("U8", shape);
    let bytes = 0;
    let reads = 0;
    const plan = planHeatMap(
      { shape, bits: 8, rowAxis, columnAxis, indices: shape.map(() => 0) },
      { points: 32, bytes: 1e9, reads: 1e9 },
    );
    const blob = await build([{ name: "x", dtype: "U8", shape, data: await model.bytes("x") }]);
    const spied = await open({
      name: "x",
      size: blob.size,
      head: async () => new Uint8Array(await blob.slice(0, 4096).arrayBuffer()),
      read: async (offset, size) => {
        bytes += size;
        reads++;
        return new Uint8Array(await blob.slice(offset, offset + size).arrayBuffer());
      },
    });
    await spied.slice("x", plan.slice);
    assert.deepEqual([plan.bytes, plan.reads], [bytes, reads], `${shape} ${rowAxis} ${columnAxis}`);
  }
});
