// SPDX-License-Identifier: Apache-2.0
/* How the page draws what the library finds out about a tensor's numbers; bindings/js/tests/numbers.test.mjs tests what that is. */
import assert from "node:assert/strict";
import test from "node:test";

import { source } from "./page.mjs";

const { histogram, quantile } = await source("model/histogram.ts");
const { allPortions, somePortions, PORTION } = await source("model/portions.ts");
const { statistics } = await import("../../bindings/js/dist/index.js");

async function findings(dtype, bytes) {
  return statistics(dtype, [bytes]);
}

function near(actual, expected, what) {
  assert.ok(Math.abs(actual - expected) <= 1e-9 * Math.abs(expected) + 1e-300, `${what}: ${actual}, not ${expected}`);
}

test("nothing to draw", async () => {
  const none = await findings("F64", new Uint8Array(Float64Array.of(NaN, Infinity).buffer));
  assert.equal(quantile(none.distribution, 0.5), undefined);
  assert.deepEqual([...histogram(none.distribution, { bars: 8 }).counts], []);
});

test("histograms", async () => {
  const values = Float32Array.from({ length: 1000 }, (_, i) => i / 1000);
  const { distribution } = await findings("F32", new Uint8Array(values.buffer));
  const bars = histogram(distribution, { bars: 10 });
  assert.deepEqual([bars.low, bars.high], [0, Math.fround(0.999)]);
  assert.ok(
    [...bars.counts].every((count) => Math.abs(count - 100) < 1.5),
    `${bars.counts}`,
  );
  near(quantile(distribution, 0), 0, "the least");
  assert.ok(Math.abs(quantile(distribution, 0.5) - 0.5) < 0.002);
  assert.ok(Math.abs(quantile(distribution, 0.99) - 0.99) < 0.002);

  const part = histogram(distribution, { bars: 5, low: 0.25, high: 0.5 });
  assert.ok(Math.abs(part.below - 250) < 1 && Math.abs(part.above - 499) < 2, `${part.below} ${part.above}`);
  near(part.counts.reduce((a, b) => a + b) + part.below + part.above, 1000, "all of them");
});

test("bars of whole numbers have the same number of them each", async () => {
  const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
  const { distribution } = await findings("U8", bytes);
  const each = histogram(distribution, { bars: 64, whole: true });
  assert.deepEqual([each.low, each.high, each.counts.length], [-0.5, 255.5, 64]);
  assert.ok([...each.counts].every((count) => count === 4));
  const odd = histogram(distribution, { bars: 100, whole: true });
  assert.equal(odd.counts.length, 86); // of three
  assert.deepEqual(
    [...odd.counts.slice(0, 85)].filter((count) => count !== 3),
    [],
  );
  const few = histogram((await findings("BOOL", Uint8Array.of(0, 1, 1))).distribution, { bars: 64, whole: true });
  assert.deepEqual([[...few.counts], few.low, few.high], [[1, 2], -0.5, 1.5]);
});

test("one value, and the widest range", async () => {
  const one = histogram((await findings("F32", new Uint8Array(Float32Array.of(3, 3).buffer))).distribution, {
    bars: 9,
  });
  assert.deepEqual([[...one.counts], one.low, one.high], [[2], 1.5, 4.5]);
  const zero = histogram((await findings("F16", new Uint8Array(4))).distribution, { bars: 9 });
  assert.deepEqual([...zero.counts], [2]);
  const ends = Float64Array.of(-Number.MAX_VALUE, 0, Number.MAX_VALUE);
  const wide = histogram((await findings("F64", new Uint8Array(ends.buffer))).distribution, { bars: 3 });
  assert.deepEqual([...wide.counts], [1, 1, 1]);
  const least = Float64Array.of(-Number.MIN_VALUE, Number.MIN_VALUE);
  const { distribution } = await findings("F64", new Uint8Array(least.buffer));
  assert.equal(
    histogram(distribution, { bars: 2 }).counts.reduce((a, b) => a + b),
    2,
  );
});

test("portions", () => {
  assert.equal(PORTION % 24, 0);
  assert.deepEqual([...allPortions(10)], [{ begin: 0, size: 10 }]);
  assert.deepEqual([...allPortions(0)], []);
  const all = [...allPortions(3 * PORTION + 1)];
  assert.deepEqual(all.at(-1), { begin: 3 * PORTION, size: 1 });
  assert.deepEqual([...somePortions(1000, 1000, 4)], [...allPortions(1000)]);
  for (const size of [1001, 4096, 1_000_003, 5e12]) {
    const some = [...somePortions(size, 1000, 4)];
    assert.equal(some.length, 4);
    assert.equal(some[0].begin, 0);
    assert.equal(some[3].begin + some[3].size, size, "the last bytes are looked at");
    for (const [i, { begin, size: bytes }] of some.entries()) {
      assert.equal(begin % 24, 0);
      assert.ok(i === 0 || begin >= some[i - 1].begin + some[i - 1].size, "nothing is read twice");
      assert.ok(bytes >= 240 && bytes < 240 + 24);
    }
  }
});
