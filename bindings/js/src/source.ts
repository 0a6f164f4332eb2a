// SPDX-License-Identifier: Apache-2.0
/*
 * Where bytes come from: memory, a Blob or File, a file of Node, or a URL. A source knows nothing of tensors.
 */
import { CofferError } from "./errors.js";
import type { Integer } from "./integers.js";

/** Random-access bytes. The caller may bring one of its own. */
export interface Source {
  /** What messages call it. */
  readonly name: string;
  /** Bytes of the whole; undefined as long as that is not known. */
  readonly size: number | undefined;
  /** Its first bytes, as many as one cheap read gives: all of them when there are fewer. */
  head(signal?: AbortSignal): Promise<Uint8Array>;
  /** Exactly `size` bytes from `offset` on, or an error. What takes its time may say how many of them are there. */
  read(offset: Integer, size: number, signal?: AbortSignal, progress?: (done: number) => void): Promise<Uint8Array>;
  /** Ends the use of what it holds, if that is anything. */
  close?(): Promise<void>;
}

/** What a head reads: nearly every header fits. */
export const HEAD_SIZE = 96 << 10;

export function changed(name: string, what: string): CofferError {
  return new CofferError("CHANGED", `the file changed while it was read: ${what}; read it again`, { path: name });
}

/** Bytes that are in memory. */
export class MemorySource implements Source {
  readonly name: string;
  readonly size: number;
  readonly #bytes: Uint8Array;

  constructor(bytes: Uint8Array, name: string) {
    this.name = name;
    this.size = bytes.length;
    this.#bytes = bytes;
  }

  head(): Promise<Uint8Array> {
    return Promise.resolve(this.#bytes.subarray(0, HEAD_SIZE));
  }

  read(offset: Integer, size: number): Promise<Uint8Array> {
    return Promise.resolve(this.#bytes.subarray(Number(offset), Number(offset) + size));
  }
}

/** A Blob, or a File that someone chose or dropped. Only what is asked for is read. */
export class BlobSource implements Source {
  readonly name: string;
  readonly size: number;
  readonly #blob: Blob;

  constructor(blob: Blob, name: string) {
    this.name = name;
    this.size = blob.size;
    this.#blob = blob;
  }

  head(signal?: AbortSignal): Promise<Uint8Array> {
    return this.read(0, Math.min(this.size, HEAD_SIZE), signal);
  }

  async read(offset: Integer, size: number, signal?: AbortSignal): Promise<Uint8Array> {
    signal?.throwIfAborted();
    const from = Number(offset);
    let bytes: Uint8Array;
    try {
      bytes = new Uint8Array(await this.#blob.slice(from, from + size).arrayBuffer());
    } catch (cause) {
      throw new CofferError("IO", "the file cannot be read; choose it again", { path: this.name, cause });
    }
    signal?.throwIfAborted();
    if (bytes.length !== size) {
      throw changed(this.name, "it became shorter");
    }
    return bytes;
  }
}
