// SPDX-License-Identifier: Apache-2.0
/*
 * A model's tensors as columns: what crosses from the worker to the page is a few arrays, however many tensors there are.
 * Numbers of files have 64 bits and are kept as such; `approximate` is for drawing and adding up.
 */

export interface Columns {
  readonly count: number;
  /** All names, one after the other, and where each ends, in UTF-16 units. */
  readonly names: string;
  readonly nameEnds: Uint32Array;
  /** By number: which of `dtypeNames`. */
  readonly dtypes: Uint32Array;
  readonly dtypeNames: readonly string[];
  /** All dimensions, one tensor after the other, and where each tensor's end. */
  readonly dimensions: BigUint64Array;
  readonly dimensionEnds: Uint32Array;
  /** Elements, and bytes. */
  readonly elements: BigUint64Array;
  readonly sizes: BigUint64Array;
  /** Of the first byte, from the start of its file. */
  readonly offsets: BigUint64Array;
  /** By number: which of the model's files. */
  readonly files: Uint32Array;
}

export function nameAt(columns: Columns, i: number): string {
  return columns.names.slice(i === 0 ? 0 : columns.nameEnds[i - 1]!, columns.nameEnds[i]);
}

export function dtypeAt(columns: Columns, i: number): string {
  return columns.dtypeNames[columns.dtypes[i]!]!;
}

/** Slowest dimension first; of a scalar none. */
export function shapeAt(columns: Columns, i: number): BigUint64Array {
  return columns.dimensions.subarray(i === 0 ? 0 : columns.dimensionEnds[i - 1]!, columns.dimensionEnds[i]);
}

const nearest = new WeakMap<BigUint64Array, Float64Array>();

/** The nearest numbers that JavaScript has, made once. */
export function approximate(column: BigUint64Array): Float64Array {
  let made = nearest.get(column);
  if (made === undefined) {
    made = Float64Array.from(column, Number);
    nearest.set(column, made);
  }
  return made;
}
