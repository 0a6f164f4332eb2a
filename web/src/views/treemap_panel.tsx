// SPDX-License-Identifier: Apache-2.0
import { useSignal, type Signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";

import { colourOf, dtypeVariable } from "../base/colours.js";
import { percent } from "../base/figures.js";
import { bytes, count, exactly, plural } from "../base/numbers.js";
import { shown } from "../base/text.js";
import { select } from "../model/actions.js";
import { dtypeAt, nameAt } from "../model/columns.js";
import type { Opened } from "../model/opened.js";
import { call } from "../model/rpc.js";
import { hovered, model, selected } from "../model/state.js";
import { isDark } from "../model/theme.js";
import type { Measure, Treemap } from "../worker/treemap.js";
import { placeOn, sharpContext, useWidth } from "./canvas.js";
import { DtypeLabel } from "./dtype_label.js";
import { Untrusted } from "./untrusted.js";

/** Where the parameters are, as areas. */
export function TreemapPanel(): VNode {
  const opened = model.value!;
  return <TreemapView key={opened.id} opened={opened} />;
}

function heightFor(width: number): number {
  return Math.round(Math.min(Math.max(width * 0.8, 260), 620));
}

function TreemapView({ opened }: { opened: Opened }): VNode {
  const path = useSignal("");
  const measure = useSignal<Measure>("elements");
  const map = useSignal<Treemap | undefined>(undefined);
  const at = useSignal(0);
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box).value;
  useEffect(() => {
    if (width === 0) {
      return;
    }
    const wish = { id: opened.id, path: path.value, width, height: heightFor(width), measure: measure.value };
    const controller = new AbortController();
    const { signal } = controller;
    void call("treemap", wish, { signal }).then(
      (made) => {
        map.value = made;
        at.value = 0;
      },
      (error: unknown) => {
        if (!signal.aborted) {
          throw error;
        }
      },
    );
    return () => controller.abort();
  }, [opened, path.value, measure.value, width]);
  return (
    <div class="treemap-view">
      <div class="plot-controls">
        <Trail path={path} />
        <label>
          Areas:{" "}
          <select
            class="field"
            value={measure.value}
            onChange={({ currentTarget }) => (measure.value = currentTarget.value as Measure)}
          >
            <option value="elements">parameters</option>
            <option value="sizes">bytes</option>
          </select>
        </label>
      </div>
      <div ref={box} class="treemap-room">
        {map.value !== undefined && width > 0 && (
          <Picture opened={opened} map={map.value} at={at} path={path} width={width} measure={measure.value} />
        )}
      </div>
      {map.value !== undefined && (
        <>
          <p class="readout" role="status">
            <SpotText opened={opened} map={map.value} at={at.value} measure={measure.value} />
          </p>
          <Members opened={opened} map={map.value} path={path} measure={measure.value} />
        </>
      )}
    </div>
  );
}

/** The groups that the picture is in, to go back to. */
function Trail({ path }: { path: Signal<string> }): VNode {
  const ends = [...path.value.matchAll(/(?<=.)[./]|$/gu)].map(({ index }) => index).filter((end) => end > 0);
  // Of a name with very many dots, only the beginning and the end.
  const shownEnds = ends.length > 8 ? [...ends.slice(0, 3), ...ends.slice(-4)] : ends;
  let begin = 0;
  return (
    <nav class="trail" aria-label="Group">
      <button
        type="button"
        class="link"
        aria-current={path.value === "" ? "true" : undefined}
        onClick={() => (path.value = "")}
      >
        all
      </button>
      {shownEnds.map((end) => {
        const part = path.value.slice(begin, end);
        begin = end;
        return (
          <button
            key={end}
            type="button"
            class="link"
            aria-current={end === path.value.length ? "true" : undefined}
            onClick={() => (path.value = path.value.slice(0, end))}
          >
            <Untrusted text={part} longest={40} />
          </button>
        );
      })}
    </nav>
  );
}

// ---- The picture --------------------------------------------------------------------------------------------------------

interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

function boxAt({ edges }: Treemap, i: number): Box {
  return { left: edges[4 * i]!, top: edges[4 * i + 1]!, right: edges[4 * i + 2]!, bottom: edges[4 * i + 3]! };
}

/** The innermost rectangle at a place. */
function hit(map: Treemap, x: number, y: number): number {
  for (let i = map.tensors.length - 1; i > 0; i--) {
    const { left, top, right, bottom } = boxAt(map, i);
    if (x >= left && x < right && y >= top && y < bottom) {
      return i;
    }
  }
  return 0;
}

/** Whether light text is easier to read on a colour than dark text. */
function needsLightText(colour: string): boolean {
  // Whatever way a colour is written in, a canvas says what it is.
  const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true })!;
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  const [red = 0, green = 0, blue = 0] = context.getImageData(0, 0, 1, 1).data;
  return 0.299 * red + 0.587 * green + 0.114 * blue < 140;
}

const FONT = "12px system-ui, sans-serif";

/** A label with what does not fit cut off; nothing where not even its beginning fits. */
function fitted(context: CanvasRenderingContext2D, label: string, room: number): string {
  let text = shown(label.replace(/^[./](?=.)/, ""), 60);
  while (text.length > 1 && context.measureText(text).width > room) {
    text = `${text.slice(0, Math.floor(text.length * 0.8) - 1)}…`;
  }
  return text.length < 2 && label.length > 2 ? "" : text;
}

function draw(context: CanvasRenderingContext2D, map: Treemap, opened: Opened): void {
  const { dtypeNames } = opened.columns;
  const colours = dtypeNames.map((dtype) => colourOf(dtypeVariable(dtype)));
  const isLight = colours.map(needsLightText);
  const [ground, group, title] = ["--surface", "--sunken", "--text"].map(colourOf);
  context.font = FONT;
  context.textBaseline = "middle";
  for (let i = 1; i < map.tensors.length; i++) {
    const { left, top, right, bottom } = boxAt(map, i);
    const [width, height] = [right - left, bottom - top];
    const isOpen = map.open[i] === 1;
    context.fillStyle = isOpen ? (map.depths[i]! % 2 === 1 ? group! : ground!) : colours[map.dtypes[i]!]!;
    // A line between neighbours, unless nothing else would be left.
    const line = width > 3 && height > 3 ? 1 : width > 1.5 && height > 1.5 ? 0.5 : 0;
    context.fillRect(left, top, width - line, height - line);
    if (isOpen) {
      if (width >= 40 && height >= 36) {
        context.fillStyle = title!;
        context.fillText(fitted(context, map.labels[i]!, width - 10), left + 4, top + 9);
      }
    } else if (width >= 30 && height >= 16) {
      context.fillStyle = isLight[map.dtypes[i]!] ? "#ffffff" : "#15140f";
      const more = map.tensors[i]! < 0 ? ` (${exactly(map.counts[i]!)})` : "";
      context.fillText(fitted(context, map.labels[i]! + more, width - 8), left + 4, top + Math.min(height / 2, 10));
    }
  }
}

interface PictureProps {
  opened: Opened;
  map: Treemap;
  /** The rectangle that is looked at. */
  at: Signal<number>;
  path: Signal<string>;
  width: number;
  measure: Measure;
}

/** The next rectangle that is a neighbour in the order of drawing at the same or a smaller depth. */
function sibling(map: Treemap, i: number, by: 1 | -1): number {
  const depth = map.depths[i]!;
  for (let k = i + by; k > 0 && k < map.depths.length; k += by) {
    if (map.depths[k] === depth) {
      return k;
    }
  }
  return i;
}

function parent(map: Treemap, i: number): number {
  let k = i;
  while (k > 0 && map.depths[k]! >= map.depths[i]!) {
    k--;
  }
  return k;
}

function Picture({ opened, map, at, path, width, measure }: PictureProps): VNode {
  const height = heightFor(width);
  const picture = useRef<HTMLCanvasElement>(null);
  const marks = useRef<HTMLCanvasElement>(null);
  const dark = isDark.value;
  const places = useMemo(
    () => new Map([...map.tensors].flatMap((tensor, i) => (tensor < 0 ? [] : [[tensor, i]]))),
    [map],
  );
  useEffect(() => {
    draw(sharpContext(picture.current!, width, height), map, opened);
  }, [map, dark]);
  const [pointed, chosen] = [hovered.value, selected.value].map((tensor) =>
    tensor === undefined ? undefined : groupOf(map, places, nameAt(opened.columns, tensor), tensor),
  );
  useEffect(() => {
    const context = sharpContext(marks.current!, width, height);
    const mark = (i: number | undefined, variable: string) => {
      if (i !== undefined && i > 0) {
        const { left, top, right, bottom } = boxAt(map, i);
        context.strokeStyle = colourOf(variable);
        context.lineWidth = 2;
        context.strokeRect(left, top, Math.max(right - left - 1, 2), Math.max(bottom - top - 1, 2));
      }
    };
    mark(pointed, "--map-hovered");
    mark(at.value, "--map-hovered");
    mark(chosen, "--map-selected");
  }, [map, dark, pointed, chosen, at.value]);

  const go = (i: number) => {
    at.value = i;
    hovered.value = map.tensors[i]! < 0 ? undefined : map.tensors[i];
  };
  const enter = (i: number) => {
    if (i > 0 && map.tensors[i]! >= 0) {
      select(map.tensors[i]);
    } else if (i > 0) {
      path.value = map.paths[i]!;
    }
  };
  const leave = () => {
    const end = /^(.+)[./]./su.exec(path.value)?.[1]?.length ?? 0;
    path.value = path.value.slice(0, end);
  };
  const keys: Record<string, () => void> = {
    ArrowRight: () => go(at.value === 0 ? Math.min(1, map.tensors.length - 1) : sibling(map, at.value, 1)),
    ArrowLeft: () => go(sibling(map, at.value, -1)),
    ArrowDown: () => go(map.depths[at.value + 1]! > map.depths[at.value]! ? at.value + 1 : at.value),
    ArrowUp: () => go(Math.max(parent(map, at.value), 0)),
    Enter: () => enter(at.value),
    " ": () => enter(at.value),
    Backspace: leave,
    "-": leave,
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const act = keys[event.key];
    if (act !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      act();
    }
  };
  const hitBy = (event: MouseEvent) => {
    const { x, y } = placeOn(picture.current!, event);
    return hit(map, x, y);
  };
  return (
    <div
      class="treemap"
      role="application"
      aria-roledescription="treemap"
      aria-label={`Treemap of ${plural(map.counts[0] ?? 0, "tensor")} by ${measure === "sizes" ? "bytes" : "parameters"}; arrow keys go from one to the next, down into a group and up out of it, Enter chooses, Backspace goes back`}
      tabIndex={0}
      onKeyDown={onKeyDown}
      onPointerMove={(event) => go(hitBy(event))}
      onPointerLeave={() => (hovered.value = undefined)}
      onClick={(event) => enter(hitBy(event))}
    >
      <canvas ref={picture} aria-hidden="true" />
      <canvas ref={marks} class="marks" aria-hidden="true" />
    </div>
  );
}

/** A tensor's rectangle, or that of the innermost group that is drawn as one. */
function groupOf(map: Treemap, places: ReadonlyMap<number, number>, name: string, tensor: number): number | undefined {
  const own = places.get(tensor);
  if (own !== undefined) {
    return own;
  }
  let found: number | undefined;
  for (let i = 1; i < map.tensors.length; i++) {
    if (map.tensors[i]! < 0 && map.open[i] === 0 && name.startsWith(map.paths[i]!)) {
      const rest = name[map.paths[i]!.length];
      found = rest === "." || rest === "/" ? i : found;
    }
  }
  return found;
}

// ---- The same in words --------------------------------------------------------------------------------------------------

function amount(value: number, measure: Measure): string {
  return measure === "sizes" ? bytes(value) : plural(value, "parameter");
}

function SpotText({
  opened,
  map,
  at,
  measure,
}: {
  opened: Opened;
  map: Treemap;
  at: number;
  measure: Measure;
}): VNode | null {
  const all = map.amounts[0];
  if (all === undefined) {
    return <>There is nothing to draw: all tensors are empty.</>;
  }
  const tensor = map.tensors[at]!;
  return (
    <>
      <b>
        {at === 0 && map.paths[0] === "" ? (
          "All"
        ) : (
          <Untrusted text={tensor < 0 ? map.paths[at]! : nameAt(opened.columns, tensor)} />
        )}
      </b>
      {tensor >= 0 && (
        <>
          {" "}
          <DtypeLabel dtype={dtypeAt(opened.columns, tensor)} />
        </>
      )}
      , {amount(map.amounts[at]!, measure)}
      {tensor < 0 && ` in ${plural(map.counts[at]!, "tensor")}`}
      {at > 0 && `, ${percent(map.amounts[at]!, all)}`}
    </>
  );
}

const MOST_MEMBERS = 100;

/** What is in the picture at its outermost level. */
function Members({
  opened,
  map,
  path,
  measure,
}: {
  opened: Opened;
  map: Treemap;
  path: Signal<string>;
  measure: Measure;
}): VNode {
  const members = [...map.depths].flatMap((depth, i) => (depth === 1 ? [i] : []));
  return (
    <details class="alternative">
      <summary>{plural(members.length, "member")} as a table</summary>
      <table class="shares">
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col" class="number">
              Tensors
            </th>
            <th scope="col" class="number">
              {measure === "sizes" ? "Bytes" : "Parameters"}
            </th>
            <th scope="col" class="number">
              Share
            </th>
          </tr>
        </thead>
        <tbody>
          {members.slice(0, MOST_MEMBERS).map((i) => {
            const tensor = map.tensors[i]!;
            return (
              <tr key={i}>
                <th scope="row">
                  <button
                    type="button"
                    class="link"
                    onClick={() => (tensor < 0 ? (path.value = map.paths[i]!) : select(tensor))}
                  >
                    <Untrusted text={tensor < 0 ? map.paths[i]! : nameAt(opened.columns, tensor)} longest={120} />
                  </button>
                </th>
                <td class="number">{exactly(map.counts[i]!)}</td>
                <td class="number">{measure === "sizes" ? bytes(map.amounts[i]!) : count(map.amounts[i]!)}</td>
                <td class="number">{percent(map.amounts[i]!, map.amounts[0]!)}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {members.length > MOST_MEMBERS && <p class="quiet">The {MOST_MEMBERS} largest are listed.</p>}
    </details>
  );
}
