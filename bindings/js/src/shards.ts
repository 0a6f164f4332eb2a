// SPDX-License-Identifier: Apache-2.0
/*
 * Models of several files: the grammar of their names, the file among others that is the model, and the index. What an
 * index names is untrusted: it may name files in its own folder and nothing else.
 */
import { decodeText } from "./core.js";
import { CofferError } from "./errors.js";

export const INDEX_ENDING = ".index.json";

/*
 * What a header has besides names: metadata, and for each tensor the fields and the numbers, which in a file of 5 GB take
 * less than this: "":{"dtype":"F8_E4M3","shape":[16384,16384],"data_offsets":[4000000000,4000000000]},
 */
const HEAD_BASE = 2048;
const HEAD_EACH = 96;
const MOST_HEAD = 4 << 20;

/** What is asked of an index at first: nearly every one is smaller. */
export const INDEX_HEAD = 8 << 20;

/** Limits of an index. */
export const MOST_INDEX_BYTES = 250_000_000;
const MOST_FILES = 100_000;

const USUAL_NAMES = [
  "model.safetensors",
  "model.safetensors.index.json",
  "diffusion_pytorch_model.safetensors",
  "diffusion_pytorch_model.safetensors.index.json",
];
const SHARD_NAME = /^(.*)-(\d{5,6})-of-(\d{5,6})\.safetensors$/s;
const TENSOR_FILE = /\.(safetensors|bt|bintensors)$/;

/** Files that are named like those of an index, and are none of them. */
export function extraShards(names: readonly string[], files: readonly string[]): string[] {
  const prefixes = new Set(files.map((file) => SHARD_NAME.exec(file)?.[1]));
  const known = new Set(files);
  return names.filter((name) => SHARD_NAME.test(name) && prefixes.has(SHARD_NAME.exec(name)![1]) && !known.has(name));
}

/** The files that the model in a folder consists of: one, an index, or a set of shards without one. */
export function chooseModel(names: readonly string[], folder: string): readonly string[] {
  const usual = USUAL_NAMES.find((name) => names.includes(name));
  if (usual !== undefined) {
    return [usual];
  }
  const indices = names.filter((name) => name.endsWith(`.safetensors${INDEX_ENDING}`)).sort();
  const files = indices.length > 0 ? indices : names.filter((name) => TENSOR_FILE.test(name)).sort();
  if (files.length === 0) {
    throw new CofferError("NO_MODEL", "this folder has no model: no .safetensors file, and no index of several", {
      path: folder,
    });
  }
  const set = (name: string) =>
    (([, prefix, , total]) => `${prefix}\n${total}`)(SHARD_NAME.exec(name) ?? ["", name, "", ""]);
  const other = files.find((name) => set(name) !== set(files[0]!));
  if (other !== undefined || indices.length > 1) {
    throw new CofferError(
      "AMBIGUOUS",
      `there are several models, ${files[0]} and ${other ?? files[1]}: name one of them`,
      {
        path: folder,
      },
    );
  }
  checkSet(files, folder);
  return files;
}

/** Shards without an index: all that their names speak of have to be there. */
function checkSet(files: readonly string[], folder: string): void {
  const total = Number(SHARD_NAME.exec(files[0]!)?.[3] ?? files.length);
  if (files.length !== total) {
    throw new CofferError("SHARD_MISSING", `of the model's ${total} files, ${files.length} are there`, {
      path: folder,
      expected: total,
      actual: files.length,
    });
  }
}

/** An index. */
export interface Index {
  /** File of each tensor. */
  weightMap: ReadonlyMap<string, string>;
  /** Files, in order of their names. */
  files: readonly string[];
  /** Bytes that most likely hold all of a file's header: how long the names of its tensors are is known. */
  headSizes: ReadonlyMap<string, number>;
  metadata: Readonly<Record<string, unknown>> | undefined;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether a name is simply that of a file: what leads elsewhere, also when someone decodes it first, is not. */
export function isPlainName(name: string): boolean {
  let decoded = name;
  for (let round = 0; round < 8; round++) {
    if (decoded === "" || /[/\\:\x00-\x1f\x7f?#]/.test(decoded) || /^\.*$/.test(decoded)) {
      return false;
    }
    const before = decoded;
    try {
      decoded = decodeURIComponent(before);
    } catch {
      return true;
    }
    if (decoded === before) {
      return true;
    }
  }
  return false;
}

/** Fails when a name is not plainly that of a file beside the index. */
function assertPlainName(name: string): void {
  if (!isPlainName(name)) {
    const message = `the index names ${JSON.stringify(name)}, which is not simply a file in its folder`;
    throw new CofferError("SHARD_NAME", message);
  }
}

export function parseIndex(bytes: Uint8Array, path: string, assertName = assertPlainName): Index {
  let json: unknown;
  try {
    json = JSON.parse(decodeText(bytes));
  } catch (cause) {
    throw new CofferError("JSON", `the index is not JSON: ${(cause as Error).message}`, { path, cause });
  }
  if (!isObject(json)) {
    throw new CofferError("TYPE", "an index is an object", { path });
  }
  if (json.weight_map === undefined) {
    throw new CofferError("MISSING_FIELD", "the index has no weight_map: it is none of a model of several files", {
      path,
    });
  }
  if (!isObject(json.weight_map)) {
    throw new CofferError("TYPE", "the index's weight_map is not an object", { path });
  }
  const weightMap = new Map<string, string>();
  const headSizes = new Map<string, number>();
  for (const [tensor, file] of Object.entries(json.weight_map)) {
    if (typeof file !== "string") {
      throw new CofferError("TYPE", `in the index's weight_map, a file is not a text`, { path, tensor });
    }
    weightMap.set(tensor, file);
    headSizes.set(file, Math.min((headSizes.get(file) ?? HEAD_BASE) + tensor.length + HEAD_EACH, MOST_HEAD));
  }
  const files = [...new Set(weightMap.values())].sort();
  files.forEach(assertName);
  if (files.length > MOST_FILES) {
    throw new CofferError(
      "INDEX_TOO_LARGE",
      `the index names ${files.length} files, and at most ${MOST_FILES} are read`,
      {
        path,
      },
    );
  }
  return { weightMap, files, headSizes, metadata: isObject(json.metadata) ? json.metadata : undefined };
}

/** Whether the names of files state another number of them than there are. */
export function isMiscounted(files: readonly string[]): boolean {
  const seen = new Map<string, { total: number; count: number }>();
  for (const name of files) {
    const [, prefix, , total] = SHARD_NAME.exec(name) ?? [];
    if (total !== undefined) {
      const set = seen.get(`${prefix}\n${total}`) ?? { total: Number(total), count: 0 };
      set.count++;
      seen.set(`${prefix}\n${total}`, set);
    }
  }
  return [...seen.values()].some(({ total, count }) => total !== count);
}
