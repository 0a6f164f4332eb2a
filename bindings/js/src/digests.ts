// SPDX-License-Identifier: Apache-2.0
/*
 * The digests that a file records of its tensors and metadata: the definitions of docs/integrity.md. With s(x) = u64le length
 * ‖ bytes, and H SHA-256:
 *
 *   r = H("coffer.tensor.1\0" ‖ s(name) ‖ s(dtype) ‖ u64le rank ‖ u64le dimensions ‖ H(data))
 *   metadata digest = H("coffer.metadata.1\0" ‖ u64le count ‖ s(key) ‖ s(value) of every pair but its own, by key)
 *
 * The platform computes them (SubtleCrypto), which takes all of a tensor at once, and pages from https or this machine.
 */
import { CofferError } from "./errors.js";
import type { Integer } from "./integers.js";

const DIGESTS_KEY = "coffer.digests";
const METADATA_KEY = "coffer.metadata_digest";
const DIGEST_SIZE = 32;

type Pairs = readonly (readonly [key: string, value: string])[];
type Bytes = Uint8Array<ArrayBuffer>;

const encoder = new TextEncoder();

function concatenated(parts: readonly Uint8Array[]): Bytes {
  const all = new Uint8Array(parts.reduce((size, { length }) => size + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

function u64(value: Integer): Uint8Array {
  return new Uint8Array(BigUint64Array.of(BigInt(value)).buffer);
}

function counted(text: string): Uint8Array[] {
  const bytes = encoder.encode(text);
  return [u64(bytes.length), bytes];
}

/** Order of the bytes in UTF-8, which is that of the code points and not that of JavaScript's comparison. */
function byBytes(a: string, b: string): number {
  const [first, second] = [encoder.encode(a), encoder.encode(b)];
  const length = Math.min(first.length, second.length);
  for (let i = 0; i < length; i++) {
    if (first[i] !== second[i]) {
      return first[i]! - second[i]!;
    }
  }
  return first.length - second.length;
}

function unusable(key: string, what: string, path: string): CofferError {
  const message = `the recorded digests ("${key}" in the metadata) cannot be used: ${what}; nothing was verified`;
  return new CofferError("DIGESTS", message, { path });
}

async function sha256(bytes: Uint8Array): Promise<Bytes> {
  const { crypto } = globalThis as { crypto?: Partial<Crypto> };
  if (crypto?.subtle === undefined) {
    const message = "digests take a page from https, or from this machine: elsewhere browsers have no SubtleCrypto";
    throw new CofferError("NO_ALGORITHM", message);
  }
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes as Bytes));
}

function toBase64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}

/** The base64 of a record: "1:sha256:…". */
function recorded(pairs: Pairs, key: string, path: string): string | undefined {
  const text = pairs.find(([name]) => name === key)?.[1];
  if (text === undefined) {
    return undefined;
  }
  const [, algorithm, base64] = /^1:([^:]*):(.*)$/s.exec(text) ?? [];
  if (algorithm === "xxh3-128") {
    throw new CofferError(
      "NO_ALGORITHM",
      "the digests are XXH3's, which this package does not compute: use `coffer verify`",
      {
        path,
      },
    );
  }
  if (algorithm !== "sha256" || base64 === undefined) {
    throw unusable(key, "they do not begin with a version and an algorithm that this library knows", path);
  }
  return base64;
}

/** The digests that a file records of its tensors, each as base64. */
export function recordedDigests(pairs: Pairs, path: string): ReadonlySet<string> {
  const base64 = recorded(pairs, DIGESTS_KEY, path);
  if (base64 === undefined) {
    if (pairs.some(([key]) => key === METADATA_KEY)) {
      throw unusable(DIGESTS_KEY, "they are missing, while a digest of the metadata is there", path);
    }
    throw new CofferError(
      "NO_DIGESTS",
      "the file records no digests of its tensors, so nothing can be verified: `coffer hash --write` adds them",
      { path },
    );
  }
  let bytes: string;
  try {
    bytes = atob(base64);
  } catch {
    bytes = "-";
  }
  if (btoa(bytes) !== base64) {
    throw unusable(DIGESTS_KEY, "they are not base64 in its canonical form", path);
  }
  if (bytes.length % DIGEST_SIZE !== 0) {
    throw unusable(DIGESTS_KEY, "their length is not a multiple of a digest's", path);
  }
  const digests = new Set<string>();
  for (let at = 0; at < bytes.length; at += DIGEST_SIZE) {
    digests.add(btoa(bytes.slice(at, at + DIGEST_SIZE)));
  }
  return digests;
}

/** Fails when the metadata are not those whose digest is recorded. */
export async function verifyMetadata(pairs: Pairs, path: string): Promise<void> {
  const base64 = recorded(pairs, METADATA_KEY, path);
  if (base64 === undefined) {
    throw unusable(METADATA_KEY, "the digest of the metadata is missing", path);
  }
  const others = pairs.filter(([key]) => key !== METADATA_KEY).sort(([a], [b]) => byBytes(a, b));
  const text = others.flatMap(([key, value]) => [...counted(key), ...counted(value)]);
  const digest = await sha256(concatenated([encoder.encode("coffer.metadata.1\0"), u64(others.length), ...text]));
  if (toBase64(digest) !== base64) {
    const message =
      "the metadata do not match their recorded digest: they were damaged, or changed by a program that ignores it";
    throw new CofferError("METADATA_DIGEST", message, { path });
  }
}

/** What a file records of a tensor, as base64. */
export async function tensorRecord(
  tensor: { name: string; dtype: string; shape: readonly Integer[] },
  data: Uint8Array,
): Promise<string> {
  const parts = [
    encoder.encode("coffer.tensor.1\0"),
    ...counted(tensor.name),
    ...counted(tensor.dtype),
    u64(tensor.shape.length),
    ...tensor.shape.map(u64),
    await sha256(data),
  ];
  return toBase64(await sha256(concatenated(parts)));
}
