// SPDX-License-Identifier: Apache-2.0
/*
 * Numbers as colours. Where some are negative, zero is in the middle and both sides have a colour of their own, which grows
 * stronger with the distance; else the colours go from the least number to the greatest.
 */
import { colourOf } from "./colours.js";

type Rgb = readonly [red: number, green: number, blue: number];

export interface HeatScale {
  low: number;
  high: number;
  /** Whether zero is in the middle. */
  isDiverging: boolean;
}

export interface HeatPalette {
  below: Rgb;
  zero: Rgb;
  above: Rgb;
  nan: Rgb;
  infinite: Rgb;
}

function rgbOf(variable: string): Rgb {
  const [red = 0, green = 0, blue = 0] = (colourOf(variable).match(/[\d.]+/g) ?? []).map(Number);
  return [red, green, blue];
}

/** The colours of the theme that is on. */
export function heatPalette(): HeatPalette {
  return {
    below: rgbOf("--heat-below"),
    zero: rgbOf("--heat-zero"),
    above: rgbOf("--heat-above"),
    nan: rgbOf("--heat-nan"),
    infinite: rgbOf("--heat-infinite"),
  };
}

/** The scale of some numbers; `cut` is the share at either end that is left out of it. */
export function heatScale(values: Float64Array, cut: number): HeatScale {
  const finite = values.filter(Number.isFinite).sort();
  if (finite.length === 0) {
    return { low: 0, high: 0, isDiverging: false };
  }
  const left = Math.floor(finite.length * cut);
  const [low, high] = [finite[left]!, finite[finite.length - 1 - left]!];
  if (low < 0) {
    const most = Math.max(-low, high);
    return { low: -most, high: most, isDiverging: true };
  }
  return { low, high, isDiverging: false };
}

function mixed(from: Rgb, to: Rgb, share: number): Rgb {
  return [0, 1, 2].map((i) => from[i]! + (to[i]! - from[i]!) * share) as unknown as Rgb;
}

export function heatColour(value: number, { low, high, isDiverging }: HeatScale, palette: HeatPalette): Rgb {
  if (!Number.isFinite(value)) {
    return Number.isNaN(value) ? palette.nan : palette.infinite;
  }
  const width = high - low;
  if (isDiverging) {
    const share = Math.min(Math.abs(value) / high, 1);
    return mixed(palette.zero, value < 0 ? palette.below : palette.above, share);
  }
  return mixed(palette.zero, palette.above, width > 0 ? Math.min(Math.max((value - low) / width, 0), 1) : 0);
}

/** A picture of a number each, row by row. */
export function heatImage(values: Float64Array, columns: number, scale: HeatScale, palette: HeatPalette): ImageData {
  const image = new ImageData(columns, values.length / columns);
  for (const [i, value] of values.entries()) {
    image.data.set(heatColour(value, scale, palette), 4 * i);
    image.data[4 * i + 3] = 255;
  }
  return image;
}
