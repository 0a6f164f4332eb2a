// SPDX-License-Identifier: Apache-2.0
/* A file of Node, Deno or Bun. Only this file needs them, and it is loaded only when a path is opened. */
import { open, type FileHandle } from "node:fs/promises";

import { CofferError } from "./errors.js";
import type { Integer } from "./integers.js";
import { changed, HEAD_SIZE, type Source } from "./source.js";

const CODES = { ENOENT: "NOT_FOUND", ENOTDIR: "NOT_FOUND", EISDIR: "DIRECTORY" } as const;

export function fileTrouble(cause: unknown, path: string): CofferError {
  const errno = (cause as { code?: keyof typeof CODES }).code;
  const code = errno === undefined ? "IO" : (CODES[errno] ?? "IO");
  const words = {
    NOT_FOUND: "there is no such file",
    DIRECTORY: "this is a folder, not a file",
    IO: `cannot be read (${errno})`,
  };
  return new CofferError(code, words[code], { path, cause });
}

export class FileSource implements Source {
  readonly name: string;
  readonly size: number;
  readonly #file: FileHandle;
  #isClosed = false;

  private constructor(name: string, file: FileHandle, size: number) {
    this.name = name;
    this.#file = file;
    this.size = size;
  }

  static async open(path: string): Promise<FileSource> {
    let file: FileHandle | undefined;
    try {
      file = await open(path, "r");
      const stat = await file.stat();
      if (!stat.isFile()) {
        throw new CofferError(
          stat.isDirectory() ? "DIRECTORY" : "NOT_REGULAR",
          stat.isDirectory()
            ? "this is a folder, not a file"
            : "this is not a regular file, and cannot be read in parts",
          { path },
        );
      }
      return new FileSource(path, file, stat.size);
    } catch (cause) {
      await file?.close();
      throw cause instanceof CofferError ? cause : fileTrouble(cause, path);
    }
  }

  head(signal?: AbortSignal): Promise<Uint8Array> {
    return this.read(0, Math.min(this.size, HEAD_SIZE), signal);
  }

  async read(offset: Integer, size: number, signal?: AbortSignal): Promise<Uint8Array> {
    if (this.#isClosed) {
      throw new CofferError("ARGUMENT", "the model was closed, and cannot be read any more", { path: this.name });
    }
    const bytes = new Uint8Array(size);
    let used = 0;
    while (used < size) {
      signal?.throwIfAborted();
      const { bytesRead } = await this.#file
        .read(bytes, used, size - used, Number(offset) + used)
        .catch((cause: unknown) => {
          throw fileTrouble(cause, this.name);
        });
      if (bytesRead === 0) {
        throw changed(this.name, "it became shorter");
      }
      used += bytesRead;
    }
    return bytes;
  }

  close(): Promise<void> {
    this.#isClosed = true;
    return this.#file.close();
  }
}
