// SPDX-License-Identifier: Apache-2.0
/*
 * A model: one file, or several that are one. Opening reads the headers and nothing else; tensors' bytes are read when
 * they are asked for, and only those.
 */
import { arrayOf, type TensorArray } from "./arrays.js";
import { atOnce, readExactly, readHead } from "./checks.js";
import { quoted, quotedPath, tensorName } from "./core.js";
import {
  contentAlgorithm,
  contentDigest,
  hexadecimal,
  recordedDigests,
  recordsDigests,
  tensorRecord,
  verifyContent,
  verifyMetadata,
  type ContentRecord,
  type Recorded,
} from "./digests.js";
import { discover, missingWords, USUAL_NAMES } from "./discover.js";
import { CofferError } from "./errors.js";
import { NOTE_TEXTS, type Dtype, type NoteKind } from "./generated/tables.js";
import { digestOf, isAlgorithm, withFastHasher, withHasher, type Algorithm, type Hasher } from "./hashes.js";
import { product, sum, type Integer } from "./integers.js";
import { compareBytes } from "./order.js";
import { PackedSource, readFile } from "./packed.js";
import { inParallel } from "./pieces.js";
import { placeOf, type Openable, type Opened, type Place } from "./places.js";
import { placeOf as spanPlace, planSlice, spans, type Index } from "./runs.js";
import {
  countExtraShards,
  countMiscounted,
  INDEX_ENDING,
  MAX_INDEX_BYTES,
  parseIndex,
  supersededBy,
  type Index as ModelIndex,
} from "./shards.js";
import type { Source } from "./source.js";
import type { HttpOptions } from "./source_http.js";
import type { Format, Note, Table, TableOptions } from "./table.js";

export interface OpenOptions extends TableOptions, HttpOptions {
  /** Headers of a model of several files that are read at once; 16 without it. */
  parallel?: number | undefined;
  /** Told how many of the model's files are open. */
  progress?: ((done: number, total: number) => void) | undefined;
}

export interface ReadOptions {
  signal?: AbortSignal | undefined;
  /** Told now and then how many bytes are there. */
  progress?: ((done: number, total: number) => void) | undefined;
}

/** Which of a tensor's bytes: from `begin`, 0 without it, to before `end`, its size without it. */
export interface BytesOptions extends ReadOptions {
  begin?: number | undefined;
  end?: number | undefined;
}

/** A tensor, as its header has it. */
export interface Tensor {
  readonly name: string;
  /** A Dtype; any text only with the option `unknownDtypes`. */
  readonly dtype: Dtype | (string & {});
  /** Slowest dimension first. */
  readonly shape: readonly Integer[];
  /** Of the first byte, from the start of its file. */
  readonly offset: Integer;
  /** In bytes. */
  readonly size: Integer;
  /** The product of the shape: 1 for a scalar. */
  readonly elements: Integer;
  /** The number of its file in `files`. */
  readonly shard: number;
}

/** A file of a model. */
export interface ModelFile {
  readonly name: string;
  /** In bytes; undefined where a server does not say. */
  readonly size: number | undefined;
  /** Of a packed file, the bytes that it has as it is stored; everything else is of the file that was packed. */
  readonly packedSize: number | undefined;
  readonly format: Format;
  /** Where the data begin, and how many bytes they are. */
  readonly dataOffset: number;
  readonly dataSize: Integer;
  /** Bytes of padding after the header: room for an edit. */
  readonly slack: number;
  readonly metadata: Readonly<Record<string, string>>;
  readonly hasMetadata: boolean;
}

/** A note, and the file that it is about; the model as a whole has none. */
export interface ModelNote extends Note {
  file: string | undefined;
}

/** A file of the model, and which of its tensors are the model's. */
class Shard {
  readonly source: Source;
  readonly table: Table;
  first = 0; // of its tensors among those of the model
  #kept: readonly number[] | undefined; // their numbers in the table; undefined: all are the model's

  constructor(source: Source, table: Table) {
    this.source = source;
    this.table = table;
  }

  get count(): number {
    return this.#kept?.length ?? this.table.count;
  }

  /** Tensors of the file that the index says are in another one. */
  get superseded(): number {
    return this.table.count - this.count;
  }

  /** In bytes. */
  get size(): Integer {
    return this.#kept === undefined
      ? this.table.dataSize
      : this.#kept.reduce<Integer>((all, row) => sum(all, this.table.size(row)), 0);
  }

  /** The number in the table of tensor `i`. */
  row(i: number): number {
    return this.#kept === undefined ? i : this.#kept[i]!;
  }

  *names(): Generator<string> {
    for (let i = 0; i < this.count; i++) {
      yield this.table.name(this.row(i));
    }
  }

  leaveOut(isOut: (name: string) => boolean): void {
    const rows = Array.from({ length: this.table.count }, (_, row) => row);
    this.#kept = rows.filter((row) => !isOut(this.table.name(row)));
  }
}

const PIECE = 16 << 20;
const PIECES_AT_ONCE = 4;

/** A tensor whose costly parts are made when they are asked for. */
class ShardTensor implements Tensor {
  readonly #table: Table;
  readonly #i: number;
  readonly shard: number;

  constructor(table: Table, i: number, shard: number) {
    this.#table = table;
    this.#i = i;
    this.shard = shard;
  }

  get name(): string {
    return this.#table.name(this.#i);
  }
  get dtype(): Dtype | (string & {}) {
    return this.#table.dtype(this.#i);
  }
  get shape(): readonly Integer[] {
    return this.#table.shape(this.#i);
  }
  get offset(): Integer {
    return this.#table.offset(this.#i);
  }
  get size(): Integer {
    return this.#table.size(this.#i);
  }
  get elements(): Integer {
    return this.shape.reduce<Integer>(product, 1);
  }
  toJSON(): object {
    const { name, dtype, shape, offset, size, shard } = this;
    return { name, dtype, shape, offset, size, shard };
  }
}

/** The tensors of a model by their names, in order of (file, offset). */
export class Tensors implements Iterable<Tensor> {
  readonly size: number;
  readonly #shards: readonly Shard[];
  #numbers: Map<string, number> | undefined;

  /** @internal */
  constructor(shards: readonly Shard[]) {
    this.#shards = shards;
    this.size = shards.reduce((all, { count }) => all + count, 0);
  }

  /** Tensor `i`; undefined when there is none. */
  at(i: number): Tensor | undefined {
    const number = this.#shards.findLastIndex(({ first }) => first <= i);
    const shard = this.#shards[number];
    return shard !== undefined && i - shard.first < shard.count
      ? new ShardTensor(shard.table, shard.row(i - shard.first), number)
      : undefined;
  }

  get(name: string): Tensor | undefined {
    const i = this.#index().get(name);
    return i === undefined ? undefined : this.at(i);
  }

  has(name: string): boolean {
    return this.#index().has(name);
  }

  *keys(): Generator<string> {
    for (const shard of this.#shards) {
      yield* shard.names();
    }
  }

  *[Symbol.iterator](): Generator<Tensor> {
    for (const [number, shard] of this.#shards.entries()) {
      for (let i = 0; i < shard.count; i++) {
        yield new ShardTensor(shard.table, shard.row(i), number);
      }
    }
  }

  #index(): ReadonlyMap<string, number> {
    if (this.#numbers === undefined) {
      this.#numbers = new Map();
      for (const name of this.keys()) {
        this.#numbers.set(name, this.#numbers.size);
      }
    }
    return this.#numbers;
  }
}

export class Model {
  /** What was opened. */
  readonly name: string;
  readonly tensors: Tensors;
  readonly files: readonly ModelFile[];
  /** The metadata of the (first) file. */
  readonly metadata: Readonly<Record<string, string>>;
  /** What the index has as metadata; undefined without an index, or when it has none. */
  readonly indexMetadata: Readonly<Record<string, unknown>> | undefined;
  /** What is legal but suspicious, as far as opening sees it. `check` looks for all of it. */
  readonly notes: readonly ModelNote[];
  readonly #shards: readonly Shard[];
  readonly #index: ModelIndex | undefined;

  /** @internal */
  constructor(name: string, shards: readonly Shard[], index?: ModelIndex, names?: readonly string[]) {
    this.name = name;
    this.#shards = shards;
    this.#index = index;
    this.tensors = new Tensors(shards);
    this.files = shards.map(({ source, table }) => ({
      name: source.name,
      size: source.size,
      packedSize: source instanceof PackedSource ? source.storedSize : undefined,
      format: table.format,
      dataOffset: table.dataOffset,
      dataSize: table.dataSize,
      slack: table.slack,
      metadata: record(table.metadata ?? []),
      hasMetadata: table.metadata !== undefined,
    }));
    this.metadata = this.files[0]!.metadata;
    this.indexMetadata = index?.metadata;
    this.notes = [
      ...shards.flatMap(({ source, table }) => table.notes.map((note) => ({ ...note, file: source.name }))),
      ...modelNotes(shards, index, names),
    ];
  }

  /** Bytes of the tensors, in all files. */
  get size(): Integer {
    return this.#shards.reduce<Integer>((all, { size }) => sum(all, size), 0);
  }

  /**
   * A tensor's elements: a typed array where JavaScript has one for the dtype, else the bits of them; `decode` makes
   * numbers of any. Fails with NO_TENSOR.
   */
  async get(name: string, options: ReadOptions = {}): Promise<TensorArray> {
    const tensor = await this.#find(name);
    return arrayOf(tensor.dtype, await this.#read(tensor, options));
  }

  /** The tensor's bytes, as the file has them, or a part of them. Throws a RangeError for a part that it does not have. */
  async bytes(name: string, options: BytesOptions = {}): Promise<Uint8Array> {
    return this.#read(await this.#find(name), options);
  }

  /**
   * A part of a tensor: "0:10, :, -1, ..., ::2", or a list of what is between the commas. Only the bytes that it needs are
   * read, and small gaps between them.
   */
  async slice(
    name: string,
    slice: string | readonly Index[],
    options: ReadOptions = {},
  ): Promise<{ shape: readonly Integer[]; data: TensorArray }> {
    const tensor = await this.#find(name);
    const { source } = this.#shards[tensor.shard]!;
    const runs = await planSlice(tensor, slice, source.name);
    const result = allocate(runs.size, source.name);
    let done = 0;
    await inParallel(spans(runs), PIECES_AT_ONCE, async (span) => {
      const bytes = await readExactly(
        source,
        spanPlace(tensor.offset, span),
        Number(span.end - span.begin),
        options.signal,
      );
      for (const [k, start] of span.starts.entries()) {
        const at = Number(start - span.begin);
        result.set(bytes.subarray(at, at + runs.runSize), (span.first + k) * runs.runSize);
      }
      done += span.starts.length * runs.runSize;
      options.progress?.(done, runs.size);
    });
    return { shape: runs.shape, data: arrayOf(tensor.dtype, result) };
  }

  /**
   * Compares every tensor, and the metadata, with the digests that each file records, and those with what the index records.
   * Reads all of the model. Fails with TENSOR_DIGEST, METADATA_DIGEST or CONTENT_DIGEST when something is not what was
   * recorded, and with NO_DIGESTS when nothing was. Of a packed file the SHA-256 of the original is compared, too
   * (PACK_CHECKSUM); if all are packed, that is enough. Returns how many tensors were compared.
   */
  async verify(options: ReadOptions = {}): Promise<number> {
    const packed = this.#shards.flatMap(({ source }) => (source instanceof PackedSource ? [source] : []));
    for (const source of packed) {
      await source.verify(options.signal);
    }
    if (
      packed.length === this.#shards.length &&
      this.#shards.every(({ table }) => !recordsDigests(table.metadata ?? []))
    ) {
      return this.tensors.size;
    }
    // Before anything is read: a file that records nothing fails at once.
    const lists = this.#shards.map(({ source, table }) => recordedDigests(table.metadata ?? [], source.name));
    const records = await this.#records((shard) => lists[shard]!.algorithm, options);
    const changed = [...this.tensors].filter(({ shard }, i) => !lists[shard]!.has.has(records[i]!));
    if (changed.length > 0) {
      const { name, shard } = changed[0]!;
      const message =
        `tensor ${await quoted(name)} does not match the file's digests: its bytes, name, dtype or shape changed, or it is ` +
        `new (${changed.length} of ${records.length} tensors do not verify)`;
      const details = { path: this.files[shard]!.name, tensor: await tensorName(name) };
      throw new CofferError("TENSOR_DIGEST", message, details);
    }
    for (const [i, shard] of this.#shards.entries()) {
      await verifyRest(shard, lists[i]!);
    }
    await this.#verifyContent();
    return records.length;
  }

  /**
   * The content digest, in hexadecimal digits: equal for models with the same tensors, however they are divided into files.
   * Reads all of the model.
   */
  async contentDigest(algorithm: Algorithm = "sha256", options: ReadOptions = {}): Promise<string> {
    if (!isAlgorithm(algorithm)) {
      throw new CofferError("ARGUMENT", 'a digest\'s algorithm is "sha256" or "xxh3-128"');
    }
    const records = await this.#records(() => algorithm, options);
    const named = [...this.tensors].map(({ name }, i) => ({ name, record: records[i]! }));
    named.sort((a, b) => compareBytes(a.name, b.name));
    const inOrder = named.map(({ record }) => record);
    return withHasher(algorithm, (hasher) => hexadecimal(contentDigest(hasher, inOrder)));
  }

  async #verifyContent(): Promise<void> {
    const index = this.#index;
    if (index === undefined) {
      return;
    }
    const { path, contentDigest: content, shardDigests, files } = index;
    const record: ContentRecord = { path, contentDigest: content, shardDigests, fileCount: files.length };
    const algorithm = contentAlgorithm(record);
    if (algorithm !== undefined) {
      const parts = this.#shards.map((shard) => ({
        path: shard.source.name,
        pairs: shard.table.metadata ?? [],
        names: [...shard.names()],
        superseded: shard.superseded,
      }));
      await withHasher(algorithm, (hasher) => {
        verifyContent(hasher, record, parts);
      });
    }
  }

  /** Digests of all tensors, each by the algorithm of its file. */
  async #records(algorithmOf: (shard: number) => Algorithm, options: ReadOptions): Promise<string[]> {
    const total = Number(this.size);
    let done = 0;
    const hash = async (tensor: Tensor): Promise<string> => {
      options.signal?.throwIfAborted();
      const algorithm = algorithmOf(tensor.shard);
      const record = await withHasher(algorithm, async (hasher) =>
        tensorRecord(hasher, tensor, await this.#dataDigest(tensor, algorithm, hasher, options.signal)),
      );
      done += Number(tensor.size);
      options.progress?.(done, total);
      return record;
    };
    return inParallel(this.tensors, PIECES_AT_ONCE, hash);
  }

  /** Of a long tensor no more than a piece is in memory. */
  async #dataDigest(
    tensor: Tensor,
    algorithm: Algorithm,
    hasher: Hasher,
    signal: AbortSignal | undefined,
  ): Promise<Uint8Array> {
    const size = Number(tensor.size);
    if (size <= PIECE) {
      return digestOf(algorithm, await this.#read(tensor, { signal }), hasher);
    }
    const { source } = this.#shards[tensor.shard]!;
    return withFastHasher(algorithm, async (fast) => {
      for (let begin = 0; begin < size; begin += PIECE) {
        fast.update(await readExactly(source, sum(tensor.offset, begin), Math.min(PIECE, size - begin), signal));
      }
      return fast.finish();
    });
  }

  /** Closes files that it has open: those of paths. */
  async close(): Promise<void> {
    await Promise.all(this.#shards.map(async ({ source }) => source.close?.()));
  }

  async #find(name: string): Promise<Tensor> {
    const tensor = this.tensors.get(name);
    if (tensor === undefined) {
      throw new CofferError("NO_TENSOR", `there is no tensor ${await quoted(name)}`, { path: this.name });
    }
    return tensor;
  }

  async #read(tensor: Tensor, { begin: first = 0, end, ...options }: BytesOptions): Promise<Uint8Array> {
    const { source } = this.#shards[tensor.shard]!;
    const last = end ?? Number(tensor.size);
    if (!Number.isSafeInteger(first) || first < 0 || !(first <= last) || last > Number(tensor.size)) {
      const message = `the tensor ${JSON.stringify(tensor.name)} has ${tensor.size} bytes; bytes ${first} to ${last} are not a part of them`;
      throw new RangeError(message);
    }
    const size = last - first;
    const place = sum(tensor.offset, first);
    if (size <= PIECE) {
      // Of its own, so that what is handed out holds no more than it says.
      const bytes = size === 0 ? new Uint8Array(0) : await readExactly(source, place, size, options.signal);
      options.progress?.(size, size);
      return bytes;
    }
    const result = allocate(size, source.name);
    let done = 0;
    const begins = Array.from({ length: Math.ceil(size / PIECE) }, (_, i) => i * PIECE);
    await inParallel(begins, PIECES_AT_ONCE, async (begin) => {
      const part = await readExactly(source, sum(place, begin), Math.min(PIECE, size - begin), options.signal);
      result.set(part, begin);
      done += part.length;
      options.progress?.(done, size);
    });
    return result;
  }
}

/** Compares what a file records of its metadata, and of how many tensors it has, the superseded ones included. */
async function verifyRest({ source, table }: Shard, { algorithm, list }: Recorded): Promise<void> {
  await withHasher(algorithm, (hasher) => {
    verifyMetadata(hasher, algorithm, table.metadata ?? [], source.name);
  });
  const [expected, actual] = [list.length, table.count];
  if (expected !== actual) {
    const message = `the file has digests of ${expected} tensors and holds ${actual}: the present ones verify, but others are missing`;
    throw new CofferError("TENSOR_DIGEST", message, { path: source.name, expected, actual });
  }
}

function allocate(size: number, path: string): Uint8Array {
  try {
    return new Uint8Array(size);
  } catch (cause) {
    throw new CofferError("MEMORY", `no memory for ${size} bytes: read slices of it`, { path, cause });
  }
}

/** Pairs as an object in which no key is special. */
function record(pairs: readonly (readonly [string, string])[]): Readonly<Record<string, string>> {
  const result = Object.create(null) as Record<string, string>;
  for (const [key, value] of pairs) {
    result[key] = value;
  }
  return result;
}

// ---- Models of several files --------------------------------------------------------------------------------------------

function note(kind: NoteKind, count: number, offset?: Integer): ModelNote {
  return { kind, text: NOTE_TEXTS[kind], count, offset, file: undefined };
}

/** What is odd about several files as a whole. `names` are those of the folder, where that is looked at. */
function modelNotes(
  shards: readonly Shard[],
  index: ModelIndex | undefined,
  names: readonly string[] | undefined,
): ModelNote[] {
  if (index === undefined) {
    return shards.length > 1 ? [note("NO_INDEX", 1)] : [];
  }
  const tensors = shards.reduce((all, { count }) => all + count, 0);
  // Superseded tensors may be counted in it or not.
  const sizes = [
    shards.reduce<Integer>((all, { table }) => sum(all, table.dataSize), 0),
    shards.reduce<Integer>((all, { size }) => sum(all, size), 0),
  ];
  const { totalSize, files } = index;
  const fits = totalSize === undefined || sizes.some((size) => size === totalSize.value);
  return [
    // Every tensor that the index names is there, and it names none twice.
    note("UNINDEXED", tensors - index.tensors.length),
    ...shards.map(({ source, superseded }) => ({ ...note("SUPERSEDED", superseded), file: source.name })),
    note("TOTAL_SIZE", fits ? 0 : 1, totalSize?.offset),
    note("EXTRA_SHARD", countExtraShards(names ?? [], files)),
    note("SHARD_COUNT", countMiscounted(files)),
  ].filter(({ count }) => count > 0);
}

/** The first tensor of whose name another file has one, too. */
interface Twice {
  name: string;
  file: string;
  other: string;
}

function findTwice(shards: readonly Shard[]): Twice | undefined {
  const owners = new Map<string, string>();
  for (const shard of shards) {
    const file = shard.source.name;
    for (const name of shard.names()) {
      const other = owners.get(name);
      if (other !== undefined) {
        return { name, file, other };
      }
      owners.set(name, file);
    }
  }
  return undefined;
}

/** Leaves out tensors that the index says are in another file, which has them. */
function leaveOutSuperseded(shards: readonly Shard[], index: ModelIndex): void {
  const superseded = supersededBy(
    index,
    shards.map((shard) => new Set(shard.names())),
  );
  for (const [number, shard] of shards.entries()) {
    shard.leaveOut((name) => superseded(number, name));
  }
}

/** Files as a model. A name that is in several of them belongs to the one that the index says. */
async function joined(sources: readonly Source[], tables: readonly Table[], index?: ModelIndex): Promise<Shard[]> {
  const shards = tables.map((table, i) => new Shard(sources[i]!, table));
  let twice = shards.length > 1 ? findTwice(shards) : undefined;
  if (twice !== undefined && index !== undefined) {
    leaveOutSuperseded(shards, index);
    twice = findTwice(shards);
  }
  if (twice !== undefined) {
    const { name, file, other } = twice;
    const message =
      `the tensor ${await quoted(name)} is in two files of the model; the other one is ` + (await quotedPath(other));
    throw new CofferError("TWO_SHARDS", message, { path: file, tensor: await tensorName(name) });
  }
  let first = 0;
  for (const shard of shards) {
    shard.first = first;
    first += shard.count;
  }
  return shards;
}

async function notThere(index: ModelIndex, i: number, owner: string | undefined): Promise<CofferError> {
  const [name, file] = [index.tensors[i]!, index.files[index.tensorFiles[i]!]!];
  const offset = index.positions[i]!;
  const message =
    owner === undefined
      ? `at byte ${offset}, the index names the tensor ${await quoted(name)}, which its file ${await quoted(file)} does not ` +
        "have: index and file belong to different models, or to different versions of one"
      : `at byte ${offset}, the index says that the tensor ${await quoted(name)} is in ${await quoted(file)}, but it is in ` +
        (await quotedPath(owner));
  return new CofferError("NOT_IN_SHARD", message, { path: index.path, tensor: await tensorName(name), offset });
}

/** Sees that every tensor is where the index says. */
async function compare(index: ModelIndex, shards: readonly Shard[]): Promise<void> {
  const owners = new Map<string, number>();
  for (const [k, shard] of shards.entries()) {
    for (const name of shard.names()) {
      owners.set(name, k);
    }
  }
  for (const [i, name] of index.tensors.entries()) {
    const owner = owners.get(name);
    if (owner !== index.tensorFiles[i]) {
      throw await notThere(index, i, owner === undefined ? undefined : shards[owner]!.source.name);
    }
  }
}

/** Opens all files of a model, or none. With an index they have to be as that says. */
async function openFiles(
  place: Place,
  files: readonly string[],
  options: OpenOptions,
  index?: ModelIndex,
): Promise<Shard[]> {
  const sources: Source[] = [];
  let opened = 0;
  try {
    const tables = await inParallel(files, atOnce(options.parallel, 16), async (file, i) => {
      const source = await place.open(file, index?.headSizes.get(file)).catch(async (cause: unknown) => {
        throw await missing(cause, file, files, place);
      });
      sources[i] = source;
      const read = await readFile(source, options).catch(async (cause: unknown) => {
        throw await missing(cause, file, files, place);
      });
      sources[i] = read.source;
      options.progress?.(++opened, files.length);
      return read.table;
    });
    const shards = await joined(sources, tables, index);
    if (index !== undefined) {
      await compare(index, shards);
    }
    return shards;
  } catch (error) {
    await Promise.all(sources.map(async (source) => source.close?.()));
    throw error;
  }
}

/** Of a model of several files, a file that is not there is one that is missing; where the place can say, with others. */
async function missing(cause: unknown, file: string, files: readonly string[], place: Place): Promise<unknown> {
  if (!(cause instanceof CofferError) || cause.code !== "NOT_FOUND") {
    return cause;
  }
  const there = new Set(await place.list());
  for (const folder of new Set(
    files.map((name) => name.slice(0, name.lastIndexOf("/") + 1)).filter((name) => name !== ""),
  )) {
    const names = await (await place.folder?.(folder.slice(0, -1)))?.list();
    names?.forEach((name) => there.add(folder + name));
  }
  const gone = there.size === 0 ? [] : files.filter((name) => !there.has(name));
  const why = "the download is incomplete, or the index is of another model";
  // One alone is what the error is about; of several it has the numbers.
  const [path, sizes] =
    gone.length > 1
      ? [place.path(gone[0]!), { expected: files.length, actual: files.length - gone.length }]
      : [cause.path ?? file, {}];
  const message = await missingWords(gone, Math.max(gone.length, 1), files.length, why);
  return new CofferError("SHARD_MISSING", message, { path, ...sizes, httpStatus: cause.httpStatus, cause });
}

/** All of a file that is known to be small. */
async function readWhole(source: Source, options: OpenOptions): Promise<Uint8Array> {
  const head = await readHead(source, options.signal);
  const size = source.size ?? head.length;
  if (size > MAX_INDEX_BYTES) {
    const message = `the index has ${size} bytes, and at most ${MAX_INDEX_BYTES} are read`;
    throw new CofferError("INDEX_TOO_LARGE", message, {
      path: source.name,
      expected: MAX_INDEX_BYTES,
      actual: size,
    });
  }
  if (size <= head.length) {
    return head;
  }
  const whole = new Uint8Array(size);
  whole.set(head);
  whole.set(await readExactly(source, head.length, size - head.length, options.signal), head.length);
  return whole;
}

async function openIndex(source: Source, place: Place, options: OpenOptions): Promise<Model> {
  try {
    const index = await parseIndex(await readWhole(source, options), source.name);
    const shards = await openFiles(place, index.files, options, index);
    return new Model(source.name, shards, index, options.allNotes ? await place.list() : undefined);
  } finally {
    await source.close?.();
  }
}

async function openFolder(folder: Place, options: OpenOptions): Promise<Model> {
  const names = await folder.list();
  if (names === undefined) {
    return openGuess(folder, options);
  }
  const { place, files } = await discover(folder, names);
  return files.length === 1
    ? openFile(files[0]!, place, undefined, options)
    : new Model(place.name, await openFiles(place, files, options));
}

/** A server does not say what it has: the usual names are tried, in loaders' order. */
async function openGuess(place: Place, options: OpenOptions): Promise<Model> {
  for (const name of USUAL_NAMES) {
    try {
      return await openFile(name, place, undefined, options);
    } catch (error) {
      if (!(error instanceof CofferError) || error.code !== "NOT_FOUND") {
        throw error;
      }
    }
  }
  const message =
    "there is no model.safetensors, no index of it, and neither by the names that diffusers uses: add the name of the file " +
    "to the URL";
  throw new CofferError("NOT_FOUND", message, { path: place.name });
}

async function openFile(file: string, place: Place, given: Source | undefined, options: OpenOptions): Promise<Model> {
  const source = given ?? (await place.open(file));
  if (file.endsWith(INDEX_ENDING)) {
    return openIndex(source, place, options);
  }
  try {
    const read = await readFile(source, options);
    return new Model(source.name, await joined([read.source], [read.table]));
  } catch (error) {
    await source.close?.();
    throw error;
  }
}

function openPlace(opened: Opened, options: OpenOptions): Promise<Model> {
  return "folder" in opened
    ? openFolder(opened.folder, options)
    : openFile(opened.file, opened.place, opened.source, options);
}

/**
 * Opens a model: a File or Blob, bytes, a URL, a path (of Node, Deno or Bun), the index of several files, a folder, or the
 * files of one. Headers are read and checked; what does not conform is a CofferError, whose code says why.
 */
export async function open(from: Openable, options: OpenOptions = {}): Promise<Model> {
  options.signal?.throwIfAborted();
  return openPlace(await placeOf(from, options), options);
}

// ---- Checking -----------------------------------------------------------------------------------------------------------

/** What `check` found. */
export interface Report {
  /** Whether the model conforms. */
  ok: boolean;
  /** Why it does not. */
  error: CofferError | undefined;
  /** What is legal but suspicious, of all kinds. */
  notes: readonly ModelNote[];
  /** The model, when it conforms. */
  model: Model | undefined;
}

/** Below this number an error is not about the file but about getting at it, and so are those of the network. */
function isVerdict({ status }: CofferError): boolean {
  return (status >= 20 && status < 80) || (status >= 120 && status < 130) || (status >= 210 && status < 220);
}

/** Opens a model and looks for every kind of note. Throws only when it cannot be read. */
export async function check(from: Openable, options: OpenOptions = {}): Promise<Report> {
  try {
    const model = await open(from, { ...options, allNotes: true });
    return { ok: true, error: undefined, notes: model.notes, model };
  } catch (error) {
    if (error instanceof CofferError && isVerdict(error)) {
      return { ok: false, error, notes: [], model: undefined };
    }
    throw error;
  }
}
