// SPDX-License-Identifier: Apache-2.0
/* Files that were dropped or chosen, folders with all that is in them. */

export interface Dropped {
  file: File;
  /** The folder that it is in, as a path that ends with a slash; "" without one. */
  folder: string;
}

/** More files than any model has: what is dropped by mistake must not be walked through for minutes. */
const MAX_FILES = 20_000;

/** What an item of a drop can be asked for, as far as the browser has it: not every type library knows. */
interface DroppedItem {
  kind: string;
  getAsFileSystemHandle?: () => Promise<Handle | null>;
  webkitGetAsEntry(): FileSystemEntry | null;
}
type Handle = FileSystemFileHandle | (FileSystemDirectoryHandle & AsyncIterable<[string, Handle]>);

async function walkHandle(handle: Handle, folder: string, found: Dropped[]): Promise<void> {
  if (found.length >= MAX_FILES) {
    return;
  }
  if (handle.kind === "file") {
    found.push({ file: await handle.getFile(), folder });
    return;
  }
  for await (const [, inside] of handle) {
    await walkHandle(inside, `${folder}${handle.name}/`, found);
  }
}

function entriesOf(reader: FileSystemDirectoryReader): Promise<FileSystemEntry[]> {
  return new Promise((resolve, reject) => reader.readEntries(resolve, reject));
}

async function walkEntry(entry: FileSystemEntry, folder: string, found: Dropped[]): Promise<void> {
  if (found.length >= MAX_FILES) {
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
      await walkEntry(inside, `${folder}${entry.name}/`, found);
    }
  }
}

/**
 * What was dropped, with all that is in folders. To be called while the event is handled: what it carries is gone later. Pages
 * that were opened from a folder can read folders by handles in Chromium, and by entries elsewhere.
 */
export async function droppedFiles(data: DataTransfer): Promise<Dropped[]> {
  const items = ([...data.items] as DroppedItem[]).filter(({ kind }) => kind === "file");
  const entries = items.map((item) => item.webkitGetAsEntry());
  const files = [...data.files];
  if (!entries.some((entry) => entry?.isDirectory)) {
    return files.map((file) => ({ file, folder: "" }));
  }
  const handles = items.map((item) => item.getAsFileSystemHandle?.());
  const found: Dropped[] = [];
  for (const [i, entry] of entries.entries()) {
    const handle = await handles[i];
    if (handle) {
      await walkHandle(handle, "", found);
    } else if (entry !== null) {
      await walkEntry(entry, "", found);
    }
  }
  return found;
}

/** What an <input> has. */
export function chosenFiles(files: FileList | null): Dropped[] {
  return Array.from(files ?? [], (file) => {
    const path = file.webkitRelativePath;
    return { file, folder: path.slice(0, path.lastIndexOf("/") + 1) };
  });
}
