// SPDX-License-Identifier: Apache-2.0
/*
 * The files of a report: their sizes and headers, without their data. A report is what `coffer report` put into the page:
 *
 *   {"version": 1, "name": …, "files": [{"name": …, "size": bytes, "header": base64}], "index": {"name": …, "text": base64} | null}
 */
import { CofferError, HEAD_SIZE, MemorySource, type Source } from "libcoffer";

interface Report {
  version: number;
  name: string;
  files: readonly { name: string; size: number; header: string }[];
  index: { name: string; text: string } | null;
}

function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/** A file of which only the header is there. */
class HeaderSource implements Source {
  readonly name: string;
  readonly size: number;
  readonly #header: Uint8Array;

  constructor(name: string, size: number, header: Uint8Array) {
    this.name = name;
    this.size = size;
    this.#header = header;
  }

  head(): Promise<Uint8Array> {
    return Promise.resolve(this.#header.subarray(0, HEAD_SIZE));
  }

  read(offset: number | bigint, size: number): Promise<Uint8Array> {
    const begin = Number(offset);
    if (size > this.#header.length - begin) {
      const message = "a report holds the header only, not the tensors' values";
      return Promise.reject(new CofferError("UNSUPPORTED", message, { path: this.name, offset }));
    }
    return Promise.resolve(this.#header.subarray(begin, begin + size));
  }
}

export function reportFiles(text: string): { name: string; sources: Source[] } {
  const report = JSON.parse(text) as Report;
  if (report.version !== 1) {
    throw new Error(`this report has version ${report.version}, and the page knows version 1`);
  }
  const sources: Source[] = report.files.map(
    ({ name, size, header }) => new HeaderSource(name, size, fromBase64(header)),
  );
  if (report.index !== null) {
    sources.push(new MemorySource(fromBase64(report.index.text), report.index.name));
  }
  return { name: report.name, sources };
}
