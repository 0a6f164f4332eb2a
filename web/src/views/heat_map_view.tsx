// SPDX-License-Identifier: Apache-2.0
import { useSignal, type Signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";

import { figure } from "../base/figures.js";
import { heatImage, heatPalette, heatScale, type HeatScale } from "../base/heat_colours.js";
import { bytes, exactly } from "../base/numbers.js";
import { dtypeAt, shapeAt } from "../model/columns.js";
import { planLook, type Plane, type Range, type Steps } from "../model/heat_plan.js";
import { call } from "../model/rpc.js";
import { isDark } from "../model/theme.js";
import type { HeatMap } from "../worker/heatmap.js";
import { JobProgress, useJob } from "./job.js";
import { bitsOf, type TensorViewProps } from "./tensor_panel.js";

/** Planes of a file for which at most so much is read are read without asking. */
const SMALL = 4 << 20;

/** What a complex number is shown as. */
const PARTS = ["real part", "imaginary part", "magnitude"] as const;
type Part = (typeof PARTS)[number];

function partOf({ values, imaginary }: HeatMap, part: Part): Float64Array {
  if (imaginary.length === 0 || part === "real part") {
    return values;
  }
  return part === "imaginary part" ? imaginary : values.map((real, i) => Math.hypot(real, imaginary[i]!));
}

/** A point of a picture. */
interface Point {
  row: number;
  column: number;
}

/** The point that has an element, or the nearest one. */
function pointOf({ rows, columns }: HeatMap, element: Point): Point {
  const along = ({ begin, step, count }: Steps, i: number) =>
    Math.min(Math.max(Math.floor((i - begin) / step), 0), count - 1);
  return { row: along(rows, element.row), column: along(columns, element.column) };
}

function elementOf({ rows, columns }: HeatMap, point: Point): Point {
  return { row: rows.begin + point.row * rows.step, column: columns.begin + point.column * columns.step };
}

/** The axes that are shown at first: the last two that have more than one element. */
function firstAxes(shape: readonly number[]): [rowAxis: number | undefined, columnAxis: number | undefined] {
  const long = shape.flatMap((size, axis) => (size > 1 ? [axis] : []));
  const axes = long.length >= 2 || shape.length < 2 ? long : shape.map((_, axis) => axis);
  return [
    axes.length < 2 ? undefined : axes.at(-2),
    axes.at(-1) ?? (shape.length === 0 ? undefined : shape.length - 1),
  ];
}

/** A picture, and what it is of. */
interface Look {
  map: HeatMap;
  plane: Plane;
}

/** A plane of the tensor as a picture. */
export function HeatMapView({ opened, tensor }: TensorViewProps): VNode {
  const shape = useMemo(() => [...shapeAt(opened.columns, tensor)].map(Number), [opened, tensor]);
  const bits = bitsOf(opened, tensor)!;
  const isFar = opened.traffic !== undefined;
  const [rowAxis, columnAxis] = firstAxes(shape);
  const plane = useSignal<Plane>({ shape, bits, rowAxis, columnAxis, indices: shape.map(() => 0) });
  // The last picture stays until the next one is there, and so does the focus that is on it.
  const last = useSignal<Look | undefined>(undefined);
  const job = useJob<Look>();
  const plan = planLook(plane.value, isFar);
  const look = () => {
    const wanted = plane.value;
    job.start(async (options) => {
      const map = await call("look", { id: opened.id, tensor, plane: wanted, isFar }, options);
      return (last.value = { map, plane: wanted });
    });
  };
  const isSmall = !isFar && plan.bytes <= SMALL;
  // What was asked for once is asked for again with every change that costs not much more.
  const isWanted = useSignal(false);
  useEffect(() => {
    if (isSmall || (isWanted.value && plan.bytes <= 4 * SMALL)) {
      look();
    } else {
      job.cancel();
      last.value = undefined;
      isWanted.value = false;
    }
  }, [plane.value]);
  return (
    <section class="values" aria-labelledby="heat-map-title">
      <h2 id="heat-map-title">{shape.length === 0 ? "Value" : "Heat map"}</h2>
      {shape.length > 0 && <PlaneControls plane={plane} />}
      {!isSmall && !isWanted.value && (
        <p class="actions">
          <button
            type="button"
            class="button primary"
            onClick={() => {
              isWanted.value = true;
              look();
            }}
          >
            Read about {bytes(plan.bytes)}
          </button>
        </p>
      )}
      {last.value !== undefined && (
        <Picture
          look={last.value}
          isComplex={dtypeAt(opened.columns, tensor) === "C64"}
          onPlane={(next) => (plane.value = next)}
        />
      )}
      <JobProgress job={job} label="Reading the plane" />
    </section>
  );
}

// ---- What is shown ------------------------------------------------------------------------------------------------------

function axisLabel(shape: readonly number[], axis: number): string {
  return `dimension ${axis} (${exactly(shape[axis]!)})`;
}

function PlaneControls({ plane }: { plane: Signal<Plane> }): VNode | null {
  const { shape, rowAxis, columnAxis, indices } = plane.value;
  if (shape.length < 2) {
    return null;
  }
  const change = (next: Partial<Plane>) =>
    (plane.value = { ...plane.value, rows: undefined, columns: undefined, ...next });
  // Choosing the other axis' dimension exchanges both.
  const choose = (which: "rowAxis" | "columnAxis", axis: number) => {
    const other = which === "rowAxis" ? "columnAxis" : "rowAxis";
    change({ [which]: axis, ...(plane.value[other] === axis ? { [other]: plane.value[which] } : {}) });
  };
  const select = (which: "rowAxis" | "columnAxis", label: string) => (
    <label>
      {label}:{" "}
      <select value={plane.value[which]} onChange={({ currentTarget }) => choose(which, Number(currentTarget.value))}>
        {shape.map((_, axis) => (
          <option key={axis} value={axis}>
            {axisLabel(shape, axis)}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <div class="plot-controls">
      {rowAxis !== undefined && select("rowAxis", "Down")}
      {select("columnAxis", "Across")}
      {shape.map((size, axis) =>
        axis === rowAxis || axis === columnAxis ? null : (
          <label key={axis}>
            Dimension {axis}:{" "}
            <input
              type="number"
              min={0}
              max={size - 1}
              value={indices[axis]}
              onChange={({ currentTarget }) => {
                const index = Math.min(Math.max(Math.trunc(Number(currentTarget.value)) || 0, 0), size - 1);
                currentTarget.value = String(index);
                change({ indices: indices.map((old, i) => (i === axis ? index : old)) });
              }}
            />{" "}
            of {exactly(size)}
          </label>
        ),
      )}
    </div>
  );
}

// ---- The picture --------------------------------------------------------------------------------------------------------

interface PictureProps {
  look: Look;
  isComplex: boolean;
  /** What is to be seen next. */
  onPlane: (plane: Plane) => void;
}

function Picture({ look, isComplex, onPlane }: PictureProps): VNode {
  const { map, plane } = look;
  const part = useSignal<Part>("real part");
  const isCut = useSignal(true);
  // The element that is looked at: zooming changes its point, and not the element.
  const element = useSignal<Point>({ row: 0, column: 0 });
  const values = useMemo(() => partOf(map, part.value), [map, part.value]);
  const scale = useMemo(() => heatScale(values, isCut.value ? 0.005 : 0), [values, isCut.value]);
  const { rows, columns } = map;
  const { rowAxis, columnAxis } = plane;
  useEffect(() => {
    element.value = { row: 0, column: 0 };
  }, [rowAxis, columnAxis]);
  if (columnAxis === undefined) {
    return <p class="readout">{isComplex ? complexText(map, 0) : figure(values[0]!, 17)}</p>;
  }
  const at = pointOf(map, element.value);
  return (
    <figure class="plot">
      <figcaption class="plot-controls">
        {isComplex && (
          <label>
            Show:{" "}
            <select value={part.value} onChange={({ currentTarget }) => (part.value = currentTarget.value as Part)}>
              {PARTS.map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          </label>
        )}
        <label>
          <input
            type="checkbox"
            checked={isCut.value}
            onChange={({ currentTarget }) => (isCut.value = currentTarget.checked)}
          />{" "}
          outermost 1 % in the last colour
        </label>
      </figcaption>
      <Canvas look={look} values={values} scale={scale} element={element} onPlane={onPlane} />
      <p class="readout" role="status">
        {placeText(plane, map, at)} ={" "}
        {isComplex
          ? complexText(map, at.row * columns.count + at.column)
          : figure(values[at.row * columns.count + at.column]!)}
      </p>
      <Legend scale={scale} />
      <p class="quiet">{stepsText(rows, columns)}</p>
      <NumbersAround map={map} values={values} at={at} />
    </figure>
  );
}

function placeText({ shape, rowAxis, columnAxis, indices }: Plane, { rows, columns }: HeatMap, at: Point): string {
  const places = shape.map((_, axis) => {
    if (axis === rowAxis) {
      return rows.begin + at.row * rows.step;
    }
    return axis === columnAxis ? columns.begin + at.column * columns.step : indices[axis]!;
  });
  return `[${places.map(exactly).join(", ")}]`;
}

function complexText({ values, imaginary }: HeatMap, i: number): string {
  const sign = imaginary[i]! < 0 ? "−" : "+";
  return `${figure(values[i]!)} ${sign} ${figure(Math.abs(imaginary[i]!))}i`;
}

function stepsText(rows: Steps, columns: Steps): string {
  const one = ({ step }: Steps, name: string) => (step === 1 ? `every ${name}` : `every ${exactly(step)}th ${name}`);
  return rows.step === 1 && columns.step === 1
    ? "Every element is a point."
    : `Shown are ${one(rows, "row")} and ${one(columns, "column")}. Zoom in to see all.`;
}

/** How many points are left of an axis, at the least, by zooming. */
const LEAST_RANGE = 8;

/** A part of a range around one of its elements. */
function narrowed(range: Range, size: number, middle: number, factor: number): Range | undefined {
  const length = Math.min(Math.max(Math.round((range.end - range.begin) * factor), Math.min(LEAST_RANGE, size)), size);
  if (length === size) {
    return undefined;
  }
  const begin = Math.min(Math.max(middle - Math.floor(length / 2), 0), size - length);
  return { begin, end: begin + length };
}

function zoomed(plane: Plane, { rows, columns }: HeatMap, around: Point, factor: number): Plane {
  const along = (axis: number | undefined, steps: Steps, i: number) =>
    axis === undefined ? undefined : narrowed(steps, plane.shape[axis]!, i, factor);
  return {
    ...plane,
    rows: along(plane.rowAxis, rows, around.row),
    columns: along(plane.columnAxis, columns, around.column),
  };
}

/** What a key does to a point; undefined for keys that do nothing. */
function stepped(
  { key, shiftKey }: KeyboardEvent,
  { row, column }: Point,
  { rows, columns }: HeatMap,
): Point | undefined {
  const by = shiftKey ? 10 : 1;
  const inside = (i: number, count: number) => Math.min(Math.max(i, 0), count - 1);
  const to = (r: number, c: number) => ({ row: inside(r, rows.count), column: inside(c, columns.count) });
  switch (key) {
    case "ArrowLeft":
      return to(row, column - by);
    case "ArrowRight":
      return to(row, column + by);
    case "ArrowUp":
      return to(row - by, column);
    case "ArrowDown":
      return to(row + by, column);
    case "Home":
      return to(row, 0);
    case "End":
      return to(row, columns.count - 1);
    case "PageUp":
      return to(0, column);
    case "PageDown":
      return to(rows.count - 1, column);
    default:
      return undefined;
  }
}

interface CanvasProps {
  look: Look;
  values: Float64Array;
  scale: HeatScale;
  element: Signal<Point>;
  onPlane: (plane: Plane) => void;
}

function Canvas({ look: { map, plane }, values, scale, element, onPlane }: CanvasProps): VNode {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { rows, columns } = map;
  const dark = isDark.value;
  useEffect(() => {
    const context = canvas.current!.getContext("2d")!;
    canvas.current!.width = columns.count;
    canvas.current!.height = rows.count;
    context.putImageData(heatImage(values, columns.count, scale, heatPalette()), 0, 0);
  }, [values, scale, dark]);
  const zoom = (factor: number) => onPlane(zoomed(plane, map, element.value, factor));
  const pointAt = (event: PointerEvent | MouseEvent): Point => {
    const box = canvas.current!.getBoundingClientRect();
    const inside = (share: number, count: number) => Math.min(Math.max(Math.floor(share * count), 0), count - 1);
    return {
      row: inside((event.clientY - box.top) / box.height, rows.count),
      column: inside((event.clientX - box.left) / box.width, columns.count),
    };
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const next = stepped(event, pointOf(map, element.value), map);
    if (next !== undefined) {
      element.value = elementOf(map, next);
    } else if (event.key === "+" || event.key === "=") {
      zoom(1 / 4);
    } else if (event.key === "-") {
      zoom(4);
    } else {
      return;
    }
    event.preventDefault();
  };
  const isWhole = plane.rows === undefined && plane.columns === undefined;
  // A single row is high enough to be seen, and no picture is higher than wide.
  const ratio = Math.min(Math.max(rows.count / columns.count, 0.08), 1);
  const { row, column } = pointOf(map, element.value);
  return (
    <>
      <div
        class="heat-map"
        role="application"
        aria-roledescription="heat map"
        aria-label={`Heat map of ${exactly(rows.count)} rows and ${exactly(columns.count)} columns, from ${figure(scale.low)} to ${figure(scale.high)}; arrow keys go from point to point, plus and minus zoom`}
        tabIndex={0}
        style={{ aspectRatio: `1 / ${ratio}` }}
        onKeyDown={onKeyDown}
        onPointerMove={(event) => (element.value = elementOf(map, pointAt(event)))}
        onDblClick={(event) => {
          element.value = elementOf(map, pointAt(event));
          zoom(1 / 4);
        }}
      >
        <canvas ref={canvas} aria-hidden="true" />
        <span
          class="heat-cursor"
          aria-hidden="true"
          style={{
            left: `${(100 * column) / columns.count}%`,
            top: `${(100 * row) / rows.count}%`,
            width: `${100 / columns.count}%`,
            height: `${100 / rows.count}%`,
          }}
        />
      </div>
      <div class="actions small">
        <button type="button" class="button" onClick={() => zoom(1 / 4)}>
          Zoom in
        </button>
        <button type="button" class="button" disabled={isWhole} onClick={() => zoom(4)}>
          Zoom out
        </button>
        <button
          type="button"
          class="button"
          disabled={isWhole}
          onClick={() => onPlane({ ...plane, rows: undefined, columns: undefined })}
        >
          All of it
        </button>
      </div>
    </>
  );
}

function Legend({ scale }: { scale: HeatScale }): VNode {
  return (
    <div class="ramp-legend" aria-hidden="true">
      <span>{figure(scale.low, 4)}</span>
      <span class={scale.isDiverging ? "ramp diverging" : "ramp"} />
      <span>{figure(scale.high, 4)}</span>
      <span class="ramp-key nan">NaN</span>
      <span class="ramp-key infinite">infinite</span>
    </div>
  );
}

const TABLE_ROWS = 8;
const TABLE_COLUMNS = 6;

/** The picture in numbers: some of them, from the one that is looked at on. */
function NumbersAround({ map, values, at }: { map: HeatMap; values: Float64Array; at: Point }): VNode {
  const { rows, columns } = map;
  const from = (i: number, count: number, most: number) => Math.max(0, Math.min(i, count - most));
  const [top, left] = [from(at.row, rows.count, TABLE_ROWS), from(at.column, columns.count, TABLE_COLUMNS)];
  const range = (begin: number, count: number, most: number) =>
    Array.from({ length: Math.min(most, count) }, (_, i) => begin + i);
  const shownColumns = range(left, columns.count, TABLE_COLUMNS);
  return (
    <details class="alternative">
      <summary>The numbers there, as a table</summary>
      <div class="scroll" tabIndex={0} role="region" aria-label="Numbers">
        <table>
          <thead>
            <tr>
              <td />
              {shownColumns.map((column) => (
                <th key={column} scope="col">
                  {exactly(columns.begin + column * columns.step)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {range(top, rows.count, TABLE_ROWS).map((row) => (
              <tr key={row}>
                <th scope="row">{exactly(rows.begin + row * rows.step)}</th>
                {shownColumns.map((column) => (
                  <td key={column}>{figure(values[row * columns.count + column]!)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
