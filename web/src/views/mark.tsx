// SPDX-License-Identifier: Apache-2.0
import type { VNode } from "preact";

/** The coffer. */
export function Mark({ className }: { className: string }): VNode {
  return (
    <svg class={`coffer ${className}`} viewBox="0 0 32 32" aria-hidden="true">
      <rect class="body" x="3" y="6" width="26" height="21" rx="4" />
      <path d="M3 14h26" />
      <rect class="lock" x="13" y="11" width="6" height="7" rx="1.5" />
    </svg>
  );
}
