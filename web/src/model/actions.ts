// SPDX-License-Identifier: Apache-2.0
/* What people can do. */
import { batch } from "@preact/signals";

import { copyText } from "../base/clipboard.js";
import type { Dropped } from "../base/dropped.js";
import { plural } from "../base/numbers.js";
import { escaped } from "../base/text.js";
import { modelUrl } from "../base/urls.js";
import type { SortKey } from "../worker/arrange.js";
import { choicesOf, type Choice } from "./choices.js";
import { dtypeAt, nameAt, shapeAt, type Columns } from "./columns.js";
import type { Opened, Trouble, Wanted } from "./opened.js";
import { call, WorkerError } from "./rpc.js";
import * as state from "./state.js";

function troubleOf(error: unknown): Trouble {
  const message = error instanceof Error ? error.message : String(error);
  return error instanceof WorkerError ? error.trouble : { code: undefined, message };
}

// ---- Opening ------------------------------------------------------------------------------------------------------------

let opening: AbortController | undefined;

function show(opened: Opened | undefined): void {
  const before = state.model.value;
  batch(() => {
    state.model.value = opened;
    state.failure.value = undefined;
    state.choices.value = [];
    state.selected.value = state.hovered.value = undefined;
    state.filter.value = "";
    state.sort.value = "file";
    state.descending.value = false;
    state.rows.value = Uint32Array.from({ length: opened?.columns.count ?? 0 }, (_, i) => i);
    state.announcement.value = opened === undefined ? "" : `${plural(opened.columns.count, "tensor")} in the model`;
  });
  if (before !== undefined) {
    void call("close", { id: before.id });
  }
}

function fail(trouble: Trouble, wanted: Wanted | undefined): void {
  show(undefined);
  state.failure.value = { trouble, wanted };
}

/** Opens something in the place of what is open. Only the last of several wishes counts. */
export async function open(wanted: Wanted): Promise<void> {
  opening?.abort();
  const controller = new AbortController();
  const { signal } = controller;
  opening = controller;
  const progress = (done: number, total: number | undefined) => {
    if (opening === controller && state.busy.value !== undefined) {
      state.busy.value = { ...state.busy.value, done, total };
    }
  };
  state.busy.value = {
    label: wanted.kind === "url" ? "Fetching the header" : "Reading the header",
    unit: wanted.kind === "url" ? "bytes" : "files",
    done: 0,
    total: undefined,
    cancel: () => controller.abort(),
  };
  try {
    show(await call("open", wanted, { signal, progress }));
  } catch (error) {
    if (!signal.aborted) {
      fail(troubleOf(error), wanted);
    }
  } finally {
    if (opening === controller) {
      opening = undefined;
      state.busy.value = undefined;
    }
  }
}

export async function openChoice({ name, files }: Choice): Promise<void> {
  state.choices.value = [];
  await open({ kind: "files", files, name });
}

/** Opens the model among files; when there are several, they are shown to choose from. */
export async function openDropped(dropped: readonly Dropped[]): Promise<void> {
  const found = choicesOf(dropped);
  if (found.length === 1) {
    await openChoice(found[0]!);
  } else if (found.length > 1) {
    show(undefined);
    state.choices.value = found;
  } else {
    fail({ code: "NO_MODEL", message: "there are no files in it" }, undefined);
  }
}

/** A drop that the browser does not let the page read. */
export function failDrop(): void {
  const message =
    "This browser does not let the page read what was dropped: use the button that chooses files or a folder.";
  fail({ code: undefined, message }, undefined);
}

export async function openUrl(text: string): Promise<void> {
  try {
    await open({ kind: "url", url: modelUrl(text) });
  } catch (error) {
    fail(troubleOf(error), undefined);
  }
}

/** Back to the beginning. */
export function close(): void {
  opening?.abort();
  show(undefined);
}

// ---- The list -----------------------------------------------------------------------------------------------------------

let arranging: AbortController | undefined;

/** Puts the list in the order that the state asks for. */
async function arrange(): Promise<void> {
  arranging?.abort();
  const { signal } = (arranging = new AbortController());
  const id = state.model.value?.id;
  if (id === undefined) {
    return;
  }
  const [filter, sort, descending] = [state.filter.value, state.sort.value, state.descending.value];
  const found = await call("arrange", { id, filter, sort, descending }, { signal }).catch((error: unknown) => {
    if (!signal.aborted) {
      throw error;
    }
  });
  if (found !== undefined && !signal.aborted) {
    state.rows.value = found.rows;
    if (filter !== "") {
      state.announcement.value = `${plural(found.rows.length, "tensor")} found`;
    }
  }
}

export function setFilter(filter: string): void {
  state.filter.value = filter;
  void arrange();
}

/** Numbers are most interesting from the largest on, names and places from the first on; a second time turns it round. */
export function sortBy(key: SortKey): void {
  batch(() => {
    state.descending.value = state.sort.value === key ? !state.descending.value : key === "elements" || key === "size";
    state.sort.value = key;
  });
  void arrange();
}

/** Maps show where the tensor is, and stay; in the place of everything else it is shown itself. */
const MAPS: readonly string[] = ["treemap", "bytes"];

export function select(tensor: number | undefined): void {
  batch(() => {
    state.selected.value = tensor;
    if (tensor !== undefined && !MAPS.includes(state.panel.value)) {
      state.panel.value = "tensor";
    }
  });
}

// ---- Copying ------------------------------------------------------------------------------------------------------------

/** A line for a table of another program: no name can be two cells, or two lines. */
function line(columns: Columns, i: number): string {
  const shape = `[${shapeAt(columns, i).join(", ")}]`;
  return [escaped(nameAt(columns, i)), dtypeAt(columns, i), shape, columns.elements[i]!, columns.sizes[i]!].join("\t");
}

/** The list as it is shown, as lines with tabs. */
export async function copyList(): Promise<void> {
  const { columns } = state.model.value!;
  const lines = Array.from(state.rows.value, (i) => line(columns, i));
  await copyText(["name\tdtype\tshape\tparameters\tbytes", ...lines, ""].join("\n"));
  state.announcement.value = `${plural(lines.length, "row")} copied`;
}

/** The name of the tensor that was chosen, exactly; with escapes only where it would not survive on a line. */
export async function copyName(tensor: number): Promise<void> {
  const name = nameAt(state.model.value!.columns, tensor);
  const isPlain = escaped(name).replaceAll("\\\\", "\\") === name;
  await copyText(isPlain ? name : escaped(name));
  state.announcement.value = "name copied";
}
