// SPDX-License-Identifier: Apache-2.0
/* A plane of a tensor, read for a heat map. */
import { planLook, type Plane } from "../model/heat_plan.js";
import type { CallContext } from "./calls.js";
import type { ElementType } from "./element_type.js";
import { handOver } from "./hand_over.js";
import { heatMapOf, type HeatMap } from "./heatmap.js";
import { heldModel } from "./models.js";

export interface LookWish {
  id: number;
  tensor: number;
  plane: Plane;
  isFar: boolean;
}

export async function look(
  { id, tensor, plane, isFar }: LookWish,
  { signal, progress }: CallContext,
): Promise<HeatMap> {
  const { model } = heldModel(id);
  const { name, dtype } = model.tensors.at(tensor)!;
  const plan = planLook(plane, isFar);
  const { data } = await model.slice(name, plan.slice, { signal, progress });
  return handOver(await heatMapOf(plane, plan, dtype as ElementType, data));
}
