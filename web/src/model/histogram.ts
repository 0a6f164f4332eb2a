// SPDX-License-Identifier: Apache-2.0
/*
 * A distribution as bars. It has ranges far narrower than any bar, so another range of the axis or another number of bars
 * needs no second look at the tensor.
 */
import type { Distribution } from "libcoffer";

/** Bars of equal width. */
export interface Histogram {
  /** Where the first begins, and the last ends. */
  low: number;
  high: number;
  counts: Float64Array;
  /** Numbers that lie on either side of the bars. */
  below: number;
  above: number;
}

export interface HistogramOptions {
  bars: number;
  /** The axis; without them, all of the distribution. */
  low?: number | undefined;
  high?: number | undefined;
  /** Whether all numbers are whole: then so are the bars' widths, and each bar has the same number of them. */
  whole?: boolean | undefined;
}

/** The number below which the share `q` of a distribution lies; undefined when it is empty. */
export function quantile({ lows, highs, counts }: Distribution, q: number): number | undefined {
  const total = counts.reduce((all, count) => all + count, 0);
  let left = q * total;
  for (let i = 0; i < counts.length; i++) {
    if (left <= counts[i]!) {
      const share = Math.max(left, 0) / counts[i]!;
      return lows[i]! * (1 - share) + highs[i]! * share;
    }
    left -= counts[i]!;
  }
  return highs[highs.length - 1];
}

/** Where bars begin and end. */
function axis({ lows, highs }: Distribution, options: HistogramOptions): { low: number; high: number; bars: number } {
  const low = options.low ?? lows[0]!;
  const high = Math.max(options.high ?? highs[highs.length - 1]!, low);
  if (options.whole && high - low < Number.MAX_SAFE_INTEGER) {
    const width = Math.ceil((Math.floor(high) - Math.ceil(low) + 1) / options.bars);
    const bars = Math.ceil((Math.floor(high) - Math.ceil(low) + 1) / width);
    return { low: Math.ceil(low) - 0.5, high: Math.ceil(low) - 0.5 + bars * width, bars };
  }
  // One value alone is drawn as one bar in the middle.
  const margin = high > low ? 0 : low === 0 ? 1 : Math.abs(low) / 2;
  return { low: low - margin, high: high + margin, bars: high > low ? options.bars : 1 };
}

/**
 * Divides a distribution into bars. A range that reaches over several is divided between them in proportion, and a number
 * at the end of the axis belongs to the last bar.
 */
export function histogram(distribution: Distribution, options: HistogramOptions): Histogram {
  const { lows, highs, counts } = distribution;
  if (counts.length === 0) {
    return { low: 0, high: 0, counts: new Float64Array(0), below: 0, above: 0 };
  }
  const { low, high, bars } = axis(distribution, options);
  const result: Histogram = { low, high, counts: new Float64Array(bars), below: 0, above: 0 };
  // Halves where the widest range there is would overflow, and only there: the least numbers have none.
  const part = Number.isFinite(high - low) ? 1 : 0.5;
  const width = high * part - low * part;
  const place = (value: number): number => ((value * part - low * part) / width) * bars;
  for (let i = 0; i < counts.length; i++) {
    spread(result, place(lows[i]!), place(highs[i]!), counts[i]!);
  }
  return result;
}

/** Adds `count` numbers that lie between two places, measured in bars. */
function spread(result: Histogram, from: number, to: number, count: number): void {
  const bars = result.counts.length;
  if (to <= from || Math.floor(from) === Math.floor(to)) {
    if (from < 0) {
      result.below += count;
    } else if (from > bars) {
      result.above += count;
    } else {
      result.counts[Math.min(Math.floor(from), bars - 1)]! += count;
    }
    return;
  }
  const each = count / (to - from);
  result.below += each * Math.max(Math.min(to, 0) - from, 0);
  result.above += each * Math.max(to - Math.max(from, bars), 0);
  const last = Math.min(to, bars);
  for (let bar = Math.max(Math.floor(from), 0); bar < last; bar++) {
    result.counts[bar]! += each * (Math.min(bar + 1, to) - Math.max(bar, from));
  }
}
