// SPDX-License-Identifier: Apache-2.0
/*
 * What a tensor's numbers are: how many of which kind, their ends, mean and deviation, and how they are distributed. Bytes
 * are added piece by piece, so a tensor of any size is examined in the memory of one piece.
 *
 * The definitions are those of `coffer stats`: ends, mean and deviation are of the finite numbers, the deviation is that of
 * the whole population, BOOL counts as 0 and 1, and a complex number as two numbers. All counts are exact, and so are the
 * ends, those of 64-bit integers included. Mean and deviation are sums of doubles, in which integers beyond 2^53 are rounded.
 */
/* eslint-disable @typescript-eslint/prefer-for-of -- of typed arrays, several times slower where it matters here */
import { decode, type Integer } from "libcoffer";

import type { ElementType } from "./element_type.js";

/**
 * How often which values occur: disjoint ranges in ascending order. A range whose ends are equal is one value. `lows`,
 * `highs` and `counts` have the same length.
 */
export interface Distribution {
  lows: Float64Array;
  highs: Float64Array;
  counts: Float64Array;
}

export interface Numbers {
  /** Numbers that were looked at; two for each element of C64. */
  count: number;
  finite: number;
  nan: number;
  infinite: number;
  zeros: number;
  /** Of the finite numbers, like all below; undefined when there are none. */
  min: Integer | undefined;
  max: Integer | undefined;
  mean: number | undefined;
  deviation: number | undefined;
}

export interface Findings {
  numbers: Numbers;
  distribution: Distribution;
}

/** Collects what is known of one tensor's numbers. */
export interface Tally {
  /** Adds whole elements; those of 4 and 6 bits in multiples of three bytes. */
  add(bytes: Uint8Array): Promise<void>;
  result(): Findings;
}

/**
 * The dtypes whose codes are counted: so few codes that a counter for each is cheaper than decoding every element. A code of
 * F4 is two elements.
 */
const CODE_BYTES: Readonly<Record<string, 1 | 2>> = {
  BOOL: 1,
  F4: 1,
  U8: 1,
  I8: 1,
  F8_E5M2: 1,
  F8_E4M3: 1,
  F8_E8M0: 1,
  F8_E4M3FNUZ: 1,
  F8_E5M2FNUZ: 1,
  I16: 2,
  U16: 2,
  F16: 2,
  BF16: 2,
};

/** A tally for elements of a dtype. */
export async function tallyOf(dtype: ElementType): Promise<Tally> {
  const codeBytes = CODE_BYTES[dtype];
  return codeBytes === undefined
    ? new ValueTally(dtype)
    : new CodeTally(codeBytes, await valuesOfCodes(dtype, codeBytes));
}

// ---- Elements of 4, 8 and 16 bits ---------------------------------------------------------------------------------------

/** What each code stands for, one code after the other. */
function valuesOfCodes(dtype: ElementType, bytes: 1 | 2): Promise<Float64Array> {
  const codes =
    bytes === 1 ? Uint8Array.from({ length: 1 << 8 }, (_, i) => i) : Uint16Array.from({ length: 1 << 16 }, (_, i) => i);
  return decode(dtype, codes);
}

/**
 * Counts codes, and finds everything else from the counts: one addition for each element, however many there are, and a
 * result that is exact up to one rounding of the mean.
 */
class CodeTally implements Tally {
  readonly #values: Float64Array;
  readonly #counts: Float64Array;

  constructor(codeBytes: 1 | 2, values: Float64Array) {
    this.#values = values;
    this.#counts = new Float64Array(1 << (8 * codeBytes));
  }

  add(bytes: Uint8Array): Promise<void> {
    const codes = this.#counts.length > 1 << 8 ? aligned16(bytes) : bytes;
    // A piece has fewer elements than 2^32: counting in integers is quicker than in doubles.
    const counts = new Uint32Array(this.#counts.length);
    for (let i = 0; i < codes.length; i++) {
      counts[codes[i]!]!++;
    }
    for (let code = 0; code < counts.length; code++) {
      this.#counts[code]! += counts[code]!;
    }
    return Promise.resolve();
  }

  result(): Findings {
    const numbers = nothing();
    const byValue = new Map<number, number>();
    const each = this.#values.length / this.#counts.length;
    for (const [i, value] of this.#values.entries()) {
      const count = this.#counts[Math.floor(i / each)]!;
      numbers.count += count;
      if (Number.isFinite(value)) {
        if (count > 0) {
          // Several codes are zero, and of BOOL nearly all are 1; -0 is the same key as 0.
          byValue.set(value, (byValue.get(value) ?? 0) + count);
        }
      } else if (Number.isNaN(value)) {
        numbers.nan += count;
      } else {
        numbers.infinite += count;
      }
    }
    const values = Float64Array.from(byValue.keys()).sort();
    const counts = values.map((value) => byValue.get(value)!);
    describe(numbers, values, counts, byValue.get(0) ?? 0);
    return { numbers, distribution: { lows: values, highs: values.slice(), counts } };
  }
}

function nothing(): Numbers {
  return {
    count: 0,
    finite: 0,
    nan: 0,
    infinite: 0,
    zeros: 0,
    min: undefined,
    max: undefined,
    mean: undefined,
    deviation: undefined,
  };
}

/** What follows from how often each value occurs. The distances from the mean are squared after it is known, so no digits cancel. */
function describe(numbers: Numbers, values: Float64Array, counts: Float64Array, zeros: number): void {
  numbers.finite = counts.reduce((all, count) => all + count, 0);
  numbers.zeros = zeros;
  if (numbers.finite === 0) {
    return;
  }
  numbers.min = values[0];
  numbers.max = values[values.length - 1];
  numbers.mean = values.reduce((all, value, i) => all + value * counts[i]!, 0) / numbers.finite;
  const squares = values.reduce((all, value, i) => all + (value - numbers.mean!) ** 2 * counts[i]!, 0);
  numbers.deviation = Math.sqrt(squares / numbers.finite);
}

function aligned16(bytes: Uint8Array): Uint16Array {
  const from = bytes.byteOffset % 2 === 0 ? bytes : bytes.slice();
  return new Uint16Array(from.buffer, from.byteOffset, from.length >> 1);
}

// ---- Wider ones, and those that share bytes -----------------------------------------------------------------------------

/** Numbers whose mean is taken at once. */
const BLOCK = 1 << 15;
/**
 * Of the upper half of a double, the bits that tell ranges apart: sign, exponent, and 10 bits of the mantissa. So a range is
 * narrower than 0.1 % of its numbers.
 */
const RANGE_SHIFT = 10;
const RANGES = 1 << (32 - RANGE_SHIFT);
const INFINITE_EXPONENT = 0x7ff00000;
/** Counters have 32 bits. Long before one can overflow they are added up elsewhere. */
const MAX_PENDING = 2 ** 31;

/**
 * Decodes elements and adds them up by blocks, as `coffer stats` does: each block's mean first and then the squares of the
 * distances from it; blocks are merged by the formula of Chan, Golub and LeVeque.
 *
 * The distribution counts ranges of doubles by their upper bits, RANGE_SHIFT.
 */
class ValueTally implements Tally {
  readonly #dtype: ElementType;
  readonly #numbers = nothing();
  readonly #pending = new Uint32Array(RANGES);
  readonly #counted = new Map<number, number>();
  #pendingCount = 0;
  readonly #ends: WideEnds | undefined;
  #mean = 0;
  #squares = 0;

  constructor(dtype: ElementType) {
    this.#dtype = dtype;
    this.#ends = dtype === "I64" || dtype === "U64" ? new WideEnds(dtype === "I64") : undefined;
  }

  async add(bytes: Uint8Array): Promise<void> {
    const values = await decode(this.#dtype, bytes);
    for (let begin = 0; begin < values.length; begin += BLOCK) {
      this.#addBlock(values.subarray(begin, begin + BLOCK));
    }
    this.#ends?.add(bytes);
  }

  #addBlock(values: Float64Array): void {
    const numbers = this.#numbers;
    const finite = this.#sort(values);
    numbers.count += values.length;
    if (finite.length === 0) {
      return;
    }
    let [low, high, sum] = [finite[0]!, finite[0]!, 0];
    for (let i = 0; i < finite.length; i++) {
      const value = finite[i]!;
      low = value < low ? value : low;
      high = value > high ? value : high;
      sum += value;
    }
    const mean = sum / finite.length;
    let squares = 0;
    for (let i = 0; i < finite.length; i++) {
      squares += (finite[i]! - mean) * (finite[i]! - mean);
    }
    numbers.min = numbers.min === undefined || low < numbers.min ? low : numbers.min;
    numbers.max = numbers.max === undefined || high > numbers.max ? high : numbers.max;
    this.#merge(finite.length, mean, squares);
  }

  #merge(count: number, mean: number, squares: number): void {
    const before = this.#numbers.finite;
    const share = count / (before + count);
    const distance = mean - this.#mean;
    // With nothing before, the share is 1, and the mean has to be this one even if the product would overflow.
    this.#mean = before === 0 ? mean : this.#mean + distance * share;
    this.#squares += squares + (before === 0 ? 0 : distance * distance * (before * share));
    this.#numbers.finite += count;
  }

  /** Counts values by their kind and range, and moves the finite ones to the front. */
  #sort(values: Float64Array): Float64Array {
    const pending = this.#pending;
    const words = new Uint32Array(values.buffer, values.byteOffset, 2 * values.length);
    let [kept, zeros, nan] = [0, 0, 0];
    for (let i = 0; i < values.length; i++) {
      const value = values[i]!;
      const word = words[2 * i + 1]!; // the upper half, on the little-endian machines that libcoffer demands
      if ((word & INFINITE_EXPONENT) === INFINITE_EXPONENT) {
        nan += value !== value ? 1 : 0;
        continue;
      }
      if (value === 0) {
        zeros++;
      } else {
        pending[word >>> RANGE_SHIFT]!++;
      }
      values[kept++] = value;
    }
    this.#pendingCount += kept;
    if (this.#pendingCount >= MAX_PENDING) {
      this.#settle();
    }
    this.#numbers.zeros += zeros;
    this.#numbers.nan += nan;
    this.#numbers.infinite += values.length - kept - nan;
    return values.subarray(0, kept);
  }

  #settle(): void {
    for (let range = 0; range < RANGES; range++) {
      const count = this.#pending[range]!;
      if (count > 0) {
        this.#counted.set(range, (this.#counted.get(range) ?? 0) + count);
      }
    }
    this.#pending.fill(0);
    this.#pendingCount = 0;
  }

  result(): Findings {
    const numbers = { ...this.#numbers };
    const distribution = this.#distribution();
    if (numbers.finite > 0) {
      numbers.mean = this.#mean;
      numbers.deviation = Math.sqrt(this.#squares / numbers.finite);
      numbers.min = this.#ends?.min() ?? numbers.min;
      numbers.max = this.#ends?.max() ?? numbers.max;
    }
    return { numbers, distribution };
  }

  #distribution(): Distribution {
    const [low, high] = [Number(this.#numbers.min), Number(this.#numbers.max)];
    const ranges: [low: number, high: number, count: number][] = [];
    this.#settle();
    for (const [range, count] of this.#counted) {
      const [near, far] = rangeOf(range);
      ranges.push([Math.max(Math.min(near, far), low), Math.min(Math.max(near, far), high), count]);
    }
    if (this.#numbers.zeros > 0) {
      ranges.push([0, 0, this.#numbers.zeros]);
    }
    ranges.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    return {
      lows: Float64Array.from(ranges, ([from]) => from),
      highs: Float64Array.from(ranges, ([, to]) => to),
      counts: Float64Array.from(ranges, ([, , count]) => count),
    };
  }
}

/** The end of a range nearer to zero, and the other one. */
function rangeOf(range: number): [near: number, far: number] {
  const [near, far] = new Float64Array(Uint32Array.of(0, range << RANGE_SHIFT, 0, (range + 1) << RANGE_SHIFT).buffer);
  // Beyond the largest number there is infinity, which no finite number reaches.
  return [near!, Number.isFinite(far) ? far! : Math.sign(far!) * Number.MAX_VALUE];
}

/**
 * The least and the greatest integer of 64 bits, exactly. Halves are compared, since making a bigint of each element takes
 * many times as long.
 */
class WideEnds {
  readonly #signed: boolean;
  #least: [high: number, low: number] | undefined;
  #greatest: [high: number, low: number] = [0, 0];

  constructor(signed: boolean) {
    this.#signed = signed;
  }

  add(bytes: Uint8Array): void {
    const from = bytes.byteOffset % 4 === 0 ? bytes : bytes.slice();
    const lows = new Uint32Array(from.buffer, from.byteOffset, (from.length >> 3) * 2);
    const highs = this.#signed ? new Int32Array(lows.buffer, lows.byteOffset, lows.length) : lows;
    if (lows.length === 0) {
      return;
    }
    let [leastHigh, leastLow] = this.#least ?? [highs[1]!, lows[0]!];
    let [mostHigh, mostLow] = this.#least === undefined ? [leastHigh, leastLow] : this.#greatest;
    for (let i = 0; i < lows.length; i += 2) {
      const [high, low] = [highs[i + 1]!, lows[i]!];
      if (high < leastHigh || (high === leastHigh && low < leastLow)) {
        [leastHigh, leastLow] = [high, low];
      }
      if (high > mostHigh || (high === mostHigh && low > mostLow)) {
        [mostHigh, mostLow] = [high, low];
      }
    }
    this.#least = [leastHigh, leastLow];
    this.#greatest = [mostHigh, mostLow];
  }

  min(): Integer | undefined {
    return this.#least === undefined ? undefined : joined(this.#least);
  }

  max(): Integer | undefined {
    return this.#least === undefined ? undefined : joined(this.#greatest);
  }
}

function joined([high, low]: readonly [number, number]): Integer {
  const value = (BigInt(high) << 32n) + BigInt(low);
  return BigInt.asIntN(53, value) === value ? Number(value) : value;
}
