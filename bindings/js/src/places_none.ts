// SPDX-License-Identifier: Apache-2.0
/* Stands for places_node.ts where there are no paths: package.json says so to bundlers for browsers. */
import { CofferError } from "./errors.js";
import type { Opened } from "./places.js";

export function folderPlace(path: string): Promise<Opened> {
  const message = "a browser cannot open a path: hand in the file that was chosen or dropped, or its URL";
  return Promise.reject(new CofferError("UNSUPPORTED", message, { path }));
}
