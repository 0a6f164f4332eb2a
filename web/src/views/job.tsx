// SPDX-License-Identifier: Apache-2.0
/* Something that takes long, begun and ended by the one who looks at it. */
import { useSignal, type ReadonlySignal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";

import { bytes } from "../base/numbers.js";
import { shown } from "../base/text.js";
import type { CallOptions } from "../model/rpc.js";

export type JobState<T> =
  | { kind: "idle" }
  | { kind: "running"; done: number; total: number | undefined }
  | { kind: "done"; result: T }
  | { kind: "failed"; message: string };

export interface Job<T> {
  state: ReadonlySignal<JobState<T>>;
  /** Ends what is running and begins another. */
  start: (work: (options: CallOptions) => Promise<T>) => void;
  cancel: () => void;
}

/** A job of a component; it ends with the component. */
export function useJob<T>(known?: T): Job<T> {
  const state = useSignal<JobState<T>>(known === undefined ? { kind: "idle" } : { kind: "done", result: known });
  const controller = useRef<AbortController>(undefined);
  const cancel = () => {
    controller.current?.abort();
    if (state.value.kind === "running") {
      state.value = { kind: "idle" };
    }
  };
  const start = (work: (options: CallOptions) => Promise<T>) => {
    controller.current?.abort();
    const { signal } = (controller.current = new AbortController());
    const say = (next: JobState<T>) => {
      if (!signal.aborted) {
        state.value = next;
      }
    };
    const progress = (done: number, total: number | undefined) => say({ kind: "running", done, total });
    progress(0, undefined);
    work({ signal, progress }).then(
      (result) => say({ kind: "done", result }),
      (error: unknown) => say({ kind: "failed", message: error instanceof Error ? error.message : String(error) }),
    );
  };
  useEffect(() => () => controller.current?.abort(), []);
  return { state, start, cancel };
}

/** How far a job is, and why it failed. Nothing when it is not running. */
export function JobProgress<T>({ job, label }: { job: Job<T>; label: string }): VNode | null {
  const state = job.state.value;
  if (state.kind === "failed") {
    return (
      <p class="problem" role="alert">
        {shown(state.message, 1000)}
      </p>
    );
  }
  if (state.kind !== "running") {
    return null;
  }
  const { done, total } = state;
  return (
    <div class="job">
      <progress aria-label={label} value={total === undefined ? undefined : done} max={total ?? 1} />
      <span class="job-text">
        {label}
        {total !== undefined && `: ${bytes(done)} of ${bytes(total)}`}
      </span>
      <button type="button" class="button" onClick={job.cancel}>
        Cancel
      </button>
    </div>
  );
}
