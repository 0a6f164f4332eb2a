// SPDX-License-Identifier: Apache-2.0
/* The models that are open, by their numbers. */
import type { Model } from "libcoffer";

import type { Columns } from "../model/columns.js";

export interface Held {
  model: Model;
  columns: Columns;
}

const held = new Map<number, Held>();
let last = 0;

export function hold(model: Held): number {
  held.set(++last, model);
  return last;
}

/** The model of a number that `hold` gave. */
export function heldModel(id: number): Held {
  const model = held.get(id);
  if (model === undefined) {
    throw new Error("this model is closed");
  }
  return model;
}

export async function letGo(id: number): Promise<void> {
  const model = held.get(id);
  held.delete(id);
  await model?.model.close();
}
