// SPDX-License-Identifier: Apache-2.0
/*
 * Digests of bytes. SHA-256 of what fits into memory is the platform's (SubtleCrypto), which uses the processor's own
 * instructions; of what is longer it is Node's, or else the library's in model.wasm, piece by piece. XXH3 is the library's.
 */
import { AT, withModelCore, type ModelCore } from "./core.js";
import { hasPaths } from "./places.js";

export type Algorithm = "sha256" | "xxh3-128";

/** The library's numbers of the algorithms, and the bytes of their digests. */
const ALGORITHMS: Readonly<Record<Algorithm, { number: number; size: number }>> = {
  sha256: { number: 1, size: 32 },
  "xxh3-128": { number: 2, size: 16 },
};

export function isAlgorithm(name: string | undefined): name is Algorithm {
  return name === "sha256" || name === "xxh3-128";
}

export function digestSize(algorithm: Algorithm): number {
  return ALGORITHMS[algorithm].size;
}

/** Digests of bytes that come in pieces, one digest after the other. */
export interface Hasher {
  update(bytes: Uint8Array): void;
  /** The digest of all since the last one. */
  finish(): Uint8Array;
}

/** Bytes that go into the module at a time. */
const WINDOW = 1 << 20;

class ModuleHasher implements Hasher {
  readonly #core: ModelCore;
  readonly #window: number;

  constructor(core: ModelCore, algorithm: Algorithm) {
    core.demand(core.exports.coffer_js_hash_new(ALGORITHMS[algorithm].number));
    this.#core = core;
    this.#window = core.alloc(WINDOW);
  }

  update(bytes: Uint8Array): void {
    const core = this.#core;
    for (let at = 0; at < bytes.length; at += WINDOW) {
      const piece = bytes.subarray(at, at + WINDOW);
      new Uint8Array(core.buffer, this.#window, piece.length).set(piece);
      core.demand(core.exports.coffer_js_hash_update(this.#window, piece.length));
    }
  }

  finish(): Uint8Array {
    const core = this.#core;
    core.demand(core.exports.coffer_js_hash_finish());
    return core.bytes(core.u32(AT.bytes), core.u32(AT.bytesSize));
  }
}

/** Does a job with a hasher of its own. */
export function withHasher<T>(algorithm: Algorithm, job: (hasher: Hasher) => T | Promise<T>): Promise<T> {
  return withModelCore((core) => job(new ModuleHasher(core, algorithm)));
}

/** The same for much: by Node's SHA-256, where that is. */
export async function withFastHasher<T>(algorithm: Algorithm, job: (hasher: Hasher) => Promise<T>): Promise<T> {
  if (algorithm === "sha256" && hasPaths()) {
    const { nodeHasher } = await import("./hashes_node.js");
    return job(nodeHasher());
  }
  return withHasher(algorithm, job);
}

/** The digest of bytes that are there, by the platform where it has one; `hasher` is of the same algorithm. */
export async function digestOf(algorithm: Algorithm, bytes: Uint8Array, hasher: Hasher): Promise<Uint8Array> {
  // Pages that are not from https have no SubtleCrypto.
  const { crypto } = globalThis as { crypto?: Partial<Crypto> };
  if (algorithm === "sha256" && crypto?.subtle !== undefined) {
    return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>));
  }
  hasher.update(bytes);
  return hasher.finish();
}
