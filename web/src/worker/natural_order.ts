// SPDX-License-Identifier: Apache-2.0
/* The order that people expect of names: "h.2" before "h.10". */

const isDigit = (unit: number) => unit >= 48 && unit <= 57;

/** Where the digits that begin at `at` end. */
function digitsEnd(text: string, at: number): number {
  let end = at;
  while (end < text.length && isDigit(text.charCodeAt(end))) {
    end++;
  }
  return end;
}

/** Numbers of any length, without their leading zeros: a longer one is larger. */
function compareDigits(a: string, b: string): number {
  const [left, right] = [a.replace(/^0+/, ""), b.replace(/^0+/, "")];
  return left.length - right.length || (left < right ? -1 : left > right ? 1 : a.length - b.length);
}

/** Where two texts stop being the same, at the first digit of a number that differs or before. */
function firstDifference(a: string, b: string): number {
  let at = 0;
  while (at < a.length && at < b.length && a.charCodeAt(at) === b.charCodeAt(at)) {
    at++;
  }
  while (at > 0 && isDigit(a.charCodeAt(at - 1))) {
    at--;
  }
  return at;
}

export function compareNaturally(a: string, b: string): number {
  const at = firstDifference(a, b);
  const [leftEnd, rightEnd] = [digitsEnd(a, at), digitsEnd(b, at)];
  if (leftEnd === at || rightEnd === at) {
    return (a.charCodeAt(at) || 0) - (b.charCodeAt(at) || 0) || a.length - b.length;
  }
  const order = compareDigits(a.slice(at, leftEnd), b.slice(at, rightEnd));
  return order || a.length - b.length;
}
