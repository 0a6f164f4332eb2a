// SPDX-License-Identifier: Apache-2.0
/*
 * Which bytes of a tensor are read, and in which portions: all of them, or a sample of pieces that are spread evenly. Every
 * portion has whole elements.
 */

/** Three elements of 64 bits, and of 4 and 6 bits as many as fill whole bytes. */
const GRANULE = 24;

/** Bytes of one read: large enough to be quick, small enough for memory and for a progress bar that moves. */
export const PORTION = Math.floor((4 << 20) / GRANULE) * GRANULE;

export interface Portion {
  begin: number;
  size: number;
}

/** All of a tensor, in order. */
export function* allPortions(size: number): Generator<Portion> {
  for (let begin = 0; begin < size; begin += PORTION) {
    yield { begin, size: Math.min(PORTION, size - begin) };
  }
}

/**
 * About `budget` bytes of a tensor in `pieces` pieces, the first and the last bytes among them. All of it when it is not
 * larger.
 */
export function* somePortions(size: number, budget: number, pieces: number): Generator<Portion> {
  const piece = Math.floor(budget / pieces / GRANULE) * GRANULE;
  if (size <= budget || piece === 0 || pieces < 2) {
    yield* allPortions(size);
    return;
  }
  const granules = Math.floor((size - piece) / GRANULE);
  for (let i = 0; i < pieces; i++) {
    const begin = Math.floor((granules * i) / (pieces - 1)) * GRANULE;
    // The last piece takes the bytes that are left over after whole granules.
    yield { begin, size: i === pieces - 1 ? size - begin : piece };
  }
}

/** What a sample reads: of a file many small pieces, from a server few, since each is a request. */
export const SAMPLE = { near: { bytes: 64 << 20, pieces: 256 }, far: { bytes: 16 << 20, pieces: 16 } } as const;
