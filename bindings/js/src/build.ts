// SPDX-License-Identifier: Apache-2.0
/*
 * Files of tensors that are here: the same bytes, for the same tensors, that the library writes and the format's reference
 * implementation does. The header is the core's, and it has read it again before it is handed out.
 */
import { dtypeNumber } from "./arrays.js";
import { unsigned, wellFormed } from "./checks.js";
import { AT, quoted, tensorName, withCore, type Core } from "./core.js";
import { CofferError } from "./errors.js";
import type { Dtype } from "./generated/tables.js";
import type { Integer } from "./integers.js";
import { formatNumber, Table, type Format } from "./table.js";

/** The bytes of a tensor, little-endian and row-major: an array, a Blob, or a function that gives them when they are due. */
export type TensorData = ArrayBuffer | ArrayBufferView | Blob | (() => TensorPart | Promise<TensorPart>);
type TensorPart = ArrayBuffer | ArrayBufferView | Blob;

export interface NewTensor {
  name: string;
  /** Without it, that of the array: F32 of a Float32Array, U8 of a Uint8Array. */
  dtype?: Dtype | undefined;
  /** Without it, as many elements in a row as an array has. */
  shape?: readonly Integer[] | undefined;
  data: TensorData;
}

export interface BuildOptions {
  metadata?: Readonly<Record<string, string>> | undefined;
  /** "safetensors" without it; "bintensors". */
  format?: Exclude<Format, "bintensors-a"> | undefined;
  /** Of the data's start in the file: a power of two, at least 8. */
  alignment?: number | undefined;
  /** Spaces to reserve after the header, for later edits. */
  slack?: number | undefined;
  signal?: AbortSignal | undefined;
}

const DTYPES: ReadonlyMap<string, Dtype> = new Map([
  ["Int8Array", "I8"],
  ["Uint8Array", "U8"],
  ["Uint8ClampedArray", "U8"],
  ["Int16Array", "I16"],
  ["Uint16Array", "U16"],
  ["Float16Array", "F16"],
  ["Int32Array", "I32"],
  ["Uint32Array", "U32"],
  ["Float32Array", "F32"],
  ["Float64Array", "F64"],
  ["BigInt64Array", "I64"],
  ["BigUint64Array", "U64"],
]);

/** What a typed array is called, wherever it was made. */
function kindOf(data: TensorData): string {
  return ArrayBuffer.isView(data) ? ((data as { [Symbol.toStringTag]?: string })[Symbol.toStringTag] ?? "") : "";
}

interface Declared {
  name: string;
  dtype: Dtype;
  shape: readonly Integer[];
  data: TensorData;
}

async function declared(tensor: NewTensor): Promise<Declared> {
  wellFormed(tensor.name, "the name of a tensor");
  const dtype = tensor.dtype ?? DTYPES.get(kindOf(tensor.data));
  if (dtype === undefined) {
    throw new CofferError("ARGUMENT", `the tensor ${await quoted(tensor.name)} needs a dtype`, {
      tensor: await tensorName(tensor.name),
    });
  }
  const shape = tensor.shape ?? (kindOf(tensor.data) === "" ? undefined : [(tensor.data as Uint8Array).length]);
  if (shape === undefined) {
    throw new CofferError("ARGUMENT", `the tensor ${await quoted(tensor.name)} needs a shape`, {
      tensor: await tensorName(tensor.name),
    });
  }
  if (!Array.isArray(shape) && !ArrayBuffer.isView(shape)) {
    throw new CofferError("ARGUMENT", `the shape of ${await quoted(tensor.name)} is a list of numbers`);
  }
  return { name: tensor.name, dtype, shape, data: tensor.data };
}

function declareAll(core: Core, tensors: readonly Declared[], metadata: Readonly<Record<string, string>>): void {
  core.demand(core.exports.coffer_js_header_new());
  for (const { name, dtype, shape } of tensors) {
    const text = core.putText(wellFormed(name, "the name"));
    const sizes = BigUint64Array.from(shape, (size) => unsigned(size, "a dimension"));
    const dimensions = core.put(new Uint8Array(sizes.buffer));
    core.demand(
      core.exports.coffer_js_header_add(text.address, text.size, dtypeNumber(dtype), dimensions, shape.length),
    );
  }
  for (const [key, value] of Object.entries(metadata)) {
    const of = core.putText(wellFormed(key, "the key"));
    const is = core.putText(wellFormed(value, "the value"));
    core.demand(core.exports.coffer_js_header_set(of.address, of.size, is.address, is.size));
  }
}

/** A file that is laid out: its first bytes, and the tensors in the order of theirs. */
export interface Layout {
  header: Uint8Array<ArrayBuffer>;
  tensors: { name: string; offset: Integer; size: Integer; data: TensorData }[];
  /** Bytes of the whole file. */
  size: number;
}

/** Lays a file out, without looking at any tensor's bytes. */
export function layOut(given: Iterable<NewTensor>, options: BuildOptions = {}): Promise<Layout> {
  return withCore(async (core) => {
    if (typeof (given as Partial<Iterable<NewTensor>> | null | undefined)?.[Symbol.iterator] !== "function") {
      throw new CofferError("ARGUMENT", "the tensors are a list of objects with a name, a shape and data");
    }
    const tensors: Declared[] = [];
    for (const tensor of given) {
      tensors.push(await declared(tensor));
    }
    const metadata = options.metadata ?? undefined;
    if (typeof metadata !== "object" && metadata !== undefined) {
      throw new CofferError("ARGUMENT", "the metadata are an object of texts");
    }
    declareAll(core, tensors, metadata ?? {});
    const status = core.exports.coffer_js_header_build(
      unsigned(options.alignment ?? 0, "the alignment"),
      unsigned(options.slack ?? 0, "the slack"),
      formatNumber(options.format),
      metadata === undefined ? 0 : 1,
    );
    core.demand(status);
    const table = new Table(core);
    const byName = new Map(tensors.map(({ name, data }) => [name, data]));
    const laid = Array.from({ length: table.count }, (_, i) => ({
      name: table.name(i),
      offset: table.offset(i),
      size: table.size(i),
      data: byName.get(table.name(i))!,
    }));
    return {
      header: core.bytes(core.u32(AT.bytes), core.u32(AT.bytesSize)),
      tensors: laid,
      size: table.dataOffset + Number(table.dataSize),
    };
  });
}

/** An ArrayBuffer, of whatever page or worker it came from, or a shared one. */
function isBuffer(value: unknown): value is ArrayBuffer {
  return /^\[object (Shared)?ArrayBuffer\]$/.test(Object.prototype.toString.call(value));
}

async function demandSize(part: TensorPart, { name, size }: { name: string; size: Integer }): Promise<TensorPart> {
  const isBytes = part instanceof Blob || ArrayBuffer.isView(part) || isBuffer(part);
  if (!isBytes) {
    const message = `the data of ${await quoted(name)} are an array, a Blob, or a function that gives one`;
    throw new CofferError("ARGUMENT", message, { tensor: await tensorName(name) });
  }
  const actual = part instanceof Blob ? part.size : part.byteLength;
  if (actual !== Number(size)) {
    const message = `the tensor ${await quoted(name)} has ${size} bytes by its dtype and shape, and was given ${actual}`;
    throw new CofferError("BUFFER_SIZE", message, { tensor: await tensorName(name), expected: size, actual });
  }
  return part;
}

async function partOf(tensor: Layout["tensors"][number]): Promise<TensorPart> {
  return demandSize(typeof tensor.data === "function" ? await tensor.data() : tensor.data, tensor);
}

/** A file as a Blob: what can be saved, uploaded, or opened again. Blobs among the data are not read. */
export async function build(tensors: Iterable<NewTensor>, options: BuildOptions = {}): Promise<Blob> {
  const layout = await layOut(tensors, options);
  const parts: BlobPart[] = [layout.header];
  for (const tensor of layout.tensors) {
    options.signal?.throwIfAborted();
    parts.push((await partOf(tensor)) as BlobPart);
  }
  return new Blob(parts, { type: "application/octet-stream" });
}

/** The bytes of a tensor in pieces. */
async function* pieces(part: TensorPart): AsyncGenerator<Uint8Array> {
  if (part instanceof Blob) {
    for (let at = 0; at < part.size; at += 1 << 20) {
      yield new Uint8Array(await part.slice(at, at + (1 << 20)).arrayBuffer());
    }
  } else if (part.byteLength > 0) {
    yield ArrayBuffer.isView(part)
      ? new Uint8Array(part.buffer, part.byteOffset, part.byteLength)
      : new Uint8Array(part);
  }
}

async function* fileOf(layout: Layout, signal: AbortSignal | undefined): AsyncGenerator<Uint8Array, void> {
  yield layout.header;
  for (const tensor of layout.tensors) {
    for await (const piece of pieces(await partOf(tensor))) {
      signal?.throwIfAborted();
      yield piece;
    }
  }
}

/** The same, piece by piece: of the tensors only one at a time has to be in memory, when their data are functions. */
export async function buildStream(
  tensors: Iterable<NewTensor>,
  options: BuildOptions = {},
): Promise<ReadableStream<Uint8Array>> {
  const file: AsyncGenerator<Uint8Array, void> = fileOf(await layOut(tensors, options), options.signal);
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const next = await file.next();
      if (next.done === true) {
        controller.close();
      } else {
        controller.enqueue(next.value);
      }
    },
    async cancel() {
      await file.return(undefined);
    },
  });
}
