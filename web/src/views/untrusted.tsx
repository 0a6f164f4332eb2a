// SPDX-License-Identifier: Apache-2.0
import type { VNode } from "preact";

import { shown } from "../base/text.js";

/** A text of a file: escaped, cut when it is long, and kept from turning the direction of what stands beside it. */
export function Untrusted({ text, longest }: { text: string; longest?: number }): VNode {
  return <bdi class="untrusted">{shown(text, longest)}</bdi>;
}

/** The most characters of a name that always stay. */
const LONGEST_BACK = 34;

/** Where the last two parts of a name begin, or only its last one, when they are short enough; else 0. */
function backOf(name: string): number {
  const last = name.lastIndexOf(".");
  const before = last > 0 ? name.lastIndexOf(".", last - 1) : -1;
  return [before, last].find((dot) => dot > 0 && name.length - dot <= LONGEST_BACK) ?? 0;
}

/** A tensor's name: its last parts stay when there is no room for all. */
export function TensorName({ name }: { name: string }): VNode {
  const cut = shown(name);
  const at = backOf(cut);
  return (
    <bdi class="name" dir="ltr" title={cut}>
      {at > 0 && <span class="name-front">{cut.slice(0, at)}</span>}
      <span class="name-back">{cut === "" ? "(no name)" : cut.slice(at)}</span>
    </bdi>
  );
}
