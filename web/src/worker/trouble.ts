// SPDX-License-Identifier: Apache-2.0
import { CofferError } from "libcoffer";

import type { Excerpt, Trouble } from "../model/opened.js";

/** A model that does not conform, with the bytes where that was seen. */
export class Unfit extends Error {
  readonly reason: CofferError | undefined;
  readonly excerpt: Excerpt | undefined;

  constructor(reason: CofferError | undefined, excerpt: Excerpt | undefined) {
    super(reason?.message ?? "there is no model");
    this.reason = reason;
    this.excerpt = excerpt;
  }
}

/** A failure as something that can be sent. */
export function troubleOf(error: unknown): Trouble {
  if (error instanceof Unfit && error.reason !== undefined) {
    return { ...troubleOf(error.reason), excerpt: error.excerpt };
  }
  if (error instanceof CofferError) {
    const { code, path, tensor, offset, expected, actual, httpStatus } = error;
    const message = path === undefined ? error.message : error.message.slice(path.length + 2);
    return { code, message, path, tensor, offset, expected, actual, httpStatus };
  }
  return { code: undefined, message: error instanceof Error ? error.message : String(error) };
}
