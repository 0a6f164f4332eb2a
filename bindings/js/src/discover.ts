// SPDX-License-Identifier: Apache-2.0
/*
 * Which model a folder holds, by the rules of docs/format.md, which the library decides in src/model/folder_names.c:
 *
 *   model.safetensors, else its index; diffusion_pytorch_model.safetensors, else its index
 *   the only index; the only file, or the only set of files, complete, without an index
 *   beside model_index.json, a pipeline: the above of transformer/, else of unet/
 *
 * A set without an index is refused while traces of an interrupted save are beside it.
 */
import { AT, quoted, quotedPath, withModelCore, type ModelCore } from "./core.js";
import { CofferError } from "./errors.js";
import type { Place } from "./places.js";
import { INDEX_ENDING } from "./shards.js";

const FILE_ENDING = ".safetensors";
const PARTS = ["transformer", "unet"];

/** The names that loaders look for, in their order. */
export const USUAL_NAMES = ["model", "diffusion_pytorch_model"].flatMap((name) => [
  name + FILE_ENDING,
  name + FILE_ENDING + INDEX_ENDING,
]);

/** Missing files that a message names. */
const MAX_NAMED = 3;

/** A model's files: one, its index, or a set of them. */
export interface Discovered {
  place: Place;
  files: readonly string[];
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

/** What the library chooses among the names of a folder. */
interface Choice {
  /** The one file, the index, or a set. */
  chosen: readonly string[];
  /** Why nothing was chosen; of files that are missing, the path of the first. */
  error: CofferError | undefined;
  /** There is nothing but the description of a pipeline. */
  isPipeline: boolean;
  /** What a save may have left, and all files of models and indices: where such a save counts, nothing else does. */
  left: readonly string[];
  files: readonly string[];
}

/** The bits of the shim's js_folder. */
const [PIPELINE, DOUBTFUL] = [1, 2];

function isLeft(core: ModelCore, name: string): boolean {
  const { address, size } = core.putText(name);
  return core.exports.coffer_js_folder_is_left(address, size) !== 0;
}

/** `named` is the folder that was to be opened, of which `place` may be a part. */
function choose(place: Place, names: readonly string[], named: Place): Promise<Choice> {
  return withModelCore((core) => {
    const { address, size } = core.putText(names.map((name) => `${name}\0`).join(""));
    const status = core.exports.coffer_js_folder(address, size);
    const error = status === 0 ? undefined : core.error(status);
    if (error?.code === "MEMORY") {
      throw error;
    }
    const [flags = 0, first = 0, count = 0] = core.words(core.exports.coffer_js_folder_reported(), 3);
    const [text, textSize] = [core.u32(AT.fileNames), core.u32(AT.fileNamesSize)];
    const files = core.texts(core.u32(AT.fileEnds), core.u32(AT.fileCount), text, textSize);
    const missing = core.decode(core.u32(AT.bytes), core.u32(AT.bytesSize));
    const path = missing !== "" ? place.path(missing) : error?.code === "NO_MODEL" ? named.name : place.name;
    return {
      chosen: files.slice(first, first + count),
      error: error && core.error(status, path),
      isPipeline: (flags & PIPELINE) !== 0,
      left: (flags & DOUBTFUL) !== 0 ? names.filter((name) => isLeft(core, name)) : [],
      files,
    };
  });
}

/** Fails when a save was interrupted: then the files may be of two models. */
async function assertWhole(place: Place, { left, files }: Choice): Promise<void> {
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

/** The model in a folder whose names are listed. */
export async function discover(folder: Place, names: readonly string[]): Promise<Discovered> {
  let [place, choice] = [folder, await choose(folder, names, folder)];
  await assertWhole(place, choice);
  if (choice.isPipeline) {
    // A part that is a pipeline itself has no model.
    place = await partOf(folder);
    choice = await choose(place, (await place.list()) ?? [], folder);
    await assertWhole(place, choice);
  }
  if (choice.error !== undefined) {
    throw choice.error;
  }
  return { place, files: choice.chosen };
}

/** The folder of a pipeline's main model. */
async function partOf(folder: Place): Promise<Place> {
  for (const part of PARTS) {
    const place = await folder.folder?.(part);
    if (place !== undefined) {
      return place;
    }
  }
  const message = "this is a pipeline of several models, and none is in transformer/ or unet/: name the folder of one";
  throw new CofferError("NO_MODEL", message, { path: folder.name });
}
