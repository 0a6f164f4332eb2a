// SPDX-License-Identifier: Apache-2.0
/*
 * What people hand in → the sources of a model's files. A place is where its files are: it opens one by its name, and it
 * can list them unless it is a server.
 */
import { quoted } from "./core.js";
import { CofferError } from "./errors.js";
import { INDEX_ENDING, INDEX_HEAD } from "./shards.js";
import { BlobSource, MemorySource, type Source } from "./source.js";
import { HttpSource, HUB_URL, withoutSecrets, type HttpOptions } from "./source_http.js";

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
  /** What messages call a file in it, which need not exist. */
  path(name: string): string;
  /** Names of its files; undefined: it cannot say. */
  list(): Promise<string[] | undefined>;
  /** `headSize` are bytes that most likely hold the file's header. */
  open(name: string, headSize?: number): Promise<Source>;
  /** A folder in it; undefined when there is none. */
  folder?(name: string): Promise<Place | undefined>;
  /** Whether a file that is called like what an interrupted save leaves is that; without it, its name is enough. */
  isLeft?(name: string, files: readonly string[]): Promise<boolean>;
}

/** One file, or a folder in which the model has to be found. */
export type Opened = { file: string; place: Place; source?: Source } | { folder: Place };

function isSource(from: object): from is Source {
  const { head, read } = from as Partial<Record<"head" | "read", unknown>>;
  return typeof head === "function" && typeof read === "function";
}

function notOpenable(): TypeError {
  return new TypeError("open takes a path, a URL, a File or Blob, bytes, files, a folder's handle, or a source");
}

function fileName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** A file without others beside it. */
function alone(source: Source): Opened {
  const name = fileName(source.name);
  const place: Place = {
    name: source.name,
    path: (wanted) => wanted,
    list: () => Promise.resolve([name]),
    open: (wanted) =>
      wanted === name
        ? Promise.resolve(source)
        : Promise.reject(
            new CofferError("SHARD_MISSING", "this file of the model was not handed in", {
              path: wanted,
            }),
          ),
  };
  return { file: name, place, source };
}

function filesPlace(name: string, files: ReadonlyMap<string, () => Promise<Source> | Source>): Place {
  return {
    name,
    path: (file) => file,
    list: () => Promise.resolve([...files.keys()]),
    open: async (name) => {
      const file = files.get(name);
      if (file === undefined) {
        throw new CofferError("SHARD_MISSING", "this file of the model was not handed in", { path: name });
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
  const place = filesPlace(folder.name, files);
  const inside = async (name: string) => {
    let part: FileSystemDirectoryHandle | undefined = folder;
    for (const step of name.split("/")) {
      part = await part?.getDirectoryHandle(step).catch(() => undefined);
    }
    return part === undefined ? undefined : handlePlace(part);
  };
  return {
    ...place,
    open: async (name) => {
      const slash = name.indexOf("/");
      const part = slash < 0 ? undefined : await inside(name.slice(0, slash));
      return part === undefined ? place.open(name) : part.open(name.slice(slash + 1));
    },
    folder: inside,
  };
}

/** Whether a folder with these names may hold a model. */
function mayHoldModel(names: Iterable<string>): boolean {
  return [...names].some((name) => /\.safetensors(\.index\.json)?$|^model_index\.json$/.test(name));
}

/**
 * Files that someone chose or dropped. Those of a folder that was chosen (webkitdirectory) say where in it they were:
 * "folder/transformer/config.json". If there is no model at its top, all of them are looked at together.
 */
function chosenPlace(files: readonly (Blob | Source)[]): Place {
  const folders = new Map<string, Map<string, () => Source>>([["", new Map()]]);
  const all = new Map<string, () => Source>();
  for (const file of files) {
    const source = sourceOf(file);
    const whole = (file as Partial<File>).webkitRelativePath ?? "";
    const inside = whole.split("/").slice(1, -1).join("/");
    folders.set(
      inside,
      (folders.get(inside) ?? new Map<string, () => Source>()).set(source.name, () => source),
    );
    all.set(source.name, () => source);
  }
  const top = folders.get("")!;
  const place = filesPlace("the files", mayHoldModel(top.keys()) ? top : all);
  return {
    ...place,
    open: (name) => {
      const slash = name.lastIndexOf("/");
      const part = slash < 0 ? undefined : folders.get(name.slice(0, slash));
      return (part === undefined ? place : filesPlace("", part)).open(fileName(name));
    },
    folder: (name) => {
      const inside = folders.get(name);
      return Promise.resolve(inside === undefined ? undefined : filesPlace(name, inside));
    },
  };
}

function sourceOf(file: Blob | Source): Source {
  return file instanceof Blob ? new BlobSource(file, (file as Partial<File>).name ?? "the blob") : file;
}

/** What is at a URL. `shown` is what messages call it, where that is another text. */
function urlPlace(url: URL, options: HttpOptions, shown?: string): Opened {
  const folder = new URL(".", url);
  const shownFolder = shown?.slice(0, shown.lastIndexOf("/") + 1);
  const open = (file: string, name: string, called: string | undefined, headSize = options.headSize) =>
    new HttpSource(file, { ...options, headSize: name.endsWith(INDEX_ENDING) ? INDEX_HEAD : headSize }, called);
  const place: Place = {
    name: shownFolder ?? withoutSecrets(folder.href),
    path: (name) => place.name + name,
    list: () => Promise.resolve(undefined),
    open: (name, headSize) => {
      const file = new URL(name.split("/").map(encodeURIComponent).join("/"), folder);
      file.search = url.search;
      return Promise.resolve(open(file.href, name, shownFolder && shownFolder + name, headSize));
    },
  };
  const name = plainText(fileName(url.pathname));
  return name === "" ? { folder: place } : { file: name, place, source: open(url.href, name, shown) };
}

/** A part of a URL without its escapes, if they are any. */
function plainText(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * hf://[datasets/|spaces/]owner/name[@revision][/file], and without an owner hf://name@revision[/file]. A slash at the end
 * says that it is a folder, and so is the repository itself.
 */
async function hubPlace(text: string, options: HttpOptions): Promise<Opened> {
  const part = String.raw`(?!\.\.?(?:[/@]|$))[^/@\\\x00-\x1f\x7f]+`;
  const form = new RegExp(
    `^hf://(datasets/|spaces/)?(?:(${part})/(${part})|(${part})(?=@))(?:@(refs/[^/]+/[^/]+|[^/]+))?(?:/(.*))?$`,
    "s",
  );
  const parts = form.exec(text);
  const [, kind = "", owner, owned, alone, stated = "main", file = ""] = parts ?? [];
  const revision = stated.replace(/%2f/gi, "/");
  const isPath = (path: string) => path.split("/").every((component) => isComponent(component));
  if (parts === null || !isPath(revision) || !(file === "" || isPath(file.replace(/\/$/, "")))) {
    const message = `${await quoted(text)} is neither hf://owner/name[@revision][/file] nor, without an owner, hf://name@revision[/file]`;
    throw new CofferError("URL", message, { path: text });
  }
  const repository = alone === undefined ? `${owner}/${owned}` : alone;
  const encoded = (path: string) => path.split("/").map(encodeURIComponent).join("/");
  const root = `${options.hubUrl ?? HUB_URL}/${kind}${encoded(repository)}/resolve/${encodeURIComponent(revision)}/`;
  const token = options.accessToken ?? "";
  const headers = token === "" ? options.headers : { ...options.headers, Authorization: `Bearer ${token}` };
  return urlPlace(
    new URL(root + encoded(file)),
    { ...options, headers },
    file === "" ? text.replace(/\/?$/, "/") : text,
  );
}

function isComponent(text: string): boolean {
  return text !== "" && !/^\.\.?$|[\\\x00-\x1f\x7f]/.test(text);
}

async function pathPlace(path: string): Promise<Opened> {
  const { folderPlace } = await import("./places_node.js");
  return folderPlace(path);
}

/** Whether a program has paths here: Node, Deno, Bun. Bundlers give pages a `process` of their own, without versions. */
export function hasPaths(): boolean {
  const { process, Deno } = globalThis as { process?: { versions?: { node?: string } }; Deno?: unknown };
  return process?.versions?.node !== undefined || Deno !== undefined;
}

/** What relative URLs are relative to; undefined where there is no page, but paths. */
function pageUrl(): string | undefined {
  const { document, location } = globalThis as Partial<typeof globalThis>;
  return hasPaths() ? undefined : (document?.baseURI ?? location?.href);
}

/** A URL that someone wrote. */
function urlOf(text: string, base: string | undefined): URL {
  try {
    return new URL(text, base);
  } catch (cause) {
    throw new CofferError("URL", "this is not a URL", { path: text, cause });
  }
}

/** What a URL with another scheme is: nothing that can be opened, and no path either. */
function otherScheme(text: string): CofferError {
  return new CofferError("URL", "only URLs that begin with https:, http:, hf: or file: can be opened", { path: text });
}

export async function placeOf(from: Openable, options: HttpOptions): Promise<Opened> {
  if (typeof from === "string") {
    const page = pageUrl();
    if (from.startsWith("hf://")) {
      return hubPlace(from, options);
    }
    if (/^(?!https?:|file:)[a-z][a-z0-9+.-]+:\/\//i.test(from)) {
      throw otherScheme(from);
    }
    if (/^https?:\/\//i.test(from) || page !== undefined) {
      return urlPlace(urlOf(from, page), options);
    }
    return pathPlace(from);
  }
  if (from instanceof URL) {
    if (from.protocol === "hf:") {
      return hubPlace(from.href, options);
    }
    if (from.protocol === "file:") {
      return pathPlace(from.href);
    }
    if (!/^https?:$/.test(from.protocol)) {
      throw otherScheme(from.href);
    }
    return urlPlace(from, options);
  }
  if (typeof from !== "object" || (from as unknown) === null) {
    throw notOpenable();
  }
  if (from instanceof Blob) {
    return alone(new BlobSource(from, "name" in from ? String(from.name) : "the blob"));
  }
  if (
    from instanceof ArrayBuffer ||
    (globalThis.SharedArrayBuffer !== undefined && from instanceof SharedArrayBuffer)
  ) {
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
  const files: readonly unknown[] = Symbol.iterator in from ? [...from] : [undefined];
  if (!files.every(isFile)) {
    throw notOpenable();
  }
  return files.length === 1 ? alone(sourceOf(files[0]!)) : { folder: chosenPlace(files) };
}

function isFile(file: unknown): file is Blob | Source {
  return file instanceof Blob || (typeof file === "object" && file !== null && isSource(file));
}
