// SPDX-License-Identifier: Apache-2.0
/*
 * The WebAssembly modules: the same code that the C library has. One is for headers and is loaded at once; another reads
 * indices, plans slices, decodes values and computes digests, and the third decodes packed tensors: these are loaded when
 * something of them is wanted. An instance does one job at a time; jobs that wait for bytes keep theirs, and others take another one. The modules import nothing, so nothing calls back.
 *
 * wasm/js.h is the other side: the layout of its js_answer is the offsets below.
 */
import { CofferError, codeOf } from "./errors.js";
import { MODULE } from "./generated/module.js";
import { integer, integerAt } from "./integers.js";

/** What all modules export. */
interface CommonExports {
  readonly memory: WebAssembly.Memory;
  coffer_js_alloc(size: number): number;
  coffer_js_answer(): number;
  coffer_js_begin(): void;
}

/** coffer.wasm */
interface CoreExports extends CommonExports {
  coffer_js_dtype_spelling(i: number): number;
  coffer_js_escape(text: number, textSize: number, room: number): number;
  coffer_js_format_id(format: number): number;
  coffer_js_go_on(): number;
  coffer_js_header_add(name: number, nameSize: number, dtype: number, shape: number, rank: number): number;
  coffer_js_header_build(alignment: bigint, slack: bigint, format: number, emptyMetadata: number): number;
  coffer_js_header_new(): number;
  coffer_js_header_set(key: number, keySize: number, value: number, valueSize: number): number;
  coffer_js_read(
    bytes: number,
    size: number,
    fileSize: bigint,
    maxHeaderSize: bigint,
    flags: number,
    format: number,
  ): number;
  coffer_js_version(): number;
}

/** model.wasm */
interface ModelExports extends CommonExports {
  coffer_js_compare_add(dtype: number, a: number, b: number, count: number): number;
  coffer_js_compare_new(): void;
  coffer_js_decode(dtype: number, data: number, first: bigint, count: number, values: number): number;
  coffer_js_folder(names: number, size: number): number;
  coffer_js_folder_is_left(name: number, size: number): number;
  coffer_js_folder_reported(): number;
  coffer_js_hash_finish(): number;
  coffer_js_hash_new(algorithm: number): number;
  coffer_js_hash_update(bytes: number, size: number): number;
  coffer_js_index(text: number, size: number, anyName: number): number;
  coffer_js_numbers(): number;
  coffer_js_numbers_add(data: number, count: number): number;
  coffer_js_numbers_finish(): number;
  coffer_js_numbers_new(dtype: number): number;
  coffer_js_slice(dtype: number, shape: number, rank: number, size: bigint, text: number, textSize: number): number;
}

/** packed.wasm */
interface PackedExports extends CommonExports {
  coffer_js_packed(
    head: number,
    index: number,
    dtype: number,
    size: bigint,
    offset: bigint,
    storedSize: bigint,
  ): number;
  coffer_js_packed_chunk(chunk: bigint, bytes: number, elements: number): number;
  coffer_js_packed_zeros(bytes: number, size: number): number;
}

export const NEED_MORE = 1;

/** Where the fields of js_answer are. */
export const AT = {
  errorOffset: 16,
  errorExpected: 24,
  errorActual: 32,
  errorMessage: 40,
  errorTensor: 936,
  wishOffset: 1160,
  wishTo: 1168,
  wishSize: 1172,
  dataOffset: 1176,
  dataSize: 1184,
  slack: 1192,
  format: 1200,
  hasMetadata: 1204,
  count: 1208,
  dimensionCount: 1212,
  offsets: 1216,
  sizes: 1220,
  dimensions: 1224,
  ranks: 1228,
  positions: 1232,
  nameEnds: 1236,
  dtypes: 1240,
  names: 1244,
  namesSize: 1248,
  pairCount: 1252,
  pairEnds: 1256,
  pairPositions: 1260,
  pairTexts: 1264,
  pairTextsSize: 1268,
  metadataPosition: 1272,
  notes: 1280,
  bytes: 1536,
  bytesSize: 1540,
  sliceSize: 1544,
  runStart: 1552,
  runSize: 1560,
  runCount: 1568,
  sliceRank: 1576,
  sliceShape: 1580,
  runRank: 1584,
  runCounts: 1588,
  runStrides: 1592,
  totalSize: 1600,
  totalSizeAt: 1608,
  totalSizeIsRead: 1616,
  entryCount: 1620,
  entryPositions: 1624,
  entryFiles: 1628,
  entryEnds: 1632,
  entryNames: 1636,
  entryNamesSize: 1640,
  fileCount: 1644,
  fileEnds: 1648,
  fileNames: 1652,
  fileNamesSize: 1656,
  indexMetadata: 1660,
  indexMetadataSize: 1664,
  records: 1668,
} as const;

const NO_OFFSET = 0xffff_ffff_ffff_ffffn;
const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
const encoder = new TextEncoder();

/** UTF-8 as text, a byte order mark included. */
export function decodeText(bytes: Uint8Array): string {
  return utf8.decode(bytes);
}

/** Texts that lie one after the other, by their ends. */
function cutTexts(ends: Uint32Array, bytes: Uint8Array): string[] {
  const all = decodeText(bytes);
  const result = new Array<string>(ends.length);
  // In ASCII a character is a byte, so one decoding does for all.
  const isAscii = all.length === bytes.length;
  for (let i = 0, begin = 0; i < ends.length; i++) {
    const end = ends[i]!;
    result[i] = isAscii ? all.slice(begin, end) : decodeText(bytes.subarray(begin, end));
    begin = end;
  }
  return result;
}

/** An instance of a module, for the time of one job. */
export class Instance<Exports extends CommonExports> {
  readonly exports: Exports;
  readonly #answer: number;
  #view: DataView;

  constructor(instance: WebAssembly.Instance) {
    this.exports = instance.exports as unknown as Exports;
    this.#answer = this.exports.coffer_js_answer();
    this.#view = new DataView(this.exports.memory.buffer);
  }

  /** The memory as it is now: what grows it makes views of before stale. */
  get buffer(): ArrayBuffer {
    return this.exports.memory.buffer;
  }

  #fields(): DataView {
    if (this.#view.buffer !== this.buffer) {
      this.#view = new DataView(this.buffer);
    }
    return this.#view;
  }

  u32(at: number): number {
    return this.#fields().getUint32(this.#answer + at, true);
  }

  u64(at: number): bigint {
    return this.#fields().getBigUint64(this.#answer + at, true);
  }

  /** Copies of parts of the memory. */
  bytes(address: number, size: number): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.buffer.slice(address, address + size));
  }

  /** A text of a known size. */
  decode(address: number, size: number): string {
    return decodeText(this.bytes(address, size));
  }

  words(address: number, count: number): Uint32Array {
    return new Uint32Array(this.buffer.slice(address, address + 4 * count));
  }

  /** Texts, one after the other, of which `ends` says where each ends. */
  texts(ends: number, count: number, address: number, size: number): string[] {
    return cutTexts(this.words(ends, count), this.bytes(address, size));
  }

  /** A text that ends with a NUL. */
  text(address: number): string {
    const memory = new Uint8Array(this.buffer);
    return decodeText(memory.slice(address, memory.indexOf(0, address)));
  }

  /** Room in the memory, or an error. */
  alloc(size: number): number {
    const address = this.exports.coffer_js_alloc(Math.max(size, 1));
    if (address === 0) {
      throw new CofferError("MEMORY", `no memory for ${size} bytes`);
    }
    return address >>> 0;
  }

  /** Bytes on their way in. */
  put(bytes: Uint8Array): number {
    const address = this.alloc(bytes.length);
    new Uint8Array(this.buffer, address, bytes.length).set(bytes);
    return address;
  }

  putText(text: string): { address: number; size: number } {
    const bytes = encoder.encode(text);
    return { address: this.put(bytes), size: bytes.length };
  }

  /** Throws what a call failed with. */
  demand(status: number, path?: string): void {
    if (status !== 0) {
      throw this.error(status, path);
    }
  }

  error(status: number, path?: string): CofferError {
    const offset = this.u64(AT.errorOffset);
    const [expected, actual] = [this.u64(AT.errorExpected), this.u64(AT.errorActual)];
    const sizes = expected !== 0n || actual !== 0n;
    const tensor = this.text(this.#answer + AT.errorTensor);
    return new CofferError(codeOf(status), this.text(this.#answer + AT.errorMessage), {
      path,
      tensor: tensor === "" ? undefined : tensor,
      offset: offset === NO_OFFSET ? undefined : integer(offset),
      expected: sizes ? integer(expected) : undefined,
      actual: sizes ? integer(actual) : undefined,
    });
  }

  /** The notes of the last table: how often each kind was seen, and where first. */
  notes(kinds: number): { count: number; offset: number | bigint | undefined }[] {
    const halves = this.words(this.#answer + AT.notes, 4 * kinds);
    return Array.from({ length: kinds }, (_, kind) => {
      const count = Number(integerAt(halves, 2 * kind));
      return { count, offset: count === 0 ? undefined : integerAt(halves, 2 * kind + 1) };
    });
  }
}

// ---- Instances --------------------------------------------------------------------------------------------------------

/*
 * Memory of WebAssembly never shrinks: an instance that has more than this is given up after its job. Others are used again,
 * for each takes gigabytes of addresses, which engines get back only when they collect garbage: thousands of new ones in a row
 * can bring a process to a halt.
 */
const MAX_KEPT = 4 << 20;
const MAX_IDLE = 16;

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/** The instances of a module. */
class Instances<Exports extends CommonExports> {
  readonly #load: () => Promise<string>;
  #compiled: Promise<WebAssembly.Module> | undefined;
  #idle: Instance<Exports>[] = [];

  constructor(load: () => Promise<string>) {
    this.#load = load;
  }

  use(module: WebAssembly.Module | Promise<WebAssembly.Module>): void {
    this.#compiled = Promise.resolve(module);
    this.#idle = [];
  }

  async #compile(): Promise<WebAssembly.Module> {
    const bytes = fromBase64(await this.#load());
    try {
      return await WebAssembly.compile(bytes);
    } catch (cause) {
      // The module is sound, as it was tested. What fails is a page that forbids it, or an engine without WebAssembly.
      const advice =
        "WebAssembly cannot be compiled here: a page's Content-Security-Policy has to allow script-src 'wasm-unsafe-eval'";
      throw new CofferError("UNSUPPORTED", advice, { cause });
    }
  }

  async #make(): Promise<Instance<Exports>> {
    this.#compiled ??= this.#compile();
    return new Instance<Exports>(await WebAssembly.instantiate(await this.#compiled));
  }

  #giveBack(instance: Instance<Exports>): void {
    if (instance.buffer.byteLength <= MAX_KEPT && this.#idle.length < MAX_IDLE) {
      this.#idle.push(instance);
    }
  }

  /** Does a job with an instance of its own. What it returns must not need the instance. */
  async with<T>(job: (instance: Instance<Exports>) => T | Promise<T>): Promise<T> {
    const instance = this.#idle.pop() ?? (await this.#make());
    instance.exports.coffer_js_begin();
    try {
      const result = await job(instance);
      this.#giveBack(instance);
      return result;
    } catch (error) {
      // After a trap nobody knows what state it is in. Any other failure is the job's, which the next one forgets.
      if (!(error instanceof WebAssembly.RuntimeError)) {
        this.#giveBack(instance);
      }
      throw error;
    }
  }
}

export type Core = Instance<CoreExports>;
export type ModelCore = Instance<ModelExports>;
export type PackedCore = Instance<PackedExports>;

const cores = new Instances<CoreExports>(() => Promise.resolve(MODULE));
const modelCores = new Instances<ModelExports>(async () => (await import("./generated/model_module.js")).MODULE);

const packedCores = new Instances<PackedExports>(async () => (await import("./generated/packed_module.js")).MODULE);

/** Does a job with an instance of coffer.wasm. */
export function withCore<T>(job: (core: Core) => T | Promise<T>): Promise<T> {
  return cores.with(job);
}

/** Does a job with an instance of model.wasm. */
export function withModelCore<T>(job: (core: ModelCore) => T | Promise<T>): Promise<T> {
  return modelCores.with(job);
}

/** Does a job with an instance of packed.wasm. */
export function withPackedCore<T>(job: (core: PackedCore) => T | Promise<T>): Promise<T> {
  return packedCores.with(job);
}

/**
 * Uses a module that was compiled elsewhere (for one, of `libcoffer/coffer.wasm`) instead of the one that the package
 * carries within. To be called before anything else. `which` is "model" or "packed" for the modules that are loaded later
 * (`libcoffer/model.wasm`, `libcoffer/packed.wasm`).
 */
export function useModule(
  module: WebAssembly.Module | Promise<WebAssembly.Module>,
  which: "coffer" | "model" | "packed" = "coffer",
): void {
  const kind = Object.prototype.toString.call(module);
  if (kind !== "[object WebAssembly.Module]" && kind !== "[object Promise]") {
    throw new TypeError("useModule takes a compiled WebAssembly.Module, or a promise of one");
  }
  (({ coffer: cores, model: modelCores, packed: packedCores })[which] ?? cores).use(module);
}

/**
 * A text that is safe in a terminal and unambiguous, as the library escapes names: control characters and marks that turn the
 * direction of writing become \xNN or \u{N}, a backslash becomes two.
 */
export function escapeText(text: string): Promise<string> {
  return escaped(text, 0);
}

function escaped(text: string, room: number): Promise<string> {
  return withCore((core) => {
    const { address, size } = core.putText(text);
    core.demand(core.exports.coffer_js_escape(address, size, room));
    return decodeText(core.bytes(core.u32(AT.bytes), core.u32(AT.bytesSize)));
  });
}

/** Bytes that names take in the library's messages, and in its field for a tensor's name. */
const NAME_ROOM = 96;
const PATH_ROOM = 320;
const TENSOR_ROOM = 224;

/** A name as the library's messages have it: escaped, in quotes, and without its middle when it is long. */
export async function quoted(name: string): Promise<string> {
  return `"${await escaped(name, NAME_ROOM)}"`;
}

export async function quotedPath(path: string): Promise<string> {
  return `"${await escaped(path, PATH_ROOM)}"`;
}

/** A tensor's name as an error's `tensor` has it. */
export function tensorName(name: string): Promise<string> {
  return escaped(name, TENSOR_ROOM);
}
