// SPDX-License-Identifier: Apache-2.0

/**
 * Order of the bytes in UTF-8, which is that of the code points. JavaScript compares units of 16 bits: it has the halves of
 * what is beyond U+FFFF before U+E000.
 */
export function compareBytes(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const [first, second] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (first !== second) {
      return rank(first) - rank(second);
    }
  }
  return a.length - b.length;
}

/** A unit's place: halves come last. */
function rank(unit: number): number {
  return unit >= 0xd800 && unit < 0xe000 ? unit + 0x1_0000 : unit;
}
