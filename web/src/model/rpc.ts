// SPDX-License-Identifier: Apache-2.0
/*
 * Calls from the page to its worker. A call is a message with a number; its answer, and how far it is, come back with the
 * same number. Which calls there are is what worker/calls.ts has, so types are checked across.
 */
import code from "virtual:worker";

import type { Calls } from "../worker/calls.js";
import type { Trouble } from "./opened.js";

export type CallName = keyof Calls;
export type Argument<Name extends CallName> = Parameters<Calls[Name]>[0];
export type Result<Name extends CallName> = Awaited<ReturnType<Calls[Name]>>;

export interface CallOptions {
  signal?: AbortSignal | undefined;
  progress?: ((done: number, total: number | undefined) => void) | undefined;
}

/** What the page sends: a call, or that one is no longer wanted. */
export type ToWorker = { id: number; name: string; argument: unknown } | { id: number; cancel: true };

/** What comes back. */
export type FromWorker =
  | { id: number; result: unknown }
  | { id: number; trouble: Trouble }
  | { id: number; done: number; total: number | undefined };

/** A failure in the worker. */
export class WorkerError extends Error {
  readonly trouble: Trouble;

  constructor(trouble: Trouble) {
    super(trouble.message);
    this.trouble = trouble;
  }
}

interface Pending {
  resolve(result: unknown): void;
  reject(error: Error): void;
  progress: CallOptions["progress"];
}

const pending = new Map<number, Pending>();
let worker: Worker | undefined;
let last = 0;

function settle(id: number): Pending | undefined {
  const call = pending.get(id);
  pending.delete(id);
  return call;
}

function receive(message: FromWorker): void {
  if ("done" in message) {
    pending.get(message.id)?.progress?.(message.done, message.total);
  } else if ("trouble" in message) {
    settle(message.id)?.reject(new WorkerError(message.trouble));
  } else {
    settle(message.id)?.resolve(message.result);
  }
}

/** When the worker itself fails, so does all that waits for it; the next call begins with another one. */
function giveUp(message: string): void {
  worker?.terminate();
  worker = undefined;
  const all = [...pending.keys()];
  for (const id of all) {
    settle(id)?.reject(new WorkerError({ code: undefined, message }));
  }
}

function start(): Worker {
  const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
  const made = new Worker(url);
  made.addEventListener("message", (event: MessageEvent<FromWorker>) => receive(event.data));
  made.addEventListener("error", (event) => giveUp(`the page's worker failed: ${event.message}`));
  return made;
}

/** Calls the worker. A signal that fires rejects with its reason at once, and tells the worker to stop. */
export function call<Name extends CallName>(
  name: Name,
  argument: Argument<Name>,
  { signal, progress }: CallOptions = {},
): Promise<Result<Name>> {
  const id = ++last;
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    worker ??= start();
    const cancel = () => {
      settle(id);
      worker?.postMessage({ id, cancel: true } satisfies ToWorker);
      const reason: unknown = signal?.reason;
      reject(reason instanceof Error ? reason : new Error("cancelled"));
    };
    signal?.addEventListener("abort", cancel, { once: true });
    const done = () => signal?.removeEventListener("abort", cancel);
    pending.set(id, {
      resolve: (result) => {
        done();
        resolve(result as Result<Name>);
      },
      reject: (error) => {
        done();
        reject(error);
      },
      progress,
    });
    worker.postMessage({ id, name, argument } satisfies ToWorker);
  });
}
