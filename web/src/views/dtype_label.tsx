// SPDX-License-Identifier: Apache-2.0
import type { VNode } from "preact";

import { dtypeVariable } from "../base/colours.js";
import { shown } from "../base/text.js";

/** A dtype with its colour. */
export function DtypeLabel({ dtype }: { dtype: string }): VNode {
  return (
    <span class="dtype">
      <span class="swatch" style={{ background: `var(${dtypeVariable(dtype)})` }} aria-hidden="true" />
      {shown(dtype, 24)}
    </span>
  );
}
