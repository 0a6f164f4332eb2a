// SPDX-License-Identifier: Apache-2.0
import type { Tensors } from "libcoffer";

import type { Columns } from "../model/columns.js";

const LARGEST = 0xffff_ffff_ffff_ffffn;

/** A model's tensors as columns. */
export function columnsOf(tensors: Tensors): Columns {
  const count = tensors.size;
  const names: string[] = new Array<string>(count);
  const nameEnds = new Uint32Array(count);
  const dtypes = new Uint32Array(count);
  const numbers = new Map<string, number>();
  const dimensions: (number | bigint)[] = [];
  const dimensionEnds = new Uint32Array(count);
  const [elements, sizes, offsets] = [new BigUint64Array(count), new BigUint64Array(count), new BigUint64Array(count)];
  const files = new Uint32Array(count);
  let i = 0;
  let end = 0;
  for (const { name, dtype, shape, size, offset, shard } of tensors) {
    names[i] = name;
    end += name.length;
    nameEnds[i] = end;
    let number = numbers.get(dtype);
    if (number === undefined) {
      number = numbers.size;
      numbers.set(dtype, number);
    }
    dtypes[i] = number;
    let product = 1n;
    for (const dimension of shape) {
      dimensions.push(dimension);
      product *= BigInt(dimension);
    }
    dimensionEnds[i] = dimensions.length;
    // Beyond 64 bits only where the dtype is unknown, and nothing compares it with the size.
    elements[i] = product < LARGEST ? product : LARGEST;
    sizes[i] = BigInt(size);
    offsets[i] = BigInt(offset);
    files[i] = shard;
    i++;
  }
  return {
    count,
    names: names.join(""),
    nameEnds,
    dtypes,
    dtypeNames: [...numbers.keys()],
    dimensions: BigUint64Array.from(dimensions, BigInt),
    dimensionEnds,
    elements,
    sizes,
    offsets,
    files,
  };
}
