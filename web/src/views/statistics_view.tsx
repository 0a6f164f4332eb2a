// SPDX-License-Identifier: Apache-2.0
import type { VNode } from "preact";
import { useEffect, useMemo } from "preact/hooks";

import { figure, percent } from "../base/figures.js";
import { bytes, exactly, plural } from "../base/numbers.js";
import { dtypeAt } from "../model/columns.js";
import { examine, jobOf } from "../model/examination.js";
import { quantile } from "../model/histogram.js";
import { SAMPLE } from "../model/portions.js";
import type { Examined } from "../worker/examine.js";
import { HistogramView } from "./histogram_view.js";
import { JobProgress } from "./job.js";
import type { TensorViewProps } from "./tensor_panel.js";

/** Tensors of a file that are at most this large are examined without asking. */
const SMALL = 4 << 20;

/** What the tensor's numbers are, once they are read. */
export function StatisticsView({ opened, tensor }: TensorViewProps): VNode {
  const isFar = opened.traffic !== undefined;
  const size = Number(opened.columns.sizes[tensor]);
  const sample = SAMPLE[isFar ? "far" : "near"];
  const job = useMemo(() => jobOf({ id: opened.id, tensor }), [opened.id, tensor]);
  const read = (isSample: boolean) => examine({ id: opened.id, tensor, isSample, isFar });
  useEffect(() => {
    if (!isFar && size <= SMALL && job.state.value.kind === "idle") {
      read(false);
    }
  }, []);
  const state = job.state.value;
  const examined = state.kind === "done" ? state.result : undefined;
  return (
    <section class="values" aria-labelledby="statistics-title">
      <h2 id="statistics-title">Statistics</h2>
      {state.kind !== "running" && (examined === undefined || examined.isSample) && (
        <p class="actions">
          {size > sample.bytes && examined === undefined && (
            <button type="button" class="button primary" onClick={() => read(true)}>
              Sample {bytes(sample.bytes)}
            </button>
          )}
          <button type="button" class={size > sample.bytes ? "button" : "button primary"} onClick={() => read(false)}>
            Read all {bytes(size)}
          </button>
        </p>
      )}
      <JobProgress job={job} label="Reading values" />
      {examined !== undefined && (
        <>
          <p class="quiet" role="status">
            {examined.isSample
              ? `Of a sample: ${bytes(examined.bytes)} of ${bytes(size)}, in ${sample.pieces} pieces spread evenly.`
              : `Of all ${plural(examined.numbers.count, "number")}${dtypeAt(opened.columns, tensor) === "C64" ? ", two for each complex one" : ""}.`}
          </p>
          <NumbersTable examined={examined} />
          <HistogramView examined={examined} isWhole={/^([IU]\d|BOOL)/.test(dtypeAt(opened.columns, tensor))} />
        </>
      )}
    </section>
  );
}

function NumbersTable({ examined }: { examined: Examined }): VNode {
  const { numbers } = examined;
  const value = (number: number | bigint | undefined) => (number === undefined ? "–" : figure(number));
  const share = (count: number) => (count === 0 ? "0" : `${exactly(count)} (${percent(count, numbers.count)})`);
  const rows: readonly (readonly [name: string, text: string, isBad?: boolean])[] = [
    ["Minimum", value(numbers.min)],
    ["Maximum", value(numbers.max)],
    ["Mean", value(numbers.mean)],
    ["Standard deviation", value(numbers.deviation)],
    ["Median", value(quantile(examined, 0.5))],
    ["1 % and 99 %", `${value(quantile(examined, 0.01))}, ${value(quantile(examined, 0.99))}`],
    ["Zeros", share(numbers.zeros)],
    ["NaN", share(numbers.nan), numbers.nan > 0],
    ["Infinite", share(numbers.infinite), numbers.infinite > 0],
  ];
  return (
    <dl class="facts numbers">
      {rows.map(([name, text, isBad]) => (
        <div class={isBad ? "fact bad" : "fact"} key={name}>
          <dt>{name}</dt>
          <dd>{text}</dd>
        </div>
      ))}
    </dl>
  );
}
