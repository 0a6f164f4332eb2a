// SPDX-License-Identifier: Apache-2.0
/* What several tests want: folders that go away again, and sources that count. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { MemorySource } from "libcoffer";

/** A folder of files for the time of a test. */
export function folderOf(t, files) {
  const folder = mkdtempSync(join(tmpdir(), "libcoffer-"));
  t.after(() => rmSync(folder, { recursive: true }));
  for (const [name, bytes] of Object.entries(files)) {
    writeFileSync(join(folder, name), bytes);
  }
  return folder;
}

/** Remembers what was read of it. */
export class CountingSource extends MemorySource {
  reads = [];

  async head() {
    this.reads.push([0, Math.min(this.size, 98304)]);
    return super.head();
  }

  async read(offset, size) {
    this.reads.push([Number(offset), size]);
    return super.read(offset, size);
  }
}

/** Deterministic numbers. */
function* numbers(seed) {
  for (let x = seed >>> 0; ;) {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
    yield x;
  }
}

const DTYPES = [
  ["BOOL", 1],
  ["U8", 1],
  ["I8", 1],
  ["F8_E5M2", 1],
  ["F8_E4M3", 1],
  ["F8_E8M0", 1],
  ["I16", 2],
  ["U16", 2],
  ["F16", 2],
  ["BF16", 2],
  ["I32", 4],
  ["U32", 4],
  ["F32", 4],
  ["C64", 8],
  ["F64", 8],
  ["I64", 8],
  ["U64", 8],
];

/** The tensors of a small model that nobody thought of. */
export function model(seed) {
  const next = numbers(seed);
  const upTo = (n) => Number((BigInt(next.next().value) * BigInt(n)) >> 32n);
  return Array.from({ length: upTo(12) }, (_, i) => {
    const [dtype, width] = DTYPES[upTo(DTYPES.length)];
    const shape = Array.from({ length: upTo(4) }, () => upTo(5));
    const size = shape.reduce((a, b) => a * b, width);
    const data = Uint8Array.from({ length: size }, () => upTo(256));
    return { name: ["a", "layer.0", "é", "😀", '"q"', "\u0007", "b\\", ""][upTo(8)] + i, dtype, shape, data };
  });
}
