// SPDX-License-Identifier: Apache-2.0
/* Paths of Node, Deno and Bun; loaded only when one is opened. */
import { readdir, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import type { Opened, Place } from "./places.js";
import { FileSource, fileTrouble } from "./source_file.js";

export async function folderPlace(given: string): Promise<Opened> {
  const path = given.startsWith("file:") ? fileURLToPath(given) : given;
  const found = await stat(path).catch((cause: unknown) => {
    throw fileTrouble(cause, path);
  });
  const folder = found.isDirectory() ? path : dirname(path);
  const place: Place = {
    name: folder,
    list: () => readdir(folder),
    open: (name) => FileSource.open(join(folder, name)),
  };
  return found.isDirectory() ? { folder: place } : { file: basename(path), place, source: await FileSource.open(path) };
}
