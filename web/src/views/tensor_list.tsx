// SPDX-License-Identifier: Apache-2.0
import type { VNode } from "preact";

import { exactly, plural } from "../base/numbers.js";
import { copyList, setFilter } from "../model/actions.js";
import { filter, listing, model, rows } from "../model/state.js";
import { TensorTable } from "./tensor_table.js";
import { TensorTree } from "./tensor_tree.js";

function Switch(): VNode {
  const button = (which: "table" | "tree", label: string) => (
    <button
      type="button"
      class="segment"
      aria-pressed={listing.value === which}
      onClick={() => (listing.value = which)}
    >
      {label}
    </button>
  );
  return (
    <div class="segments" role="group" aria-label="Tensors as">
      {button("table", "Table")}
      {button("tree", "Tree")}
    </div>
  );
}

function Tools(): VNode {
  const [count, all] = [rows.value.length, model.value!.columns.count];
  return (
    <div class="tools">
      <Switch />
      <input
        id="filter"
        type="search"
        class="field filter"
        aria-label="Filter tensors"
        placeholder="Filter: attn *.weight bf16"
        autocomplete="off"
        spellcheck={false}
        value={filter.value}
        onInput={({ currentTarget }) => setFilter(currentTarget.value)}
      />
      <span class="found quiet">
        {filter.value === "" ? plural(all, "tensor") : `${exactly(count)} of ${exactly(all)}`}
      </span>
      <button type="button" class="button" title="Copy the list, as lines with tabs" onClick={() => void copyList()}>
        Copy
      </button>
    </div>
  );
}

/** The tensors, as a table or as a tree. */
export function TensorList(): VNode {
  return (
    <section class="list" aria-labelledby="list-title">
      <h2 id="list-title" class="hidden">
        Tensors
      </h2>
      <Tools />
      {listing.value === "table" ? <TensorTable /> : <TensorTree />}
      {rows.value.length === 0 && filter.value !== "" && (
        <p class="nothing">
          No tensor has this in its name, dtype or shape.{" "}
          <button type="button" class="link" onClick={() => setFilter("")}>
            Show all
          </button>
        </p>
      )}
    </section>
  );
}
