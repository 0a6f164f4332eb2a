// SPDX-License-Identifier: Apache-2.0
/*
 * The picture of a model's files: rows of bytes, each as wide as the picture, every file beginning with a row of its own. All
 * rows have the same scale, so what is twice as large is twice as long.
 */
import { approximate, type Columns } from "./columns.js";
import { cellsOf, segmentAt, segmentsOf, type Segments } from "./bytemap.js";
import type { OpenedFile } from "./opened.js";

/** A part of a model: all files, or bytes of one. */
export interface ByteWindow {
  /** Undefined for all files. */
  file: number | undefined;
  begin: number;
  end: number;
}

export const EVERYTHING: ByteWindow = { file: undefined, begin: 0, end: 0 };

export interface ByteRow {
  file: number;
  begin: number;
  end: number;
}

/** Segments of each file of a model. */
export function modelSegments(files: readonly OpenedFile[], columns: Columns): Segments[] {
  const [offsets, sizes] = [approximate(columns.offsets), approximate(columns.sizes)];
  let end = 0;
  return files.map((file, i) => {
    const first = end;
    while (end < columns.count && columns.files[end] === i) {
      end++;
    }
    return segmentsOf({ ...file, first, end }, offsets, sizes);
  });
}

export function sizeOf(segments: Segments): number {
  return segments.ends.at(-1) ?? 0;
}

/** Rows of a picture that has about `wanted`, or one for each file when there are more files. */
export function byteRows(all: readonly Segments[], { file, begin, end }: ByteWindow, wanted: number): ByteRow[] {
  const parts =
    file === undefined
      ? all.map((segments, i) => ({ file: i, begin: 0, end: sizeOf(segments) }))
      : [{ file, begin, end }];
  const total = parts.reduce((sum, part) => sum + part.end - part.begin, 0);
  // Each file's last row is half empty on average.
  const each = Math.max(1, total / Math.max(wanted - parts.length / 2, parts.length / 2, 1));
  return parts.flatMap((part) => {
    // Without what rounding adds, so that the last row of a single file is full.
    const count = Math.max(1, Math.ceil((part.end - part.begin) / each - 1e-9));
    return Array.from({ length: count }, (_, i) => ({
      file: part.file,
      begin: part.begin + i * each,
      end: part.begin + (i + 1) * each,
    }));
  });
}

/** Neighbouring cells of one segment. */
export interface Run {
  segment: number;
  first: number;
  end: number;
}

/** What is drawn of a row of `width` cells: a row ends where its part of the file does. */
export function runsOf(segments: Segments, row: ByteRow, width: number): Run[] {
  const cells = cellsOf(segments, row.begin, row.end, width);
  const runs: Run[] = [];
  for (const [cell, segment] of cells.entries()) {
    const last = runs.at(-1);
    if (last?.segment === segment) {
      last.end = cell + 1;
    } else if (segment >= 0) {
      runs.push({ segment, first: cell, end: cell + 1 });
    }
  }
  return runs;
}

/** A segment of one of the files. */
export interface Spot {
  file: number;
  segment: number;
}

/** The segment of a tensor; undefined when it has no bytes. */
export function spotOf(all: readonly Segments[], columns: Columns, tensor: number): Spot | undefined {
  const file = columns.files[tensor]!;
  const segments = all[file];
  if (segments === undefined || columns.sizes[tensor] === 0n) {
    return undefined;
  }
  const segment = segmentAt(segments, approximate(columns.offsets)[tensor]!);
  return segment < 0 ? undefined : { file, segment };
}

/** The segment before or after one, in the next file where the file ends. */
export function neighbour(all: readonly Segments[], spot: Spot, by: 1 | -1): Spot {
  const segment = spot.segment + by;
  if (segment >= 0 && segment < all[spot.file]!.kinds.length) {
    return { file: spot.file, segment };
  }
  for (let file = spot.file + by; file >= 0 && file < all.length; file += by) {
    const count = all[file]!.kinds.length;
    if (count > 0) {
      return { file, segment: by > 0 ? 0 : count - 1 };
    }
  }
  return spot;
}

/** A window of one file, `factor` times as wide, around a byte. */
export function zoomedWindow(
  all: readonly Segments[],
  window: ByteWindow,
  at: { file: number; byte: number },
  factor: number,
): ByteWindow {
  const size = sizeOf(all[at.file]!);
  const width = window.file === undefined ? size : window.end - window.begin;
  const wanted = Math.max(Math.round(width * factor), Math.min(MIN_WIDTH, size));
  if (wanted >= size) {
    return all.length === 1 || factor > 1 ? EVERYTHING : { file: at.file, begin: 0, end: size };
  }
  const begin = Math.min(Math.max(Math.floor(at.byte - wanted / 2), 0), size - wanted);
  return { file: at.file, begin, end: begin + wanted };
}

/** Bytes that a window has at the least. */
const MIN_WIDTH = 256;
