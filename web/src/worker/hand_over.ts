// SPDX-License-Identifier: Apache-2.0
const handedOver = new WeakSet();

/** Marks a result whose arrays the worker does not need any more: they go to the page without a copy. */
export function handOver<T extends object>(result: T): T {
  handedOver.add(result);
  return result;
}

export function isHandedOver(result: unknown): result is object {
  return typeof result === "object" && result !== null && handedOver.has(result);
}
