// SPDX-License-Identifier: Apache-2.0
/* Values of tensors as people read them. */
import { exactly } from "./numbers.js";

/** A value: whole numbers exactly, others with as many digits as `digits`, 6 without it. */
export function figure(value: number | bigint, digits = 6): string {
  if (typeof value === "bigint" || (Number.isInteger(value) && Math.abs(value) < 1e15)) {
    return exactly(value).replace(/^-/, "−");
  }
  if (!Number.isFinite(value)) {
    return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "−∞";
  }
  const rounded = Number(value.toPrecision(digits));
  // Without the zeros that both of these could be filled up with.
  const text = rounded !== 0 && Math.abs(rounded) < 1e-4 ? rounded.toExponential() : String(rounded);
  return text.replace(/^-/, "−").replace("e+", "e");
}

/** 12.3 %; what is there is never 0 %, and what is not all is never 100 %. */
export function percent(part: number, whole: number): string {
  const share = whole === 0 ? 0 : (100 * part) / whole;
  if (part > 0 && share < 0.01) {
    return "< 0.01 %";
  }
  if (part < whole && share > 99.99) {
    return "> 99.99 %";
  }
  return `${Number(share.toPrecision(3))} %`;
}
