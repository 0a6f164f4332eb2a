// SPDX-License-Identifier: Apache-2.0
/*
 * What a tensor's numbers are, and how far those of two are apart: the library's statistics, distributions and comparisons, the
 * same as those of the command. Bytes come chunk by chunk, so a tensor of any size takes the memory of one.
 */
import { bitsOf, dtypeNumber } from "./arrays.js";
import { withModelCore, type ModelCore } from "./core.js";
import { CofferError } from "./errors.js";
import type { Dtype } from "./generated/tables.js";
import type { Integer } from "./integers.js";

/**
 * How often which numbers occur: ranges in ascending order. A range whose ends are equal is one value. `lows`, `highs` and
 * `counts` have the same length.
 */
export interface Distribution {
  lows: Float64Array;
  highs: Float64Array;
  counts: Float64Array;
}

/** An element of C64 is two numbers; BOOL has 0 and 1. */
export interface Numbers {
  count: number;
  finite: number;
  nan: number;
  infinite: number;
  zeros: number;
  /** Not zero, and nearer to it than the least normal number of the dtype. */
  subnormal: number;
  /** Of the finite numbers, like all below; undefined when there are none. Exact for integers of 64 bits, too. */
  min: Integer | undefined;
  max: Integer | undefined;
  mean: number | undefined;
  /** Of the whole population. */
  deviation: number | undefined;
  distribution: Distribution;
}

/** How far the numbers of two tensors are apart. Two NaN are equal. */
export interface Distance {
  /** Bytes that are not the same. */
  bytes: number;
  /** Numbers that are not equal. */
  differing: number;
  /** Of them, those that are NaN in one tensor only, and those that are infinitely far apart. */
  nan: number;
  infinite: number;
  /** Of the others, the greatest and the sum of all distances. */
  most: number;
  sum: number;
}

/** Chunks of whole elements; those of 4 and 6 bits in multiples of three bytes. */
export type Chunks<T> = AsyncIterable<T> | Iterable<T>;

/** Bytes that go into the module at a time: whole elements of any dtype. */
const STEP = 24 << 13;

/** Where the fields of the shim's js_numbers are; wasm/js_numbers.h is the other side. */
const AT = {
  count: 0,
  finite: 8,
  nan: 16,
  infinite: 24,
  zeros: 32,
  subnormal: 40,
  min: 48,
  max: 56,
  mean: 64,
  minBits: 88,
  maxBits: 96,
  deviation: 104,
  rangeCount: 112,
  ranges: 116,
  differingBytes: 128,
  differing: 136,
  differingNan: 144,
  differingInfinite: 152,
  differenceMax: 160,
  differenceSum: 168,
} as const;

function found(core: ModelCore): DataView {
  return new DataView(core.buffer, core.exports.coffer_js_numbers());
}

function wideEnd(dtype: Dtype, bits: bigint): Integer {
  const value = dtype === "I64" ? BigInt.asIntN(64, bits) : bits;
  return BigInt.asIntN(53, value) === value ? Number(value) : value;
}

function elementsOf(dtype: Dtype, bytes: number): number {
  const elements = Math.floor((bytes * 8) / bitsOf(dtype));
  if (Math.ceil((elements * bitsOf(dtype)) / 8) !== bytes) {
    throw new CofferError("BUFFER_SIZE", `${bytes} bytes are not those of any number of elements of ${dtype}`);
  }
  return elements;
}

/** Copies a part of a chunk into the module. */
function put(core: ModelCore, address: number, part: Uint8Array): void {
  new Uint8Array(core.buffer, address, part.length).set(part);
}

/** What the numbers of a dtype are that come in chunks. */
export async function statistics(dtype: Dtype, chunks: Chunks<Uint8Array>): Promise<Numbers> {
  const number = dtypeNumber(dtype);
  return withModelCore(async (core) => {
    core.demand(core.exports.coffer_js_numbers_new(number));
    const from = core.alloc(STEP);
    for await (const chunk of chunks) {
      for (let begin = 0; begin < chunk.length; begin += STEP) {
        const part = chunk.subarray(begin, begin + STEP);
        put(core, from, part);
        core.demand(core.exports.coffer_js_numbers_add(from, elementsOf(dtype, part.length)));
      }
    }
    core.demand(core.exports.coffer_js_numbers_finish());
    return numbersOf(core, dtype);
  });
}

function numbersOf(core: ModelCore, dtype: Dtype): Numbers {
  const view = found(core);
  const count = (at: number): number => Number(view.getBigUint64(at, true));
  const isEmpty = count(AT.finite) === 0;
  const measure = (at: number): number | undefined => (isEmpty ? undefined : view.getFloat64(at, true));
  const isWide = dtype === "I64" || dtype === "U64";
  const end = (at: number, bitsAt: number): Integer | undefined =>
    isWide && !isEmpty ? wideEnd(dtype, view.getBigUint64(bitsAt, true)) : measure(at);
  const [ranges, rangeCount] = [view.getUint32(AT.ranges, true), view.getUint32(AT.rangeCount, true)];
  const column = (i: number): Float64Array =>
    new Float64Array(core.buffer, ranges + 8 * rangeCount * i, rangeCount).slice();
  return {
    count: count(AT.count),
    finite: count(AT.finite),
    nan: count(AT.nan),
    infinite: count(AT.infinite),
    zeros: count(AT.zeros),
    subnormal: count(AT.subnormal),
    min: end(AT.min, AT.minBits),
    max: end(AT.max, AT.maxBits),
    mean: measure(AT.mean),
    deviation: measure(AT.deviation),
    distribution: { lows: column(0), highs: column(1), counts: column(2) },
  };
}

/** How far two tensors of a dtype are apart, whose chunks come in pairs of the same length. */
export async function distance(dtype: Dtype, chunks: Chunks<readonly [Uint8Array, Uint8Array]>): Promise<Distance> {
  const number = dtypeNumber(dtype);
  return withModelCore(async (core) => {
    core.exports.coffer_js_compare_new();
    const [a, b] = [core.alloc(STEP), core.alloc(STEP)];
    for await (const [left, right] of chunks) {
      if (left.length !== right.length) {
        throw new CofferError("BUFFER_SIZE", `a chunk of ${left.length} bytes cannot be compared with ${right.length}`);
      }
      for (let begin = 0; begin < left.length; begin += STEP) {
        const part = left.subarray(begin, begin + STEP);
        put(core, a, part);
        put(core, b, right.subarray(begin, begin + STEP));
        core.demand(core.exports.coffer_js_compare_add(number, a, b, elementsOf(dtype, part.length)));
      }
    }
    const view = found(core);
    const count = (at: number): number => Number(view.getBigUint64(at, true));
    return {
      bytes: count(AT.differingBytes),
      differing: count(AT.differing),
      nan: count(AT.differingNan),
      infinite: count(AT.differingInfinite),
      most: view.getFloat64(AT.differenceMax, true),
      sum: view.getFloat64(AT.differenceSum, true),
    };
  });
}
