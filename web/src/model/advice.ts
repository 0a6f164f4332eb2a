// SPDX-License-Identifier: Apache-2.0
/* What to do about an error: what docs/errors.md says, except where that speaks of programs and shells. */
import errors from "virtual:errors";

import { bytes } from "../base/numbers.js";
import type { Trouble } from "./opened.js";

const HERE: Readonly<Record<string, string>> = {
  IS_LFS_POINTER: "Run `git lfs pull` in the repository, or download the file itself.",
  IS_ZIP: "Look for a .safetensors file next to it, or convert it with `coffer convert`.",
  IS_PICKLE: "Look for a .safetensors file next to it. Do not load it from someone whom you do not trust.",
  IS_HTML: "Look at the page: the URL is that of a page about the file, or a log-in is needed.",
  IS_TEXT: "Look at it: the URL may be wrong, or a log-in is needed.",
  IS_JSON: "If it is an index, its name has to end with .index.json. Else look at it: the URL may be wrong.",
  SHARD_MISSING: "Drop all files of the model together, or its folder.",
  NO_MODEL: "Drop a folder that has a .safetensors file or an index in it.",
  AMBIGUOUS: "Drop only the file, or the index and the shards, of the model that you mean.",
  NOT_FOUND: "Check the URL. For a repository of the Hub, the file may have another name: give its own URL.",
  ACCESS: "The page sends no credentials. Download the file, and drop it here.",
  CONNECT:
    "Check the URL and the network. If both are fine, the server does not let other pages read from it (CORS): download the file, and drop it here.",
  HTTP: "Try again later, or download the file and drop it here.",
  ANSWER: "Download the file, and drop it here.",
  DTYPE: "The file needs a newer reader, or its writer used a name of its own. Report it to the maker of the file.",
  HEADER_TOO_LARGE: "If it is meant to be a safetensors file, it was damaged: get it again.",
  PADDING: "Something may be hidden there. Do not trust the file.",
  SHARD_NAME: "Do not use the model: its index points outside of its own folder.",
  CHANGED: "Wait until the program that writes the file has finished, and open it again.",
  IO: "Choose the file again. It may have been moved, or may not be readable.",
  INDEX_TOO_LARGE: "This is not the index of a model.",
  MEMORY: "Close other tabs, or open the model on a computer with more memory.",
};

/** As a sentence of its own. */
export const sentence = (text: string) =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.?!]$/.test(text) ? "" : "."}`;

/** The documentation's text without its links. */
const plain = (text: string) => text.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1");

export interface Advice {
  /** What is wrong, in a few words. */
  title: string;
  cause: string | undefined;
  step: string | undefined;
}

export function adviceFor({ code = "", expected, actual }: Trouble): Advice {
  const known = errors[code];
  if (known === undefined) {
    return { title: "This cannot be shown", cause: undefined, step: undefined };
  }
  const about = code.startsWith("IS_") ? `this is ${known.means}` : known.means;
  if (code === "DATA_TRUNCATED" && expected !== undefined && actual !== undefined) {
    const step = `Get the rest, ${bytes(Number(expected) - Number(actual))}, or the whole file again.`;
    return { title: sentence(about).slice(0, -1), cause: sentence(plain(known.cause)), step };
  }
  return {
    title: sentence(plain(about)).slice(0, -1),
    cause: sentence(plain(known.cause)),
    step: HERE[code] ?? sentence(plain(known.step)),
  };
}
