// SPDX-License-Identifier: Apache-2.0
import { useSignal } from "@preact/signals";
import type { Distribution } from "libcoffer";
import type { VNode } from "preact";

import { figure, percent } from "../base/figures.js";
import { moved } from "../base/keyboard.js";
import { exactly, plural } from "../base/numbers.js";
import { histogram, quantile, type Histogram } from "../model/histogram.js";

const BARS = 64;
const WIDTH = 640;
const HEIGHT = 170;

/** How much of both ends is left out of the axis. */
const RANGES = [
  { label: "all numbers", cut: 0 },
  { label: "without the outermost 0.1 %", cut: 0.0005 },
  { label: "without the outermost 2 %", cut: 0.01 },
] as const;

function heightOf(count: number, most: number, isLogarithmic: boolean): number {
  if (count <= 0 || most <= 0) {
    return 0;
  }
  const share = isLogarithmic ? Math.log1p(count) / Math.log1p(most) : count / most;
  // Something is never nothing.
  return Math.max(share * HEIGHT, 1);
}

export interface HistogramViewProps {
  examined: Distribution;
  /** Whether all numbers are whole. */
  isWhole: boolean;
}

/** How the numbers are distributed, as bars. */
export function HistogramView({ examined, isWhole }: HistogramViewProps): VNode | null {
  const range = useSignal(0);
  const isLogarithmic = useSignal(false);
  const bar = useSignal<number | undefined>(undefined);
  if (examined.counts.length === 0) {
    return null;
  }
  const { cut } = RANGES[range.value]!;
  const ends = cut === 0 ? {} : { low: quantile(examined, cut), high: quantile(examined, 1 - cut) };
  const bars = histogram(examined, { bars: BARS, whole: isWhole, ...ends });
  const most = bars.counts.reduce((a, b) => Math.max(a, b), 0);
  const onKeyDown = (event: KeyboardEvent) => {
    const next = moved(event, bar.value ?? -1, bars.counts.length);
    if (next !== undefined) {
      event.preventDefault();
      bar.value = next;
    }
  };
  const width = WIDTH / bars.counts.length;
  const zero = (-bars.low / (bars.high - bars.low)) * WIDTH;
  return (
    <figure class="plot">
      <figcaption class="plot-controls">
        <label>
          Axis:{" "}
          <select value={range.value} onChange={({ currentTarget }) => (range.value = Number(currentTarget.value))}>
            {RANGES.map(({ label }, i) => (
              <option key={label} value={i}>
                {label}
              </option>
            ))}
          </select>
        </label>
        <label>
          <input
            type="checkbox"
            checked={isLogarithmic.value}
            onChange={({ currentTarget }) => (isLogarithmic.value = currentTarget.checked)}
          />{" "}
          logarithmic counts
        </label>
      </figcaption>
      <div
        class="histogram"
        role="application"
        aria-roledescription="histogram"
        aria-label={`Histogram of ${bars.counts.length} bars from ${figure(bars.low)} to ${figure(bars.high)}; arrow keys go from bar to bar`}
        tabIndex={0}
        onKeyDown={onKeyDown}
        onPointerLeave={() => (bar.value = undefined)}
      >
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
          {zero > 0 && zero < WIDTH && <line class="zero" x1={zero} x2={zero} y1={0} y2={HEIGHT} />}
          {[...bars.counts].map((count, i) => {
            const height = heightOf(count, most, isLogarithmic.value);
            return (
              <g key={i} class={i === bar.value ? "bar active" : "bar"} onPointerEnter={() => (bar.value = i)}>
                <rect class="bar-room" x={i * width} y={0} width={width} height={HEIGHT} />
                <rect
                  class="bar-count"
                  x={i * width}
                  y={HEIGHT - height}
                  width={Math.max(width - 1, width * 0.8)}
                  height={height}
                />
              </g>
            );
          })}
        </svg>
        <div class="axis" aria-hidden="true">
          <span>{figure(bars.low, 4)}</span>
          <span>{figure((bars.low + bars.high) / 2, 4)}</span>
          <span>{figure(bars.high, 4)}</span>
        </div>
      </div>
      <p class="readout" role="status">
        {bar.value === undefined ? outside(bars) : barText(bars, bar.value, isWhole)}
      </p>
    </figure>
  );
}

function outside({ below, above }: Histogram): string {
  return below + above > 0.5
    ? `${plural(Math.round(below + above), "number lies", "numbers lie")} outside of the axis.`
    : "Point at a bar to see how many numbers it has.";
}

function barText({ low, high, counts, below, above }: Histogram, i: number, isWhole: boolean): string {
  const each = (high - low) / counts.length;
  const [from, to] = [low + each * i, low + each * (i + 1)];
  const count = counts[i]!;
  const total = counts.reduce((a, b) => a + b, 0) + below + above;
  const range = isWhole
    ? each === 1
      ? figure(from + 0.5)
      : `${figure(Math.ceil(from))} to ${figure(Math.floor(to))}`
    : `${figure(from, 4)} to ${figure(to, 4)}`;
  return `${range}: ${exactly(Math.round(count))} (${percent(count, total)})`;
}
