// SPDX-License-Identifier: Apache-2.0
/* Light or dark: what the system says, or what was chosen here, which is remembered where the browser allows it. */
import { computed, effect, signal } from "@preact/signals";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];
const KEY = "coffer-theme";

function remembered(): Theme {
  try {
    return THEMES.find((known) => known === localStorage.getItem(KEY)) ?? "system";
  } catch {
    return "system"; // pages of some folders have no storage
  }
}

export const theme = signal<Theme>(remembered());
const system = matchMedia("(prefers-color-scheme: dark)");
const systemIsDark = signal(system.matches);
system.addEventListener("change", ({ matches }) => (systemIsDark.value = matches));

/** For what is drawn on canvases: it has to be drawn again when this changes. */
export const isDark = computed(() => (theme.value === "system" ? systemIsDark.value : theme.value === "dark"));

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  try {
    localStorage.setItem(KEY, theme.value);
  } catch {
    // Then it is not remembered.
  }
});
