// SPDX-License-Identifier: Apache-2.0
/*
 * The digests that files record of their tensors and metadata, and an index of its files: the definitions of
 * docs/integrity.md. With s(x) = u64le length ‖ bytes, and H the algorithm:
 *
 *   r = H("coffer.tensor.1\0" ‖ s(name) ‖ s(dtype) ‖ u64le rank ‖ u64le dimensions ‖ H(data))
 *   content digest  = H("coffer.content.1\0" ‖ u64le count ‖ r of every tensor, in byte order of the names)
 *   metadata digest = H("coffer.metadata.1\0" ‖ u64le count ‖ s(key) ‖ s(value) of every pair but its own, by key)
 */
import { CofferError } from "./errors.js";
import { digestSize, isAlgorithm, type Algorithm, type Hasher } from "./hashes.js";
import type { Integer } from "./integers.js";
import { compareBytes } from "./order.js";

const DIGESTS_KEY = "coffer.digests";
const METADATA_KEY = "coffer.metadata_digest";
const CONTENT_KEY = "coffer.content_digest";
const SHARDS_KEY = "coffer.shard_digests";

type Pairs = readonly (readonly [key: string, value: string])[];

const encoder = new TextEncoder();

function u64(value: Integer): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(value), true);
  return bytes;
}

function putText(hasher: Hasher, text: string): void {
  const bytes = encoder.encode(text);
  hasher.update(u64(bytes.length));
  hasher.update(bytes);
}

function putDomain(hasher: Hasher, domain: string): void {
  hasher.update(encoder.encode(`${domain}\0`));
}

function binary(bytes: Uint8Array): string {
  return String.fromCharCode(...bytes);
}

// ---- What is recorded ---------------------------------------------------------------------------------------------------

/** A list of digests, each as text with a character for each byte. */
export interface Recorded {
  algorithm: Algorithm;
  /** As they are listed. */
  list: readonly string[];
  /** The same, to look one up. */
  has: ReadonlySet<string>;
}

function unusable(key: string, what: string, path: string): CofferError {
  const message = `the recorded digests ("${key}" in the metadata) cannot be used: ${what}; nothing was verified`;
  return new CofferError("DIGESTS", message, { path });
}

/** The algorithm of a text, if it is of the version that is known. */
function algorithmOf(text: string): Algorithm | undefined {
  const name = /^1:([^:]*):/.exec(text)?.[1];
  return isAlgorithm(name) ? name : undefined;
}

/** Reads "1:ALGORITHM:BASE64". */
function readList(key: string, text: string, path: string): Recorded {
  const algorithm = algorithmOf(text);
  if (algorithm === undefined) {
    throw unusable(key, "they do not begin with a version and an algorithm that this library knows", path);
  }
  const base64 = text.slice(text.indexOf(":", 2) + 1);
  let bytes: string | undefined;
  try {
    bytes = atob(base64);
  } catch {
    bytes = undefined;
  }
  if (bytes === undefined || btoa(bytes) !== base64) {
    throw unusable(key, "they are not base64 in its canonical form", path);
  }
  const size = digestSize(algorithm);
  if (bytes.length % size !== 0) {
    throw unusable(key, "their length is not a multiple of a digest's", path);
  }
  const list = Array.from({ length: bytes.length / size }, (_, i) => bytes.slice(i * size, (i + 1) * size));
  return { algorithm, list, has: new Set(list) };
}

function valueOf(pairs: Pairs, key: string): string | undefined {
  return pairs.find(([name]) => name === key)?.[1];
}

export function recordsDigests(pairs: Pairs): boolean {
  return valueOf(pairs, DIGESTS_KEY) !== undefined || valueOf(pairs, METADATA_KEY) !== undefined;
}

/** The digests that a file records of its tensors. */
export function recordedDigests(pairs: Pairs, path: string): Recorded {
  const text = valueOf(pairs, DIGESTS_KEY);
  if (text !== undefined) {
    return readList(DIGESTS_KEY, text, path);
  }
  if (valueOf(pairs, METADATA_KEY) !== undefined) {
    throw unusable(DIGESTS_KEY, "they are missing, while a digest of the metadata is there", path);
  }
  const message =
    "the file records no digests of its tensors, so nothing can be verified: `coffer hash --write` adds them to a file " +
    "that is known to be good";
  throw new CofferError("NO_DIGESTS", message, { path });
}

/** Fails when the metadata are not those whose digest is recorded. */
export function verifyMetadata(hasher: Hasher, algorithm: Algorithm, pairs: Pairs, path: string): void {
  const text = valueOf(pairs, METADATA_KEY);
  if (text === undefined) {
    throw unusable(METADATA_KEY, "the digest of the metadata is missing", path);
  }
  const others = pairs.filter(([key]) => key !== METADATA_KEY).sort(([a], [b]) => compareBytes(a, b));
  putDomain(hasher, "coffer.metadata.1");
  hasher.update(u64(others.length));
  for (const [key, value] of others) {
    putText(hasher, key);
    putText(hasher, value);
  }
  // Spellings are compared: there is one for each digest.
  if (`1:${algorithm}:${btoa(binary(hasher.finish()))}` !== text) {
    const message =
      "the metadata do not match their recorded digest: they were damaged, or changed by a program that ignores it";
    throw new CofferError("METADATA_DIGEST", message, { path });
  }
}

/** The digest of a tensor, from that of its data. */
export function tensorRecord(
  hasher: Hasher,
  tensor: { name: string; dtype: string; shape: readonly Integer[] },
  dataDigest: Uint8Array,
): string {
  putDomain(hasher, "coffer.tensor.1");
  putText(hasher, tensor.name);
  putText(hasher, tensor.dtype);
  hasher.update(u64(tensor.shape.length));
  for (const dimension of tensor.shape) {
    hasher.update(u64(dimension));
  }
  hasher.update(dataDigest);
  return binary(hasher.finish());
}

/** The content digest of tensors whose digests are in byte order of their names. */
export function contentDigest(hasher: Hasher, records: readonly string[]): string {
  putDomain(hasher, "coffer.content.1");
  hasher.update(u64(records.length));
  for (const record of records) {
    hasher.update(Uint8Array.from(record, (character) => character.charCodeAt(0)));
  }
  return binary(hasher.finish());
}

/** A digest in hexadecimal digits. */
export function hexadecimal(digest: string): string {
  return Array.from(digest, (character) => character.charCodeAt(0).toString(16).padStart(2, "0")).join("");
}

// ---- Several files ------------------------------------------------------------------------------------------------------

/** A file of a model of several, and its tensors' names in its own order. */
export interface ContentFile {
  path: string;
  pairs: Pairs;
  names: readonly string[];
  /** How many more its own digests are of, since the index says that they are in other files. */
  superseded: number;
}

/** What an index records. */
export interface ContentRecord {
  path: string;
  contentDigest: string | undefined;
  shardDigests: string | undefined;
  /** How many files it names. */
  fileCount: number;
}

function otherVersion(path: string, what: string): CofferError {
  const message =
    `the file is not one of those whose digests the index records: ${what}. It is of another version of the model, or ` +
    "the index is; if all files are right, run `coffer hash --write` on the index";
  return new CofferError("CONTENT_DIGEST", message, { path });
}

/** The algorithm that a file records digests by; undefined: none. */
function fileAlgorithm(pairs: Pairs): Algorithm | undefined {
  return algorithmOf(valueOf(pairs, DIGESTS_KEY) ?? "");
}

function readFileList({ path, pairs, names, superseded }: ContentFile): Recorded {
  const recorded = recordedDigests(pairs, path);
  if (superseded > 0) {
    const message =
      `the file has ${superseded} tensors that the index says are in other files, so the digest of the whole model cannot ` +
      "be made from the digests that its files record: write the model anew, without them (coffer split)";
    throw new CofferError("UNSUPPORTED", message, { path });
  }
  if (recorded.list.length !== names.length) {
    const message = `the file has digests of ${recorded.list.length} tensors and holds ${names.length}`;
    throw new CofferError("DIGESTS", message, { path });
  }
  return recorded;
}

/** All digests of all files, in byte order of the tensors' names: each file's list is in that order already. */
function joinedLists(files: readonly ContentFile[], lists: readonly Recorded[]): string[] {
  const all = files.flatMap(({ names }, i) =>
    [...names].sort(compareBytes).map((name, k) => ({ name, record: lists[i]!.list[k]! })),
  );
  return all.sort((a, b) => compareBytes(a.name, b.name)).map(({ record }) => record);
}

/** The two values that an index records: one digest of the whole, and one of each file by the same algorithm. */
function readContentRecord(index: ContentRecord): { content: Recorded; shards: Recorded } {
  const content = readList(CONTENT_KEY, index.contentDigest ?? "", index.path);
  const shards = readList(SHARDS_KEY, index.shardDigests ?? "", index.path);
  if (content.list.length !== 1 || content.algorithm !== shards.algorithm) {
    const message =
      "the digests that the index records cannot be used: there must be one of the whole, and one of each file by the " +
      "same algorithm; nothing was verified";
    throw new CofferError("DIGESTS", message, { path: index.path });
  }
  return { content, shards };
}

/** The algorithm of what an index records; undefined when it records nothing. */
export function contentAlgorithm(index: ContentRecord): Algorithm | undefined {
  return index.contentDigest === undefined && index.shardDigests === undefined
    ? undefined
    : readContentRecord(index).content.algorithm;
}

/** Compares what the files record with what their index does. No tensor is read for that. */
export function verifyContent(hasher: Hasher, index: ContentRecord, files: readonly ContentFile[]): void {
  const { content, shards } = readContentRecord(index);
  for (const { path, pairs } of files) {
    const found = fileAlgorithm(pairs);
    if (found !== content.algorithm) {
      throw otherVersion(path, found === undefined ? "it records none" : "it records them by another algorithm");
    }
  }
  const lists = files.map(readFileList);
  for (const [i, { path }] of files.entries()) {
    if (!shards.has.has(contentDigest(hasher, lists[i]!.list))) {
      throw otherVersion(path, "its tensors are different");
    }
  }
  const [expected, actual] = [shards.list.length, index.fileCount];
  if (expected !== actual) {
    const message =
      `the index records digests of ${expected} files and names ${actual}: those that exist match, but files of the ` +
      "model are missing";
    throw new CofferError("CONTENT_DIGEST", message, { path: index.path, expected, actual });
  }
  if (!content.has.has(contentDigest(hasher, joinedLists(files, lists)))) {
    const message =
      "the tensors of all files together are not those whose digest the index records, though each file is one that it " +
      "records: the index was changed or damaged";
    throw new CofferError("CONTENT_DIGEST", message, { path: index.path });
  }
}
