// SPDX-License-Identifier: Apache-2.0
import type { VNode } from "preact";

import { moved } from "../base/keyboard.js";
import { panel } from "../model/state.js";
import { PANELS } from "./panels.js";

/** The panels, one of which is open, as tabs. */
export function Inspector(): VNode {
  const open = PANELS.find(({ id }) => id === panel.value) ?? PANELS[0]!;
  const Content = open.component;
  const onKeyDown = (event: KeyboardEvent) => {
    const next = moved(event, PANELS.indexOf(open), PANELS.length);
    if (next !== undefined) {
      event.preventDefault();
      panel.value = PANELS[next]!.id;
      document.getElementById(`tab-${panel.value}`)?.focus();
    }
  };
  return (
    <section class="inspector" aria-label="Details">
      <div class="tabs" role="tablist" aria-label="What to look at" onKeyDown={onKeyDown}>
        {PANELS.map(({ id, label }) => (
          <button
            key={id}
            id={`tab-${id}`}
            type="button"
            role="tab"
            class="tab"
            aria-selected={id === open.id}
            aria-controls="panel"
            tabIndex={id === open.id ? 0 : -1}
            onClick={() => (panel.value = id)}
          >
            {label}
          </button>
        ))}
      </div>
      <div id="panel" class="panel" role="tabpanel" aria-labelledby={`tab-${open.id}`} tabIndex={0}>
        <h2 class="hidden">{open.label}</h2>
        <Content />
      </div>
    </section>
  );
}
