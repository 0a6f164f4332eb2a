// SPDX-License-Identifier: Apache-2.0
/*
 * Bytes by URL, in ranges. The first request asks for the head at once, without a probe before it, and from its answer the
 * size is known. A server that knows no ranges is listened to only as long as something is wanted. What passes (a busy
 * server, a connection that breaks) is tried again a few times, from the byte where it ended.
 */
import { CofferError } from "./errors.js";
import type { Code } from "./generated/tables.js";
import type { Integer } from "./integers.js";
import { changed, HEAD_SIZE, type Source } from "./source.js";

export const HUB_URL = "https://huggingface.co";

export interface HttpOptions {
  /** Used instead of the global one. */
  fetch?: typeof fetch | undefined;
  /** Sent with every request. */
  headers?: Readonly<Record<string, string>> | undefined;
  /** Bytes of the first request: if the header fits, it is the only one. 96 KiB without it. */
  headSize?: number | undefined;
  /** How often the same bytes are asked for again; 3 without it. */
  retries?: number | undefined;
  /** Where hf:// leads: https://huggingface.co without it. */
  hubUrl?: string | undefined;
  /** For repositories by hf:// that are not open to everyone. */
  accessToken?: string | undefined;
}

/** Why there was no answer. Browsers do not tell pages whether it was the server or its rules (CORS). */
function unreachable(cause: unknown): string {
  if ((globalThis as { location?: unknown }).location !== undefined) {
    return "the server cannot be reached, or does not allow this page to read from it";
  }
  const code = (cause as { cause?: { code?: unknown } } | undefined)?.cause?.code;
  return typeof code === "string" ? `the server cannot be reached (${code})` : "the server cannot be reached";
}

/** A failure of which a server has said something. */
export class HttpError extends CofferError {
  /** What the Hub calls the request. */
  readonly requestId: string | undefined;
  /** The Hub's name of the failure, such as "EntryNotFound". */
  readonly errorCode: string | undefined;
  /** What it said, if that was JSON, and else `{ message }`. */
  readonly data: Readonly<Record<string, unknown>>;
  /** Seconds after which to ask again, if it said so. */
  readonly retryAfter: number | undefined;

  constructor(code: Code, message: string, path: string, response: Response, data: Readonly<Record<string, unknown>>) {
    super(code, message, { path, httpStatus: response.status });
    this.requestId = response.headers.get("X-Request-Id") ?? undefined;
    this.errorCode = response.headers.get("X-Error-Code") ?? undefined;
    this.data = data;
    this.retryAfter = retryAfter(response.headers.get("Retry-After"));
  }
}

/** "120" or a date, in seconds from now. */
function retryAfter(text: string | null): number | undefined {
  const seconds = /^\d+$/.test(text ?? "") ? Number(text) : (Date.parse(text ?? "") - Date.now()) / 1000;
  return Number.isNaN(seconds) ? undefined : Math.max(seconds, 0);
}

/** The connection broke, or an answer ended early. */
class Interrupted extends CofferError {
  constructor(message: string, path: string, cause: unknown) {
    super("ANSWER", message, { path, cause });
  }
}

/** Bytes that make a new beginning of counting retries. */
const MIN_PROGRESS = 1 << 20;

/** How often; milliseconds before the first retry, and the most of any. A server may ask for more, up to a minute. */
const RETRIES = 3;
const FIRST_PAUSE = 250;
const LONGEST_PAUSE = 8_000;
const LONGEST_RETRY_AFTER = 60;

/** Whether asking again may help. */
function isPassing(error: unknown): boolean {
  if (!(error instanceof HttpError)) {
    return error instanceof Interrupted || (error instanceof CofferError && error.code === "CONNECT");
  }
  const status = error.httpStatus ?? 0;
  const isBusy = status === 408 || status === 429 || (status >= 500 && status !== 501);
  return isBusy && (error.retryAfter ?? 0) <= LONGEST_RETRY_AFTER;
}

/** Varies by half, so that many programs do not come back together. */
function pauseBefore(error: unknown, tries: number): number {
  const asked = error instanceof HttpError ? error.retryAfter : undefined;
  const pause = Math.min(FIRST_PAUSE * 2 ** tries, LONGEST_PAUSE);
  return asked === undefined ? pause * (0.5 + Math.random()) : asked * 1000;
}

function sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal!.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", stop, { once: true });
  });
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

/** Bytes of an error's page that are read. */
const MAX_WORDS = 64 << 10;

/** What a server says of its failure, of which a part is enough. */
async function wordsOf(response: Response): Promise<Readonly<Record<string, unknown>>> {
  const reader = response.body?.getReader();
  let text = "";
  const decoder = new TextDecoder();
  try {
    while (reader !== undefined && text.length < MAX_WORDS) {
      const { done, value } = await reader.read();
      if (done) {
        break;
      }
      text += decoder.decode(value, { stream: true });
    }
    await reader?.cancel();
    const isJson = response.headers.get("Content-Type")?.startsWith("application/json") ?? false;
    const json: unknown = isJson ? JSON.parse(text) : null;
    return typeof json === "object" && json !== null ? (json as Record<string, unknown>) : { message: text };
  } catch {
    return { message: text };
  }
}

/** A size as a header has it; undefined when it has none that can be used. */
function sizeOf(text: string | null | undefined): number | undefined {
  const size = /^\d+$/.test(text ?? "") ? Number(text) : undefined;
  return Number.isSafeInteger(size) ? size : undefined;
}

export class HttpSource implements Source {
  readonly name: string;
  readonly #url: string;
  readonly #fetch: typeof fetch;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #headSize: number;
  readonly #retries: number;
  #seen: Identity | undefined;

  /** `name` is what messages call it; without it, its URL without secrets. */
  constructor(url: string, options: HttpOptions = {}, name = withoutSecrets(url)) {
    this.name = name;
    this.#url = url;
    // Not as a method: browsers' fetch refuses any other `this`.
    const given = options.fetch;
    this.#fetch = given === undefined ? (input, init) => fetch(input, init) : (input, init) => given(input, init);
    this.#headers = options.headers ?? {};
    this.#headSize = options.headSize ?? HEAD_SIZE;
    this.#retries = options.retries ?? RETRIES;
  }

  get size(): number | undefined {
    return this.#seen?.size;
  }

  async head(signal?: AbortSignal): Promise<Uint8Array> {
    const most = this.#headSize;
    const { bytes, used } = await this.#patiently(signal, async () => {
      const answer = await this.#ask(`bytes=0-${most - 1}`, signal);
      if (answer === undefined) {
        return { bytes: new Uint8Array(0), used: 0 };
      }
      const begun = new Uint8Array(Math.min(most, answer.size ?? most));
      const taken = await this.#take(answer, 0, begun, signal);
      if (answer.size !== undefined) {
        return { bytes: begun, used: taken.used };
      }
      // Where nobody says how long the file is, its end is that of the answer; but not when the connection broke.
      if (taken.broken !== undefined) {
        throw new Interrupted("the connection broke; try again", this.name, taken.broken);
      }
      this.#seen = { etag: this.#seen?.etag ?? null, size: taken.used < most ? taken.used : undefined };
      return { bytes: begun.subarray(0, taken.used), used: taken.used };
    });
    if (used < bytes.length) {
      bytes.set(await this.read(used, bytes.length - used, signal), used);
    }
    return bytes;
  }

  async read(
    offset: Integer,
    size: number,
    signal?: AbortSignal,
    progress?: (done: number) => void,
  ): Promise<Uint8Array> {
    const bytes = new Uint8Array(size);
    const last = BigInt(offset) + BigInt(size) - 1n;
    let used = 0;
    for (let short = 0; used < size;) {
      const before = used;
      const taken = await this.#patiently(signal, () =>
        this.#part(BigInt(offset) + BigInt(before), last, bytes.subarray(before), signal, (more) =>
          progress?.(before + more),
        ),
      );
      used += taken;
      short = taken >= MIN_PROGRESS ? 0 : short + 1;
      if (used < size && short > this.#retries) {
        throw new CofferError("ANSWER", `the server's answers end early: ${used} of ${size} bytes came; try again`, {
          path: this.name,
        });
      }
    }
    return bytes;
  }

  /** Some of the bytes from `first` to `last`, from the first one on. */
  async #part(
    first: bigint,
    last: bigint,
    bytes: Uint8Array,
    signal: AbortSignal | undefined,
    progress: (done: number) => void,
  ): Promise<number> {
    const answer = await this.#ask(`bytes=${first}-${last}`, signal);
    if (answer === undefined) {
      throw changed(this.name, "it became shorter");
    }
    const { used, broken } = await this.#take(answer, Number(first), bytes, signal, progress);
    if (used === 0) {
      throw new Interrupted("the answer ends before its first byte; try again", this.name, broken);
    }
    return used;
  }

  /** Does what may fail for a while, and again after a pause. A host that was never reached is not waited for. */
  async #patiently<T>(signal: AbortSignal | undefined, job: () => Promise<T>): Promise<T> {
    for (let tries = 0; ; tries++) {
      signal?.throwIfAborted();
      try {
        return await job();
      } catch (error) {
        signal?.throwIfAborted();
        const isFirst = error instanceof CofferError && error.code === "CONNECT" && this.#seen === undefined;
        if (isFirst || tries >= this.#retries || !isPassing(error)) {
          throw error;
        }
        await sleep(pauseBefore(error, tries), signal);
      }
    }
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
      throw new CofferError("CONNECT", unreachable(cause), { path: this.name, cause });
    }
    const stated = /^bytes (?:(\d+)-\d+|\*)\/(\d+|\*)$/.exec(response.headers.get("Content-Range") ?? "");
    const whole = sizeOf(stated?.[2]);
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
    const size = encoded ? undefined : sizeOf(response.headers.get("Content-Length"));
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

  async #refused(response: Response): Promise<HttpError> {
    const row = WORDS.find(([is]) => is(response.status))!;
    const data = await wordsOf(response);
    return new HttpError(row[1], `${row[2]} (status ${response.status})`, this.name, response, data);
  }

  /**
   * Fills `bytes` from byte `offset` of the file on, and tells how many there were: fewer when the answer ends early, or the
   * connection is `broken`.
   */
  async #take(
    answer: Answer,
    offset: number,
    bytes: Uint8Array,
    signal: AbortSignal | undefined,
    progress?: (done: number) => void,
  ): Promise<{ used: number; broken: unknown }> {
    let used = 0;
    let skip = offset - answer.from;
    if (skip < 0) {
      await answer.response.body?.cancel();
      throw new CofferError("ANSWER", `the server sent bytes from ${answer.from} on, not from ${offset}`, {
        path: this.name,
      });
    }
    const reader = answer.response.body?.getReader();
    try {
      while (reader !== undefined && used < bytes.length) {
        const { done, value } = await reader.read();
        if (done) {
          break;
        }
        const skipped = Math.min(skip, value.length);
        skip -= skipped;
        const piece = value.subarray(skipped, skipped + bytes.length - used);
        bytes.set(piece, used);
        used += piece.length;
        progress?.(used);
      }
      if (reader !== undefined) {
        await this.#finish(reader, answer, offset + bytes.length);
      }
    } catch (broken) {
      signal?.throwIfAborted();
      return { used, broken };
    }
    return { used, broken: undefined };
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
export function withoutSecrets(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed === undefined) {
    return url;
  }
  parsed.username = parsed.password = parsed.hash = "";
  return parsed.search === "" ? parsed.href : `${parsed.href.slice(0, -parsed.search.length)}?…`;
}
