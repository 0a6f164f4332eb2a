// SPDX-License-Identifier: Apache-2.0
/*
 * Texts that have JSON in them, which may have texts that have JSON in them. A level is decoded when someone looks at it, so a
 * text of any depth costs nothing that is not looked at.
 */

/** A number as it is written, where JavaScript would change it: 12345678901234567890, 1.10. */
export class WrittenNumber {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

export type Json = string | number | boolean | null | WrittenNumber | readonly Json[] | JsonObject;

export interface JsonObject {
  readonly [key: string]: Json;
}

/** A text of JSON in a text: worth looking into when it has more than a number or a word. */
const LOOKS_LIKE_JSON = /^\s*[[{"]/;

interface ReviverContext {
  source?: string;
}

/** Numbers that JavaScript would round stay as they were written, in engines that tell what was. */
function keepNumbers(_: string, value: unknown, context?: ReviverContext): unknown {
  if (typeof value !== "number" || context?.source === undefined || String(value) === context.source) {
    return value;
  }
  return new WrittenNumber(context.source);
}

/** The JSON in a text; undefined when there is none. */
export function jsonIn(text: string): Json | undefined {
  if (!LOOKS_LIKE_JSON.test(text)) {
    return undefined;
  }
  try {
    return JSON.parse(text, keepNumbers) as Json;
  } catch {
    return undefined;
  }
}

/** Whether a value has members. */
export function isBranch(value: Json): value is readonly Json[] | JsonObject {
  return typeof value === "object" && value !== null && !(value instanceof WrittenNumber);
}

/** The members of an object or of a list, in their order. */
export function membersOf(value: Json): readonly (readonly [label: string, value: Json])[] {
  if (!isBranch(value)) {
    return [];
  }
  return Array.isArray(value) ? value.map((member: Json, i) => [String(i), member] as const) : Object.entries(value);
}
