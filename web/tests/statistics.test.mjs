// SPDX-License-Identifier: Apache-2.0
/*
 * What the page says of a tensor's numbers. The same numbers are found here in the plainest way, for every dtype, for pieces of
 * any size, and for the values that make arithmetic lie: NaN, infinities, zeros with a sign, the widest ranges, integers beyond 2^53.
 */
import assert from "node:assert/strict";
import test from "node:test";

import { source } from "./page.mjs";

const { tallyOf } = await source("worker/statistics.ts");
const { histogram, quantile } = await source("model/histogram.ts");
const { allPortions, somePortions, PORTION } = await source("model/portions.ts");
const { decode } = await import("../../bindings/js/dist/index.js");

const DTYPES = Object.entries({
  BOOL: 8, F4: 4, F6_E2M3: 6, F6_E3M2: 6, U8: 8, I8: 8, F8_E5M2: 8, F8_E4M3: 8, F8_E8M0: 8, F8_E4M3FNUZ: 8, F8_E5M2FNUZ: 8,
  I16: 16, U16: 16, F16: 16, BF16: 16, I32: 32, U32: 32, F32: 32, C64: 64, F64: 64, I64: 64, U64: 64,
}); // prettier-ignore

/** Bytes that look random and are the same every time. */
function noise(size, seed = 1) {
  const bytes = new Uint8Array(size);
  let state = seed;
  for (let i = 0; i < size; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    bytes[i] = state >>> 24;
  }
  return bytes;
}

async function findings(dtype, bytes, piece = bytes.length) {
  const tally = await tallyOf(dtype);
  for (let begin = 0; begin < bytes.length; begin += piece) {
    await tally.add(bytes.subarray(begin, begin + piece));
  }
  return tally.result();
}

function plainly(values) {
  const finite = values.filter(Number.isFinite);
  const mean = finite.reduce((all, value) => all + value / finite.length, 0);
  return {
    count: values.length,
    finite: finite.length,
    nan: values.filter(Number.isNaN).length,
    infinite: values.filter((value) => Math.abs(value) === Infinity).length,
    zeros: values.filter((value) => value === 0).length,
    min: finite.reduce((a, b) => Math.min(a, b)),
    max: finite.reduce((a, b) => Math.max(a, b)),
    mean,
    deviation: Math.sqrt(finite.reduce((all, value) => all + (value - mean) ** 2 / finite.length, 0)),
  };
}

function near(actual, expected, what) {
  assert.ok(Math.abs(actual - expected) <= 1e-9 * Math.abs(expected) + 1e-300, `${what}: ${actual}, not ${expected}`);
}

test("numbers of every dtype, in one piece and in many", async () => {
  for (const [dtype, bits] of DTYPES) {
    // More than one block of 2^15, and of floats of 64 bits no exponent whose square would overflow.
    const bytes = noise((bits / 8) * 40_000);
    if (dtype === "F64") {
      for (let i = 7; i < bytes.length; i += 8) bytes[i] = (bytes[i] & 0x81) | 0x3e;
    }
    if (dtype === "F32" || dtype === "C64") {
      for (let i = 3; i < bytes.length; i += 4) bytes[i] = i % 48 === 3 ? 0x7f : bytes[i] & 0xbf;
    }
    const expected = plainly(await decode(dtype, bytes));
    for (const piece of [bytes.length, 24 * 501]) {
      const { numbers, distribution } = await findings(dtype, bytes, piece);
      const what = `${dtype} by ${piece}`;
      for (const field of ["count", "finite", "nan", "infinite", "zeros"]) {
        assert.equal(numbers[field], expected[field], `${what}: ${field}`);
      }
      near(Number(numbers.min), expected.min, `${what}: min`);
      near(Number(numbers.max), expected.max, `${what}: max`);
      near(numbers.deviation, expected.deviation, `${what}: deviation`);
      assert.ok(Math.abs(numbers.mean - expected.mean) <= 1e-9 * expected.deviation, `${what}: mean`);
      const { lows, highs, counts } = distribution;
      assert.equal(
        counts.reduce((a, b) => a + b),
        expected.finite,
        `${what}: the distribution has all`,
      );
      assert.ok(
        lows.every((low, i) => low <= highs[i] && (i === 0 || highs[i - 1] <= low)),
        `${what}: ascending`,
      );
    }
  }
});

test("integers of 64 bits keep their ends", async () => {
  const signed = BigInt64Array.of(5n, -(2n ** 63n), 2n ** 63n - 1n, -(2n ** 53n) - 1n, 0n);
  const { numbers } = await findings("I64", new Uint8Array(signed.buffer), 8);
  assert.deepEqual([numbers.min, numbers.max, numbers.zeros], [-(2n ** 63n), 2n ** 63n - 1n, 1]);
  const unsigned = BigUint64Array.of(2n ** 64n - 1n, 2n ** 53n + 1n);
  const { numbers: others } = await findings("U64", new Uint8Array(unsigned.buffer));
  assert.deepEqual([others.min, others.max], [2n ** 53n + 1n, 2n ** 64n - 1n]);
  const { numbers: small } = await findings("I64", new Uint8Array(BigInt64Array.of(-3n, 9n).buffer));
  assert.deepEqual([small.min, small.max, small.mean, small.deviation], [-3, 9, 3, 6]);
});

test("what is not finite is counted apart", async () => {
  const values = Float32Array.of(NaN, Infinity, -Infinity, -0, 0, 1);
  const { numbers } = await findings("F32", new Uint8Array(values.buffer));
  assert.deepEqual(numbers, {
    count: 6,
    finite: 3,
    nan: 1,
    infinite: 2,
    zeros: 2,
    min: -0,
    max: 1,
    mean: 1 / 3,
    deviation: Math.sqrt(2 / 9),
  });
  const none = await findings("F64", new Uint8Array(Float64Array.of(NaN, Infinity).buffer));
  assert.deepEqual([none.numbers.finite, none.numbers.min, none.numbers.mean], [0, undefined, undefined]);
  assert.deepEqual((await findings("BF16", new Uint8Array(0))).numbers.min, undefined);
  assert.equal(quantile(none.distribution, 0.5), undefined);
  assert.deepEqual([...histogram(none.distribution, { bars: 8 }).counts], []);
});

test("bytes may lie anywhere", async () => {
  for (const [dtype, bits] of DTYPES) {
    const bytes = noise((bits / 8) * 480 + 1);
    const moved = await findings(dtype, bytes.subarray(1));
    assert.deepEqual(moved, await findings(dtype, bytes.slice(1)), dtype);
  }
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
