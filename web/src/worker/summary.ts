// SPDX-License-Identifier: Apache-2.0
/* What is said of a model as a whole. */
import type { Columns } from "../model/columns.js";
import type { DtypeShare, Summary } from "../model/opened.js";
import type { Quantisation } from "./quantisation.js";

/** Alignments beyond a page of memory say nothing more. */
const MAX_ALIGNMENT = 4096n;

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
  let bits = MAX_ALIGNMENT;
  for (let i = 0; i < columns.count; i++) {
    bits |= columns.sizes[i] === 0n ? 0n : columns.offsets[i]!;
  }
  return columns.count === 0 ? undefined : Number(bits & -bits);
}

/** What the tensors tell; how they were quantised is quantisation.ts's. */
export function summaryOf(columns: Columns): Omit<Summary, keyof Quantisation> {
  const dtypes = dtypeShares(columns);
  return {
    elements: dtypes.reduce((all, { elements }) => all + elements, 0n),
    bytes: dtypes.reduce((all, { bytes }) => all + bytes, 0n),
    dtypes,
    alignment: alignmentOf(columns),
  };
}
