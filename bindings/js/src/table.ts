// SPDX-License-Identifier: Apache-2.0
/*
 * A file's first bytes → its table. The parser says which bytes it needs next and is given them; what it found comes over
 * as a few columns, and tensors become objects when someone looks at them.
 */
import { readExactly, readHead, unsigned } from "./checks.js";
import { AT, NEED_MORE, withCore, type Core } from "./core.js";
import { CofferError } from "./errors.js";
import { DTYPE_ROWS, NOTE_KINDS, NOTE_TEXTS, type Dtype, type NoteKind } from "./generated/tables.js";
import { approximateAt, integer, integerAt, type Integer } from "./integers.js";
import type { Source } from "./source.js";

/** How a file's header is spelt. */
export type Format = "safetensors" | "bintensors" | "bintensors-a";

const FORMATS: readonly (Format | undefined)[] = [undefined, "safetensors", "bintensors", "bintensors-a"];

/** The number of a format; 0 is any. */
export function formatNumber(format: Format | undefined): number {
  const number = FORMATS.indexOf(format);
  if (number < 0) {
    throw new TypeError(`format is "safetensors", "bintensors" or "bintensors-a", not ${JSON.stringify(format)}`);
  }
  return number;
}

/** Something legal but suspicious. */
export interface Note {
  kind: NoteKind;
  /** A short description. */
  text: string;
  /** How often it was seen. */
  count: number;
  /** The byte of the file where it was seen first. */
  offset: Integer | undefined;
}

export interface TableOptions {
  /** What the file is; without it, what its content says, which is never taken for "bintensors-a". */
  format?: Format | undefined;
  /** The longest header that is accepted, in bytes; 100,000,000 without it. */
  maxHeaderSize?: number | undefined;
  /** Accept dtypes that are not known, as a note. */
  unknownDtypes?: boolean | undefined;
  /** Accept bytes other than spaces in the padding of bintensors, as a note. */
  hiddenBytes?: boolean | undefined;
  /** Look for the costly notes too. */
  allNotes?: boolean | undefined;
  signal?: AbortSignal | undefined;
  /** Told how many bytes of a header are there that needs more than the first read. */
  headerProgress?: ((done: number, total: number) => void) | undefined;
}

/** A tensor, as the header has it. */
export interface TableEntry {
  name: string;
  dtype: Dtype | (string & {});
  shape: readonly Integer[];
  /** Of the first byte, from the start of the file. */
  offset: Integer;
  /** In bytes. */
  size: Integer;
}

/** A header's tensors and metadata. Tensors are numbered in order of their bytes. */
export class Table {
  readonly count: number;
  readonly format: Format;
  /** Bytes from the start of the file to the start of the data. */
  readonly dataOffset: number;
  /** Bytes of data. */
  readonly dataSize: Integer;
  /** Spaces after the header: room for an edit. */
  readonly slack: number;
  readonly notes: readonly Note[];
  /** Pairs in the order of the header; undefined when it has no place for metadata. */
  readonly metadata: readonly (readonly [key: string, value: string])[] | undefined;
  /** Where the metadata are in the header; tensors have such a position, too. */
  readonly metadataPosition: number;
  /** By number: of the name in the header. */
  readonly positions: Uint32Array;

  readonly #offsets: Uint32Array;
  readonly #sizes: Uint32Array;
  readonly #dimensions: Uint32Array;
  readonly #ranks: Uint32Array;
  readonly #dtypes: Uint8Array;
  readonly #spellings: Map<number, string>;
  readonly #names: readonly string[];
  #firstDimensions: Uint32Array | undefined;

  constructor(core: Core) {
    this.count = core.u32(AT.count);
    this.format = FORMATS[core.u32(AT.format)]!;
    this.dataOffset = Number(core.u64(AT.dataOffset));
    this.dataSize = integer(core.u64(AT.dataSize));
    this.slack = Number(core.u64(AT.slack));
    this.positions = core.words(core.u32(AT.positions), this.count);
    this.#offsets = core.words(core.u32(AT.offsets), 2 * this.count);
    this.#sizes = core.words(core.u32(AT.sizes), 2 * this.count);
    this.#dimensions = core.words(core.u32(AT.dimensions), 2 * core.u32(AT.dimensionCount));
    this.#ranks = core.words(core.u32(AT.ranks), this.count);
    this.#dtypes = core.bytes(core.u32(AT.dtypes), this.count);
    this.#spellings = spellings(core, this.#dtypes);
    this.#names = core.texts(core.u32(AT.nameEnds), this.count, core.u32(AT.names), core.u32(AT.namesSize));
    this.metadataPosition = core.u32(AT.metadataPosition);
    this.metadata = core.u32(AT.hasMetadata) === 0 ? undefined : pairs(core);
    this.notes = notes(core);
  }

  name(i: number): string {
    return this.#names[i]!;
  }

  dtype(i: number): Dtype | (string & {}) {
    const number = this.#dtypes[i]!;
    return number === 0 ? this.#spellings.get(i)! : DTYPE_ROWS[number - 1]!.name;
  }

  offset(i: number): Integer {
    return integerAt(this.#offsets, i);
  }

  size(i: number): Integer {
    return integerAt(this.#sizes, i);
  }

  shape(i: number): Integer[] {
    const first = this.#firsts()[i]!;
    const rank = this.#ranks[i]!;
    const shape: Integer[] = [];
    for (let axis = 0; axis < rank; axis++) {
      shape.push(integerAt(this.#dimensions, first + axis));
    }
    return shape;
  }

  /** The same in the nearest numbers that JavaScript has: for those who asked for JSON.parse's. */
  approximateShape(i: number): number[] {
    const first = this.#firsts()[i]!;
    const rank = this.#ranks[i]!;
    const shape: number[] = [];
    for (let axis = first; axis < first + rank; axis++) {
      shape.push(approximateAt(this.#dimensions, axis));
    }
    return shape;
  }

  /** Where each shape begins among the dimensions. */
  #firsts(): Uint32Array {
    if (this.#firstDimensions === undefined) {
      const firsts = new Uint32Array(this.count);
      for (let i = 1; i < this.count; i++) {
        firsts[i] = firsts[i - 1]! + this.#ranks[i - 1]!;
      }
      this.#firstDimensions = firsts;
    }
    return this.#firstDimensions;
  }

  at(i: number): TableEntry {
    return {
      name: this.name(i),
      dtype: this.dtype(i),
      shape: this.shape(i),
      offset: this.offset(i),
      size: this.size(i),
    };
  }

  /** Numbers of the tensors in the order of the header. */
  headerOrder(): Uint32Array {
    const order = Uint32Array.from({ length: this.count }, (_, i) => i);
    const { positions } = this;
    return positions.every((position, i) => i === 0 || positions[i - 1]! < position)
      ? order
      : order.sort((a, b) => positions[a]! - positions[b]!);
  }
}

function pairs(core: Core): [string, string][] {
  const count = core.u32(AT.pairCount);
  const all = core.texts(core.u32(AT.pairEnds), 2 * count, core.u32(AT.pairTexts), core.u32(AT.pairTextsSize));
  const positions = core.words(core.u32(AT.pairPositions), count);
  const order = Array.from({ length: count }, (_, i) => i).sort((a, b) => positions[a]! - positions[b]!);
  return order.map((i) => [all[2 * i]!, all[2 * i + 1]!]);
}

/** What the file calls the dtypes that are not known. */
function spellings(core: Core, dtypes: Uint8Array): Map<number, string> {
  const found = new Map<number, string>();
  for (let i = dtypes.indexOf(0); i >= 0; i = dtypes.indexOf(0, i + 1)) {
    found.set(i, core.text(core.exports.coffer_js_dtype_spelling(i) >>> 0));
  }
  return found;
}

function notes(core: Core): Note[] {
  return core
    .notes(NOTE_KINDS.length)
    .map(({ count, offset }, kind) => ({
      kind: NOTE_KINDS[kind]!,
      text: NOTE_TEXTS[NOTE_KINDS[kind]!],
      count,
      offset,
    }))
    .filter(({ count }) => count > 0);
}

function emptyFile(path: string): CofferError {
  const message = "the file is empty: a download or a copy may have failed before its first byte; fetch it again";
  return new CofferError("EMPTY", message, { path, offset: 0, expected: 8, actual: 0 });
}

/** Reads a header; fails with a CofferError that says where it does not conform. */
export async function readTable(source: Source, options: TableOptions = {}): Promise<Table> {
  const flags = (options.allNotes ? 1 : 0) | (options.unknownDtypes ? 2 : 0) | (options.hiddenBytes ? 4 : 0);
  const format = formatNumber(options.format);
  const most = unsigned(options.maxHeaderSize ?? 0, "maxHeaderSize");
  const head = await readHead(source, options.signal);
  if (head.length === 0) {
    throw emptyFile(source.name);
  }
  return withCore(async (core) => {
    const address = core.put(head);
    // To the core, 0 is a size that is not known.
    core.demand(
      core.exports.coffer_js_read(address, head.length, BigInt(source.size ?? 0), most, flags, format),
      source.name,
    );
    for (;;) {
      const status = core.exports.coffer_js_go_on();
      if (status !== NEED_MORE) {
        core.demand(status, source.name);
        return new Table(core);
      }
      const [offset, to, size] = [core.u64(AT.wishOffset), core.u32(AT.wishTo), core.u32(AT.wishSize)];
      const begun = Number(offset);
      const bytes = await readExactly(source, begun, size, options.signal, (done) =>
        options.headerProgress?.(begun + done, begun + size),
      );
      options.headerProgress?.(begun + size, begun + size);
      new Uint8Array(core.buffer, to, size).set(bytes);
    }
  });
}
