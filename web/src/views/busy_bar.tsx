// SPDX-License-Identifier: Apache-2.0
import { useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";

import { bytes, plural } from "../base/numbers.js";
import { busy, type Busy } from "../model/state.js";

/** What is shorter than this needs no notice, in ms. */
const PATIENCE = 150;

function words({ unit, done, total }: Busy): string {
  if (unit === "bytes") {
    return done === 0 ? "" : bytes(done);
  }
  return total === undefined ? "" : `${done} of ${plural(total, "file")}`;
}

/** How far a long job is, and a way out of it. */
export function BusyBar(): VNode | null {
  const patient = useSignal(true);
  const job = busy.value;
  const isBusy = job !== undefined;
  useEffect(() => {
    patient.value = true;
    const timer = setTimeout(() => (patient.value = false), PATIENCE);
    return () => clearTimeout(timer);
  }, [isBusy]);
  if (job === undefined || patient.value) {
    return null;
  }
  return (
    <div class="busy" role="status">
      <span class="busy-label">{job.label}</span>
      <progress aria-label={job.label} {...(job.total === undefined ? {} : { value: job.done, max: job.total })} />
      <span class="busy-amount">{words(job)}</span>
      <button type="button" class="button" onClick={job.cancel}>
        Cancel
      </button>
    </div>
  );
}
