// SPDX-License-Identifier: Apache-2.0
import type { VNode } from "preact";

/** What the files say of themselves. */
export function MetadataPanel(): VNode {
  return <p class="quiet">The metadata come here.</p>;
}
