// SPDX-License-Identifier: Apache-2.0
/*
 * All that the page knows, as signals: views read them and draw themselves again when one changes. What changes several at
 * once is in actions.ts.
 */
import { computed, signal } from "@preact/signals";

import type { SortKey } from "../worker/arrange.js";
import type { Choice } from "./choices.js";
import type { Opened, Trouble, Wanted } from "./opened.js";

/** The model that is shown. */
export const model = signal<Opened | undefined>(undefined);

/** A long job: what it is, how far, and how to end it. */
export interface Busy {
  label: string;
  unit: "bytes" | "files";
  done: number;
  total: number | undefined;
  cancel: () => void;
}
export const busy = signal<Busy | undefined>(undefined);

/** Why nothing can be shown, and of what. */
export interface Failure {
  trouble: Trouble;
  wanted: Wanted | undefined;
}
export const failure = signal<Failure | undefined>(undefined);

/** Numbers of tensors: the one that was chosen, and the one that the pointer is on, wherever that is shown. */
export const selected = signal<number | undefined>(undefined);
export const hovered = signal<number | undefined>(undefined);

/** What the list shows. */
export const listing = signal<"table" | "tree">("table");
export const filter = signal("");
export const sort = signal<SortKey>("file");
export const descending = signal(false);
/** Numbers of the tensors in the list, in its order. */
export const rows = signal<Uint32Array>(new Uint32Array(0));

/** Which of views/panels.ts is open. */
export const panel = signal("tensor");

/** The models among which someone has to choose. */
export const choices = signal<readonly Choice[]>([]);

/** What screen readers are told. */
export const announcement = signal("");

/** The model's tensors as columns. */
export const columns = computed(() => model.value?.columns);
