// SPDX-License-Identifier: Apache-2.0
/*
 * Texts of files, made fit for showing. They are always text and never markup; besides, control characters and the marks that
 * turn the direction of writing become visible, as in the library's messages, and what is too long for a screen is cut. A
 * test compares the escapes with the library's own.
 */

const MISLEADING = /[\\\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\p{Surrogate}/gu;

function escapeOne(character: string): string {
  if (character === "\\") {
    return "\\\\";
  }
  const code = character.codePointAt(0)!;
  const hex = code.toString(16).padStart(2, "0");
  return code < 0x80 ? `\\x${hex}` : `\\u{${hex}}`;
}

/** As the library's coffer_escape. */
export function escaped(text: string): string {
  return text.replace(MISLEADING, escapeOne);
}

/** A message that quotes names escaped already: its backslashes stay as they are. */
export function shownMessage(text: string, longest: number): string {
  return shown(text, longest).replaceAll("\\\\", "\\");
}

/** The longest text that is shown in one piece, in characters. */
const LONGEST = 300;

/** Escaped, and with its middle left out when it is long. */
export function shown(text: string, longest = LONGEST): string {
  if (text.length <= longest) {
    return escaped(text);
  }
  const [front, back] = [Math.ceil(longest * 0.6), Math.floor(longest * 0.4)];
  return `${escaped(text.slice(0, front))}…${escaped(text.slice(text.length - back))}`;
}

/** The same for texts of several lines: they stay lines. */
export function shownLines(text: string, longest: number): string {
  return text
    .slice(0, longest)
    .split("\n")
    .map((line) => line.split("\t").map(escaped).join("\t"))
    .join("\n");
}
