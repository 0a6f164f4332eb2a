// SPDX-License-Identifier: Apache-2.0
import type { VNode } from "preact";

import { showAbout } from "../base/about.js";
import { close } from "../model/actions.js";
import { model } from "../model/state.js";
import { theme, THEMES } from "../model/theme.js";
import { Mark } from "./mark.js";
import { Openers, UrlForm } from "./openers.js";

const LABELS = { system: "Auto", light: "Light", dark: "Dark" } as const;

function ThemeSwitch(): VNode {
  return (
    <label class="theme">
      <span class="hidden">Colours</span>
      <select
        value={theme.value}
        onChange={({ currentTarget }) => (theme.value = THEMES.find((known) => known === currentTarget.value)!)}
      >
        {THEMES.map((name) => (
          <option key={name} value={name}>
            {LABELS[name]}
          </option>
        ))}
      </select>
    </label>
  );
}

export function TopBar(): VNode {
  return (
    <header class="top">
      <button type="button" class="brand" onClick={close} aria-label="Coffer: back to the start">
        <Mark className="mark" />
        <span>Coffer</span>
      </button>
      {model.value !== undefined && (
        <div class="top-openers">
          <UrlForm compact />
          <Openers compact />
        </div>
      )}
      <button type="button" class="link about-link" onClick={showAbout}>
        About
      </button>
      <ThemeSwitch />
    </header>
  );
}
