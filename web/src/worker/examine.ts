// SPDX-License-Identifier: Apache-2.0
/* One tensor's numbers: read piece by piece, all of them or a sample, so that memory does not grow with the tensor. */
import type { CallContext } from "./calls.js";
import type { ElementType } from "./element_type.js";
import { handOver } from "./hand_over.js";
import { inOrder } from "./in_order.js";
import { heldModel } from "./models.js";
import { allPortions, SAMPLE, somePortions } from "../model/portions.js";
import { tallyOf, type Distribution, type Numbers } from "./statistics.js";

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
  numbers: Numbers;
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
  const tally = await tallyOf(dtype as ElementType);
  let bytes = 0;
  const parts = inOrder(portions, READS_AT_ONCE, ({ begin, size: length }) =>
    model.bytes(name, { begin, end: begin + length, signal }),
  );
  for await (const part of parts) {
    signal.throwIfAborted();
    await tally.add(part);
    bytes += part.length;
    progress(bytes, total);
  }
  const { numbers, distribution } = tally.result();
  return handOver({ ...distribution, numbers, bytes, isSample: total < Number(size) });
}
