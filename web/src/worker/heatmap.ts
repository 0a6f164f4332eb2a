// SPDX-License-Identifier: Apache-2.0
/* The picture that a plan was made for. */
import { decode } from "libcoffer";

import type { HeatPlan, Plane, Steps } from "../model/heat_plan.js";
import type { ElementType } from "./element_type.js";

/** A picture: numbers row by row. */
export interface HeatMap {
  rows: Steps;
  columns: Steps;
  values: Float64Array;
  /** The other half of complex numbers; empty for all other dtypes. */
  imaginary: Float64Array;
}

/** Makes the picture of what the slice of a plan has. */
export async function heatMapOf(
  plane: Plane,
  plan: HeatPlan,
  dtype: ElementType,
  data: ArrayBufferView,
): Promise<HeatMap> {
  const { rows, columns } = plan;
  const numbers = await decode(dtype, data);
  const each = dtype === "C64" ? 2 : 1;
  const values = new Float64Array(rows.count * columns.count);
  const imaginary = new Float64Array(each === 2 ? values.length : 0);
  const [rowStride, columnStride, first] = strides(plane, plan);
  for (let row = 0, to = 0; row < rows.count; row++) {
    for (let column = 0; column < columns.count; column++, to++) {
      const from = (first + row * rowStride + column * columnStride) * each;
      values[to] = numbers[from]!;
      if (each === 2) {
        imaginary[to] = numbers[from + 1]!;
      }
    }
  }
  return { rows, columns, values, imaginary };
}

/** How far apart rows and columns are in what was read, and where the first number is, in elements. */
function strides(
  { shape, rowAxis, columnAxis }: Plane,
  { rows, columns, picked }: HeatPlan,
): [row: number, column: number, first: number] {
  const down = rowAxis !== undefined && columnAxis !== undefined && rowAxis > columnAxis;
  if (picked === undefined) {
    return down ? [1, rows.count, 0] : [columns.count, 1, 0];
  }
  const width = shape[shape.length - 1]!;
  const { begin, step } = picked.steps;
  switch (picked.axis) {
    case "rows":
      return [step, width, begin];
    case "columns":
      return [width, step, begin];
    default:
      return down ? [width, rows.count * width, begin] : [columns.count * width, width, begin];
  }
}
