// SPDX-License-Identifier: Apache-2.0
import type { decode } from "libcoffer";

/** A dtype whose elements the library can decode; libcoffer's own type Dtype is that of the Hub's client. */
export type ElementType = Parameters<typeof decode>[0];
