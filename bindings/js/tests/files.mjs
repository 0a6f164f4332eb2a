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
