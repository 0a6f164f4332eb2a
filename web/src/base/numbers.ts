// SPDX-License-Identifier: Apache-2.0
/* Numbers as people read them. */

const grouping = new Intl.NumberFormat("en-US");

/** 1,234,567, exactly. */
export function exactly(value: number | bigint): string {
  return grouping.format(value);
}

function scaled(value: number, base: number, units: readonly string[]): string {
  let unit = 0;
  let rest = value;
  while (rest >= base * 0.9995 && unit < units.length - 1) {
    rest /= base;
    unit++;
  }
  return `${unit === 0 ? String(rest) : rest.toPrecision(3)}${units[unit]!}`;
}

/** 15.2 MB, in powers of 1000 as the command has them. */
export function bytes(value: number | bigint): string {
  return scaled(Number(value), 1000, [" B", " kB", " MB", " GB", " TB", " PB", " EB"]);
}

/** 7.24B: numbers of parameters, as models are named. */
export function count(value: number | bigint): string {
  return scaled(Number(value), 1000, ["", "K", "M", "B", "T", "Q"]);
}

/** "1 file", "2 files". */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${exactly(value)} ${value === 1 ? one : many}`;
}
