// SPDX-License-Identifier: Apache-2.0
/* Numbers as people read them. */

const grouping = new Intl.NumberFormat("en-US");

/** 1,234,567, exactly. */
export function exactly(value: number | bigint): string {
  return grouping.format(value);
}

/** 15.2 MB, in powers of 1000, rounded as the command does it. */
export function bytes(value: number | bigint): string {
  const units = ["kB", "MB", "GB", "TB", "PB", "EB"];
  let rest = Number(value) / 1000;
  let unit = 0;
  if (rest < 1) {
    return `${value} B`;
  }
  for (; rest >= 999.95 && unit < units.length - 1; unit++) {
    rest /= 1000;
  }
  return `${rest.toFixed(1)} ${units[unit]!}`;
}

/** 7.24B: numbers of parameters, as models are named. */
export function count(value: number | bigint): string {
  const units = ["", "K", "M", "B", "T", "Q"];
  let rest = Number(value);
  let unit = 0;
  for (; rest >= 999.5 && unit < units.length - 1; unit++) {
    rest /= 1000;
  }
  return `${unit === 0 ? String(rest) : rest.toPrecision(3)}${units[unit]!}`;
}

/** "1 file", "2 files". */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${exactly(value)} ${value === 1 ? one : many}`;
}
