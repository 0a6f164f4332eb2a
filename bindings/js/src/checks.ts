// SPDX-License-Identifier: Apache-2.0
/* What callers hand in is checked where TypeScript's types do not reach: many callers are JavaScript. */
import { CofferError } from "./errors.js";
import type { Source } from "./source.js";
import type { Integer } from "./integers.js";

const MAX = 0xffff_ffff_ffff_ffffn;

function shown(value: unknown): string {
  if (value === undefined || value === null || typeof value === "number" || typeof value === "bigint") {
    return String(value);
  }
  return `${typeof value === "object" ? "an" : "a"} ${typeof value}`;
}

/** A whole number of 64 bits. */
export function unsigned(value: unknown, what: string): bigint {
  const isWhole = typeof value === "bigint" || Number.isSafeInteger(value);
  const number = isWhole ? BigInt(value as Integer) : -1n;
  if (number < 0n || number > MAX) {
    throw new CofferError("ARGUMENT", `${what} is a whole number from 0 to 2^64 - 1, not ${shown(value)}`);
  }
  return number;
}

/** A text that UTF-8 can have: what is not well formed would become another text. */
export function wellFormed(value: unknown, what: string): string {
  if (typeof value !== "string") {
    throw new CofferError("ARGUMENT", `${what} is a text, not ${shown(value)}`);
  }
  if (/\p{Surrogate}/u.test(value)) {
    throw new CofferError("UTF8", `${what} ${JSON.stringify(value)} has half of a surrogate pair`, { tensor: value });
  }
  return value;
}

/** A limit of things that are done at the same time. */
export function atOnce(limit: number | undefined, usual: number): number {
  const most = 1024;
  return limit === undefined || Number.isNaN(limit) ? usual : Math.min(Math.max(Math.floor(limit), 1), most);
}

/** Bytes of a source, which may be the caller's own and give others than it was asked for. */
export async function readExactly(
  source: Source,
  offset: Integer,
  size: number,
  signal: AbortSignal | undefined,
  progress?: (done: number) => void,
): Promise<Uint8Array> {
  const bytes: unknown = await source.read(offset, size, signal, progress);
  if (!(bytes instanceof Uint8Array) || bytes.length !== size) {
    const gave = bytes instanceof Uint8Array ? `${bytes.length} bytes` : "no Uint8Array";
    throw new CofferError("IO", `the source was asked for ${size} bytes from ${offset} on, and gave ${gave}`, {
      path: source.name,
    });
  }
  return bytes;
}

/** The first bytes of a source. */
export async function readHead(source: Source, signal: AbortSignal | undefined): Promise<Uint8Array> {
  const bytes: unknown = await source.head(signal);
  if (!(bytes instanceof Uint8Array)) {
    throw new CofferError("IO", "the source's head gave no Uint8Array", { path: source.name });
  }
  if (source.size !== undefined) {
    unsigned(source.size, "the size of a source");
  }
  return bytes;
}
