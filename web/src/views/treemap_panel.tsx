// SPDX-License-Identifier: Apache-2.0
import type { VNode } from "preact";

/** Where the parameters are, as areas. */
export function TreemapPanel(): VNode {
  return <p class="quiet">The treemap comes here.</p>;
}
