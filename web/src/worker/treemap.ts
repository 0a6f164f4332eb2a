// SPDX-License-Identifier: Apache-2.0
/*
 * Where a model's parameters are: names as a tree, and the tree as nested rectangles whose areas are in proportion.
 *
 * Only what can be seen is laid out: a group whose rectangle is too small for its members is one rectangle, and so the work
 * depends on the size of the picture and hardly on the number of tensors.
 */
import { treemapSquarify, type HierarchyRectangularNode } from "d3-hierarchy";

import { approximate, nameAt, type Columns } from "../model/columns.js";
import { compareNaturally } from "./natural_order.js";

/** What a rectangle's area stands for. */
export type Measure = "elements" | "sizes";

/** A group of tensors whose names have a common beginning, or one tensor. */
export interface Branch {
  /** Its part of the name, and the whole of it. */
  label: string;
  path: string;
  /** A tensor's number; -1 of a group. */
  tensor: number;
  members: Map<string, Branch>;
  /** Tensors in it. */
  count: number;
  elements: number;
  sizes: number;
}

/** Names of more parts than this end with all the rest as one: nobody looks deeper, and no name can exhaust the stack. */
const MAX_PARTS = 24;

function branch(label: string, path: string, tensor = -1): Branch {
  return { label, path, tensor, members: new Map(), count: 0, elements: 0, sizes: 0 };
}

/** A name's parts, each with the dot or slash before it. */
export function partsOf(name: string): string[] {
  const parts = name.split(/(?<=.)(?=[./])/u);
  return parts.length <= MAX_PARTS ? parts : [...parts.slice(0, MAX_PARTS - 1), parts.slice(MAX_PARTS - 1).join("")];
}

/** All tensors as a tree. */
export function nameTreeOf(columns: Columns): Branch {
  const root = branch("", "");
  const [elements, sizes] = [approximate(columns.elements), approximate(columns.sizes)];
  for (let i = 0; i < columns.count; i++) {
    const name = nameAt(columns, i);
    const parts = partsOf(name);
    const leaf = parts.pop()!;
    let at = root;
    let end = 0;
    grow(at, elements[i]!, sizes[i]!);
    for (const part of parts) {
      end += part.length;
      let next = at.members.get(part);
      if (next === undefined) {
        next = branch(part, name.slice(0, end));
        at.members.set(part, next);
      }
      at = next;
      grow(at, elements[i]!, sizes[i]!);
    }
    // A name can be a group's too. Names do not contain what is put before the tensor's own key here.
    const own = branch(leaf, name, i);
    grow(own, elements[i]!, sizes[i]!);
    at.members.set(`\0${leaf}`, own);
  }
  return root;
}

function grow(at: Branch, elements: number, sizes: number): void {
  at.count++;
  at.elements += elements;
  at.sizes += sizes;
}

/** Groups of one member stand for it, with both their labels. */
function unfolded(at: Branch): Branch {
  let [here, label] = [at, at.label];
  while (here.tensor < 0 && here.members.size === 1) {
    here = here.members.values().next().value!;
    label += here.label;
  }
  return here === at ? at : { ...here, label };
}

/** The group of a path; undefined when there is none. */
export function branchAt(root: Branch, path: string): Branch | undefined {
  let at = root;
  while (at.path !== path) {
    const next = [...at.members.values()].find(
      (member) =>
        member.tensor < 0 &&
        (path === member.path || (path.startsWith(member.path) && /^[./]/.test(path.slice(member.path.length)))),
    );
    if (next === undefined) {
      return undefined;
    }
    at = next;
  }
  return at;
}

/** Rectangles in the order of drawing: a group comes before its members. */
export interface Treemap {
  /** Left, top, right and bottom of each. */
  edges: Float32Array;
  depths: Uint8Array;
  /** The tensors' numbers; -1 of a group. */
  tensors: Int32Array;
  /** Of a group: how many tensors it has, and whether its members are drawn. Of a tensor 1, and 0. */
  counts: Uint32Array;
  open: Uint8Array;
  /** By dtypes' numbers: what most of it consists of. */
  dtypes: Uint32Array;
  amounts: Float64Array;
  labels: string[];
  paths: string[];
}

export interface TreemapOptions {
  /** Of the picture, in CSS pixels. */
  width: number;
  height: number;
  measure: Measure;
}

/** Pixels: of a group's title, between rectangles, and of a rectangle that is divided. */
export const TITLE = 17;
const MARGIN = 1;
const MIN_WIDTH = 26;
const MIN_HEIGHT = 20;
const MIN_TITLED_WIDTH = 40;
const MIN_TITLED_HEIGHT = 36;
/** Rectangles of less than this many square pixels are left out. */
const MIN_AREA = 0.5;
const MAX_DEPTH = 12;

interface Box {
  x0: number;
  y0: number;
  x1: number;
  y1: number;
}

interface Placed extends Box {
  value: number;
  branch: Branch;
}

class Layout {
  readonly #columns: Columns;
  readonly #measure: Measure;
  readonly drawn: { box: Box; branch: Branch; depth: number; open: boolean }[] = [];

  constructor(columns: Columns, measure: Measure) {
    this.#columns = columns;
    this.#measure = measure;
  }

  place(at: Branch, box: Box, depth: number): void {
    const [width, height] = [box.x1 - box.x0, box.y1 - box.y0];
    if (width * height < MIN_AREA) {
      return;
    }
    const open = at.tensor < 0 && depth < MAX_DEPTH && (depth === 0 || (width >= MIN_WIDTH && height >= MIN_HEIGHT));
    this.drawn.push({ box, branch: at, depth, open });
    if (!open) {
      return;
    }
    const isTitled = depth > 0 && width >= MIN_TITLED_WIDTH && height >= MIN_TITLED_HEIGHT;
    const margin = depth === 0 ? 0 : MARGIN;
    const [x0, y0] = [box.x0 + margin, box.y0 + (isTitled ? TITLE : margin)];
    const children: Placed[] = [...at.members.values()]
      .map(unfolded)
      .filter((member) => member[this.#measure] > 0)
      .sort((a, b) => b[this.#measure] - a[this.#measure] || compareNaturally(a.label, b.label))
      .map((member) => ({ branch: member, value: member[this.#measure], x0, y0, x1: x0, y1: y0 }));
    // The tiling needs no more of a node than its members, and of those their values.
    const node = { value: at[this.#measure], children } as unknown as HierarchyRectangularNode<unknown>;
    treemapSquarify(node, x0, y0, box.x1 - margin, box.y1 - margin);
    for (const child of children) {
      this.place(child.branch, child, depth + 1);
    }
  }

  /** What most of a branch consists of. */
  dtypeOf(at: Branch): number {
    const amounts = new Float64Array(this.#columns.dtypeNames.length);
    const visit = (here: Branch): void => {
      if (here.tensor >= 0) {
        amounts[this.#columns.dtypes[here.tensor]!]! += here[this.#measure];
      }
      here.members.forEach(visit);
    };
    visit(at);
    return amounts.indexOf(Math.max(...amounts));
  }
}

/** Lays out a group of a tree that `nameTreeOf` made of the same columns. */
export function treemapOf(columns: Columns, group: Branch, { width, height, measure }: TreemapOptions): Treemap {
  const layout = new Layout(columns, measure);
  if (group[measure] > 0) {
    layout.place(group, { x0: 0, y0: 0, x1: width, y1: height }, 0);
  }
  const { drawn } = layout;
  return {
    edges: Float32Array.from(drawn.flatMap(({ box }) => [box.x0, box.y0, box.x1, box.y1])),
    depths: Uint8Array.from(drawn, ({ depth }) => depth),
    tensors: Int32Array.from(drawn, ({ branch: { tensor } }) => tensor),
    counts: Uint32Array.from(drawn, ({ branch: { count } }) => count),
    open: Uint8Array.from(drawn, ({ open }) => (open ? 1 : 0)),
    // A group whose members are drawn shows nothing of itself but its title.
    dtypes: Uint32Array.from(drawn, ({ branch: at, open }) => (open ? 0 : layout.dtypeOf(at))),
    amounts: Float64Array.from(drawn, ({ branch: at }) => at[measure]),
    labels: drawn.map(({ branch: { label } }) => label),
    paths: drawn.map(({ branch: { path } }) => path),
  };
}
