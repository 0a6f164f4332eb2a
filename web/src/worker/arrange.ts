// SPDX-License-Identifier: Apache-2.0
/* Which tensors a list shows, and in which order. */
import { approximate, dtypeAt, nameAt, type Columns } from "../model/columns.js";
import { handOver } from "./hand_over.js";
import { heldModel } from "./models.js";

export type SortKey = "file" | "name" | "dtype" | "shape" | "elements" | "size" | "offset";

export interface Arrangement {
  /** Words that a tensor's name, dtype or shape has, all of them. */
  filter: string;
  sort: SortKey;
  descending: boolean;
}

function matching(columns: Columns, filter: string): Uint32Array {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const found: number[] = [];
  for (let i = 0; i < columns.count; i++) {
    const text = `${nameAt(columns, i)} ${dtypeAt(columns, i)}`.toLowerCase();
    if (words.every((word) => text.includes(word))) {
      found.push(i);
    }
  }
  return Uint32Array.from(found);
}

export function arranged(columns: Columns, { filter, sort, descending }: Arrangement): Uint32Array {
  const rows = matching(columns, filter);
  if (sort === "elements" || sort === "size") {
    const keys = approximate(columns[sort === "size" ? "sizes" : "elements"]);
    rows.sort((a, b) => keys[a]! - keys[b]! || a - b);
  }
  return descending ? rows.reverse() : rows;
}

/** Numbers of tensors, in the order of a list. */
export function arrange({ id, ...arrangement }: Arrangement & { id: number }): { rows: Uint32Array } {
  return handOver({ rows: arranged(heldModel(id).columns, arrangement) });
}
