// SPDX-License-Identifier: Apache-2.0
import type { VNode } from "preact";
import { useEffect, useMemo } from "preact/hooks";

import { bytes } from "../base/numbers.js";
import { shown } from "../base/text.js";
import { newJob, type Job } from "../model/job.js";

/** A job of a component; it ends with the component. */
export function useJob<T>(): Job<T> {
  const job = useMemo(() => newJob<T>(), []);
  useEffect(() => job.cancel, []);
  return job;
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
