// SPDX-License-Identifier: Apache-2.0
/* What people can do. */
import { batch } from "@preact/signals";

import type { Opened, Wanted } from "./opened.js";
import { call, WorkerError } from "./rpc.js";
import { busy, descending, failure, filter, hovered, model, rows, selected, sort } from "./state.js";

let opening: AbortController | undefined;

function show(opened: Opened | undefined): void {
  const before = model.value;
  batch(() => {
    model.value = opened;
    failure.value = undefined;
    selected.value = hovered.value = undefined;
    filter.value = "";
    sort.value = "file";
    descending.value = false;
    rows.value = Uint32Array.from({ length: opened?.columns.count ?? 0 }, (_, i) => i);
  });
  if (before !== undefined) {
    void call("close", { id: before.id });
  }
}

/** Opens something in the place of what is open. Only the last of several wishes counts. */
export async function open(wanted: Wanted): Promise<void> {
  opening?.abort();
  const controller = new AbortController();
  const { signal } = controller;
  opening = controller;
  const progress = (done: number, total: number | undefined) => {
    if (busy.value !== undefined) {
      busy.value = { ...busy.value, done, total };
    }
  };
  busy.value = {
    label: "Reading the header",
    unit: "files",
    done: 0,
    total: undefined,
    cancel: () => controller.abort(),
  };
  try {
    show(await call("open", wanted, { signal, progress }));
  } catch (error) {
    if (!signal.aborted) {
      const trouble = error instanceof WorkerError ? error.trouble : { code: undefined, message: String(error) };
      show(undefined);
      failure.value = { trouble, wanted };
    }
  } finally {
    if (opening === controller) {
      opening = undefined;
      busy.value = undefined;
    }
  }
}

/** Back to the beginning. */
export function close(): void {
  opening?.abort();
  show(undefined);
}

let arranging: AbortController | undefined;

/** Puts the list in the order that the state asks for. */
export async function arrange(): Promise<void> {
  arranging?.abort();
  const { signal } = (arranging = new AbortController());
  const id = model.value?.id;
  if (id === undefined) {
    return;
  }
  const wish = { id, filter: filter.value, sort: sort.value, descending: descending.value };
  const found = await call("arrange", wish, { signal }).catch((error: unknown) => {
    if (!signal.aborted) {
      throw error;
    }
  });
  if (found !== undefined) {
    rows.value = found.rows;
  }
}
