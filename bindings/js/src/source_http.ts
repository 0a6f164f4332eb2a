// SPDX-License-Identifier: Apache-2.0
/*
 * Bytes by URL, in ranges. The first request asks for the head at once, without a probe before it, and from its answer the
 * size is known. A server that knows no ranges is listened to only as long as something is wanted.
 */
import { CofferError } from "./errors.js";
import type { Integer } from "./integers.js";
import { changed, HEAD_SIZE, type Source } from "./source.js";

export interface HttpOptions {
  /** In the place of the global one. */
  fetch?: typeof fetch | undefined;
  /** Sent with every request. */
  headers?: Readonly<Record<string, string>> | undefined;
  /** Bytes of the first request: if the header fits, it is the only one. 96 KiB without it. */
  headSize?: number | undefined;
}

/** What a server says of a file: enough to see that it is another one. */
interface Identity {
  etag: string | null;
  size: number | undefined;
}

interface Answer {
  response: Response;
  /** Byte of the file at which the body begins. */
  from: number;
  size: number | undefined;
}

const WORDS: readonly [(status: number) => boolean, "NOT_FOUND" | "ACCESS" | "HTTP", string][] = [
  [(status) => status === 404 || status === 410, "NOT_FOUND", "the server has no such file"],
  [(status) => status === 401 || status === 403, "ACCESS", "the server wants credentials, or others than it got"],
  [() => true, "HTTP", "the server failed; try again later"],
];

export class HttpSource implements Source {
  readonly name: string;
  readonly #url: string;
  readonly #fetch: typeof fetch;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #headSize: number;
  #seen: Identity | undefined;

  constructor(url: string, options: HttpOptions = {}) {
    this.name = withoutSecrets(url);
    this.#url = url;
    // Not as a method: browsers' fetch refuses any other `this`.
    const given = options.fetch;
    this.#fetch = given === undefined ? (input, init) => fetch(input, init) : (input, init) => given(input, init);
    this.#headers = options.headers ?? {};
    this.#headSize = options.headSize ?? HEAD_SIZE;
  }

  get size(): number | undefined {
    return this.#seen?.size;
  }

  async head(signal?: AbortSignal): Promise<Uint8Array> {
    const most = this.#headSize;
    const answer = await this.#ask(`bytes=0-${most - 1}`, signal);
    if (answer === undefined) {
      return new Uint8Array(0);
    }
    return this.#take(answer, 0, Math.min(most, answer.size ?? most), answer.size !== undefined);
  }

  async read(offset: Integer, size: number, signal?: AbortSignal): Promise<Uint8Array> {
    if (size === 0) {
      return new Uint8Array(0);
    }
    const last = BigInt(offset) + BigInt(size) - 1n;
    const answer = await this.#ask(`bytes=${offset}-${last}`, signal);
    if (answer === undefined) {
      throw changed(this.name, "it became shorter");
    }
    return this.#take(answer, Number(offset), size, true);
  }

  /** The answer to a request for a range; undefined when there are no bytes there. */
  async #ask(range: string, signal: AbortSignal | undefined): Promise<Answer | undefined> {
    let response: Response;
    try {
      const init: RequestInit = { headers: { ...this.#headers, Range: range } };
      if (signal !== undefined) {
        init.signal = signal;
      }
      response = await this.#fetch(this.#url, init);
    } catch (cause) {
      signal?.throwIfAborted();
      throw new CofferError("CONNECT", "the server cannot be reached, or does not allow this page to read from it", {
        path: this.name,
        cause,
      });
    }
    const stated = /^bytes (?:(\d+)-\d+|\*)\/(\d+|\*)$/.exec(response.headers.get("Content-Range") ?? "");
    const whole = stated?.[2] === undefined || stated[2] === "*" ? undefined : Number(stated[2]);
    if (response.status === 416) {
      await response.body?.cancel();
      this.#recognise(response, whole ?? 0);
      return undefined;
    }
    if (!response.ok) {
      throw await this.#refused(response);
    }
    if (response.status === 206) {
      this.#recognise(response, whole);
      // Without the header, which servers may keep from pages, the range is the one that was asked for.
      const from = Number(stated?.[1] ?? /\d+/.exec(range)![0]);
      return { response, from, size: whole };
    }
    const encoded = response.headers.get("Content-Encoding") !== null;
    const length = encoded ? null : response.headers.get("Content-Length");
    const size = length === null ? undefined : Number(length);
    this.#recognise(response, size);
    return { response, from: 0, size };
  }

  /** Sees that it is still the same file. */
  #recognise(response: Response, size: number | undefined): void {
    const etag = response.headers.get("ETag");
    const before = this.#seen;
    this.#seen = { etag: etag ?? before?.etag ?? null, size: size ?? before?.size };
    if (before === undefined) {
      return;
    }
    if (before.size !== undefined && size !== undefined && before.size !== size) {
      throw changed(this.name, `it had ${before.size} bytes and has ${size}`);
    }
    if (before.etag !== null && etag !== null && before.etag !== etag) {
      throw changed(this.name, "its ETag is another one");
    }
  }

  async #refused(response: Response): Promise<CofferError> {
    await response.body?.cancel();
    const row = WORDS.find(([is]) => is(response.status))!;
    return new CofferError(row[1], `${row[2]} (status ${response.status})`, {
      path: this.name,
      httpStatus: response.status,
    });
  }

  /** `size` bytes of an answer from byte `offset` of the file on; fewer only when that is not `exact` and there are none. */
  async #take(answer: Answer, offset: number, size: number, exact: boolean): Promise<Uint8Array> {
    const bytes = new Uint8Array(size);
    let used = 0;
    let skip = offset - answer.from;
    if (skip < 0) {
      throw new CofferError("ANSWER", `the server sent bytes from ${answer.from} on, not from ${offset}`, {
        path: this.name,
      });
    }
    const reader = answer.response.body!.getReader();
    while (used < size) {
      const { done, value } = await reader.read();
      if (done) {
        break;
      }
      const skipped = Math.min(skip, value.length);
      skip -= skipped;
      const piece = value.subarray(skipped, skipped + size - used);
      bytes.set(piece, used);
      used += piece.length;
    }
    await this.#finish(reader, answer, offset + size);
    if (used < size && exact) {
      throw new CofferError("ANSWER", `the answer ends after ${used} of ${size} bytes; try again`, {
        path: this.name,
      });
    }
    if (used < size) {
      this.#seen = { etag: this.#seen?.etag ?? null, size: offset + used };
    }
    return bytes.subarray(0, used);
  }

  /** An answer that is at its end leaves its connection for the next request; of a longer one nothing more is fetched. */
  async #finish(reader: ReadableStreamDefaultReader<Uint8Array>, answer: Answer, end: number): Promise<void> {
    if (answer.response.status === 206 || answer.size === end) {
      const { done } = await reader.read();
      if (done) {
        return;
      }
    }
    await reader.cancel();
  }
}

/** A URL as it may be shown: passwords and signatures are nobody's business. */
function withoutSecrets(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed === undefined) {
    return url;
  }
  parsed.username = parsed.password = parsed.hash = "";
  return parsed.search === "" ? parsed.href : `${parsed.href.slice(0, -parsed.search.length)}?…`;
}
