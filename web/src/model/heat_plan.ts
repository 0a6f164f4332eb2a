// SPDX-License-Identifier: Apache-2.0
/*
 * A plane of a tensor as a picture of few enough points: along each axis that is shown every n-th element, of all others one.
 *
 * How much is read for it depends on where the elements lie: those that are close together come by one read, with what is
 * between them, and distant ones by a read each. The plan takes fewer points until that is within a budget.
 */

/** What is to be seen. Axes count from 0, the slowest. */
export interface Plane {
  shape: readonly number[];
  /** Bits of an element. */
  bits: number;
  /** The axis that goes down; undefined for a single row. */
  rowAxis: number | undefined;
  /** The axis that goes to the right; undefined for a single number. */
  columnAxis: number | undefined;
  /** By axis: which element of it, where it is not shown. */
  indices: readonly number[];
  /** The part that is looked at; without it all. */
  rows?: Range | undefined;
  columns?: Range | undefined;
}

export interface Range {
  begin: number;
  end: number;
}

export interface Budget {
  /** Points along an axis. */
  points: number;
  bytes: number;
  reads: number;
}

/** Every `step`-th element from `begin` to before `end`. */
export interface Steps extends Range {
  step: number;
  count: number;
}

export interface HeatPlan {
  /** For the library, which reads it. */
  slice: string;
  rows: Steps;
  columns: Steps;
  /** Of the slice, where it has more elements than are shown: those of small dtypes cannot be read one by one. */
  picked: { axis: "rows" | "columns"; steps: Steps } | { axis: "none"; steps: Steps } | undefined;
  /** What is read for it, about. */
  bytes: number;
  reads: number;
}

/** What the library reads rather than leaves out, and at most by one read: MAX_GAP and MAX_READ of its runs.ts. */
const MAX_GAP = 64 << 10;
const MAX_READ = 8 << 20;

/** Points of an axis are not thinned out further than this to save reading. */
const MIN_POINTS = 16;

function steps({ begin, end }: Range, points: number): Steps {
  const step = Math.max(1, Math.ceil((end - begin) / points));
  return { begin, end, step, count: Math.ceil((end - begin) / step) };
}

interface Extent {
  /** From the first byte to the last. */
  extent: number;
  bytes: number;
  reads: number;
}

/** `count` things of one kind, `distance` bytes apart. */
function repeated({ extent, bytes, reads }: Extent, count: number, distance: number): Extent {
  const all = count === 0 ? 0 : (count - 1) * distance + extent;
  if (reads <= 1 && distance - extent <= MAX_GAP) {
    return { extent: all, bytes: all, reads: Math.max(1, Math.ceil(all / MAX_READ)) };
  }
  return { extent: all, bytes: bytes * count, reads: reads * count };
}

/** Bytes from one element of an axis to the next. */
function strideOf({ shape, bits }: Plane, axis: number): number {
  return (shape.slice(axis + 1).reduce((all, size) => all * size, 1) * bits) / 8;
}

function costOf(plane: Plane, shown: readonly (readonly [axis: number, steps: Steps])[], first: number): Extent {
  let cost: Extent = { extent: first, bytes: first, reads: 1 };
  for (const [axis, { count, step }] of shown) {
    cost = repeated(cost, count, step * strideOf(plane, axis));
  }
  return cost;
}

/** What to read, so that neither the bytes nor the reads exceed the budget by much. */
export function planHeatMap(plane: Plane, budget: Budget): HeatPlan {
  const { shape, bits, rowAxis, columnAxis } = plane;
  const rowRange = rangeOf(plane, rowAxis, plane.rows);
  const columnRange = rangeOf(plane, columnAxis, plane.columns);
  // Elements that share bytes: all of the last axis comes, and what is wanted of it is picked afterwards.
  const packed = bits < 8 ? shape.length - 1 : undefined;
  const first = packed === undefined ? bits / 8 : (shape[packed]! * bits) / 8;
  let points: [rows: number, columns: number] = [budget.points, budget.points];
  for (;;) {
    const rows = steps(rowRange, points[0]);
    const columns = steps(columnRange, points[1]);
    const shown = [[rowAxis, rows] as const, [columnAxis, columns] as const]
      .filter((pair): pair is readonly [number, Steps] => pair[0] !== undefined && pair[0] !== packed)
      .sort(([a], [b]) => b - a);
    const { bytes, reads } = costOf(plane, shown, first);
    const fewer = thinned(plane, shown, rows.count, columns.count);
    if ((bytes <= budget.bytes && reads <= budget.reads) || fewer === undefined) {
      return { ...sliceOf(plane, rows, columns, packed), rows, columns, bytes, reads };
    }
    points = fewer;
  }
}

function rangeOf({ shape }: Plane, axis: number | undefined, range: Range | undefined): Range {
  return axis === undefined ? { begin: 0, end: 1 } : (range ?? { begin: 0, end: shape[axis]! });
}

/** Half the points of the axis that has more of them, or of the slower one; undefined when there are few enough of all. */
function thinned(
  { rowAxis }: Plane,
  shown: readonly (readonly [axis: number, steps: Steps])[],
  rows: number,
  columns: number,
): [rows: number, columns: number] | undefined {
  const [most] = shown
    .filter(([, { count }]) => count > MIN_POINTS)
    .sort(([a, x], [b, y]) => y.count - x.count || a - b);
  if (most === undefined) {
    return undefined;
  }
  const half = Math.max(MIN_POINTS, Math.floor(most[1].count / 2));
  return most[0] === rowAxis ? [half, columns] : [rows, half];
}

function sliceOf(
  { shape, rowAxis, columnAxis, indices }: Plane,
  rows: Steps,
  columns: Steps,
  packed: number | undefined,
): Pick<HeatPlan, "slice" | "picked"> {
  let picked: HeatPlan["picked"];
  const text = shape.map((size, axis) => {
    const shown = axis === rowAxis ? rows : axis === columnAxis ? columns : undefined;
    if (axis === packed) {
      const index = indices[axis] ?? 0;
      const whole = shown ?? { begin: index, end: index + 1, step: 1, count: 1 };
      picked = { axis: axis === rowAxis ? "rows" : axis === columnAxis ? "columns" : "none", steps: whole };
      return `0:${size}`;
    }
    return shown === undefined ? `${indices[axis] ?? 0}` : `${shown.begin}:${shown.end}:${shown.step}`;
  });
  return { slice: text.join(", "), picked };
}

const BUDGET: Readonly<Record<"near" | "far", Budget>> = {
  near: { points: 512, bytes: 64 << 20, reads: 4096 },
  far: { points: 256, bytes: 8 << 20, reads: 64 },
};

/** What a heat map of a file reads, or of a server, where every read is a request. */
export function planLook(plane: Plane, isFar: boolean): HeatPlan {
  return planHeatMap(plane, BUDGET[isFar ? "far" : "near"]);
}
