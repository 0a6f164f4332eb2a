// SPDX-License-Identifier: Apache-2.0
import { useSignal, type Signal } from "@preact/signals";
import type { Distance } from "libcoffer";
import type { VNode } from "preact";
import { useMemo } from "preact/hooks";

import type { Dropped } from "../base/dropped.js";
import { figure, percent } from "../base/figures.js";
import { bytes, exactly, plural } from "../base/numbers.js";
import { shown } from "../base/text.js";
import { modelUrl } from "../base/urls.js";
import { select } from "../model/actions.js";
import { choicesOf } from "../model/choices.js";
import { dtypeAt, nameAt, shapeAt, type Columns } from "../model/columns.js";
import {
  compareCount,
  compareValues,
  compareWith,
  comparingValues,
  comparison,
  endComparison,
  stateOf,
  type Comparison,
  type PairState,
} from "../model/comparison.js";
import type { Job } from "../model/job.js";
import type { Opened } from "../model/opened.js";
import { model } from "../model/state.js";
import type { PairDiff } from "../worker/diff.js";
import { JobProgress, useJob } from "./job.js";
import { Picker, UrlForm } from "./openers.js";
import { rowAfter, shapeText } from "./tensor_table.js";
import { TensorName, Untrusted } from "./untrusted.js";
import { VirtualList } from "./virtual_list.js";

/** What another model has otherwise. */
export function DiffPanel(): VNode {
  const opening = useJob<undefined>();
  const current = comparison.value;
  return (
    <div class="comparison">
      {current === undefined ? (
        <OtherModel opening={opening} />
      ) : (
        <Result key={current.other.id} opened={model.value!} current={current} />
      )}
      <JobProgress job={opening} label="Opening the other model" />
    </div>
  );
}

function OtherModel({ opening }: { opening: Job<undefined> }): VNode {
  const onFiles = (files: readonly Dropped[]) => {
    const [choice, ...others] = choicesOf(files);
    if (choice !== undefined) {
      opening.start(async (options) => {
        if (others.length > 0) {
          throw new Error("There are several models among these files: choose those of one.");
        }
        await compareWith({ kind: "files", files: choice.files, name: choice.name }, options);
        return undefined;
      });
    }
  };
  const onUrl = (text: string) =>
    opening.start(async (options) => {
      await compareWith({ kind: "url", url: modelUrl(text) }, options);
      return undefined;
    });
  return (
    <>
      <p>See which tensors another model adds, lacks or has otherwise, and whether values are the same.</p>
      <div class="openers">
        <Picker label="Compare with files…" className="button primary" onFiles={onFiles} />
        <Picker label="Compare with a folder…" className="button" onFiles={onFiles} folder />
      </div>
      <UrlForm label="URL of the other model" onUrl={onUrl} compact />
    </>
  );
}

// ---- What differs -------------------------------------------------------------------------------------------------------

const STATES: readonly { state: PairState; label: string; sign: string }[] = [
  { state: "changed", label: "changed", sign: "≠" },
  { state: "different", label: "other values", sign: "≈" },
  { state: "added", label: "added", sign: "+" },
  { state: "removed", label: "removed", sign: "−" },
  { state: "same", label: "same dtype and shape", sign: "·" },
  { state: "equal", label: "equal", sign: "=" },
];

function Result({ opened, current }: { opened: Opened; current: Comparison }): VNode {
  const isHidden = useSignal<ReadonlySet<PairState>>(new Set(["same", "equal"]));
  const { compared, other } = current;
  const states = useMemo(
    () => Array.from(compared.kinds, (_, pair) => stateOf(current, pair)),
    [current, compareCount.value],
  );
  const pairs = useMemo(
    () => [...states.keys()].filter((pair) => !isHidden.value.has(states[pair]!)),
    [states, isHidden.value],
  );
  return (
    <>
      <div class="compared-names">
        <p>
          From <Untrusted text={opened.name} longest={80} /> to <Untrusted text={other.name} longest={80} />
        </p>
        <button type="button" class="button" onClick={endComparison}>
          Compare with another
        </button>
      </div>
      <Counts states={states} isHidden={isHidden} />
      {opened.hasValues && other.hasValues && <Values current={current} states={states} />}
      {pairs.length > 0 ? (
        <Pairs opened={opened} current={current} pairs={pairs} states={states} />
      ) : (
        <p class="quiet">
          {states.every((state) => state === "same" || state === "equal")
            ? "Both models have the same tensors, of the same dtypes and shapes."
            : "What differs is hidden."}
        </p>
      )}
      <MetadataDiff pairs={compared.metadata} />
    </>
  );
}

function Counts({
  states,
  isHidden,
}: {
  states: readonly PairState[];
  isHidden: Signal<ReadonlySet<PairState>>;
}): VNode {
  const toggle = (state: PairState) => {
    const next = new Set(isHidden.value);
    if (!next.delete(state)) {
      next.add(state);
    }
    isHidden.value = next;
  };
  return (
    <div class="diff-counts" role="group" aria-label="Tensors that are listed">
      {STATES.map(({ state, label, sign }) => {
        const count = states.reduce((sum, one) => sum + (one === state ? 1 : 0), 0);
        return count === 0 ? null : (
          <button
            key={state}
            type="button"
            class={`button diff-count diff-${state}`}
            aria-pressed={!isHidden.value.has(state)}
            onClick={() => toggle(state)}
          >
            <span class="diff-sign" aria-hidden="true">
              {sign}
            </span>
            {exactly(count)} {label}
          </button>
        );
      })}
    </div>
  );
}

function Values({ current, states }: { current: Comparison; states: readonly PairState[] }): VNode | null {
  const { other, compared } = current;
  const left = [...states.keys()].filter((pair) => states[pair] === "same");
  if (left.length === 0) {
    return null;
  }
  const size = left.reduce((sum, pair) => sum + Number(other.columns.sizes[compared.after[pair]!]), 0);
  return (
    <>
      {comparingValues.state.value.kind !== "running" && (
        <p class="actions">
          <button type="button" class="button primary" onClick={() => compareValues(current)}>
            Compare the values of {plural(left.length, "tensor")}
          </button>
          <span class="quiet">reads {bytes(size)} of each model</span>
        </p>
      )}
      <JobProgress job={comparingValues} label="Comparing values" />
    </>
  );
}

// ---- The list -----------------------------------------------------------------------------------------------------------

const ROW_HEIGHT = 46;

function description(columns: Columns, tensor: number): string {
  return `${dtypeAt(columns, tensor)} ${shown(shapeText(shapeAt(columns, tensor)), 60)}`;
}

/** How far values are apart, in words. */
function distanceText({ bytes: size, differing, nan, infinite, most, sum }: Distance, count: number): string {
  if (size === 0) {
    return "equal, byte by byte";
  }
  if (differing === 0) {
    return `${plural(size, "byte differs", "bytes differ")}, but no number does`;
  }
  const numbers = differing - nan - infinite;
  return [
    `${exactly(differing)} of ${exactly(count)} differ (${percent(differing, count)})`,
    numbers > 0 ? `by at most ${figure(most, 4)}, on average ${figure(sum / numbers, 4)}` : "",
    nan > 0 ? `${exactly(nan)} NaN in one only` : "",
    infinite > 0 ? `${exactly(infinite)} infinitely far apart` : "",
  ]
    .filter((text) => text !== "")
    .join(", ");
}

interface PairsProps {
  opened: Opened;
  current: Comparison;
  pairs: readonly number[];
  states: readonly PairState[];
}

function Pairs({ opened, current, pairs, states }: PairsProps): VNode {
  const at = useSignal<number | undefined>(undefined);
  const { compared, other, distances } = current;
  const textOf = (pair: number): string => {
    const [before, after] = [compared.before[pair]!, compared.after[pair]!];
    if (before < 0) {
      return description(other.columns, after);
    }
    if (after < 0) {
      return description(opened.columns, before);
    }
    const distance = distances.get(pair);
    if (distance !== undefined) {
      const parts = dtypeAt(opened.columns, before) === "C64" ? 2 : 1;
      return distanceText(distance, Number(opened.columns.elements[before]) * parts);
    }
    const [from, to] = [description(opened.columns, before), description(other.columns, after)];
    return from === to ? from : `${from} → ${to}`;
  };
  const choose = (index: number) => {
    at.value = index;
    const before = compared.before[pairs[index]!]!;
    if (before >= 0) {
      select(before);
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const to = rowAfter(event, at.value ?? -1, pairs.length);
    if (to !== undefined) {
      event.preventDefault();
      at.value = to;
    } else if (event.key === "Enter" && at.value !== undefined) {
      event.preventDefault();
      choose(at.value);
    }
  };
  const row = (index: number) => {
    const pair = pairs[index]!;
    const [before, after] = [compared.before[pair]!, compared.after[pair]!];
    const { sign, label } = STATES.find(({ state }) => state === states[pair])!;
    return (
      <div
        key={index}
        id={`pair-${index}`}
        role="row"
        class={`diff-row body-row diff-${states[pair]!}${index === at.value ? " selected" : ""}`}
        aria-rowindex={index + 1}
        aria-selected={index === at.value}
        onClick={() => (at.value = index)}
        onDblClick={() => choose(index)}
      >
        <span role="gridcell" class="diff-sign">
          <span aria-hidden="true">{sign}</span>
          <span class="hidden">{label}</span>
        </span>
        <span role="gridcell" class="diff-name">
          <TensorName name={before < 0 ? nameAt(other.columns, after) : nameAt(opened.columns, before)} />
        </span>
        <span role="gridcell" class="diff-text" title={textOf(pair)}>
          {textOf(pair)}
        </span>
      </div>
    );
  };
  return (
    <VirtualList
      count={pairs.length}
      order={pairs}
      rowHeight={ROW_HEIGHT}
      active={at.value}
      rowsRole="rowgroup"
      row={row}
      attributes={{
        role: "grid",
        class: "table diff-list",
        tabIndex: 0,
        "aria-label": "Tensors that differ",
        "aria-rowcount": pairs.length,
        "aria-colcount": 3,
        "aria-activedescendant": at.value === undefined ? undefined : `pair-${at.value}`,
        onKeyDown,
      }}
    />
  );
}

// ---- Metadata -----------------------------------------------------------------------------------------------------------

const MOST_KEYS = 200;

function MetadataDiff({ pairs }: { pairs: readonly PairDiff[] }): VNode {
  if (pairs.length === 0) {
    return <p class="quiet">The metadata are the same.</p>;
  }
  return (
    <details class="alternative" open={pairs.length <= 10}>
      <summary>Metadata: {plural(pairs.length, "key differs", "keys differ")}</summary>
      <ul class="pairs">
        {pairs.slice(0, MOST_KEYS).map(({ key, before, after }) => (
          <li key={key} class="pair">
            <span class="pair-name">
              <Untrusted text={key} />
            </span>
            <div class="pair-value">
              {before !== undefined && (
                <p>
                  <span class="diff-sign diff-removed">−</span> <Untrusted text={before} />
                </p>
              )}
              {after !== undefined && (
                <p>
                  <span class="diff-sign diff-added">+</span> <Untrusted text={after} />
                </p>
              )}
            </div>
          </li>
        ))}
      </ul>
      {pairs.length > MOST_KEYS && <p class="quiet">The first {MOST_KEYS} are listed.</p>}
    </details>
  );
}
