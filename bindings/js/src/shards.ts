// SPDX-License-Identifier: Apache-2.0
/*
 * Models of several files: the grammar of their names, and the index. The index is read by the library's own reader, in
 * model.wasm: what it names is untrusted, and may be files in its own folder or below it and nothing else.
 */
import { AT, withModelCore, type ModelCore } from "./core.js";
import { integer, type Integer } from "./integers.js";

export const INDEX_ENDING = ".index.json";

/*
 * What a header has besides names: metadata, and for each tensor the fields and the numbers, which in a file of 5 GB take
 * less than this: "":{"dtype":"F8_E4M3","shape":[16384,16384],"data_offsets":[4000000000,4000000000]},
 */
const HEAD_BASE = 2048;
const HEAD_EACH = 96;
const MAX_HEAD = 4 << 20;

/** What is asked of an index at first: nearly every one is smaller. */
export const INDEX_HEAD = 8 << 20;

/** The limit of an index. */
export const MAX_INDEX_BYTES = 250_000_000;

// ---- Names --------------------------------------------------------------------------------------------------------------

/** What the name of one file of several says. */
export interface ShardName {
  /** With the sign before the digits. */
  prefix: string;
  digits: number;
  number: number;
  total: number;
}

/** Takes a name apart: PREFIX-00001-of-00003.safetensors, both numbers with 5 digits or both with 6. */
export function readShardName(name: string): ShardName | undefined {
  const parts = /^(.*[-_])(?:(\d{5})-of-(\d{5})|(\d{6})-of-(\d{6}))\.safetensors$/s.exec(name);
  const first = parts?.[2] ?? parts?.[4];
  if (parts === null || first === undefined) {
    return undefined;
  }
  const [number, total] = [Number(first), Number(parts[3] ?? parts[5])];
  return number >= 1 && number <= total ? { prefix: parts[1]!, digits: first.length, number, total } : undefined;
}

/** How many files are named like those of an index, and are none of them. */
export function countExtraShards(names: readonly string[], files: readonly string[]): number {
  const prefixes = new Set(files.map((file) => readShardName(file)?.prefix));
  const known = new Set(files);
  return names.filter((name) => {
    const parts = readShardName(name);
    return parts !== undefined && prefixes.has(parts.prefix) && !known.has(name);
  }).length;
}

/** How many sets have another number of files than their names state. */
export function countMiscounted(files: readonly string[]): number {
  const sets = new Map<string, { total: number; count: number }>();
  for (const { prefix, total } of files.map(readShardName).filter((parts) => parts !== undefined)) {
    const set = sets.get(`${total} ${prefix}`) ?? { total, count: 0 };
    set.count++;
    sets.set(`${total} ${prefix}`, set);
  }
  return [...sets.values()].filter(({ total, count }) => total !== count).length;
}

/**
 * Whether a tensor of a file, by its number, is in another one that the index says, too: then it is superseded, as in a checkpoint
 * over which newer files were laid. `names` are those of each file.
 */
export function supersededBy(
  index: Index,
  names: readonly ReadonlySet<string>[],
): (file: number, name: string) => boolean {
  const owners = new Map(index.tensors.map((name, i) => [name, index.tensorFiles[i]!]));
  return (file, name) => {
    const owner = owners.get(name) ?? file;
    return owner !== file && names[owner]!.has(name);
  };
}

// ---- The index ----------------------------------------------------------------------------------------------------------

/** An index. */
export interface Index {
  /** What it is called. */
  path: string;
  /** Tensors in its order; by number: the file, and the byte at which the name is. */
  tensors: readonly string[];
  tensorFiles: Uint32Array;
  positions: Uint32Array;
  /** Files, in order of their names. */
  files: readonly string[];
  /** Bytes that most likely hold all of a file's header: how long the names of its tensors are is known. */
  headSizes: ReadonlyMap<string, number>;
  metadata: Readonly<Record<string, unknown>> | undefined;
  /** What it states, and where; the value is undefined when it is no whole number. */
  totalSize: { value: Integer | undefined; offset: Integer } | undefined;
  /** The texts of what it records of the model's content and of its files; undefined: nothing, or null. */
  contentDigest: string | undefined;
  shardDigests: string | undefined;
}

const NO_OFFSET = 0xffff_ffff_ffff_ffffn;

function totalSize(core: ModelCore): Index["totalSize"] {
  const offset = core.u64(AT.totalSizeAt);
  if (offset === NO_OFFSET) {
    return undefined;
  }
  const value = core.u32(AT.totalSizeIsRead) === 0 ? undefined : integer(core.u64(AT.totalSize));
  return { value, offset: integer(offset) };
}

/** The text of a recorded digest, as it is spelt. What is no string counts as an empty one, which is malformed. */
function recordText(core: ModelCore, record: number): string | undefined {
  const [from, size] = [core.u32(AT.records + 8 * record), core.u32(AT.records + 8 * record + 4)];
  const text = core.decode(core.u32(AT.indexMetadata) + from, size);
  if (text === "" || text === "null") {
    return undefined;
  }
  return text.startsWith('"') ? text.slice(1, -1) : "";
}

function metadataOf(core: ModelCore): Readonly<Record<string, unknown>> | undefined {
  const address = core.u32(AT.indexMetadata);
  return address === 0
    ? undefined
    : (JSON.parse(core.decode(address, core.u32(AT.indexMetadataSize))) as Record<string, unknown>);
}

function headSizes(files: readonly string[], tensors: readonly string[], owners: Uint32Array): Map<string, number> {
  const sizes = new Array<number>(files.length).fill(HEAD_BASE);
  for (const [i, tensor] of tensors.entries()) {
    sizes[owners[i]!] = sizes[owners[i]!]! + tensor.length + HEAD_EACH;
  }
  return new Map(files.map((file, i) => [file, Math.min(sizes[i]!, MAX_HEAD)]));
}

/**
 * Reads an index as strictly as the library. With `anyName` its files may be called anything: the caller judges that by
 * rules of its own.
 */
export function parseIndex(bytes: Uint8Array, path: string, anyName = false): Promise<Index> {
  return withModelCore((core) => {
    core.demand(core.exports.coffer_js_index(core.put(bytes), bytes.length, anyName ? 1 : 0), path);
    const [count, fileCount] = [core.u32(AT.entryCount), core.u32(AT.fileCount)];
    const tensors = core.texts(core.u32(AT.entryEnds), count, core.u32(AT.entryNames), core.u32(AT.entryNamesSize));
    const files = core.texts(core.u32(AT.fileEnds), fileCount, core.u32(AT.fileNames), core.u32(AT.fileNamesSize));
    const tensorFiles = core.words(core.u32(AT.entryFiles), count);
    return {
      path,
      tensors,
      tensorFiles,
      positions: core.words(core.u32(AT.entryPositions), count),
      files,
      headSizes: headSizes(files, tensors, tensorFiles),
      metadata: metadataOf(core),
      totalSize: totalSize(core),
      contentDigest: recordText(core, 0),
      shardDigests: recordText(core, 1),
    };
  });
}
