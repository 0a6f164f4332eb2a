// SPDX-License-Identifier: Apache-2.0
/*
 * The worker: all reading and all that takes long. It answers calls (model/rpc.ts); those that it can are in calls.ts.
 */
import type { FromWorker, ToWorker } from "../model/rpc.js";
import { CALLS, type CallContext } from "./calls.js";
import { isHandedOver } from "./hand_over.js";
import { troubleOf } from "./trouble.js";

interface WorkerScope {
  postMessage(message: FromWorker, transfer: Transferable[]): void;
  addEventListener(type: "message", listener: (event: MessageEvent<ToWorker>) => void): void;
}
const scope = globalThis as unknown as WorkerScope;
const running = new Map<number, AbortController>();

/** How often the page is told how far a call is, in ms. */
const PROGRESS_EVERY = 50;

/** Says at once how far a call is, then now and then, and in the end what was said last. */
function contextOf(id: number, signal: AbortSignal): CallContext {
  let said = -Infinity;
  let latest: FromWorker | undefined;
  const say = () => {
    if (latest !== undefined && running.has(id)) {
      said = performance.now();
      scope.postMessage(latest, []);
    }
    latest = undefined;
  };
  const progress = (done: number, total: number | undefined) => {
    const isWaiting = latest !== undefined;
    latest = { id, done, total };
    if (performance.now() - said >= PROGRESS_EVERY) {
      say();
    } else if (!isWaiting) {
      setTimeout(say, PROGRESS_EVERY);
    }
  };
  return { signal, progress };
}

/** Arrays of a result that the worker does not keep go over without a copy. */
function transfers(result: unknown): Transferable[] {
  if (!isHandedOver(result)) {
    return [];
  }
  const buffers = Object.values(result).flatMap((value: unknown) =>
    ArrayBuffer.isView(value) && value.buffer instanceof ArrayBuffer ? [value.buffer] : [],
  );
  return [...new Set(buffers)];
}

async function answer(id: number, name: string, argument: unknown): Promise<void> {
  const controller = new AbortController();
  running.set(id, controller);
  try {
    const handle = (CALLS as Record<string, (argument: unknown, context: CallContext) => unknown>)[name]!;
    const result = await handle(argument, contextOf(id, controller.signal));
    scope.postMessage({ id, result }, transfers(result));
  } catch (error) {
    scope.postMessage({ id, trouble: troubleOf(error) }, []);
  } finally {
    running.delete(id);
  }
}

scope.addEventListener("message", ({ data }) => {
  if ("cancel" in data) {
    running.get(data.id)?.abort();
  } else {
    void answer(data.id, data.name, data.argument);
  }
});
