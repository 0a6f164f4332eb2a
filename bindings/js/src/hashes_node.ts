// SPDX-License-Identifier: Apache-2.0
/* SHA-256 of Node, Deno and Bun; loaded only when it is used. */
import { createHash } from "node:crypto";

import type { Hasher } from "./hashes.js";

export function nodeHasher(): Hasher {
  let hash = createHash("sha256");
  return {
    update(bytes) {
      hash.update(bytes);
    },
    finish() {
      const digest = new Uint8Array(hash.digest());
      hash = createHash("sha256");
      return digest;
    },
  };
}
