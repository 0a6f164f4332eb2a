// SPDX-License-Identifier: Apache-2.0
/*
 * The files of a report: their sizes and headers, without their data. A report is what `coffer report` put into the page:
 *
 *   {"version": 2, "name": …, "files": [{"name": …, "size": bytes, "header": packed}], "index": {"name": …, "text": packed} | null}
 *
 * where what is packed is base64 of a raw deflate stream.
 */
import { CofferError, HEAD_SIZE, MemorySource, type Source } from "libcoffer";

interface Report {
  version: number;
  name: string;
  files: readonly { name: string; size: number; header: string }[];
  index: { name: string; text: string } | null;
}

/** A loop: Uint8Array.from with a function takes ten times as long, a second and a half for a header of 9 MB. */
function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i++) {
    bytes[i] = characters.charCodeAt(i);
  }
  return bytes;
}

async function unpacked(text: string): Promise<Uint8Array> {
  const stream = new Blob([fromBase64(text)]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
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

export async function reportFiles(text: string): Promise<{ name: string; sources: Source[] }> {
  const report = JSON.parse(text) as Report;
  if (report.version !== 2) {
    throw new Error(`this report has version ${report.version}, and the page knows version 2`);
  }
  const sources: Source[] = await Promise.all(
    report.files.map(async ({ name, size, header }) => new HeaderSource(name, size, await unpacked(header))),
  );
  if (report.index !== null) {
    sources.push(new MemorySource(await unpacked(report.index.text), report.index.name));
  }
  return { name: report.name, sources };
}
