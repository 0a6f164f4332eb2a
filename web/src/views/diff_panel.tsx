// SPDX-License-Identifier: Apache-2.0
import type { VNode } from "preact";

/** What another model has otherwise. */
export function DiffPanel(): VNode {
  return <p class="quiet">The comparison comes here.</p>;
}
