// SPDX-License-Identifier: Apache-2.0
import { CofferError } from "libcoffer";

import type { Trouble } from "../model/opened.js";

/** A failure as something that can be sent. */
export function troubleOf(error: unknown): Trouble {
  if (error instanceof CofferError) {
    const { code, path, tensor, offset, expected, actual, httpStatus } = error;
    const message = path === undefined ? error.message : error.message.slice(path.length + 2);
    return { code, message, path, tensor, offset, expected, actual, httpStatus };
  }
  return { code: undefined, message: error instanceof Error ? error.message : String(error) };
}
