// SPDX-License-Identifier: Apache-2.0
/* The model that the one on the page is compared with, and what is known of their differences. */
import { batch, effect, signal } from "@preact/signals";
import type { Distance } from "libcoffer";

import type { Compared } from "../worker/compare.js";
import { DIFF_KINDS, type DiffKind } from "./diff_kinds.js";
import type { Opened, Wanted } from "./opened.js";
import { newJob } from "./job.js";
import { call, type CallOptions } from "./rpc.js";
import { model } from "./state.js";

export interface Comparison {
  /** Models by their numbers: the one that is shown, and the other one. */
  before: number;
  other: Opened;
  compared: Compared;
  /** By the numbers of `compared`: of tensors of one dtype and shape whose values were compared. */
  distances: Map<number, Distance>;
}

export const comparison = signal<Comparison | undefined>(undefined);
/** Counts what is added to `distances`, which is too large to be made again each time. */
export const compareCount = signal(0);

/** Comparing values, which goes on while something else is looked at. */
export const comparingValues = newJob<undefined>();

function replace(next: Comparison | undefined): void {
  const last = comparison.peek();
  comparingValues.cancel();
  batch(() => {
    comparison.value = next;
    compareCount.value = 0;
  });
  if (last !== undefined) {
    void call("close", { id: last.other.id });
  }
}

export function endComparison(): void {
  replace(undefined);
}

// What is compared with a model is let go of with it.
effect(() => {
  const id = model.value?.id;
  if (comparison.peek() !== undefined && comparison.peek()?.before !== id) {
    replace(undefined);
  }
});

/** Opens another model and compares its header with that of the one on the page. */
export async function compareWith(wanted: Wanted, options: CallOptions): Promise<void> {
  const before = model.value!.id;
  const other = await call("open", wanted, options);
  try {
    const compared = await call("compare", { before, after: other.id }, options);
    replace({ before, other, compared, distances: new Map() });
  } catch (error) {
    void call("close", { id: other.id });
    throw error;
  }
}

/** What is said of a pair: what the headers say, and then what the values do. */
export type PairState = DiffKind | "equal" | "different";

export function stateOf({ compared, distances }: Comparison, pair: number): PairState {
  const kind = DIFF_KINDS[compared.kinds[pair]!]!;
  const distance = kind === "same" ? distances.get(pair) : undefined;
  return distance === undefined ? kind : distance.bytes === 0 ? "equal" : "different";
}

/** Pairs that are compared at once. */
const AT_ONCE = 4;

/** Compares the values of all tensors that have the same dtype and shape, and that were not compared yet. */
async function compareAll(current: Comparison, { signal, progress }: CallOptions): Promise<undefined> {
  const { before, other, compared, distances } = current;
  const sizes = other.columns.sizes;
  const left = [...compared.kinds.keys()].filter((pair) => stateOf(current, pair) === "same");
  const total = left.reduce((sum, pair) => sum + Number(sizes[compared.after[pair]!]), 0);
  let done = 0;
  let next = 0;
  let isOver = false;
  const work = async () => {
    while (!isOver && next < left.length) {
      signal?.throwIfAborted();
      const pair = left[next++]!;
      const [from, to] = [compared.before[pair]!, compared.after[pair]!];
      const wish = { before: { id: before, tensor: from }, after: { id: other.id, tensor: to } };
      let counted = 0;
      const count = (bytes: number) => {
        done += bytes - counted;
        counted = bytes;
        progress?.(done, total);
      };
      distances.set(pair, await call("comparePair", wish, { signal, progress: count }));
      count(Number(sizes[to]));
      compareCount.value++;
    }
  };
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  } finally {
    isOver = true; // one that fails ends the others
  }
  return undefined;
}

export function compareValues(current: Comparison): void {
  comparingValues.start((options) => compareAll(current, options));
}
