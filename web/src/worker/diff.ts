// SPDX-License-Identifier: Apache-2.0
/*
 * What two models have in common and what not. Tensors are matched by name, as `coffer diff` does; headers tell what was
 * added, removed or changed, and only bytes tell whether tensors of one dtype and shape are equal.
 */
import { dtypeAt, nameAt, shapeAt, type Columns } from "../model/columns.js";
import { DIFF_KINDS, type DiffKind } from "../model/diff_kinds.js";

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
