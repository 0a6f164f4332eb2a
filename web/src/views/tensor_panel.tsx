// SPDX-License-Identifier: Apache-2.0
import type { VNode } from "preact";

/** The tensor that was chosen. */
export function TensorPanel(): VNode {
  return <p class="quiet">Choose a tensor in the list.</p>;
}
