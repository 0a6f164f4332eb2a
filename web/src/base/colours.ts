// SPDX-License-Identifier: Apache-2.0
/*
 * Colours of dtypes, the same wherever they are shown: page.css has them as variables, of which this says which is whose, and
 * what it is at the moment, for canvases.
 */

const FAMILIES: readonly [pattern: RegExp, name: string][] = [
  [/^F64$/, "f64"],
  [/^F32$/, "f32"],
  [/^F16$/, "f16"],
  [/^BF16$/, "bf16"],
  [/^F8/, "f8"],
  [/^F[46]/, "f4"],
  [/^I\d/, "int"],
  [/^U\d/, "uint"],
  [/^BOOL$/, "bool"],
];

/** The variable with a dtype's colour: "--dtype-f32". */
export function dtypeVariable(dtype: string): string {
  return `--dtype-${FAMILIES.find(([pattern]) => pattern.test(dtype))?.[1] ?? "other"}`;
}

let probe: HTMLElement | undefined;

/** What a variable of page.css is now, as a colour that canvases know. It changes with the theme (state.ts, `isDark`). */
export function colourOf(variable: string): string {
  if (probe === undefined) {
    probe = document.createElement("span");
    probe.hidden = true;
    document.body.append(probe);
  }
  probe.style.color = `var(${variable})`;
  return getComputedStyle(probe).color;
}
