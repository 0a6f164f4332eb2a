// SPDX-License-Identifier: Apache-2.0
/*
 * Bytes of tensors as typed arrays. A file's bytes are little-endian, as those of every machine are that runs JavaScript
 * today; on any other one nothing is handed out wrongly: importing this file fails.
 */
import { unsigned } from "./checks.js";
import { withModelCore } from "./core.js";
import { DTYPE_ROWS, type Dtype } from "./generated/tables.js";
import { CofferError } from "./errors.js";

if (new Uint8Array(Uint16Array.of(1).buffer)[0] !== 1) {
  throw new Error("libcoffer needs a little-endian machine");
}

/** Float16Array, where the engine has it. */
type Float16ArrayLike = ArrayBufferView & {
  readonly BYTES_PER_ELEMENT: number;
  readonly length: number;
  [i: number]: number;
};

/** What `get` and `slice` give. See ARRAYS below for which dtype is which. */
export type TensorArray =
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array
  | Float16ArrayLike
  | Float32Array
  | Float64Array;

interface Constructor {
  readonly BYTES_PER_ELEMENT: number;
  new (buffer: ArrayBuffer, offset?: number, length?: number): TensorArray;
}

const Float16 = (globalThis as { Float16Array?: Constructor }).Float16Array;

/*
 * What JavaScript has no array of comes as the bits: BF16 (and, in engines without Float16Array, F16) as Uint16Array, the
 * floats of 8 bits as Uint8Array, and F4 and F6, whose elements share bytes, as the Uint8Array of those bytes. `decode`
 * makes numbers of all of them. C64 comes as pairs of floats, BOOL as bytes.
 */
const ARRAYS: Partial<Record<Dtype, Constructor>> = {
  I8: Int8Array,
  I16: Int16Array,
  U16: Uint16Array,
  F16: Float16 ?? Uint16Array,
  BF16: Uint16Array,
  I32: Int32Array,
  U32: Uint32Array,
  F32: Float32Array,
  C64: Float32Array,
  F64: Float64Array,
  I64: BigInt64Array,
  U64: BigUint64Array,
};

/** The number of a dtype. */
export function dtypeNumber(dtype: string): number {
  const number = DTYPE_ROWS.findIndex(({ name }) => name === dtype) + 1;
  if (number === 0) {
    throw new CofferError("DTYPE", `${JSON.stringify(dtype)} is not a dtype`);
  }
  return number;
}

/** Bits of one element; 0 of a dtype that is not known. */
export function bitsOf(dtype: string): number {
  return DTYPE_ROWS.find(({ name }) => name === dtype)?.bits ?? 0;
}

/** Bytes of a tensor as an array: a view, unless they are not aligned for it. */
export function arrayOf(dtype: string, bytes: Uint8Array): TensorArray {
  const Type = ARRAYS[dtype as Dtype];
  if (Type === undefined) {
    return bytes;
  }
  const size = Type.BYTES_PER_ELEMENT;
  const aligned = bytes.byteOffset % size === 0 ? bytes : bytes.slice();
  return new Type(aligned.buffer as ArrayBuffer, aligned.byteOffset, aligned.length / size);
}

/** Elements that are decoded in one go: a few hundred KiB of the module's memory. */
const STEP = 1 << 15;

/**
 * The numbers that bytes of a dtype stand for: every dtype but I64 and U64 beyond 2^53 exactly, and for C64 two numbers for
 * each element. `F4` and `F6` elements are packed from the low bits of each byte up.
 *
 * @param data an array of `get` or `slice`, or the bytes
 * @param count elements; without it as many as there are bytes for
 */
export async function decode(dtype: Dtype, data: ArrayBufferView, count?: number): Promise<Float64Array> {
  const bits = bitsOf(dtype);
  const number = dtypeNumber(dtype);
  if (!ArrayBuffer.isView(data)) {
    throw new CofferError("ARGUMENT", "what is decoded is an array of bytes or of elements");
  }
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const most = (bytes.length * 8) / bits;
  const all = Number(unsigned(count ?? Math.floor(most), "the number of elements"));
  if (all > most || (count === undefined && bits >= 8 && all !== most)) {
    const message = `${bytes.length} bytes are not those of ${count ?? "any number of"} elements of ${dtype}`;
    throw new CofferError("BUFFER_SIZE", message);
  }
  const each = dtype === "C64" ? 2 : 1;
  return withModelCore((core) => {
    const values = new Float64Array(all * each);
    const stepBytes = (STEP * bits) / 8;
    const from = core.alloc(stepBytes);
    const to = core.alloc(STEP * each * 8);
    for (let done = 0; done < all; done += STEP) {
      const now = Math.min(STEP, all - done);
      const begin = (done * bits) / 8;
      new Uint8Array(core.buffer, from, stepBytes).set(bytes.subarray(begin, begin + stepBytes));
      core.demand(core.exports.coffer_js_decode(number, from, 0n, now, to));
      values.set(new Float64Array(core.buffer, to, now * each), done * each);
    }
    return values;
  });
}
