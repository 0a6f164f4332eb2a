// SPDX-License-Identifier: Apache-2.0
import type { VNode } from "preact";

/** The files from their first byte to their last, coloured by dtype. */
export function ByteMapPanel(): VNode {
  return <p class="quiet">The byte map comes here.</p>;
}
