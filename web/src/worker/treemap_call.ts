// SPDX-License-Identifier: Apache-2.0
/* Treemaps of the models that are open. Each has its tree of names made once. */
import type { Columns } from "../model/columns.js";
import { handOver } from "./hand_over.js";
import { heldModel } from "./models.js";
import { branchAt, nameTreeOf, treemapOf, type Branch, type Treemap, type TreemapOptions } from "./treemap.js";

const trees = new WeakMap<Columns, Branch>();

export interface TreemapWish extends TreemapOptions {
  id: number;
  /** The group that fills the picture; "" for all. */
  path: string;
}

export function treemap({ id, path, ...options }: TreemapWish): Treemap {
  const { columns } = heldModel(id);
  let root = trees.get(columns);
  if (root === undefined) {
    root = nameTreeOf(columns);
    trees.set(columns, root);
  }
  return handOver(treemapOf(columns, branchAt(root, path) ?? root, options));
}
