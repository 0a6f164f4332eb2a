// SPDX-License-Identifier: Apache-2.0
/*
 * A file's bytes as segments, from the first to the last, and segments as cells of a picture.
 *
 *   safetensors    8 bytes with the header's length, the header, spaces after it, the tensors
 *   bintensors     the header, the tensors
 *
 * What lies between tensors, or after the last one, belongs to none of them.
 */
export const SEGMENT_KINDS = ["length", "header", "slack", "tensor", "gap"] as const;
export type SegmentKind = (typeof SEGMENT_KINDS)[number];

const KIND = Object.fromEntries(SEGMENT_KINDS.map((kind, i) => [kind, i])) as Record<SegmentKind, number>;

/** Segments in order: each begins where the one before it ends. */
export interface Segments {
  /** By SEGMENT_KINDS. */
  kinds: Uint8Array;
  begins: Float64Array;
  ends: Float64Array;
  /** The tensors' numbers; -1 for everything else. */
  tensors: Int32Array;
}

/** What is known of a file. */
export interface FileLayout {
  format: string;
  /** Undefined where nobody said. */
  size: number | undefined;
  dataOffset: number;
  slack: number;
  /** Its tensors are `first` to before `end` among the model's, in order of their bytes. */
  first: number;
  end: number;
}

/** The segments of a file whose tensors begin at `offsets` and have `sizes` bytes. */
export function segmentsOf(file: FileLayout, offsets: Float64Array, sizes: Float64Array): Segments {
  const kinds: number[] = [];
  const begins: number[] = [];
  const tensors: number[] = [];
  let at = 0;
  const add = (kind: SegmentKind, end: number, tensor = -1): void => {
    if (end > at) {
      kinds.push(KIND[kind]);
      begins.push(at);
      tensors.push(tensor);
      at = end;
    }
  };
  if (file.format === "safetensors") {
    add("length", 8);
  }
  add("header", file.dataOffset - file.slack);
  add("slack", file.dataOffset);
  for (let i = file.first; i < file.end; i++) {
    add("gap", offsets[i]!);
    add("tensor", offsets[i]! + sizes[i]!, i);
  }
  add("gap", file.size ?? at);
  return {
    kinds: Uint8Array.from(kinds),
    begins: Float64Array.from(begins),
    ends: Float64Array.from(begins, (_, i) => begins[i + 1] ?? at),
    tensors: Int32Array.from(tensors),
  };
}

/** The segment that has a byte; -1 when there is none. */
export function segmentAt({ begins, ends }: Segments, byte: number): number {
  let [low, high] = [0, begins.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (ends[middle]! <= byte) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < begins.length && begins[low]! <= byte ? low : -1;
}

/**
 * For each of `count` cells from byte `begin` to `end` the segment that has most of it; -1 after the file's end. What is not
 * a tensor would never be seen among gigabytes of tensors, so it has the cell that it begins in.
 */
export function cellsOf(segments: Segments, begin: number, end: number, count: number): Int32Array {
  const cells = new Int32Array(count).fill(-1);
  const width = (end - begin) / count;
  const most = new Float64Array(count);
  for (let i = Math.max(segmentAt(segments, begin), 0); i < segments.begins.length; i++) {
    const from = Math.max(segments.begins[i]!, begin);
    const to = Math.min(segments.ends[i]!, end);
    if (to <= from) {
      if (segments.begins[i]! >= end) {
        break;
      }
      continue;
    }
    const first = Math.min(Math.floor((from - begin) / width), count - 1);
    const last = Math.min(Math.ceil((to - begin) / width), count);
    const isRare = segments.kinds[i] !== KIND.tensor;
    for (let cell = first; cell < Math.max(last, first + 1); cell++) {
      const share = Math.min(to, begin + (cell + 1) * width) - Math.max(from, begin + cell * width);
      const weight = isRare && cell === first ? Infinity : share;
      if (weight > most[cell]!) {
        most[cell] = weight;
        cells[cell] = i;
      }
    }
  }
  return cells;
}

/** Bytes of a file by what they are; tensors by their dtype. */
export interface Share {
  kind: SegmentKind;
  dtype: number;
  segments: number;
  bytes: number;
}

/** The picture in words: how much there is of what, in the order of SEGMENT_KINDS, and tensors by falling size. */
export function sharesOf(segments: Segments, dtypes: Uint32Array): Share[] {
  const shares = new Map<number, Share>();
  for (let i = 0; i < segments.kinds.length; i++) {
    const kind = SEGMENT_KINDS[segments.kinds[i]!]!;
    const dtype = kind === "tensor" ? dtypes[segments.tensors[i]!]! : 0;
    const key = dtype * SEGMENT_KINDS.length + segments.kinds[i]!;
    const share = shares.get(key) ?? { kind, dtype, segments: 0, bytes: 0 };
    share.segments++;
    share.bytes += segments.ends[i]! - segments.begins[i]!;
    shares.set(key, share);
  }
  return [...shares.values()].sort((a, b) => KIND[a.kind] - KIND[b.kind] || b.bytes - a.bytes);
}
