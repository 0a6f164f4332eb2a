// SPDX-License-Identifier: Apache-2.0
import type { VNode } from "preact";

/** A sentence in which what stands between backticks is code, as messages of the library have it. */
export function Prose({ text }: { text: string }): VNode {
  const parts = text.split("`");
  // An odd one is a backtick of something that is quoted.
  return (
    <>{parts.length % 2 === 0 ? text : parts.map((part, i) => (i % 2 === 0 ? part : <code key={i}>{part}</code>))}</>
  );
}
