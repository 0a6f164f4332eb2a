// SPDX-License-Identifier: Apache-2.0
/* Many reads at once, but not all of them. */

/**
 * Does `job` for every item, at most `limit` at a time. After a failure no more are begun, and that of the first item
 * is thrown when those under way have ended: nothing goes on unseen. Results are in the items' order.
 */
export async function inParallel<T, R>(
  items: Iterable<T>,
  limit: number,
  job: (item: T, i: number) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  const iterator = items[Symbol.iterator]();
  let next = 0;
  let failed = false;
  let failedAt = Infinity;
  let reason: unknown;
  async function work(): Promise<void> {
    while (!failed) {
      const item = iterator.next();
      if (item.done === true) {
        return;
      }
      const i = next++;
      try {
        results[i] = await job(item.value, i);
      } catch (error) {
        failed = true;
        if (i < failedAt) {
          failedAt = i;
          reason = error;
        }
      }
    }
  }
  await Promise.all(Array.from({ length: limit }, work));
  if (failed) {
    throw reason;
  }
  return results;
}
