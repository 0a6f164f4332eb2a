// SPDX-License-Identifier: Apache-2.0
/* The tensors as a table: a grid for screen readers, of which only the rows in view exist. */
import type { VNode } from "preact";

import { bytes, count, exactly } from "../base/numbers.js";
import { shown } from "../base/text.js";
import { copyName, select, sortBy } from "../model/actions.js";
import { dtypeAt, nameAt, shapeAt, type Columns } from "../model/columns.js";
import { descending, hovered, model, rows, selected, sort } from "../model/state.js";
import type { SortKey } from "../worker/arrange.js";
import { DtypeLabel } from "./dtype_label.js";
import { TensorName } from "./untrusted.js";
import { VirtualList } from "./virtual_list.js";

export const ROW_HEIGHT = 30;
const HEAD_HEIGHT = 34;

const HEADS: readonly { key: SortKey; label: string; className: string }[] = [
  { key: "name", label: "Name", className: "cell-name" },
  { key: "dtype", label: "Dtype", className: "cell-dtype" },
  { key: "shape", label: "Shape", className: "cell-shape" },
  { key: "elements", label: "Parameters", className: "cell-elements number" },
  { key: "size", label: "Size", className: "cell-size number" },
];

export function shapeText(shape: BigUint64Array): string {
  return shape.length === 0 ? "scalar" : shape.join(" × ");
}

function Head(): VNode {
  const direction = descending.value ? "descending" : "ascending";
  return (
    <div role="rowgroup" class="table-head">
      <div role="row" class="row" aria-rowindex={1}>
        {HEADS.map(({ key, label, className }) => (
          <div
            key={key}
            role="columnheader"
            class={`cell ${className}`}
            aria-sort={sort.value === key ? direction : "none"}
          >
            <button type="button" class="sort" onClick={() => sortBy(key)}>
              {label}
              <span class="arrow" aria-hidden="true">
                {sort.value === key ? (descending.value ? "↓" : "↑") : ""}
              </span>
            </button>
          </div>
        ))}
      </div>
    </div>
  );
}

function Row({ columns, tensor, index }: { columns: Columns; tensor: number; index: number }): VNode {
  const isSelected = selected.value === tensor;
  const state = `${isSelected ? " selected" : ""}${hovered.value === tensor ? " hovered" : ""}`;
  return (
    <div
      id={`row-${index}`}
      role="row"
      class={`row body-row${state}`}
      aria-rowindex={index + 2}
      aria-selected={isSelected}
      onClick={() => select(tensor)}
      onPointerEnter={() => (hovered.value = tensor)}
    >
      <div role="gridcell" class="cell cell-name">
        <TensorName name={nameAt(columns, tensor)} />
      </div>
      <div role="gridcell" class="cell cell-dtype">
        <DtypeLabel dtype={dtypeAt(columns, tensor)} />
      </div>
      <div role="gridcell" class="cell cell-shape">
        {shown(shapeText(shapeAt(columns, tensor)), 80)}
      </div>
      <div role="gridcell" class="cell cell-elements number" title={exactly(columns.elements[tensor]!)}>
        {count(columns.elements[tensor]!)}
      </div>
      <div role="gridcell" class="cell cell-size number" title={`${exactly(columns.sizes[tensor]!)} bytes`}>
        {bytes(columns.sizes[tensor]!)}
      </div>
    </div>
  );
}

/** Where a key leads from a row; undefined for other keys. */
export function rowAfter(event: KeyboardEvent, at: number, count: number): number | undefined {
  const page = Math.max(1, Math.floor((event.currentTarget as HTMLElement).clientHeight / ROW_HEIGHT) - 2);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: count - 1 }[
    event.key
  ];
  return to === undefined || count === 0 ? undefined : Math.min(Math.max(to, 0), count - 1);
}

/** Whether a key press asks for a copy, and nothing on the page is marked. */
export function isCopy(event: KeyboardEvent): boolean {
  return (event.ctrlKey || event.metaKey) && event.key === "c" && String(getSelection()) === "";
}

export function TensorTable(): VNode {
  const { columns } = model.value!;
  const list = rows.value;
  const at = selected.value === undefined ? -1 : list.indexOf(selected.value);
  const onKeyDown = (event: KeyboardEvent) => {
    const to = rowAfter(event, at, list.length);
    if (to !== undefined) {
      event.preventDefault();
      select(list[to]);
    } else if (isCopy(event) && selected.value !== undefined) {
      void copyName(selected.value);
    }
  };
  return (
    <VirtualList
      count={list.length}
      order={list}
      rowHeight={ROW_HEIGHT}
      active={at < 0 ? undefined : at}
      head={<Head />}
      headHeight={HEAD_HEIGHT}
      rowsRole="rowgroup"
      row={(index) => <Row key={index} columns={columns} tensor={list[index]!} index={index} />}
      attributes={{
        role: "grid",
        class: "table",
        tabIndex: 0,
        "aria-label": "Tensors",
        "aria-rowcount": list.length + 1,
        "aria-colcount": HEADS.length,
        "aria-activedescendant": at < 0 ? undefined : `row-${at}`,
        onKeyDown,
        onPointerLeave: () => (hovered.value = undefined),
      }}
    />
  );
}
