// SPDX-License-Identifier: Apache-2.0
/* Stands for hashes_node.ts where there is no Node: package.json says so to bundlers for browsers. Nothing calls it there. */
import { CofferError } from "./errors.js";
import type { Hasher } from "./hashes.js";

export function nodeHasher(): Hasher {
  throw new CofferError("NO_ALGORITHM", "this is not Node");
}
