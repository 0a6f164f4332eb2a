// SPDX-License-Identifier: Apache-2.0
/* What is said of a model as a whole. */
import { nameAt, type Columns } from "../model/columns.js";
import type { DtypeShare, Summary } from "../model/opened.js";

/** Alignments beyond a page of memory say nothing more. */
const MOST_ALIGNMENT = 4096n;

function dtypeShares(columns: Columns): DtypeShare[] {
  const shares = columns.dtypeNames.map((dtype) => ({ dtype, tensors: 0, elements: 0n, bytes: 0n }));
  for (let i = 0; i < columns.count; i++) {
    const share = shares[columns.dtypes[i]!]!;
    share.tensors++;
    share.elements += columns.elements[i]!;
    share.bytes += columns.sizes[i]!;
  }
  return shares.sort((a, b) => (a.bytes < b.bytes ? 1 : a.bytes > b.bytes ? -1 : b.tensors - a.tensors));
}

/** The largest power of two of which every tensor's place is a multiple. */
function alignmentOf(columns: Columns): number | undefined {
  let bits = MOST_ALIGNMENT;
  for (let i = 0; i < columns.count; i++) {
    bits |= columns.sizes[i] === 0n ? 0n : columns.offsets[i]!;
  }
  return columns.count === 0 ? undefined : Number(bits & -bits);
}

/** Names that tell how a model was quantised: the last parts of tensors of one module, all of which are there. */
const LAYOUTS: readonly [parts: readonly string[], method: string][] = [
  [["qweight", "qzeros", "scales", "g_idx"], "GPTQ"],
  [["qweight", "qzeros", "scales"], "AWQ or GPTQ"],
  [["weight_packed", "weight_scale"], "compressed-tensors"],
  [["weight", "weight_scale_2"], "NVFP4"],
  [["weight", "weight_scale_inv"], "FP8, scaled by blocks"],
  [["weight", "weight_scale"], "scaled weights"],
  [["blocks", "scales"], "MXFP4"],
  [["weight", "scales", "biases"], "MLX"],
  [["weight", "SCB"], "LLM.int8"],
  [["weight", "absmax"], "bitsandbytes, 4 bits"],
];
const INTERESTING = new Set(LAYOUTS.flatMap(([parts]) => parts));
const SMALL_FLOATS = /^F(4|6|8)/;

/** How a model seems to be quantised, by the names and dtypes of its tensors; undefined when it does not seem to be. */
function quantisationOf(columns: Columns, shares: readonly DtypeShare[]): string | undefined {
  const parts = new Set<string>();
  for (let i = 0; i < columns.count; i++) {
    // "gate_up_proj_blocks" and "weight.absmax" are parts as well.
    const name = nameAt(columns, i);
    const last = name.slice(Math.max(name.lastIndexOf("."), name.length - 64) + 1);
    const found = INTERESTING.has(last) ? last : last.slice(last.lastIndexOf("_") + 1);
    if (INTERESTING.has(found)) {
      parts.add(found);
    }
  }
  const method = LAYOUTS.find(([wanted]) => wanted.every((part) => parts.has(part)))?.[1];
  const small = shares.filter(({ dtype }) => SMALL_FLOATS.test(dtype)).map(({ dtype }) => dtype);
  return method ?? (small.length > 0 ? small.join(", ") : undefined);
}

export function summaryOf(columns: Columns): Summary {
  const dtypes = dtypeShares(columns);
  return {
    elements: dtypes.reduce((all, { elements }) => all + elements, 0n),
    parameters: undefined,
    bytes: dtypes.reduce((all, { bytes }) => all + bytes, 0n),
    dtypes,
    alignment: alignmentOf(columns),
    quantisation: quantisationOf(columns, dtypes),
  };
}
