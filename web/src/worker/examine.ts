// SPDX-License-Identifier: Apache-2.0
/* One tensor's numbers: read piece by piece, all of them or a sample, so that memory does not grow with the tensor. */
import { statistics, type Distribution, type Numbers } from "libcoffer";

import type { CallContext } from "./calls.js";
import type { ElementType } from "./element_type.js";
import { handOver } from "./hand_over.js";
import { inOrder } from "./in_order.js";
import { heldModel } from "./models.js";
import { allPortions, SAMPLE, somePortions } from "../model/portions.js";

/** Reads that are under way at once. */
const READS_AT_ONCE = 3;

export interface ExamineWish {
  id: number;
  tensor: number;
  isSample: boolean;
  /** Whether reading means requests to a server. */
  isFar: boolean;
}

export interface Examined extends Distribution {
  numbers: Omit<Numbers, "distribution">;
  /** That were looked at. */
  bytes: number;
  isSample: boolean;
}

export async function examine(
  { id, tensor, isSample, isFar }: ExamineWish,
  { signal, progress }: CallContext,
): Promise<Examined> {
  const { model } = heldModel(id);
  const { name, dtype, size } = model.tensors.at(tensor)!;
  const { bytes: budget, pieces } = SAMPLE[isFar ? "far" : "near"];
  const portions = [...(isSample ? somePortions(Number(size), budget, pieces) : allPortions(Number(size)))];
  const total = portions.reduce((all, portion) => all + portion.size, 0);
  let bytes = 0;
  const parts = inOrder(portions, READS_AT_ONCE, ({ begin, size: length }) =>
    model.bytes(name, { begin, end: begin + length, signal }),
  );
  async function* chunks(): AsyncGenerator<Uint8Array> {
    for await (const part of parts) {
      signal.throwIfAborted();
      yield part;
      bytes += part.length;
      progress(bytes, total);
    }
  }
  const { distribution, ...numbers } = await statistics(dtype as ElementType, chunks());
  return handOver({ ...distribution, numbers, bytes, isSample: total < Number(size) });
}
