// SPDX-License-Identifier: Apache-2.0
/* A tree as columns, in the order in which it is shown. */

export interface TreeColumns {
  readonly count: number;
  /** All labels, one after the other, and where each ends. */
  readonly labels: string;
  readonly labelEnds: Uint32Array;
  /** 0 for the outermost. */
  readonly depths: Uint16Array;
  /** The node after the last one below. */
  readonly ends: Uint32Array;
  /** The tensor's number; NO_TENSOR for a node that has others below. */
  readonly tensors: Uint32Array;
  /** How many layers that are alike a node stands for; 0 for other nodes. */
  readonly alike: Uint32Array;
  /** Of all tensors below. */
  readonly tensorCounts: Uint32Array;
  readonly elements: Float64Array;
  readonly bytes: Float64Array;
}

export const NO_TENSOR = 0xffff_ffff;
