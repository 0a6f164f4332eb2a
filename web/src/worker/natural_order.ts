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

export function compareNaturally(a: string, b: string): number {
  let at = 0;
  while (at < a.length && at < b.length) {
    const [left, right] = [a.charCodeAt(at), b.charCodeAt(at)];
    if (isDigit(left) && isDigit(right)) {
      break;
    }
    if (left !== right) {
      return left - right;
    }
    at++;
  }
  const [leftEnd, rightEnd] = [digitsEnd(a, at), digitsEnd(b, at)];
  const order = compareDigits(a.slice(at, leftEnd), b.slice(at, rightEnd));
  if (order !== 0 || at === leftEnd || at === rightEnd) {
    return order || a.length - b.length;
  }
  return compareNaturally(a.slice(leftEnd), b.slice(rightEnd));
}
