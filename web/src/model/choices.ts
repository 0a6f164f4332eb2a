// SPDX-License-Identifier: Apache-2.0
/*
 * Which models there are among the files that someone dropped: files alone, shards of one name, and what an index lists, in
 * each folder. Nothing is read here.
 */
import type { Dropped } from "../base/dropped.js";

export interface Choice {
  name: string;
  /** The model's files, and a config.json beside them. */
  files: readonly File[];
}

const TENSOR_FILE = /\.(safetensors|bt|bintensors)$/i;
const INDEX = /\.safetensors\.index\.json$/i;
const SHARD = /^(.*)-\d{5,6}-of-(\d{5,6})\.safetensors$/s;

function inFolder(folder: string, files: readonly File[]): Choice[] {
  const config = files.filter(({ name }) => name === "config.json");
  const indices = files.filter(({ name }) => INDEX.test(name));
  const shards = files.filter(({ name }) => SHARD.test(name));
  const single = files.filter(({ name }) => TENSOR_FILE.test(name) && !SHARD.test(name));
  const sets = new Map<string, File[]>();
  for (const file of shards) {
    const [, prefix, total] = SHARD.exec(file.name)!;
    // What an index lists is opened by it.
    if (!indices.some(({ name }) => name.startsWith(`${prefix!}.safetensors`))) {
      const key = `${prefix!}-*-of-${total!}.safetensors`;
      sets.set(key, [...(sets.get(key) ?? []), file]);
    }
  }
  return [
    ...indices.map((index) => ({ name: folder + index.name, files: [index, ...shards, ...config] })),
    ...[...sets].map(([name, members]) => ({
      name: folder + (members.length > 1 ? name : members[0]!.name),
      files: [...members, ...config],
    })),
    ...single.map((file) => ({ name: folder + file.name, files: [file, ...config] })),
  ];
}

/** The models among files. When nothing is named like one, the largest file is what was meant. */
export function choicesOf(dropped: readonly Dropped[]): Choice[] {
  const folders = new Map<string, File[]>();
  for (const { file, folder } of dropped) {
    folders.set(folder, [...(folders.get(folder) ?? []), file]);
  }
  const found = [...folders].flatMap(([folder, files]) => inFolder(folder, files));
  if (found.length > 0 || dropped.length === 0) {
    return found;
  }
  const { file, folder } = dropped.reduce((most, next) => (next.file.size > most.file.size ? next : most));
  return [{ name: folder + file.name, files: [file] }];
}
