// SPDX-License-Identifier: Apache-2.0
/* Files that were dropped or chosen, folders with all that is in them. */

export interface Dropped {
  file: File;
  /** The folder that it is in, as a path that ends with a slash; "" without one. */
  folder: string;
}

/** More files than any model has: what is dropped by mistake must not be walked through for minutes. */
const MOST_FILES = 20_000;

function entriesOf(reader: FileSystemDirectoryReader): Promise<FileSystemEntry[]> {
  return new Promise((resolve, reject) => reader.readEntries(resolve, reject));
}

async function walk(entry: FileSystemEntry, folder: string, found: Dropped[]): Promise<void> {
  if (found.length >= MOST_FILES) {
    return;
  }
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    found.push({ file, folder });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  // A reader gives a part of a folder at a time, and nothing at its end.
  for (let part = await entriesOf(reader); part.length > 0; part = await entriesOf(reader)) {
    for (const inside of part) {
      await walk(inside, `${folder}${entry.name}/`, found);
    }
  }
}

/** To be called while the event is handled: what it carries is gone later. */
export async function droppedFiles(data: DataTransfer): Promise<Dropped[]> {
  const entries = Array.from(data.items, (item) => (item.kind === "file" ? item.webkitGetAsEntry() : null));
  const files = [...data.files];
  const found: Dropped[] = [];
  if (entries.some((entry) => entry?.isDirectory)) {
    for (const entry of entries) {
      if (entry !== null) {
        await walk(entry, "", found);
      }
    }
    return found;
  }
  return files.map((file) => ({ file, folder: "" }));
}

/** What an <input> has. */
export function chosenFiles(files: FileList | null): Dropped[] {
  return Array.from(files ?? [], (file) => {
    const path = file.webkitRelativePath;
    return { file, folder: path.slice(0, path.lastIndexOf("/") + 1) };
  });
}
