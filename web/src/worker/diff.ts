// SPDX-License-Identifier: Apache-2.0
/*
 * What two models have in common and what not. Tensors are matched by name, as `coffer diff` does; headers tell what was
 * added, removed or changed, and only bytes tell whether tensors of one dtype and shape are equal.
 */
import { decode } from "libcoffer";

import { dtypeAt, nameAt, shapeAt, type Columns } from "../model/columns.js";
import { DIFF_KINDS, type DiffKind } from "../model/diff_kinds.js";
import type { ElementType } from "./element_type.js";

/** Tensors of both models, one entry for each name: those of the first in its order, then what only the second has. */
export interface TensorDiff {
  /** By DIFF_KINDS. */
  kinds: Uint8Array;
  /** The tensors' numbers in either model; -1 where it has none of the name. */
  before: Int32Array;
  after: Int32Array;
}

function isAlike(a: Columns, i: number, b: Columns, k: number): boolean {
  const [left, right] = [shapeAt(a, i), shapeAt(b, k)];
  return (
    dtypeAt(a, i) === dtypeAt(b, k) &&
    left.length === right.length &&
    left.every((dimension, axis) => dimension === right[axis])
  );
}

export function diffTensors(a: Columns, b: Columns): TensorDiff {
  const numbers = new Map<string, number>();
  for (let k = 0; k < b.count; k++) {
    numbers.set(nameAt(b, k), k);
  }
  const kinds: number[] = [];
  const before: number[] = [];
  const after: number[] = [];
  const isInBoth = new Uint8Array(b.count);
  for (let i = 0; i < a.count; i++) {
    const k = numbers.get(nameAt(a, i)) ?? -1;
    const kind: DiffKind = k < 0 ? "removed" : isAlike(a, i, b, k) ? "same" : "changed";
    kinds.push(DIFF_KINDS.indexOf(kind));
    before.push(i);
    after.push(k);
    if (k >= 0) {
      isInBoth[k] = 1;
    }
  }
  for (let k = 0; k < b.count; k++) {
    if (isInBoth[k] === 0) {
      kinds.push(DIFF_KINDS.indexOf("added"));
      before.push(-1);
      after.push(k);
    }
  }
  return { kinds: Uint8Array.from(kinds), before: Int32Array.from(before), after: Int32Array.from(after) };
}

export interface PairDiff {
  key: string;
  kind: Exclude<DiffKind, "same">;
  before: string | undefined;
  after: string | undefined;
}

type Pairs = readonly (readonly [key: string, value: string])[];

/** Keys of metadata that differ. */
export function diffPairs(a: Pairs, b: Pairs): PairDiff[] {
  const [before, after] = [new Map(a), new Map(b)];
  const result: PairDiff[] = [];
  for (const [key, value] of before) {
    const other = after.get(key);
    if (other !== value) {
      result.push({ key, kind: other === undefined ? "removed" : "changed", before: value, after: other });
    }
  }
  for (const [key, value] of after) {
    if (!before.has(key)) {
      result.push({ key, kind: "added", before: undefined, after: value });
    }
  }
  return result;
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

export function noDistance(): Distance {
  return { bytes: 0, differing: 0, nan: 0, infinite: 0, most: 0, sum: 0 };
}

function differingBytes(a: Uint8Array, b: Uint8Array): number {
  let count = 0;
  for (let i = 0; i < a.length; i++) {
    count += a[i] === b[i] ? 0 : 1;
  }
  return count;
}

function isSame(a: Uint8Array, b: Uint8Array): boolean {
  let i = 0;
  // By eight bytes at a time, where both lie so that it can be done.
  if (a.byteOffset % 8 === 0 && b.byteOffset % 8 === 0) {
    const [left, right] = [a, b].map((bytes) => new Float64Array(bytes.buffer, bytes.byteOffset, bytes.length >> 3));
    const [leftWords, rightWords] = [left!, right!].map(
      (words) => new Uint32Array(words.buffer, words.byteOffset, 2 * words.length),
    );
    while (i < leftWords!.length && leftWords![i] === rightWords![i]) {
      i++;
    }
    if (i < leftWords!.length) {
      return false;
    }
    i *= 4;
  }
  while (i < a.length && a[i] === b[i]) {
    i++;
  }
  return i === a.length;
}

/** Adds how far pieces of two tensors of one dtype are apart. They have the same length. */
export async function addDistance(distance: Distance, dtype: ElementType, a: Uint8Array, b: Uint8Array): Promise<void> {
  if (isSame(a, b)) {
    return;
  }
  distance.bytes += differingBytes(a, b);
  const [left, right] = [await decode(dtype, a), await decode(dtype, b)];
  for (let i = 0; i < left.length; i++) {
    const [x, y] = [left[i]!, right[i]!];
    if (x === y || (x !== x && y !== y)) {
      continue;
    }
    distance.differing++;
    const apart = Math.abs(x - y);
    if (apart !== apart) {
      distance.nan++;
    } else if (apart === Infinity) {
      distance.infinite++;
    } else {
      distance.most = Math.max(distance.most, apart);
      distance.sum += apart;
    }
  }
}
