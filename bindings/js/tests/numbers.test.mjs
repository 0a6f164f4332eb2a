// SPDX-License-Identifier: Apache-2.0
/*
 * Statistics, distributions and distances of numbers. The same are found here in the plainest way, for every dtype, for chunks of
 * any size, and for the values that make arithmetic lie: NaN, infinities, zeros with a sign, integers beyond 2^53.
 */
import assert from "node:assert/strict";
import test from "node:test";

import { CofferError, decode, distance, statistics } from "../dist/index.js";

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

function chunks(bytes, size) {
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size));
}

async function findings(dtype, bytes, size = Math.max(bytes.length, 1)) {
  const { distribution, ...numbers } = await statistics(dtype, chunks(bytes, size));
  return { numbers, distribution };
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
    subnormal: 0,
    min: -0,
    max: 1,
    mean: 1 / 3,
    deviation: Math.sqrt(2 / 9),
  });
  const none = await findings("F64", new Uint8Array(Float64Array.of(NaN, Infinity).buffer));
  assert.deepEqual([none.numbers.finite, none.numbers.min, none.numbers.mean], [0, undefined, undefined]);
  assert.deepEqual((await findings("BF16", new Uint8Array(0))).numbers.min, undefined);
  assert.equal(none.distribution.counts.length, 0);
});

test("bytes may lie anywhere", async () => {
  for (const [dtype, bits] of DTYPES) {
    const bytes = noise((bits / 8) * 480 + 1);
    const moved = await findings(dtype, bytes.subarray(1));
    assert.deepEqual(moved, await findings(dtype, bytes.slice(1)), dtype);
  }
});

const floats = (...values) => new Uint8Array(Float32Array.from(values).buffer);

test("how far numbers are apart", async () => {
  const none = { bytes: 0, differing: 0, nan: 0, infinite: 0, most: 0, sum: 0 };
  assert.deepEqual(await distance("F32", [[floats(1, 2, 3), floats(1, 2, 3)]]), none);
  const found = await distance("F32", [
    [floats(1, NaN, NaN, Infinity), floats(1.5, NaN, 0, 1)],
    [floats(2, 5, -0), floats(2, 1, 0)],
  ]);
  assert.deepEqual([found.differing, found.nan, found.infinite, found.most, found.sum], [4, 1, 1, 4, 4.5]);
  assert.ok(found.bytes > 0);
  // Bytes that differ where numbers do not: the sign of a zero.
  const zeros = await distance("F32", [[floats(-0), floats(0)]]);
  assert.deepEqual([zeros.bytes, zeros.differing], [1, 0]);
  // From any place in memory, and with a rest that is no whole word.
  const long = new Uint8Array(300_003).map((_, i) => i);
  const moved = new Uint8Array(300_004);
  moved.set(long, 1);
  moved[300_003] ^= 1;
  const odd = await distance("U8", [[long, moved.subarray(1)]]);
  assert.deepEqual([odd.bytes, odd.differing], [1, 1]);
});

test("bytes that are no elements, and chunks of two lengths", async () => {
  const refused = (code) => (error) => error instanceof CofferError && error.code === code;
  await assert.rejects(statistics("F32", [new Uint8Array(7)]), refused("BUFFER_SIZE"));
  await assert.rejects(statistics("F99", []), refused("DTYPE"));
  await assert.rejects(distance("F32", [[floats(1), floats(1, 2)]]), refused("BUFFER_SIZE"));
});
