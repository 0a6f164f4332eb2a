// SPDX-License-Identifier: Apache-2.0
import { STATUSES, type Code } from "./generated/tables.js";
import type { Integer } from "./integers.js";

/** Where the trouble is, as far as it is known. */
export interface ErrorDetails {
  /** The file, as it was named. */
  path?: string | undefined;
  /** The tensor's name, escaped for showing. */
  tensor?: string | undefined;
  /** The byte of the file. */
  offset?: Integer | undefined;
  /** With `actual`: two sizes or counts that should agree. */
  expected?: Integer | undefined;
  actual?: Integer | undefined;
  /** What the server said. */
  httpStatus?: number | undefined;
  cause?: unknown;
}

const NUMBERS = new Map(Object.entries(STATUSES).map(([number, name]) => [name as string, Number(number)]));

/** What went wrong, where, and what to do. `code` is the same in every language that Coffer speaks. */
export class CofferError extends Error {
  override readonly name: string = "CofferError";
  readonly code: Code;
  /** The number of `code`. */
  readonly status: number;
  readonly path: string | undefined;
  readonly tensor: string | undefined;
  readonly offset: Integer | undefined;
  readonly expected: Integer | undefined;
  readonly actual: Integer | undefined;
  readonly httpStatus: number | undefined;

  constructor(code: Code, message: string, details: ErrorDetails = {}) {
    const named = details.path === undefined ? message : `${details.path}: ${message}`;
    super(named, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.status = NUMBERS.get(code) ?? 0;
    this.path = details.path;
    this.tensor = details.tensor;
    this.offset = details.offset;
    this.expected = details.expected;
    this.actual = details.actual;
    this.httpStatus = details.httpStatus;
  }
}

/** The name of a status. */
export function codeOf(status: number): Code {
  return (STATUSES as Record<number, string>)[status] as Code;
}
