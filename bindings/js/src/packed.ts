// SPDX-License-Identifier: Apache-2.0
/*
 * A packed file (docs/packed.md) as the file that was packed: a source whose bytes are those of the original, decoded as they
 * are read, and the original's table. Whatever reads a model needs to know nothing of packing. Only whole chunks are decoded,
 * and each is verified.
 */
import { dtypeNumber } from "./arrays.js";
import { readExactly } from "./checks.js";
import { AT, quoted, tensorName, withPackedCore, type PackedCore } from "./core.js";
import { CofferError } from "./errors.js";
import { withFastHasher } from "./hashes.js";
import { sum, type Integer } from "./integers.js";
import type { Source } from "./source.js";
import { readTable, type Table, type TableOptions } from "./table.js";

const KEY = "coffer.packed";
const HEADER_KEY = "coffer.header";

/** A file may claim to be this many times as large as it is, and more if that is not much. */
const MAX_TIMES = 64;
const MUCH = 2 ** 30;

const HEAD_SIZE = 64;
const TABLE_SIZE = 128;
const RECORD_SIZE = 16;
const CHUNK = 65_536; // elements
/** Bytes after a chunk that a decoder may read. */
const SLACK = 8;
/** Bytes of the original that are hashed at a time. */
const VERIFIED = 16 << 20;
/** Bytes of chunks that are read and decoded at a time. */
const STEP = 1 << 20;

/** A tensor with bytes: where they are in the original, and where in the packed file. */
interface Stored {
  offset: number;
  size: number;
  storedOffset: number;
  storedSize: number;
  dtype: string;
  isPacked: boolean;
}

/** What a packed file says of the original. */
interface Key {
  size: number;
  sha256: string;
}

/** What is known of a packed tensor when it was read once. */
interface Known {
  head: Uint8Array;
  index: Uint8Array;
  elementSize: number;
  /** Of chunks, in the packed tensor; and where the last one ends. */
  starts: Float64Array;
}

function contradiction(source: Source, what: string, tensor?: string): CofferError {
  const message = `the packed file contradicts itself: ${what}; get the file again`;
  return new CofferError("PACK_FILE", message, { path: source.name, tensor });
}

/** The original's bytes. */
export class PackedSource implements Source {
  readonly name: string;
  readonly size: number;
  /** Of the file as it is stored, in bytes. */
  readonly storedSize: number;
  /** Of the original, in hexadecimal digits. */
  readonly #sha256: string;
  readonly #of: Source;
  readonly #front: Uint8Array;
  readonly #known = new Map<Stored, Promise<Known>>();
  #tensors: readonly Stored[] = [];

  /** @internal */
  constructor(of: Source, storedSize: number, { size, sha256 }: Key, front: Uint8Array) {
    this.name = of.name;
    this.size = size;
    this.#sha256 = sha256;
    this.storedSize = storedSize;
    this.#of = of;
    this.#front = front;
  }

  /** @internal */
  use(tensors: readonly Stored[]): void {
    this.#tensors = tensors;
  }

  head(): Promise<Uint8Array> {
    return Promise.resolve(this.#front);
  }

  close(): Promise<void> {
    return this.#of.close?.() ?? Promise.resolve();
  }

  async read(offset: Integer, size: number, signal?: AbortSignal): Promise<Uint8Array> {
    const first = Number(offset);
    const result = new Uint8Array(size);
    const front = this.#front.subarray(first, first + size);
    result.set(front);
    for (let done = front.length; done < size;) {
      const tensor = this.#at(first + done);
      const at = first + done - tensor.offset;
      const part = result.subarray(done, done + Math.min(size - done, tensor.size - at));
      await (tensor.isPacked ? this.#unpack(tensor, at, part, signal) : this.#copy(tensor, at, part, signal));
      done += part.length;
    }
    return result;
  }

  /** Decodes all of it, and compares the SHA-256 of the original. */
  async verify(signal?: AbortSignal): Promise<void> {
    const digest = await withFastHasher("sha256", async (hasher) => {
      for (let at = 0; at < this.size; at += VERIFIED) {
        hasher.update(await this.read(at, Math.min(VERIFIED, this.size - at), signal));
      }
      return hasher.finish();
    });
    if (Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("") !== this.#sha256) {
      const message = "what is packed has another SHA-256 than the file that was packed; get the file again";
      throw new CofferError("PACK_CHECKSUM", message, { path: this.name });
    }
  }

  /** The tensor in which a byte of the original lies: tensors follow one another without a gap. */
  #at(offset: number): Stored {
    let [low, high] = [0, this.#tensors.length];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      [low, high] = this.#tensors[middle]!.offset <= offset ? [middle, high] : [low, middle];
    }
    const tensor = this.#tensors[low];
    if (tensor === undefined) {
      throw contradiction(this.#of, "the header of the original ends too early");
    }
    return tensor;
  }

  async #copy(tensor: Stored, at: number, to: Uint8Array, signal: AbortSignal | undefined): Promise<void> {
    to.set(await readExactly(this.#of, sum(tensor.storedOffset, at), to.length, signal));
  }

  async #unpack(tensor: Stored, at: number, to: Uint8Array, signal: AbortSignal | undefined): Promise<void> {
    const known = await this.#knownOf(tensor, signal);
    const { starts, elementSize } = known;
    const last = Math.floor((at + to.length - 1) / (CHUNK * elementSize));
    for (let chunk = Math.floor(at / (CHUNK * elementSize)); chunk <= last;) {
      let next = chunk + 1;
      while (next <= last && starts[next + 1]! - starts[chunk]! <= STEP) {
        next++;
      }
      const isEnd = next === starts.length - 1;
      const end = isEnd ? tensor.storedSize : starts[next]!;
      const begin = starts[chunk]!;
      const bytes = await readExactly(this.#of, sum(tensor.storedOffset, begin), end - begin, signal);
      await withPackedCore((core) => {
        this.#decode(core, tensor, known, chunk, next, bytes, at, to);
      });
      chunk = next;
    }
  }

  /** Decodes the chunks from `chunk` to before `next`, and takes what is wanted of them. */
  #decode(
    core: PackedCore,
    tensor: Stored,
    known: Known,
    chunk: number,
    next: number,
    bytes: Uint8Array,
    at: number,
    to: Uint8Array,
  ): void {
    const { starts, elementSize } = known;
    const [head, index] = [core.put(known.head), core.put(known.index)];
    this.#demand(core, core.exports.coffer_js_packed(head, index, ...numbers(tensor)));
    const stored = core.alloc(bytes.length + SLACK);
    new Uint8Array(core.buffer, stored, bytes.length).set(bytes);
    const elements = core.alloc(CHUNK * elementSize);
    for (let i = chunk; i < next; i++) {
      const from = stored + (starts[i]! - starts[chunk]!);
      this.#demand(core, core.exports.coffer_js_packed_chunk(BigInt(i), from, elements));
      const first = i * CHUNK * elementSize;
      const begin = Math.max(first, at);
      const end = Math.min(first + CHUNK * elementSize, tensor.size, at + to.length);
      to.set(new Uint8Array(core.buffer, elements + (begin - first), end - begin), begin - at);
    }
    if (next === starts.length - 1) {
      const used = starts[next]! - starts[chunk]!;
      this.#demand(core, core.exports.coffer_js_packed_zeros(stored + used, bytes.length - used));
    }
  }

  #demand(core: PackedCore, status: number): void {
    core.demand(status, this.name);
  }

  /** What one call has read, others wait for; after a failure it is read again. */
  #knownOf(tensor: Stored, signal: AbortSignal | undefined): Promise<Known> {
    let known = this.#known.get(tensor);
    if (known === undefined) {
      known = this.#readKnown(tensor, signal);
      known.catch(() => this.#known.delete(tensor));
      this.#known.set(tensor, known);
    }
    return known;
  }

  async #readKnown(tensor: Stored, signal: AbortSignal | undefined): Promise<Known> {
    if (tensor.storedSize < HEAD_SIZE) {
      const message = "a packed tensor is shorter than its head; get the file again";
      throw new CofferError("PACK_HEAD", message, { path: this.name, offset: tensor.storedOffset });
    }
    const head = await readExactly(this.#of, tensor.storedOffset, HEAD_SIZE, signal);
    const size = await withPackedCore((core) => {
      this.#demand(core, core.exports.coffer_js_packed(core.put(head), 0, ...numbers(tensor)));
      return Number(core.u64(AT.sliceSize));
    });
    const index = await readExactly(this.#of, sum(tensor.storedOffset, HEAD_SIZE), size, signal);
    await withPackedCore((core) => {
      this.#demand(core, core.exports.coffer_js_packed(core.put(head), core.put(index), ...numbers(tensor)));
    });
    const records = new DataView(index.buffer, index.byteOffset + head[13]! * TABLE_SIZE);
    const starts = new Float64Array(size / RECORD_SIZE - head[13]! * (TABLE_SIZE / RECORD_SIZE) + 1);
    starts[0] = HEAD_SIZE + size;
    for (let i = 1; i < starts.length; i++) {
      starts[i] = starts[i - 1]! + records.getUint16((i - 1) * RECORD_SIZE, true) * 16;
    }
    return { head, index, elementSize: head[10]!, starts };
  }
}

/** A tensor as packed.wasm is told of it. */
function numbers({ dtype, size, storedOffset, storedSize }: Stored): [number, bigint, bigint, bigint] {
  return [dtypeNumber(dtype), BigInt(size), BigInt(storedOffset), BigInt(storedSize)];
}

/** "1:LENGTH:SHA256" */
function readKey(source: Source, key: string, storedSize: number): Key {
  if (!key.startsWith("1:")) {
    const message = "the file is packed in a version that this library does not know";
    throw new CofferError("PACK_FILE", message, { path: source.name });
  }
  const [, digits, sha256] = /^1:(\d+):([0-9a-f]{64})$/i.exec(key) ?? [];
  const size = Number(digits);
  if (sha256 === undefined) {
    throw contradiction(source, "its original size and SHA-256 cannot be read");
  }
  if (size > MAX_TIMES * storedSize && size > MUCH) {
    const message = `the packed file of ${storedSize} bytes claims to be ${size}, more than ${MAX_TIMES} times as much`;
    const details = { path: source.name, expected: MAX_TIMES * storedSize, actual: size };
    throw new CofferError("PACK_FILE", message, details);
  }
  return { size, sha256: sha256.toLowerCase() };
}

/** The original's first bytes: the length of its header, and the header. */
function frontOf(source: Source, header: string | undefined, size: number): Uint8Array {
  const bytes = new TextEncoder().encode(header ?? "");
  if (header === undefined || bytes.length > size - 8) {
    throw contradiction(source, "it has no header of the original, or one that is larger than that");
  }
  const front = new Uint8Array(bytes.length + 8);
  new DataView(front.buffer).setBigUint64(0, BigInt(bytes.length), true);
  front.set(bytes, 8);
  return front;
}

async function readInner(source: PackedSource, front: Uint8Array, options: TableOptions): Promise<Table> {
  const { maxHeaderSize, unknownDtypes, allNotes, signal } = options;
  const inner = { format: "safetensors", maxHeaderSize, unknownDtypes, allNotes, signal } as const;
  const table = await readTable(source, inner).catch((cause: unknown) => {
    if (!(cause instanceof CofferError) || cause.code === "PACK_FILE") {
      throw cause;
    }
    const { code, path, tensor, offset, expected, actual } = cause;
    const said = path === undefined ? cause.message : cause.message.slice(path.length + 2);
    const message = `the original's header, in the metadata, is invalid: ${said}`;
    throw new CofferError(code, message, { path, tensor, offset, expected, actual, cause });
  });
  if (table.dataOffset !== front.length) {
    throw contradiction(source, "the header of the original ends too early");
  }
  return table;
}

function isSame(a: readonly Integer[], b: readonly Integer[]): boolean {
  return a.length === b.length && a.every((dimension, i) => dimension === b[i]);
}

/** Finds each tensor of the original in the file. */
async function match(source: Source, outer: Table, inner: Table): Promise<Stored[]> {
  if (inner.count !== outer.count) {
    throw contradiction(source, "it has another number of tensors than the original");
  }
  const rows = new Map(Array.from({ length: outer.count }, (_, row) => [outer.name(row), row]));
  const found: Stored[] = [];
  for (let i = 0; i < inner.count; i++) {
    const row = rows.get(inner.name(i));
    const dtype = inner.dtype(i);
    const isPlain = row !== undefined && dtype === outer.dtype(row) && isSame(inner.shape(i), outer.shape(row));
    const isSmaller =
      row !== undefined &&
      outer.dtype(row) === "U8" &&
      outer.shape(row).length === 1 &&
      outer.size(row) < inner.size(i);
    if (row === undefined || (!isPlain && !isSmaller)) {
      const what =
        row === undefined
          ? "it lacks a tensor of the original"
          : "a tensor is neither that of the original nor smaller";
      throw contradiction(source, `${what}, ${await quoted(inner.name(i))}`, await tensorName(inner.name(i)));
    }
    if (inner.size(i) !== 0) {
      found.push({
        offset: Number(inner.offset(i)),
        size: Number(inner.size(i)),
        storedOffset: Number(outer.offset(row)),
        storedSize: Number(outer.size(row)),
        dtype,
        isPacked: !isPlain,
      });
    }
  }
  return found;
}

/** A file's source and table; of a packed file, those of the file that was packed. */
export async function readFile(source: Source, options: TableOptions): Promise<{ source: Source; table: Table }> {
  const table = await readTable(source, options);
  const metadata = new Map(table.metadata);
  const key = metadata.get(KEY);
  if (key === undefined) {
    return { source, table };
  }
  const storedSize = table.dataOffset + Number(table.dataSize);
  const said = readKey(source, key, storedSize);
  const front = frontOf(source, metadata.get(HEADER_KEY), said.size);
  const packed = new PackedSource(source, storedSize, said, front);
  const inner = await readInner(packed, front, options);
  packed.use(await match(source, table, inner));
  return { source: packed, table: inner };
}
