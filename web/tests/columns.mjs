// SPDX-License-Identifier: Apache-2.0
/* Columns of tensors that are only described, for tests of what is done with them. */
import { BITS } from "./models.mjs";
import { source } from "./page.mjs";

const { columnsOf } = await source("worker/tensor_columns.ts");

/** [name, dtype, shape][], one after the other in a file whose data begin at byte 8. */
export function columns(tensors) {
  let offset = 8;
  const made = tensors.map(([name, dtype, shape]) => {
    const size = (shape.reduce((all, dimension) => all * dimension, 1) * BITS[dtype]) / 8;
    const begin = offset;
    offset += size;
    return { name, dtype, shape, size, offset: begin, shard: 0 };
  });
  return columnsOf(Object.assign(made, { size: made.length }));
}
