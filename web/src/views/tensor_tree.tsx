// SPDX-License-Identifier: Apache-2.0
/* The tensors as a tree: layers that are alike are one node until it is opened. */
import { useComputed, useSignal, useSignalEffect } from "@preact/signals";
import type { VNode } from "preact";

import { bytes, count, exactly, plural } from "../base/numbers.js";
import { shown } from "../base/text.js";
import { copyName, select } from "../model/actions.js";
import { dtypeAt, shapeAt } from "../model/columns.js";
import { call } from "../model/rpc.js";
import { filter, hovered, model, selected } from "../model/state.js";
import { NO_TENSOR, type TreeColumns } from "../model/tree_columns.js";
import { DtypeLabel } from "./dtype_label.js";
import { isCopy, ROW_HEIGHT, rowAfter, shapeText } from "./tensor_table.js";
import { VirtualList } from "./virtual_list.js";

/** So many rows are opened of themselves, and of what a filter leaves. */
const MOST_AT_FIRST = 40;
const MOST_FOUND = 400;

function labelAt(tree: TreeColumns, node: number): string {
  return tree.labels.slice(node === 0 ? 0 : tree.labelEnds[node - 1]!, tree.labelEnds[node]);
}

const isInner = (tree: TreeColumns, node: number) => tree.tensors[node] === NO_TENSOR;

/** The nodes that are in view when those in `open` are. */
function visibleNodes(tree: TreeColumns, open: ReadonlySet<number>): number[] {
  const nodes: number[] = [];
  for (let node = 0; node < tree.count;) {
    nodes.push(node);
    node = open.has(node) ? node + 1 : tree.ends[node]!;
  }
  return nodes;
}

function parentOf(tree: TreeColumns, node: number): number {
  let parent = node - 1;
  while (parent >= 0 && tree.depths[parent]! >= tree.depths[node]!) {
    parent--;
  }
  return parent;
}

/** What is open at first: whole levels from the outermost on, as long as there is room. Layers that are alike stay folded. */
function openedAtFirst(tree: TreeColumns, isFiltered: boolean): ReadonlySet<number> {
  const most = isFiltered ? MOST_FOUND : MOST_AT_FIRST;
  const opens = (node: number) => isInner(tree, node) && (isFiltered || tree.alike[node] === 0);
  let open = new Set<number>();
  for (let depth = 0; ; depth++) {
    const nodes = visibleNodes(tree, open).filter((node) => tree.depths[node] === depth && opens(node));
    const more = new Set([...open, ...nodes]);
    if (nodes.length === 0 || visibleNodes(tree, more).length > most) {
      return open;
    }
    open = more;
  }
}

interface NodeProps {
  tree: TreeColumns;
  node: number;
  index: number;
  isOpen: boolean;
  isActive: boolean;
  onChoose: () => void;
}

function Contents({ tree, node }: { tree: TreeColumns; node: number }): VNode {
  const tensor = tree.tensors[node]!;
  const { columns } = model.value!;
  if (tensor === NO_TENSOR) {
    return (
      <>
        <span class="tree-about quiet">
          {tree.alike[node]! > 0 ? `${exactly(tree.alike[node]!)} alike, ` : ""}
          {plural(tree.tensorCounts[node]!, "tensor")}
        </span>
        <span class="tree-elements number">{count(tree.elements[node]!)}</span>
        <span class="tree-size number">{bytes(tree.bytes[node]!)}</span>
      </>
    );
  }
  return (
    <>
      <span class="tree-about">
        <DtypeLabel dtype={dtypeAt(columns, tensor)} />
        <span class="tree-shape quiet">{shown(shapeText(shapeAt(columns, tensor)), 60)}</span>
      </span>
      <span class="tree-elements number">{count(columns.elements[tensor]!)}</span>
      <span class="tree-size number">{bytes(columns.sizes[tensor]!)}</span>
    </>
  );
}

function Node({ tree, node, index, isOpen, isActive, onChoose }: NodeProps): VNode {
  const tensor = tree.tensors[node]!;
  const isLeaf = tensor !== NO_TENSOR;
  const isHovered = isLeaf && hovered.value === tensor;
  const label = labelAt(tree, node);
  const depth = Math.min(tree.depths[node]!, 12);
  return (
    <div
      id={`node-${index}`}
      role="treeitem"
      class={`tree-row body-row depth-${depth}${isActive ? " selected" : ""}${isHovered ? " hovered" : ""}`}
      aria-level={tree.depths[node]! + 1}
      aria-selected={isActive}
      {...(isLeaf ? {} : { "aria-expanded": isOpen })}
      onClick={onChoose}
      onPointerEnter={() => (hovered.value = isLeaf ? tensor : undefined)}
    >
      <span class="tree-label">
        <span class={`twist${isLeaf ? " leaf" : isOpen ? " open" : ""}`} aria-hidden="true" />
        <bdi dir="ltr" class={isLeaf ? "name" : "name inner"} title={shown(label)}>
          {label === "" ? "(no name)" : shown(label, 120)}
        </bdi>
      </span>
      <Contents tree={tree} node={node} />
    </div>
  );
}

export function TensorTree(): VNode {
  const tree = useSignal<TreeColumns | undefined>(undefined);
  const open = useSignal<ReadonlySet<number>>(new Set());
  const active = useSignal<number | undefined>(undefined);
  const nodes = useComputed(() => (tree.value === undefined ? [] : visibleNodes(tree.value, open.value)));

  useSignalEffect(() => {
    const controller = new AbortController();
    const id = model.value?.id;
    const wish = filter.value;
    if (id !== undefined) {
      call("tree", { id, filter: wish }, { signal: controller.signal }).then(
        (found) => {
          open.value = openedAtFirst(found, wish !== "");
          active.value = undefined;
          tree.value = found;
        },
        (error: unknown) => {
          if (!controller.signal.aborted) {
            throw error;
          }
        },
      );
    }
    return () => controller.abort();
  });

  // What is chosen elsewhere is shown here as well: all that it is in is opened.
  useSignalEffect(() => {
    const [nodes, tensor] = [tree.value, selected.value];
    if (nodes === undefined || tensor === undefined) {
      return;
    }
    const node = nodes.tensors.indexOf(tensor);
    if (node >= 0 && active.peek() !== node) {
      const inside = new Set(open.peek());
      for (let parent = parentOf(nodes, node); parent >= 0; parent = parentOf(nodes, parent)) {
        inside.add(parent);
      }
      open.value = inside;
      active.value = node;
    }
  });

  const columns = tree.value;
  if (columns === undefined) {
    return <div class="tree" role="status" aria-label="The tree is made" />;
  }
  const list = nodes.value;
  const at = active.value === undefined ? -1 : list.indexOf(active.value);
  const toggle = (node: number, isOpen = !open.value.has(node)) => {
    const next = new Set(open.value);
    if (isOpen) {
      next.add(node);
    } else {
      next.delete(node);
    }
    open.value = next;
  };
  const goTo = (node: number) => {
    active.value = node;
    if (!isInner(columns, node)) {
      select(columns.tensors[node]);
    }
  };
  const onArrow = (node: number, key: string) => {
    const opens = key === "ArrowRight";
    if (isInner(columns, node) && open.value.has(node) !== opens) {
      toggle(node, opens);
    } else if (opens && isInner(columns, node)) {
      goTo(node + 1);
    } else if (!opens && parentOf(columns, node) >= 0) {
      goTo(parentOf(columns, node));
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const to = rowAfter(event, at, list.length);
    const node = list[at];
    if (to !== undefined) {
      event.preventDefault();
      goTo(list[to]!);
    } else if (node !== undefined && (event.key === "ArrowRight" || event.key === "ArrowLeft")) {
      event.preventDefault();
      onArrow(node, event.key);
    } else if (node !== undefined && (event.key === "Enter" || event.key === " ") && isInner(columns, node)) {
      event.preventDefault();
      toggle(node);
    } else if (isCopy(event) && selected.value !== undefined) {
      void copyName(selected.value);
    }
  };
  return (
    <VirtualList
      count={list.length}
      order={columns}
      rowHeight={ROW_HEIGHT}
      active={at < 0 ? undefined : at}
      rowsRole="presentation"
      row={(index) => {
        const node = list[index]!;
        const choose = () => {
          goTo(node);
          if (isInner(columns, node)) {
            toggle(node);
          }
        };
        return (
          <Node
            key={node}
            tree={columns}
            node={node}
            index={index}
            isOpen={open.value.has(node)}
            isActive={active.value === node}
            onChoose={choose}
          />
        );
      }}
      attributes={{
        role: "tree",
        class: "tree",
        tabIndex: 0,
        "aria-label": "Tensors by the parts of their names",
        "aria-activedescendant": at < 0 ? undefined : `node-${at}`,
        onKeyDown,
        onPointerLeave: () => (hovered.value = undefined),
      }}
    />
  );
}
