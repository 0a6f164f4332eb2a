// SPDX-License-Identifier: Apache-2.0
/*
 * Slices: the core says which runs of bytes one consists of, and they are read here, those that lie close together by one
 * read.
 */
import { dtypeNumber } from "./arrays.js";
import { AT, withModelCore } from "./core.js";
import { CofferError } from "./errors.js";
import { integer, integerAt, type Integer } from "./integers.js";

/** Of one dimension: an index, which drops it; a range [start, stop, step] with null for what is left out; null for all. */
export type Index =
  number | bigint | null | readonly [start?: Integer | null, stop?: Integer | null, step?: Integer | null];

/** What a slice consists of: runs of equal size, at equal distances along each dimension. */
export interface Runs {
  shape: Integer[];
  size: number;
  start: bigint;
  runSize: number;
  runCount: number;
  counts: number[];
  strides: bigint[];
}

/** One index as text. */
function indexText(index: Index): string {
  if (index === null) {
    return ":";
  }
  if (typeof index === "number" || typeof index === "bigint") {
    return String(index);
  }
  if (!Array.isArray(index)) {
    throw new CofferError("ARGUMENT", "an index of a slice is a number, a range [start, stop, step], or null");
  }
  return (index as readonly (Integer | null)[]).map((part) => part ?? "").join(":") + (index.length < 2 ? ":" : "");
}

/** The text form of a slice, which the core reads: "0:10, :, -1". */
export function sliceText(slice: string | readonly Index[]): string {
  if (typeof slice === "string") {
    return slice;
  }
  if (!Array.isArray(slice)) {
    throw new CofferError("ARGUMENT", 'a slice is a text such as "0:10, :", or a list of what is between the commas');
  }
  return (slice as readonly Index[]).map(indexText).join(", ");
}

export async function planSlice(
  tensor: { name: string; dtype: string; shape: readonly Integer[]; size: Integer },
  slice: string | readonly Index[],
  path: string,
): Promise<Runs> {
  return withModelCore((core) => {
    const shape = new Uint8Array(BigUint64Array.from(tensor.shape, BigInt).buffer);
    const text = core.putText(sliceText(slice));
    const status = core.exports.coffer_js_slice(
      dtypeNumber(tensor.dtype),
      core.put(shape),
      tensor.shape.length,
      BigInt(tensor.size),
      text.address,
      text.size,
    );
    core.demand(status, path);
    const rank = core.u32(AT.runRank);
    const result = core.words(core.u32(AT.sliceShape), 2 * core.u32(AT.sliceRank));
    return {
      shape: Array.from({ length: result.length / 2 }, (_, i) => integerAt(result, i)),
      size: Number(core.u64(AT.sliceSize)),
      start: core.u64(AT.runStart),
      runSize: Number(core.u64(AT.runSize)),
      runCount: Number(core.u64(AT.runCount)),
      counts: [...new BigUint64Array(core.bytes(core.u32(AT.runCounts), 8 * rank).buffer)].map(Number),
      strides: [...new BigInt64Array(core.bytes(core.u32(AT.runStrides), 8 * rank).buffer)],
    };
  });
}

/** Bytes between two runs that are rather read than left out, and bytes of one read. */
const MAX_GAP = 64n << 10n;
const MAX_READ = 8n << 20n;

/** Neighbouring runs that one read gets. */
export interface Span {
  /** From the first byte of the tensor. */
  begin: bigint;
  end: bigint;
  /** The first of its runs; they are in order. */
  first: number;
  starts: bigint[];
}

/** Where each run begins, in order: an odometer over the dimensions. */
function* starts(runs: Runs): Generator<bigint> {
  const { counts, strides } = runs;
  const at = counts.map(() => 0);
  let place = runs.start;
  for (let k = 0; k < runs.runCount; k++) {
    yield place;
    for (let axis = counts.length - 1; axis >= 0; axis--) {
      place += strides[axis]!;
      if (++at[axis]! < counts[axis]!) {
        break;
      }
      place -= strides[axis]! * BigInt(counts[axis]!);
      at[axis] = 0;
    }
  }
}

/** Puts runs together that lie close to each other, in either direction. */
export function* spans(runs: Runs): Generator<Span> {
  const size = BigInt(runs.runSize);
  let span: Span | undefined;
  let k = 0;
  for (const start of starts(runs)) {
    const end = start + size;
    if (span !== undefined) {
      const begin = start < span.begin ? start : span.begin;
      const last = end > span.end ? end : span.end;
      const near = start <= span.end + MAX_GAP && span.begin <= end + MAX_GAP;
      if (near && last - begin <= MAX_READ) {
        span.begin = begin;
        span.end = last;
        span.starts.push(start);
        k++;
        continue;
      }
      yield span;
    }
    span = { begin: start, end, first: k, starts: [start] };
    k++;
  }
  if (span !== undefined) {
    yield span;
  }
}

/** The byte of the file at which a span begins. */
export function placeOf(offset: Integer, span: Span): Integer {
  return integer(BigInt(offset) + span.begin);
}
