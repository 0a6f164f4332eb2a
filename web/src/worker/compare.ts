// SPDX-License-Identifier: Apache-2.0
/* Two models: what their headers say, and, tensor by tensor, whether their bytes are the same. */
import { distance, type Distance } from "libcoffer";

import type { CallContext } from "./calls.js";
import { diffPairs, diffTensors, type PairDiff, type TensorDiff } from "./diff.js";
import type { ElementType } from "./element_type.js";
import { handOver } from "./hand_over.js";
import { inOrder } from "./in_order.js";
import { heldModel } from "./models.js";
import { allPortions } from "../model/portions.js";

export interface Compared extends TensorDiff {
  /** Of the metadata of the first file of each, and of the indices. */
  metadata: readonly PairDiff[];
}

export function compare({ before, after }: { before: number; after: number }): Compared {
  const [a, b] = [heldModel(before), heldModel(after)];
  const metadata = diffPairs(Object.entries(a.model.metadata), Object.entries(b.model.metadata));
  return handOver({ ...diffTensors(a.columns, b.columns), metadata });
}

export interface ComparePairWish {
  before: { id: number; tensor: number };
  after: { id: number; tensor: number };
}

const READS_AT_ONCE = 2;

/** How far two tensors of one dtype and shape are apart. */
export async function comparePair(
  { before, after }: ComparePairWish,
  { signal, progress }: CallContext,
): Promise<Distance> {
  const [a, b] = [heldModel(before.id).model, heldModel(after.id).model];
  const [left, right] = [a.tensors.at(before.tensor)!, b.tensors.at(after.tensor)!];
  const size = Number(left.size);
  const parts = inOrder(allPortions(size), READS_AT_ONCE, ({ begin, size: length }) => {
    const range = { begin, end: begin + length, signal };
    return Promise.all([a.bytes(left.name, range), b.bytes(right.name, range)]);
  });
  let done = 0;
  async function* chunks(): AsyncGenerator<[Uint8Array, Uint8Array]> {
    for await (const pair of parts) {
      signal.throwIfAborted();
      yield pair;
      done += pair[0].length;
      progress(done, size);
    }
  }
  return distance(left.dtype as ElementType, chunks());
}
