// SPDX-License-Identifier: Apache-2.0
import { useSignal, type Signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";

import { colourOf, dtypeVariable } from "../base/colours.js";
import { percent } from "../base/figures.js";
import { bytes, exactly, plural } from "../base/numbers.js";
import { shown } from "../base/text.js";
import { select } from "../model/actions.js";
import { SEGMENT_KINDS, segmentAt, sharesOf, type SegmentKind, type Segments, type Share } from "../model/bytemap.js";
import {
  byteRows,
  EVERYTHING,
  modelSegments,
  neighbour,
  runsOf,
  sizeOf,
  spotOf,
  zoomedWindow,
  type ByteRow,
  type ByteWindow,
  type Spot,
} from "../model/byte_view.js";
import { dtypeAt, nameAt, type Columns } from "../model/columns.js";
import type { Opened } from "../model/opened.js";
import { hovered, model, selected } from "../model/state.js";
import { isDark } from "../model/theme.js";
import { placeOn, sharpContext, useWidth } from "./canvas.js";
import { DtypeLabel } from "./dtype_label.js";
import { Untrusted } from "./untrusted.js";

const ROWS = 26;
const ROW_HEIGHT = 15;
const ROW_GAP = 3;
/** Of models of more files, one is shown at a time. */
const MOST_FILES_AT_ONCE = 300;

const KIND_NAMES: Readonly<Record<SegmentKind, string>> = {
  length: "length of the header",
  header: "header",
  slack: "room in the header",
  tensor: "tensor",
  gap: "bytes of no tensor",
};

/** The files from their first byte to their last, coloured by dtype. */
export function ByteMapPanel(): VNode {
  const opened = model.value!;
  return <ByteMap key={opened.id} opened={opened} />;
}

function ByteMap({ opened }: { opened: Opened }): VNode {
  const all = useMemo(() => modelSegments(opened.files, opened.columns), [opened]);
  const start: ByteWindow = all.length > MOST_FILES_AT_ONCE ? { file: 0, begin: 0, end: sizeOf(all[0]!) } : EVERYTHING;
  const window = useSignal(start);
  const spot = useSignal<Spot>({ file: 0, segment: 0 });
  return (
    <div class="byte-map">
      <Controls all={all} opened={opened} window={window} spot={spot} />
      <Rows all={all} opened={opened} window={window} spot={spot} />
      <p class="readout" role="status">
        <SpotText all={all} opened={opened} spot={spot.value} />
      </p>
      <Shares all={all} columns={opened.columns} />
    </div>
  );
}

interface MapProps {
  all: readonly Segments[];
  opened: Opened;
  window: Signal<ByteWindow>;
  spot: Signal<Spot>;
}

/** The middle of a segment. */
function middleOf(all: readonly Segments[], { file, segment }: Spot): { file: number; byte: number } {
  const segments = all[file]!;
  return { file, byte: ((segments.begins[segment] ?? 0) + (segments.ends[segment] ?? 0)) / 2 };
}

function Controls({ all, opened, window, spot }: MapProps): VNode {
  const { file, begin, end } = window.value;
  const zoom = (factor: number) => (window.value = zoomedWindow(all, window.value, middleOf(all, spot.value), factor));
  const choose = (chosen: number) => {
    window.value = chosen < 0 ? EVERYTHING : { file: chosen, begin: 0, end: sizeOf(all[chosen]!) };
    spot.value = { file: Math.max(chosen, 0), segment: 0 };
  };
  return (
    <div class="plot-controls">
      {all.length > 1 && (
        <label>
          <span class="hidden">File</span>
          <select
            class="field"
            value={file ?? -1}
            onChange={({ currentTarget }) => choose(Number(currentTarget.value))}
          >
            {all.length <= MOST_FILES_AT_ONCE && <option value={-1}>all {all.length} files</option>}
            {opened.files.map(({ name }, i) => (
              <option key={i} value={i}>
                {shown(name, 80)}
              </option>
            ))}
          </select>
        </label>
      )}
      <button type="button" class="button" onClick={() => zoom(1 / 4)}>
        Zoom in
      </button>
      <button type="button" class="button" disabled={file === undefined} onClick={() => zoom(4)}>
        Zoom out
      </button>
      <span class="quiet">
        {file === undefined
          ? bytes(all.reduce((sum, segments) => sum + sizeOf(segments), 0))
          : `Bytes ${exactly(begin)} to ${exactly(Math.max(end - 1, 0))}`}
      </span>
    </div>
  );
}

// ---- The picture --------------------------------------------------------------------------------------------------------

/** What a segment is drawn with. Neighbours of one dtype differ a little, so that each can be seen. */
function painter(columns: Columns): (segments: Segments, segment: number) => string {
  const known = new Map<string, string>();
  const colour = (variable: string) => {
    const found = known.get(variable) ?? colourOf(variable);
    known.set(variable, found);
    return found;
  };
  return (segments, segment) => {
    const tensor = segments.tensors[segment]!;
    if (tensor < 0) {
      return colour(`--map-${SEGMENT_KINDS[segments.kinds[segment]!]!}`);
    }
    return colour(dtypeVariable(dtypeAt(columns, tensor)));
  };
}

const ROOM = ROW_HEIGHT + ROW_GAP;

function draw(
  context: CanvasRenderingContext2D,
  all: readonly Segments[],
  columns: Columns,
  rows: readonly ByteRow[],
  width: number,
): void {
  const paint = painter(columns);
  const shade = colourOf("--map-shade");
  for (const [i, row] of rows.entries()) {
    const segments = all[row.file]!;
    for (const { segment, first, end } of runsOf(segments, row, width)) {
      context.fillStyle = paint(segments, segment);
      context.fillRect(first, i * ROOM, end - first, ROW_HEIGHT);
      if (segments.tensors[segment]! >= 0 && segment % 2 === 1) {
        context.fillStyle = shade;
        context.fillRect(first, i * ROOM, end - first, ROW_HEIGHT);
      }
    }
  }
}

/** A frame around a segment, in each row that it is in. */
function frame(
  context: CanvasRenderingContext2D,
  segments: Segments,
  { file, segment }: Spot,
  rows: readonly ByteRow[],
  width: number,
  colour: string,
): void {
  const [begin, end] = [segments.begins[segment]!, segments.ends[segment]!];
  context.strokeStyle = colour;
  context.lineWidth = 2;
  for (const [i, row] of rows.entries()) {
    if (row.file !== file || end <= row.begin || begin >= row.end) {
      continue;
    }
    const scale = width / (row.end - row.begin);
    const left = Math.max((begin - row.begin) * scale, 0);
    const right = Math.min((end - row.begin) * scale, width);
    const room = Math.max(right - left, 3);
    context.strokeRect(Math.min(left, width - room), i * ROOM - 0.5, room, ROW_HEIGHT + 1);
  }
}

function Rows({ all, opened, window, spot }: MapProps): VNode {
  const box = useRef<HTMLDivElement>(null);
  const map = useRef<HTMLCanvasElement>(null);
  const marks = useRef<HTMLCanvasElement>(null);
  const width = useWidth(box).value;
  const { columns } = opened;
  const rows = useMemo(() => byteRows(all, window.value, ROWS), [all, window.value]);
  const height = rows.length * ROOM;
  const dark = isDark.value;
  useEffect(() => {
    if (width > 0) {
      draw(sharpContext(map.current!, width, height), all, columns, rows, width);
    }
  }, [rows, width, dark]);

  const pointed = hovered.value === undefined ? undefined : spotOf(all, columns, hovered.value);
  const chosen = selected.value === undefined ? undefined : spotOf(all, columns, selected.value);
  useEffect(() => {
    if (width === 0) {
      return;
    }
    const context = sharpContext(marks.current!, width, height);
    const mark = (at: Spot, variable: string) => frame(context, all[at.file]!, at, rows, width, colourOf(variable));
    if (pointed !== undefined) {
      mark(pointed, "--map-hovered");
    }
    mark(spot.value, "--map-hovered");
    if (chosen !== undefined) {
      mark(chosen, "--map-selected");
    }
  }, [rows, width, dark, pointed?.segment, pointed?.file, chosen?.segment, chosen?.file, spot.value]);
  // At once: the next key press goes on from there.
  useLayoutEffect(() => {
    if (chosen !== undefined) {
      spot.value = chosen;
    }
  }, [chosen?.segment, chosen?.file]);

  const go = (to: Spot) => {
    spot.value = to;
    const tensor = all[to.file]!.tensors[to.segment] ?? -1;
    hovered.value = tensor < 0 ? undefined : tensor;
    const byte = all[to.file]!.begins[to.segment] ?? 0;
    // What is gone to is in view.
    const { file, begin, end } = window.value;
    if (file !== undefined && (file !== to.file || byte >= end || (all[to.file]!.ends[to.segment] ?? 0) <= begin)) {
      const [size, room] = [sizeOf(all[to.file]!), end - begin];
      const first = Math.max(0, Math.min(byte - room / 4, size - room));
      window.value = { file: to.file, begin: Math.floor(first), end: Math.min(Math.floor(first) + room, size) };
    }
  };
  const spotAt = (event: MouseEvent): Spot | undefined => {
    const { x, y } = placeOn(map.current!, event);
    const row = rows[Math.floor(y / ROOM)];
    if (row === undefined || x < 0 || x >= width) {
      return undefined;
    }
    // The cell tells what is drawn there, which for small things is more than what the byte belongs to.
    const cell = Math.floor(x);
    const run = runsOf(all[row.file]!, row, width).find(({ first, end }) => first <= cell && cell < end);
    return run === undefined ? undefined : { file: row.file, segment: run.segment };
  };
  const choose = (at: Spot) => {
    const tensor = all[at.file]!.tensors[at.segment] ?? -1;
    if (tensor >= 0) {
      select(tensor);
    }
  };
  /** The segment at the same place `by` rows further. */
  const below = (by: number): Spot => {
    const { file, byte } = middleOf(all, spot.value);
    const from = rows.findIndex((row) => row.file === file && row.end > byte);
    const row = rows[Math.min(Math.max(from + by, 0), rows.length - 1)]!;
    const wanted = Math.min(row.begin + (byte - (rows[from]?.begin ?? 0)), sizeOf(all[row.file]!) - 1);
    return { file: row.file, segment: Math.max(segmentAt(all[row.file]!, Math.max(wanted, 0)), 0) };
  };
  const keys: Record<string, () => void> = {
    ArrowRight: () => go(neighbour(all, spot.value, 1)),
    ArrowLeft: () => go(neighbour(all, spot.value, -1)),
    ArrowDown: () => go(below(1)),
    ArrowUp: () => go(below(-1)),
    Home: () => go({ file: spot.value.file, segment: 0 }),
    End: () => go({ file: spot.value.file, segment: all[spot.value.file]!.kinds.length - 1 }),
    Enter: () => choose(spot.value),
    " ": () => choose(spot.value),
    "+": () => (window.value = zoomedWindow(all, window.value, middleOf(all, spot.value), 1 / 4)),
    "=": () => keys["+"]!(),
    "-": () => (window.value = zoomedWindow(all, window.value, middleOf(all, spot.value), 4)),
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const act = keys[event.key];
    if (act !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      act();
    }
  };
  return (
    <div
      ref={box}
      class="byte-rows"
      role="application"
      aria-roledescription="byte map"
      aria-label={`Byte map of ${plural(all.length, "file")}; arrow keys go from part to part, Enter chooses a tensor, plus and minus zoom`}
      tabIndex={0}
      onKeyDown={onKeyDown}
      onPointerMove={(event) => {
        const at = spotAt(event);
        if (at !== undefined) {
          spot.value = at;
          const tensor = all[at.file]!.tensors[at.segment] ?? -1;
          hovered.value = tensor < 0 ? undefined : tensor;
        }
      }}
      onPointerLeave={() => (hovered.value = undefined)}
      onClick={(event) => {
        const at = spotAt(event);
        if (at !== undefined) {
          choose(at);
        }
      }}
      onDblClick={(event) => {
        const at = spotAt(event);
        if (at !== undefined) {
          window.value = zoomedWindow(all, window.value, middleOf(all, at), 1 / 4);
        }
      }}
    >
      <canvas ref={map} aria-hidden="true" />
      <canvas ref={marks} class="marks" aria-hidden="true" />
    </div>
  );
}

// ---- The same in words --------------------------------------------------------------------------------------------------

function SpotText({ all, opened, spot }: { all: readonly Segments[]; opened: Opened; spot: Spot }): VNode | null {
  const segments = all[spot.file];
  const kind = segments === undefined ? undefined : SEGMENT_KINDS[segments.kinds[spot.segment]!];
  if (segments === undefined || kind === undefined) {
    return null;
  }
  const [begin, end, tensor] = [
    segments.begins[spot.segment]!,
    segments.ends[spot.segment]!,
    segments.tensors[spot.segment]!,
  ];
  return (
    <>
      {tensor < 0 ? (
        <b>{KIND_NAMES[kind]}</b>
      ) : (
        <>
          <b>
            <Untrusted text={nameAt(opened.columns, tensor)} />
          </b>{" "}
          <DtypeLabel dtype={dtypeAt(opened.columns, tensor)} />
        </>
      )}
      , {bytes(end - begin)}, bytes {exactly(begin)} to {exactly(end - 1)}
      {all.length > 1 && (
        <>
          {" of "}
          <Untrusted text={opened.files[spot.file]!.name} longest={80} />
        </>
      )}
    </>
  );
}

function Shares({ all, columns }: { all: readonly Segments[]; columns: Columns }): VNode {
  const shares = useMemo(() => joined(all.map((segments) => sharesOf(segments, columns.dtypes))), [all]);
  const total = shares.reduce((sum, share) => sum + share.bytes, 0);
  return (
    <table class="shares">
      <caption class="hidden">What the bytes are</caption>
      <thead>
        <tr>
          <th scope="col">Bytes of</th>
          <th scope="col" class="number">
            Number
          </th>
          <th scope="col" class="number">
            Size
          </th>
          <th scope="col" class="number">
            Share
          </th>
        </tr>
      </thead>
      <tbody>
        {shares.map(({ kind, dtype, segments, bytes: size }) => (
          <tr key={`${kind}${dtype}`}>
            <th scope="row">
              {kind === "tensor" ? (
                <DtypeLabel dtype={columns.dtypeNames[dtype]!} />
              ) : (
                <span class="dtype">
                  <span class={`swatch map-${kind}`} aria-hidden="true" />
                  {KIND_NAMES[kind]}
                </span>
              )}
            </th>
            <td class="number">{exactly(segments)}</td>
            <td class="number" title={`${exactly(size)} bytes`}>
              {bytes(size)}
            </td>
            <td class="number">{percent(size, total)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Shares of several files as those of one. */
function joined(lists: readonly (readonly Share[])[]): Share[] {
  const all = new Map<string, Share>();
  for (const share of lists.flat()) {
    const key = `${share.kind}/${share.dtype}`;
    const known = all.get(key);
    all.set(
      key,
      known === undefined
        ? { ...share }
        : { ...share, segments: known.segments + share.segments, bytes: known.bytes + share.bytes },
    );
  }
  const order = (share: Share) => SEGMENT_KINDS.indexOf(share.kind);
  return [...all.values()].sort((a, b) => order(a) - order(b) || b.bytes - a.bytes);
}
