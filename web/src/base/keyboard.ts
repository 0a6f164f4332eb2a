// SPDX-License-Identifier: Apache-2.0

/** Where an arrow, Home or End leads in a row of `count` things; undefined for other keys. */
export function moved(event: KeyboardEvent, at: number, count: number): number | undefined {
  switch (event.key) {
    case "ArrowRight":
      return (at + 1) % count;
    case "ArrowLeft":
      return (at + count - 1) % count;
    case "Home":
      return 0;
    case "End":
      return count - 1;
    default:
      return undefined;
  }
}
