// SPDX-License-Identifier: Apache-2.0
/* Something that takes long, begun and ended by the one who looks at it. */
import { signal, type ReadonlySignal } from "@preact/signals";

import type { CallOptions } from "./rpc.js";

export type JobState<T> =
  | { kind: "idle" }
  | { kind: "running"; done: number; total: number | undefined }
  | { kind: "done"; result: T }
  | { kind: "failed"; message: string };

export interface Job<T> {
  state: ReadonlySignal<JobState<T>>;
  /** Ends what is running and begins another. */
  start: (work: (options: CallOptions) => Promise<T>) => void;
  /** Ends what is running; what was done before stays done. */
  cancel: () => void;
}

/** A job that is done already when its result is known. */
export function newJob<T>(known?: T): Job<T> {
  const state = signal<JobState<T>>(known === undefined ? { kind: "idle" } : { kind: "done", result: known });
  let controller: AbortController | undefined;
  let before = state.peek();
  const cancel = () => {
    controller?.abort();
    if (state.peek().kind === "running") {
      state.value = before;
    }
  };
  const start = (work: (options: CallOptions) => Promise<T>) => {
    cancel();
    before = state.peek().kind === "done" ? state.peek() : { kind: "idle" };
    const { signal: aborted } = (controller = new AbortController());
    const say = (next: JobState<T>) => {
      if (!aborted.aborted) {
        state.value = next;
      }
    };
    const progress = (done: number, total: number | undefined) => say({ kind: "running", done, total });
    progress(0, undefined);
    work({ signal: aborted, progress }).then(
      (result) => say({ kind: "done", result }),
      (error: unknown) => say({ kind: "failed", message: error instanceof Error ? error.message : String(error) }),
    );
  };
  return { state, start, cancel };
}
