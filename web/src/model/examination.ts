// SPDX-License-Identifier: Apache-2.0
/* What is known of tensors' values. */
import { effect } from "@preact/signals";

import type { Examined, ExamineWish } from "../worker/examine.js";
import { newJob, type Job } from "./job.js";
import { call } from "./rpc.js";
import { model } from "./state.js";

/** What was found out, so that going back to a tensor does not read it again. */
const MAX_REMEMBERED = 24;
const remembered = new Map<string, Examined>();

function remember(key: string, examined: Examined): Examined {
  remembered.delete(key);
  remembered.set(key, examined);
  for (const oldest of remembered.keys()) {
    if (remembered.size <= MAX_REMEMBERED) {
      break;
    }
    remembered.delete(oldest);
  }
  return examined;
}

let latest: { id: number; key: string; job: Job<Examined> } | undefined;

interface Place {
  id: number;
  tensor: number;
}

function keyOf({ id, tensor }: Place): string {
  return `${id}/${tensor}`;
}

/** The job of a tensor. It goes on while something else is looked at, until another tensor is chosen. */
export function jobOf(place: Place): Job<Examined> {
  const key = keyOf(place);
  if (latest?.key !== key) {
    latest?.job.cancel();
    latest = { id: place.id, key, job: newJob(remembered.get(key)) };
  }
  return latest.job;
}

/** Reads a tensor's values, all or a sample. */
export function examine(wish: ExamineWish): void {
  const key = keyOf(wish);
  jobOf(wish).start(async (options) => remember(key, await call("examine", wish, options)));
}

// Nobody waits for values of a model that is not shown any more.
effect(() => {
  if (model.value?.id !== latest?.id) {
    latest?.job.cancel();
    remembered.clear();
  }
});
