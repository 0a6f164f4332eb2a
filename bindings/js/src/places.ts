// SPDX-License-Identifier: Apache-2.0
/*
 * What people hand in → the sources of a model's files. A place is where its files are: it opens one by its name, and it
 * can list them unless it is a server.
 */
import { CofferError } from "./errors.js";
import { INDEX_ENDING, INDEX_HEAD } from "./shards.js";
import { BlobSource, MemorySource, type Source } from "./source.js";
import { HttpSource, type HttpOptions } from "./source_http.js";

/**
 * What can be opened. A string is a URL where it begins as one; otherwise it is a path in Node, Deno and Bun, and relative to
 * the page in browsers.
 */
export type Openable =
  | string
  | URL
  | Blob
  | ArrayBuffer
  | ArrayBufferView
  | Source
  | FileSystemFileHandle
  | FileSystemDirectoryHandle
  | Iterable<File | Source>;

export interface Place {
  /** What messages call it. */
  readonly name: string;
  /** Names of its files; undefined: it cannot say. */
  list(): Promise<string[] | undefined>;
  /** `headSize` are bytes that most likely hold the file's header. */
  open(name: string, headSize?: number): Promise<Source>;
}

/** One file, or a folder in which the model has to be found. */
export type Opened = { file: string; place: Place; source?: Source } | { folder: Place };

function isSource(from: object): from is Source {
  return "head" in from && "read" in from;
}

function fileName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** A file without others beside it. */
function alone(source: Source): Opened {
  const name = fileName(source.name);
  const place: Place = {
    name: source.name,
    list: () => Promise.resolve([name]),
    open: (wanted) =>
      wanted === name
        ? Promise.resolve(source)
        : Promise.reject(
            new CofferError("SHARD_MISSING", `of the model's files, ${wanted} was not handed in`, {
              path: source.name,
            }),
          ),
  };
  return { file: name, place, source };
}

function filesPlace(files: ReadonlyMap<string, () => Promise<Source> | Source>): Place {
  return {
    name: "the files",
    list: () => Promise.resolve([...files.keys()]),
    open: async (name) => {
      const file = files.get(name);
      if (file === undefined) {
        throw new CofferError("SHARD_MISSING", `of the model's files, this one was not handed in`, {
          path: name,
        });
      }
      return file();
    },
  };
}

async function handlePlace(folder: FileSystemDirectoryHandle): Promise<Place> {
  const files = new Map<string, () => Promise<Source>>();
  const entries = folder as unknown as AsyncIterable<[string, FileSystemFileHandle | FileSystemDirectoryHandle]>;
  for await (const [name, handle] of entries) {
    if (handle.kind === "file") {
      files.set(name, async () => new BlobSource(await handle.getFile(), name));
    }
  }
  return { ...filesPlace(files), name: folder.name };
}

function urlPlace(url: URL, options: HttpOptions): Opened {
  const folder = new URL(".", url);
  const open = (file: string, name: string, headSize = options.headSize) =>
    new HttpSource(file, { ...options, headSize: name.endsWith(INDEX_ENDING) ? INDEX_HEAD : headSize });
  const place: Place = {
    name: folder.href,
    list: () => Promise.resolve(undefined),
    open: (name, headSize) => {
      const file = new URL(encodeURIComponent(name), folder);
      file.search = url.search;
      return Promise.resolve(open(file.href, name, headSize));
    },
  };
  const name = decodeURIComponent(fileName(url.pathname));
  return name === "" ? { folder: place } : { file: name, place, source: open(url.href, name) };
}

async function pathPlace(path: string): Promise<Opened> {
  const { folderPlace } = await import("./places_node.js");
  return folderPlace(path);
}

/** What relative URLs are relative to; undefined where there is no page, but paths. */
function pageUrl(): string | undefined {
  const { process, Deno, document, location } = globalThis as Partial<typeof globalThis> & { Deno?: unknown };
  return process?.versions.node !== undefined || Deno !== undefined ? undefined : (document?.baseURI ?? location?.href);
}

export async function placeOf(from: Openable, options: HttpOptions): Promise<Opened> {
  if (typeof from === "string") {
    const page = pageUrl();
    if (/^https?:\/\//i.test(from) || page !== undefined) {
      return urlPlace(new URL(from, page), options);
    }
    return pathPlace(from);
  }
  if (from instanceof URL) {
    return /^https?:$/.test(from.protocol) ? urlPlace(from, options) : pathPlace(from.href);
  }
  if (from instanceof Blob) {
    return alone(new BlobSource(from, "name" in from ? String(from.name) : "the blob"));
  }
  if (from instanceof ArrayBuffer) {
    return alone(new MemorySource(new Uint8Array(from), "the buffer"));
  }
  if (ArrayBuffer.isView(from)) {
    return alone(new MemorySource(new Uint8Array(from.buffer, from.byteOffset, from.byteLength), "the buffer"));
  }
  if (isSource(from)) {
    return alone(from);
  }
  if ("kind" in from) {
    return from.kind === "file"
      ? alone(new BlobSource(await from.getFile(), from.name))
      : { folder: await handlePlace(from) };
  }
  const sources = Array.from(from, (file) => (isSource(file) ? file : new BlobSource(file, file.name)));
  if (sources.length === 1) {
    return alone(sources[0]!);
  }
  return { folder: filesPlace(new Map(sources.map((source) => [source.name, () => source]))) };
}
