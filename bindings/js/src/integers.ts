// SPDX-License-Identifier: Apache-2.0
/*
 * Numbers of 64 bits. A file may say sizes, offsets and dimensions up to 2^64 - 1, and a JavaScript number is exact up to
 * 2^53. The one choice, everywhere in this package: an Integer is a number wherever that is exact, and a bigint beyond.
 * So the numbers of real files are plain numbers, and no number is ever rounded: mixing the two kinds in a sum throws.
 */

/** A whole number: a `number` up to 2^53 - 1, a `bigint` beyond. */
export type Integer = number | bigint;

export function integer(value: bigint): Integer {
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value;
}

/** Entry `i` of a column of u64, given as pairs of u32, the low half first. */
export function integerAt(halves: Uint32Array, i: number): Integer {
  const low = halves[2 * i]!;
  const high = halves[2 * i + 1]!;
  return high < 0x200000 ? high * 0x1_0000_0000 + low : (BigInt(high) << 32n) | BigInt(low);
}

/** The same, in the nearest number. */
export function approximateAt(halves: Uint32Array, i: number): number {
  const high = halves[2 * i + 1]!;
  return high < 0x200000 ? high * 0x1_0000_0000 + halves[2 * i]! : Number(integerAt(halves, i));
}

/** a * b, exactly. */
export function product(a: Integer, b: Integer): Integer {
  const quick = Number(a) * Number(b);
  return quick <= Number.MAX_SAFE_INTEGER ? quick : integer(BigInt(a) * BigInt(b));
}

/** a + b, exactly. */
export function sum(a: Integer, b: Integer): Integer {
  const quick = Number(a) + Number(b);
  return quick <= Number.MAX_SAFE_INTEGER ? quick : integer(BigInt(a) + BigInt(b));
}
