// SPDX-License-Identifier: Apache-2.0
/*
 * Tensors as a tree, by the parts of their names. Layers that are alike, "h.0" to "h.47", are folded into one node. The tree
 * crosses as columns, in the order in which it is shown: a node, then all that is below it, so that skipping what is closed is
 * one step.
 *
 * Names are untrusted: a name of a million dots must not make a tree of that depth, so the last of MAX_LEVELS parts has the
 * rest of the name.
 */
import { dtypeAt, nameAt, shapeAt, type Columns } from "../model/columns.js";
import { matching } from "./arrange.js";
import { handOver } from "./hand_over.js";
import { heldModel } from "./models.js";
import { compareNaturally } from "./natural_order.js";
import { NO_TENSOR, type TreeColumns } from "../model/tree_columns.js";

const MAX_LEVELS = 24;
const NUMBER = /^\d{1,9}$/;

interface Node {
  label: string;
  tensor: number;
  children: Map<string, Node>;
  leaves: Node[];
  alike: number;
  /** Equal for nodes whose contents are alike. */
  kind: number;
  tensorCount: number;
  elements: number;
  bytes: number;
}

function newNode(label: string, tensor = NO_TENSOR): Node {
  return {
    label,
    tensor,
    children: new Map(),
    leaves: [],
    alike: 0,
    kind: 0,
    tensorCount: 0,
    elements: 0,
    bytes: 0,
  };
}

/** Names are cut at dots, unless they are paths. */
function separatorOf(columns: Columns): string {
  let [dots, slashes] = [0, 0];
  for (let i = 0; i < columns.count && i < 1000; i++) {
    const name = nameAt(columns, i);
    dots += Number(name.includes("."));
    slashes += Number(name.includes("/"));
  }
  return slashes > dots ? "/" : ".";
}

function partsOf(name: string, separator: string): string[] {
  const parts: string[] = [];
  let at = 0;
  while (parts.length < MAX_LEVELS - 1) {
    const end = name.indexOf(separator, at);
    if (end < 0) {
      break;
    }
    parts.push(name.slice(at, end));
    at = end + 1;
  }
  parts.push(name.slice(at));
  return parts;
}

function plant(columns: Columns, rows: Uint32Array): Node {
  const root = newNode("");
  const separator = separatorOf(columns);
  for (const i of rows) {
    const parts = partsOf(nameAt(columns, i), separator);
    let node = root;
    for (let level = 0; level < parts.length - 1; level++) {
      let next = node.children.get(parts[level]!);
      if (next === undefined) {
        next = newNode(parts[level]!);
        node.children.set(parts[level]!, next);
      }
      node = next;
    }
    node.leaves.push(newNode(parts.at(-1)!, i));
  }
  return root;
}

/** Nodes by their labels, with runs of numbered ones that are alike in one node each. */
function folded(children: Node[]): Node[] {
  const result: Node[] = [];
  let run: Node[] = [];
  const end = () => {
    if (run.length < 2) {
      result.push(...run);
    } else {
      const group = newNode(`${run[0]!.label} … ${run.at(-1)!.label}`);
      group.alike = run.length;
      for (const member of run) {
        group.children.set(member.label, member);
        addTo(group, member);
      }
      result.push(group);
    }
    run = [];
  };
  for (const child of children) {
    const last = run.at(-1);
    const goesOn =
      last !== undefined &&
      NUMBER.test(child.label) &&
      child.tensor === NO_TENSOR &&
      child.kind === last.kind &&
      Number(child.label) === Number(last.label) + 1;
    if (!goesOn) {
      end();
    }
    if (NUMBER.test(child.label) && child.tensor === NO_TENSOR) {
      run.push(child);
    } else {
      result.push(child);
    }
  }
  end();
  return result;
}

function addTo(node: Node, below: Node): void {
  node.tensorCount += below.tensorCount;
  node.elements += below.elements;
  node.bytes += below.bytes;
}

class Grower {
  readonly #columns: Columns;
  readonly #kinds = new Map<string, number>();
  readonly order = new Map<Node, Node[]>();

  constructor(columns: Columns) {
    this.#columns = columns;
  }

  #kind(text: string): number {
    const known = this.#kinds.get(text) ?? this.#kinds.size + 1;
    this.#kinds.set(text, known);
    return known;
  }

  #leaf(node: Node): void {
    const [columns, i] = [this.#columns, node.tensor];
    node.tensorCount = 1;
    node.elements = Number(columns.elements[i]);
    node.bytes = Number(columns.sizes[i]);
    node.kind = this.#kind(`${dtypeAt(columns, i)}[${shapeAt(columns, i).join()}]`);
  }

  /** Adds up what is below each node, and puts it in order. As deep as names are allowed to be. */
  grow(node: Node): void {
    node.leaves.forEach((leaf) => this.#leaf(leaf));
    const children = [...node.children.values()];
    children.forEach((child) => this.grow(child));
    const all = [...children, ...node.leaves].sort((a, b) => compareNaturally(a.label, b.label));
    all.forEach((child) => addTo(node, child));
    node.kind = this.#kind(all.map(({ label, kind }) => `${JSON.stringify(label)}${kind}`).join());
    this.order.set(node, folded(all));
  }

  below(node: Node): Node[] {
    return this.order.get(node) ?? [...node.children.values()];
  }
}

/** A node that has one other below it is shown as one with it: "model.norm". */
function isJoined(node: Node, below: readonly Node[]): boolean {
  return node.tensor === NO_TENSOR && node.alike === 0 && below.length === 1 && !NUMBER.test(node.label);
}

export function treeOf(columns: Columns, rows: Uint32Array): TreeColumns {
  const root = plant(columns, rows);
  const grower = new Grower(columns);
  grower.grow(root);
  const separator = separatorOf(columns);
  const labels: string[] = [];
  const nodes: Node[] = [];
  const depths: number[] = [];
  const ends: number[] = [];
  const show = (node: Node, depth: number) => {
    let [at, label, below] = [node, node.label, grower.below(node)];
    while (isJoined(at, below) && below[0]!.alike === 0) {
      at = below[0]!;
      label += separator + at.label;
      below = grower.below(at);
    }
    const number = nodes.length;
    nodes.push(at);
    labels.push(label);
    depths.push(depth);
    ends.push(0);
    below.forEach((child) => show(child, depth + 1));
    ends[number] = nodes.length;
  };
  grower.below(root).forEach((child) => show(child, 0));
  let end = 0;
  return {
    count: nodes.length,
    labels: labels.join(""),
    labelEnds: Uint32Array.from(labels, (label) => (end += label.length)),
    depths: Uint16Array.from(depths),
    ends: Uint32Array.from(ends),
    tensors: Uint32Array.from(nodes, ({ tensor }) => tensor),
    alike: Uint32Array.from(nodes, ({ alike }) => alike),
    tensorCounts: Uint32Array.from(nodes, ({ tensorCount }) => tensorCount),
    elements: Float64Array.from(nodes, ({ elements }) => elements),
    bytes: Float64Array.from(nodes, ({ bytes }) => bytes),
  };
}

/** The tensors that fit a filter, as a tree. */
export function tree({ id, filter }: { id: number; filter: string }): TreeColumns {
  const { columns } = heldModel(id);
  return handOver(treeOf(columns, matching(columns, filter)));
}
