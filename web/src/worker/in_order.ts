// SPDX-License-Identifier: Apache-2.0
/*
 * Begins jobs ahead of time, `limit` at once, and gives their results in the items' order. When the caller stops early, or one
 * fails, what was begun is left to end unseen: `signal` is what stops it.
 */
export async function* inOrder<T, R>(
  items: Iterable<T>,
  limit: number,
  job: (item: T) => Promise<R>,
): AsyncGenerator<R, void, undefined> {
  const begun: Promise<R>[] = [];
  for (const item of items) {
    const promise = job(item);
    // It may fail before anyone waits for it.
    promise.catch(() => undefined);
    begun.push(promise);
    if (begun.length === limit) {
      yield await begun.shift()!;
    }
  }
  for (const promise of begun) {
    yield await promise;
  }
}
