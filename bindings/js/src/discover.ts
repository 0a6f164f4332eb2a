// SPDX-License-Identifier: Apache-2.0
/*
 * Which model a folder holds, by the rules of docs/format.md, which the library has in src/model/discover.c:
 *
 *   model.safetensors, else its index; diffusion_pytorch_model.safetensors, else its index
 *   the only index; the only file, or the only set of files, complete, without an index
 *   beside model_index.json, a pipeline: the above of transformer/, else of unet/
 *
 * A set without an index is refused while traces of an interrupted save are beside it.
 */
import { quoted, quotedPath } from "./core.js";
import { CofferError, type ErrorDetails } from "./errors.js";
import { compareBytes } from "./order.js";
import type { Place } from "./places.js";
import { INDEX_ENDING, readShardName } from "./shards.js";

const FILE_ENDING = ".safetensors";
const FULL_INDEX_ENDING = FILE_ENDING + INDEX_ENDING;
const PIPELINE = "model_index.json";
const PARTS = ["transformer", "unet"];

/** The names that loaders look for, in their order. */
export const USUAL_NAMES = ["model", "diffusion_pytorch_model"].flatMap((name) => [
  name + FILE_ENDING,
  name + FULL_INDEX_ENDING,
]);

/** Missing files that a message names. */
const MAX_NAMED = 3;

/** A model's files: one, its index, or a set of them. */
export interface Discovered {
  place: Place;
  files: readonly string[];
}

function endsIn(name: string, ending: string): boolean {
  return name.length > ending.length && name.endsWith(ending);
}

/** Whether two names are of one set; a name of none is of no set. */
function isSameSet(a: string, b: string): boolean {
  const set = setOf(a);
  return set !== undefined && set === setOf(b);
}

/** What the names of a set have in common. */
function setOf(name: string): string | undefined {
  const parts = readShardName(name);
  return parts && `${parts.digits} ${parts.total} ${parts.prefix}`;
}

async function ambiguous(first: string, second: string, what: string, path: string): Promise<CofferError> {
  const message =
    `this folder has more than one model, and it is unclear which is meant: ${what} ${await quoted(first)} and ` +
    `${await quoted(second)}, for example; name the file or the index`;
  return new CofferError("AMBIGUOUS", message, { path });
}

function noModel(message: string, path: string): CofferError {
  return new CofferError("NO_MODEL", message, { path });
}

/** Fails when a save was interrupted: then the files may be of two models. */
async function assertWhole(place: Place, names: readonly string[], files: readonly string[]): Promise<void> {
  const left = names.filter((name) => /.\.safetensors\.index\.json\.coffer-(ready|old)$/s.test(name));
  for (const name of left) {
    if ((await place.isLeft?.(name, files)) ?? true) {
      const model = place.path(name.slice(0, name.lastIndexOf(INDEX_ENDING)));
      const message =
        "a model is being saved in this folder, or a save was interrupted, and the index is not in place: save it again, " +
        `or finish with: coffer meta --recover ${await quotedPath(model)}`;
      throw new CofferError("UNFINISHED", message, { path: place.name });
    }
  }
}

/** Words about files that are missing, of which `missing` are the first few; `why` they may be. */
export async function missingWords(
  missing: readonly string[],
  count: number,
  total: number,
  why: string,
): Promise<string> {
  if (count === 1) {
    return `this file of the model does not exist: ${why}`;
  }
  const named = await Promise.all(missing.slice(0, MAX_NAMED).map(quoted));
  const last = count > MAX_NAMED ? `${count - MAX_NAMED} more` : named.pop();
  const list = named.length > 0 ? `${named.join(", ")} and ${last}` : last;
  return `${count} of the model's ${total} files do not exist: ${why}: ${list}`;
}

/** Fails when a set has gaps. Names of a set differ in their numbers only, so as many as the total are all of them. */
async function assertComplete(place: Place, files: readonly string[]): Promise<void> {
  const { prefix, digits, total } = readShardName(files[0]!)!;
  const count = total - files.length;
  if (count === 0) {
    return;
  }
  const there = new Set(files.map((file) => readShardName(file)!.number));
  const missing: string[] = [];
  for (let number = 1; missing.length < MAX_NAMED && number <= total; number++) {
    if (!there.has(number)) {
      const pad = (value: number) => String(value).padStart(digits, "0");
      missing.push(`${prefix}${pad(number)}-of-${pad(total)}${FILE_ENDING}`);
    }
  }
  const details: ErrorDetails = { path: place.path(missing[0]!), expected: total, actual: files.length };
  const incomplete = "the download is incomplete";
  const why =
    count === 1 ? `${files.length} of ${total} files that are named like it exist; ${incomplete}` : incomplete;
  const message = await missingWords(missing, count, total, why);
  throw new CofferError("SHARD_MISSING", message, details);
}

/** The only index, file or set. An index says itself which files are the model's, whatever else is there. */
async function chooseOnly(place: Place, names: readonly string[], files: readonly string[]): Promise<string[]> {
  const indices = files.filter((name) => endsIn(name, FULL_INDEX_ENDING));
  if (indices.length > 1) {
    throw await ambiguous(indices[0]!, indices[1]!, "the indices", place.name);
  }
  if (indices.length === 1) {
    return indices;
  }
  const isSet = readShardName(files[0]!) !== undefined;
  if (isSet || files.length > 1) {
    await assertWhole(place, names, files);
  }
  const other = files.slice(1).find((name) => !isSameSet(files[0]!, name));
  if (other !== undefined) {
    throw await ambiguous(files[0]!, other, "there are", place.name);
  }
  if (isSet) {
    await assertComplete(place, files);
  }
  return [...files];
}

/** The model in one folder; undefined when the folder has only the description of a pipeline. */
async function discoverIn(place: Place, listed: readonly string[]): Promise<string[] | undefined> {
  const names = listed.filter((name) => !name.startsWith("."));
  const files = names.filter((name) => endsIn(name, FILE_ENDING) || endsIn(name, FULL_INDEX_ENDING)).sort(compareBytes);
  const usual = USUAL_NAMES.find((name) => files.includes(name));
  if (usual !== undefined) {
    return [usual];
  }
  if (files.length > 0) {
    return chooseOnly(place, names, files);
  }
  await assertWhole(place, names, files);
  return names.includes(PIPELINE) ? undefined : [];
}

const NOTHING = "this folder has no model: there is no .safetensors file in it, and no index of several";

/** The model in a folder whose names are listed. */
export async function discover(folder: Place, names: readonly string[]): Promise<Discovered> {
  const files = await discoverIn(folder, names);
  if (files !== undefined && files.length > 0) {
    return { place: folder, files };
  }
  if (files !== undefined) {
    throw noModel(NOTHING, folder.name);
  }
  for (const part of PARTS) {
    const place = await folder.folder?.(part);
    if (place !== undefined) {
      const found = await discoverIn(place, (await place.list()) ?? []);
      // A part that is a pipeline itself has no model.
      if (found === undefined || found.length === 0) {
        throw noModel(NOTHING, folder.name);
      }
      return { place, files: found };
    }
  }
  throw noModel(
    "this is a pipeline of several models, and none is in transformer/ or unet/: name the folder of one",
    folder.name,
  );
}
