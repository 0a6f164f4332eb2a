// SPDX-License-Identifier: Apache-2.0
/* Which tensors a list shows, and in which order. */
import { dtypeAt, nameAt, shapeAt, type Columns } from "../model/columns.js";
import { handOver } from "./hand_over.js";
import { heldModel } from "./models.js";
import { compareNaturally } from "./natural_order.js";

export type SortKey = "file" | "name" | "dtype" | "shape" | "elements" | "size";

export interface Arrangement {
  /**
   * Words, all of which a tensor's name, dtype or shape has, in upper or lower case; `*` is any text, `dtype:` in front means
   * the dtype alone.
   */
  filter: string;
  sort: SortKey;
  descending: boolean;
}

/** Whether the parts of a word around its `*` are in the text, one after the other. */
function has(text: string, parts: readonly string[]): boolean {
  let at = 0;
  for (const part of parts) {
    const found = text.indexOf(part, at);
    if (found < 0) {
      return false;
    }
    at = found + part.length;
  }
  return true;
}

function shapeText(columns: Columns, i: number): string {
  return `[${shapeAt(columns, i).join(",")}]`;
}

/** Numbers of the tensors that fit a filter, in order of their places in the files. */
export function matching(columns: Columns, filter: string): Uint32Array {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const dtypes = words.filter((word) => word.startsWith("dtype:")).map((word) => word.slice(6));
  const others = words.filter((word) => !word.startsWith("dtype:")).map((word) => word.split("*"));
  const wanted = columns.dtypeNames.map((name) => dtypes.every((dtype) => name.toLowerCase() === dtype));
  const found = new Uint32Array(columns.count);
  let count = 0;
  for (let i = 0; i < columns.count; i++) {
    if (!wanted[columns.dtypes[i]!]!) {
      continue;
    }
    // A shape is found without its spaces, as words have none.
    const text = others.length === 0 ? "" : `${nameAt(columns, i)} ${dtypeAt(columns, i)} ${shapeText(columns, i)}`;
    const lower = text.toLowerCase();
    if (others.every((parts) => has(lower, parts))) {
      found[count++] = i;
    }
  }
  return found.slice(0, count);
}

function compareShapes(columns: Columns, a: number, b: number): number {
  const [left, right] = [shapeAt(columns, a), shapeAt(columns, b)];
  for (let axis = 0; axis < left.length && axis < right.length; axis++) {
    if (left[axis] !== right[axis]) {
      return left[axis]! < right[axis]! ? -1 : 1;
    }
  }
  return left.length - right.length;
}

const compareBig = (column: BigUint64Array) => (a: number, b: number) =>
  column[a]! < column[b]! ? -1 : column[a]! > column[b]! ? 1 : 0;

function comparison(columns: Columns, sort: SortKey): ((a: number, b: number) => number) | undefined {
  switch (sort) {
    case "file":
      return undefined;
    case "name": {
      const names = Array.from({ length: columns.count }, (_, i) => nameAt(columns, i));
      return (a, b) => compareNaturally(names[a]!, names[b]!);
    }
    case "dtype":
      return (a, b) => {
        const [left, right] = [dtypeAt(columns, a), dtypeAt(columns, b)];
        return left < right ? -1 : left > right ? 1 : 0;
      };
    case "shape":
      return (a, b) => compareShapes(columns, a, b);
    case "elements":
      return compareBig(columns.elements);
    case "size":
      return compareBig(columns.sizes);
  }
}

export function arranged(columns: Columns, { filter, sort, descending }: Arrangement): Uint32Array {
  const rows = matching(columns, filter);
  const compare = comparison(columns, sort);
  if (compare === undefined) {
    return descending ? rows.reverse() : rows;
  }
  const direction = descending ? -1 : 1;
  return rows.sort((a, b) => direction * compare(a, b) || a - b);
}

/** Numbers of tensors, in the order of a list. */
export function arrange({ id, ...arrangement }: Arrangement & { id: number }): { rows: Uint32Array } {
  return handOver({ rows: arranged(heldModel(id).columns, arrangement) });
}
