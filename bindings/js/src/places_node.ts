// SPDX-License-Identifier: Apache-2.0
/* Paths of Node, Deno and Bun; loaded only when one is opened. */
import { lstat, readdir, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import type { Opened, Place } from "./places.js";
import { FileSource, fileTrouble } from "./source_file.js";

export async function folderPlace(given: string): Promise<Opened> {
  const path = given.startsWith("file:") ? fileURLToPath(given) : given;
  const found = await stat(path).catch((cause: unknown) => {
    throw fileTrouble(cause, path);
  });
  const place = placeAt(found.isDirectory() ? path : dirname(path));
  return found.isDirectory() ? { folder: place } : { file: basename(path), place, source: await FileSource.open(path) };
}

function placeAt(folder: string): Place {
  return {
    name: folder,
    path: (name) => join(folder, name),
    list: () => readdir(folder),
    open: (name) => FileSource.open(join(folder, name)),
    folder: async (name) => ((await isThere(join(folder, name))) ? placeAt(join(folder, name)) : undefined),
    isLeft: (name, files) => isLeft(folder, name, files),
  };
}

async function isThere(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}

const [OTHERS_WRITE, STICKY] = [0o002, 0o1000];

/**
 * Whether a file with the name of what a save leaves is that, by the rules of src/model/pending_save.c: where anybody may make
 * files, anybody can fake such a name. It counts when this user could recover the save, or when its owner has files of the
 * model there.
 */
async function isLeft(folder: string, name: string, files: readonly string[]): Promise<boolean> {
  const [inside, left] = [await stat(folder), await lstat(join(folder, name)).catch(() => undefined)];
  if (!left?.isFile()) {
    return false;
  }
  const user = process.geteuid?.();
  const isSticky = (inside.mode & STICKY) !== 0;
  const isOpen = !isSticky && (inside.mode & OTHERS_WRITE) !== 0;
  const isOwned = user === undefined || left.uid === user || left.uid === inside.uid;
  if ((isOwned || !isSticky) && (isOpen || (left.mode & OTHERS_WRITE) === 0)) {
    return true;
  }
  const owners = await Promise.all(files.map((file) => stat(join(folder, file)).catch(() => undefined)));
  return owners.some((owner) => owner?.uid === left.uid);
}
