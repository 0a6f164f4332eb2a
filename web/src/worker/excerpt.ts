// SPDX-License-Identifier: Apache-2.0
/* The bytes around an error: seeing them says more than a number. */
import { CofferError } from "libcoffer";

import type { Excerpt, Wanted } from "../model/opened.js";

/** Bytes before and after the one that is meant. */
const AROUND = 60;
/** Errors about what a header says, by their numbers: elsewhere the bytes explain nothing. */
const [FIRST, LAST] = [30, 48];

const utf8 = new TextDecoder();
/** What is left of a character that was cut in two. */
const trimmed = (text: string) => text.replace(/^\ufffd{1,3}|\ufffd{1,3}$/g, "");

function textOf(bytes: Uint8Array, at: number): Excerpt {
  const next = at + (bytes[at]! >= 0xf0 ? 4 : bytes[at]! >= 0xe0 ? 3 : bytes[at]! >= 0xc2 ? 2 : 1);
  return {
    before: trimmed(utf8.decode(bytes.subarray(0, at))),
    at: utf8.decode(bytes.subarray(at, next)),
    after: trimmed(utf8.decode(bytes.subarray(next))),
  };
}

const hex = (bytes: Uint8Array) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(" ");

/** Headers of safetensors are text, those of bintensors are not. */
function excerptOf(bytes: Uint8Array, at: number): Excerpt {
  const strange = bytes.filter((byte) => byte < 0x20 && byte !== 0x0a).length;
  if (strange <= bytes.length / 8) {
    return textOf(bytes, at);
  }
  return {
    before: hex(bytes.subarray(Math.max(0, at - 16), at)),
    at: hex(bytes.subarray(at, at + 1)),
    after: hex(bytes.subarray(at + 1, at + 17)),
  };
}

/** Of a file that someone chose: others would have to be asked for again. */
export async function excerptFor(error: unknown, wanted: Wanted): Promise<Excerpt | undefined> {
  if (!(error instanceof CofferError) || wanted.kind !== "files" || error.status < FIRST || error.status > LAST) {
    return undefined;
  }
  const file = wanted.files.find(({ name }) => name === error.path);
  const offset = Number(error.offset ?? -1);
  if (file === undefined || offset < 8) {
    return undefined;
  }
  const begin = Math.max(8, offset - AROUND);
  try {
    // Both formats begin with the length of what follows up to the data.
    const length = new DataView(await file.slice(0, 8).arrayBuffer()).getBigUint64(0, true);
    const end = Math.min(offset + AROUND, 8 + Number(length));
    const bytes = new Uint8Array(await file.slice(begin, end).arrayBuffer());
    return offset - begin < bytes.length ? excerptOf(bytes, offset - begin) : undefined;
  } catch {
    return undefined;
  }
}
