// SPDX-License-Identifier: Apache-2.0
/*
 * What models of the Hugging Face Hub consist of, read from their headers alone. Names, parameters, results and errors are
 * those of @huggingface/hub, so that changing the import is enough; docs/javascript.md says where what is after the names
 * differs. A file takes one request when its header is of ordinary size, and a model of N files N more than its index.
 */
import { decodeText } from "./core.js";
import { CofferError, type ErrorDetails } from "./errors.js";
import { NOTE_TEXTS, type Code, type Dtype as KnownDtype } from "./generated/tables.js";
import { countParameters, type ModelConfig } from "./parameters.js";
import { inParallel } from "./pieces.js";
import { INDEX_HEAD, MAX_INDEX_BYTES, parseIndex, supersededBy, type Index } from "./shards.js";
import { HttpError, HttpSource, HUB_URL } from "./source_http.js";
import { readTable, type Table } from "./table.js";

// ---- Names --------------------------------------------------------------------------------------------------------------

export const SAFETENSORS_FILE = "model.safetensors";
export const SAFETENSORS_INDEX_FILE = "model.safetensors.index.json";
export const DIFFUSERS_SAFETENSORS_FILE = "diffusion_pytorch_model.safetensors";
export const DIFFUSERS_SAFETENSORS_INDEX_FILE = "diffusion_pytorch_model.safetensors.index.json";
/** Where diffusers keeps the main part of a model. */
export const DIFFUSERS_WEIGHTS_SUBFOLDERS = ["transformer", "unet"] as const;
export const RE_SAFETENSORS_FILE = /\.safetensors$/;
export const RE_SAFETENSORS_INDEX_FILE = /\.safetensors\.index\.json$/;
export const RE_SAFETENSORS_SHARD_FILE =
  /^(?<prefix>(?<basePrefix>.*?)[_-])(?<shard>\d{5,6})-of-(?<total>\d{5,6})\.safetensors$/;

export interface SafetensorsShardFileInfo {
  prefix: string;
  basePrefix: string;
  shard: string;
  total: string;
}

/** The parts of a shard's name; null when it is none. */
export function parseSafetensorsShardFilename(filename: string): SafetensorsShardFileInfo | null {
  const groups = RE_SAFETENSORS_SHARD_FILE.exec(filename)?.groups as SafetensorsShardFileInfo | undefined;
  return groups === undefined
    ? null
    : { prefix: groups.prefix, basePrefix: groups.basePrefix, shard: groups.shard, total: groups.total };
}

// ---- Types --------------------------------------------------------------------------------------------------------------

export type RepoType = "space" | "dataset" | "model" | "bucket" | "kernel";
export interface RepoId {
  name: string;
  type: RepoType;
}
export type RepoDesignation = RepoId | string;
export type AccessToken = string;
/** In the place of `accessToken`, as it was once. */
export interface Credentials {
  accessToken: AccessToken;
}

export type TensorName = string;
/** The dtypes of the format, and what some files say instead. */
export type Dtype = KnownDtype | "E8M0" | "FP4" | "UE8";

export interface TensorInfo {
  dtype: Dtype;
  shape: number[];
  data_offsets: [number, number];
}
export type SafetensorsFileHeader = Record<TensorName, TensorInfo> & {
  __metadata__?: { total_parameters?: string | number } & Record<string, string>;
};
export interface SafetensorsIndexJson {
  dtype?: string;
  metadata?: { total_parameters?: string | number } & Record<string, string>;
  weight_map?: Record<TensorName, string>;
}
/** What is odd about a model of several files, and harmless. */
export interface SafetensorsNote {
  /** Tensors of a file that the index says are in another one, which has them: they are left out of that file's header. */
  kind: "SUPERSEDED";
  text: string;
  count: number;
  file: string;
}
export type SafetensorsShardedHeaders = Record<string, SafetensorsFileHeader>;

export type SafetensorsParseFromRepo =
  | {
      sharded: false;
      header: SafetensorsFileHeader;
      parameterCount?: Partial<Record<Dtype, number>>;
      parameterTotal?: number;
      filepaths: string[];
    }
  | {
      sharded: true;
      index: SafetensorsIndexJson;
      headers: SafetensorsShardedHeaders;
      parameterCount?: Partial<Record<Dtype, number>>;
      parameterTotal?: number;
      filepaths: string[];
      /** Only where there is something to say. Not among the results of @huggingface/hub. */
      notes?: SafetensorsNote[];
    };

export interface ParseSafetensorsMetadataParams {
  /** A model: "owner/name". */
  repo: RepoDesignation;
  /** The file or index within it; without it, what is usual. */
  path?: string;
  /** Count parameters, for which config.json is read, too. */
  computeParametersCount?: boolean;
  /** "diffusers": look where that library keeps weights, too. */
  library?: string;
  hubUrl?: string;
  /** A branch, tag or commit; "main" without it. */
  revision?: string;
  /** In the place of the global one. */
  fetch?: typeof fetch;
  accessToken?: AccessToken | undefined;
  /** What was there before `accessToken`. */
  credentials?: Credentials | undefined;
  /** Ends it. Not among the parameters of @huggingface/hub. */
  signal?: AbortSignal;
}

// ---- Errors -------------------------------------------------------------------------------------------------------------

/** A file or an index does not conform: asking again will not help. */
export class SafetensorParseError extends CofferError {
  override readonly name = "SafetensorParseError";

  constructor(message: string, code: Code = "JSON", details: ErrorDetails = {}) {
    super(code, message, details);
  }
}

/** The Hub answered with a failure. */
export class HubApiError extends CofferError {
  override readonly name = "HubApiError";
  readonly statusCode: number;
  readonly url: string;
  /** What the Hub calls the request. */
  readonly requestId: string | undefined;
  /** What it said: its JSON, or `{ message }`. */
  readonly data: Readonly<Record<string, unknown>> | undefined;

  constructor(
    url: string,
    statusCode: number,
    requestId?: string,
    message = `Api error with status ${statusCode}`,
    code: Code = "HTTP",
    details: ErrorDetails & { data?: Readonly<Record<string, unknown>> | undefined } = {},
  ) {
    super(code, message, { ...details, httpStatus: statusCode });
    this.url = url;
    this.statusCode = statusCode;
    this.requestId = requestId;
    this.data = details.data;
  }
}

/** What the Hub says of its failure, if it does. */
function hubWords({ data, message }: HttpError): string {
  const { error, message: said } = data;
  const words = [error, said].find((text) => typeof text === "string" && /^[\x20-\x7e]{1,500}$/.test(text));
  return typeof words !== "string" || words.includes("<") ? message : `${message}: ${words}`;
}

/**
 * Errors of the file, and a file that the repository lacks, are parse errors; errors of the server are the Hub's, and those of
 * the network stay what they are.
 */
function asHubError(error: unknown, path: string): unknown {
  if (!(error instanceof CofferError) || error instanceof SafetensorParseError) {
    return error;
  }
  const message = error.message.slice(error.path === undefined ? 0 : error.path.length + 2);
  const { tensor, offset, expected, actual } = error;
  if (error instanceof HttpError && error.errorCode === "EntryNotFound") {
    return new SafetensorParseError(`Failed to parse file ${path}: the repository does not have it`, "NOT_FOUND", {
      httpStatus: error.httpStatus,
      cause: error,
    });
  }
  if (error instanceof HttpError) {
    const { requestId, data, code, httpStatus } = error;
    return new HubApiError(error.path ?? path, httpStatus!, requestId, hubWords(error), code, { cause: error, data });
  }
  return (error.status >= 20 && error.status < 80) || (error.status >= 120 && error.status < 130)
    ? new SafetensorParseError(`Failed to parse file ${path}: ${message}`, error.code, {
        tensor,
        offset,
        expected,
        actual,
        cause: error,
      })
    : error;
}

// ---- Requests -----------------------------------------------------------------------------------------------------------

const MAX_SHARDS = 10_000;
const MAX_CONFIG_BYTES = 10_000_000;
const AT_ONCE = 20;

/** A revision of a repository. */
class Repository {
  readonly #params: ParseSafetensorsMetadataParams;
  readonly #root: string;

  constructor(params: ParseSafetensorsMetadataParams) {
    this.#params = params;
    checkToken(accessTokenOf(params));
    const revision = encodeURIComponent(params.revision ?? "main");
    this.#root = `${params.hubUrl ?? HUB_URL}/${modelName(params.repo)}/resolve/${revision}/`;
  }

  get signal(): AbortSignal | undefined {
    return this.#params.signal;
  }

  file(path: string, headSize?: number): HttpSource {
    const token = accessTokenOf(this.#params);
    // Of a name's characters only these two would end the path.
    return new HttpSource(this.#root + path.replaceAll("?", "%3F").replaceAll("#", "%23"), {
      fetch: this.#params.fetch,
      headSize,
      headers: token === undefined ? {} : { Authorization: `Bearer ${token}` },
    });
  }

  /** All bytes of a file that is known to be small. */
  async whole(path: string, most: number): Promise<Uint8Array> {
    const source = this.file(path, INDEX_HEAD);
    const head = await source.head(this.signal);
    const size = source.size ?? head.length;
    if (size > most) {
      throw new SafetensorParseError(
        `Failed to parse file ${path}: it has ${size} bytes, more than ${most}`,
        "INDEX_TOO_LARGE",
      );
    }
    if (size <= head.length) {
      return head;
    }
    const bytes = new Uint8Array(size);
    bytes.set(head);
    bytes.set(await source.read(head.length, size - head.length, this.signal), head.length);
    return bytes;
  }
}

/** The token that a caller gave, if it gave one. */
function accessTokenOf({ accessToken, credentials }: ParseSafetensorsMetadataParams): string | undefined {
  return [accessToken, credentials?.accessToken].find((token) => token !== undefined && token !== "");
}

/** Refuses what cannot be a token of the Hub, such as a password, before it is sent anywhere. */
function checkToken(token: string | undefined): void {
  if (token !== undefined && !token.startsWith("hf_")) {
    throw new TypeError("An access token of the Hub begins with 'hf_'; no request was made with this one");
  }
}

function modelName(repo: RepoDesignation): string {
  const onlyModels = new TypeError("Only model repos should contain safetensors files.");
  if (typeof repo !== "string") {
    if (repo.type !== "model") {
      throw onlyModels;
    }
    return repo.name;
  }
  if (/^models?\//.test(repo)) {
    throw new TypeError("A model is named by its owner and its name alone, without 'models/' before them");
  }
  if (/^(spaces|datasets|buckets|kernels)\//.test(repo)) {
    throw onlyModels;
  }
  if (repo.split("/").length > 2) {
    throw new TypeError(`Too many slashes in the repository's name: ${repo}`);
  }
  return repo;
}

/** Whether the server does not have this file, rather than another that this one names. */
function isMissing(error: unknown, path: string): boolean {
  const { code, cause } = error as CofferError;
  return code === "NOT_FOUND" && (cause as HttpError).path!.endsWith(`/${path}`);
}

// ---- From tables to results ---------------------------------------------------------------------------------------------

/** Sets a property of its own, whatever it is called. */
function put<T>(object: Record<string, T>, key: string, value: T): void {
  if (key === "__proto__") {
    Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
  } else {
    object[key] = value;
  }
}

/** A header as JSON.parse would give it, in its own order. Numbers beyond 2^53 are the nearest that JavaScript has. */
function headerOf(table: Table): SafetensorsFileHeader {
  const header: Record<string, unknown> = {};
  let metadata: Record<string, string> | null | undefined;
  if (table.metadata !== undefined) {
    metadata = {};
    for (const [key, value] of table.metadata) {
      put(metadata, key, value);
    }
  } else if (table.notes.some(({ kind }) => kind === "NULL_METADATA")) {
    metadata = null;
  }
  const { dataOffset, positions, metadataPosition } = table;
  for (const i of table.headerOrder()) {
    if (metadata !== undefined && positions[i]! > metadataPosition) {
      header.__metadata__ = metadata;
      metadata = undefined;
    }
    const begin = Number(table.offset(i)) - dataOffset;
    put(header, table.name(i), {
      dtype: table.dtype(i),
      shape: table.approximateShape(i),
      data_offsets: [begin, begin + Number(table.size(i))],
    });
  }
  if (metadata !== undefined) {
    header.__metadata__ = metadata;
  }
  return header as SafetensorsFileHeader;
}

async function readHeader(repository: Repository, path: string, headSize?: number): Promise<SafetensorsFileHeader> {
  try {
    const table = await readTable(repository.file(path, headSize), {
      format: "safetensors",
      unknownDtypes: true,
      signal: repository.signal,
    });
    return headerOf(table);
  } catch (error) {
    throw asHubError(error, path);
  }
}

/** A name in quotes that cannot do anything to a terminal. */
function inAscii(name: string): string {
  const escape = (character: string) => `\\u{${character.codePointAt(0)!.toString(16)}}`;
  return JSON.stringify(name).replace(/[^\x20-\x7e]/gu, escape);
}

/** What a name in an index must not be: it could lead out of the index's folder, or to another host. */
const UNSAFE: readonly [pattern: RegExp, reason: string][] = [
  [/^$/, "it is empty"],
  [/[\x00-\x1f\x7f]/, "a control character"],
  [/\\/, "a backslash"],
  [/^\//, "an absolute path"],
  [/^[^/]*:/, "a colon in its first part"],
  [/(^|\/)\.{1,2}(\/|$)/, "a part that is . or .."],
];

/** How often a name is decoded, as `%252e` is `.` after two times. */
const MAX_DECODINGS = 5;

/** A name as it is after percent-decoding, and again, until it stays what it is; undefined where it cannot be decoded. */
function decodings(name: string): string[] | undefined {
  const names = [name];
  try {
    for (let i = 0; i < MAX_DECODINGS; i++) {
      names.push(decodeURIComponent(names[i]!));
    }
    return names;
  } catch {
    return undefined;
  }
}

/** Fails when a name in an index is more than that of a file below the index's folder, also once it is decoded. */
export function assertSafeShardFilename(filename: string): void {
  const names = decodings(filename);
  const [, reason] =
    names === undefined
      ? [, "a percent sign that begins no escape"]
      : (UNSAFE.find(([pattern]) => names.some((name) => pattern.test(name))) ?? []);
  if (reason !== undefined) {
    throw new SafetensorParseError(
      `Unsafe shard filename in weight_map: ${inAscii(filename)}: ${reason}`,
      "SHARD_NAME",
    );
  }
}

/** A shard's name as a part of a URL. */
export function encodeShardFilename(filename: string): string {
  return filename.split("/").map(encodeURIComponent).join("/");
}

/** The largest dimension that @huggingface/hub takes; `parseSafetensorsMetadata` itself takes any that the format has. */
const MAX_DIMENSION = 2 ** 32;

/** Fails when one tensor of a header that was parsed elsewhere is malformed, or ends after the end of its file. */
export function validateTensorEntry(
  path: string,
  tensorName: string,
  info: TensorInfo,
  fileSizeBytes: number | undefined,
): void {
  const refuse = (what: string): never => {
    throw new SafetensorParseError(`Failed to parse file ${path}: tensor ${inAscii(tensorName)}: ${what}`, "TYPE", {
      tensor: tensorName,
    });
  };
  const { shape, data_offsets: offsets } = info;
  if (!Array.isArray(shape) || !Array.isArray(offsets) || offsets.length !== 2) {
    return refuse("it lacks a shape, or two data_offsets");
  }
  const bad = shape.find((dimension) => !Number.isInteger(dimension) || dimension < 0 || dimension > MAX_DIMENSION);
  if (bad !== undefined) {
    return refuse(`${String(bad)} is not a dimension from 0 to ${MAX_DIMENSION}`);
  }
  const [begin, end] = offsets;
  if (!Number.isInteger(begin) || !Number.isInteger(end) || begin < 0 || end < begin) {
    return refuse(`[${begin}, ${end}] are no data_offsets`);
  }
  if (fileSizeBytes !== undefined && end > fileSizeBytes) {
    refuse(`its data end at byte ${end}, after the end of the file of ${fileSizeBytes} bytes`);
  }
}

/** What metadata say of the number of parameters: not more than were counted. */
export function parseTotalParameters(value: string | number | undefined, computedTotal?: number): number | undefined {
  const stated = typeof value === "number" ? value : Number.parseInt(value ?? "", 10);
  if (!value || !Number.isFinite(stated) || stated < 0) {
    return undefined;
  }
  return computedTotal === undefined ? stated : Math.min(stated, computedTotal);
}

// ---- A model ------------------------------------------------------------------------------------------------------------

/** A result, before anything is counted. */
type Found =
  | { sharded: false; header: SafetensorsFileHeader; filepaths: string[] }
  | {
      sharded: true;
      index: SafetensorsIndexJson;
      headers: SafetensorsShardedHeaders;
      filepaths: string[];
      notes?: SafetensorsNote[];
    };

async function readSingle(repository: Repository, path: string): Promise<Found> {
  return { sharded: false, header: await readHeader(repository, path), filepaths: [path] };
}

async function readIndex(repository: Repository, path: string): Promise<{ index: SafetensorsIndexJson; known: Index }> {
  try {
    const bytes = await repository.whole(path, MAX_INDEX_BYTES);
    const known = await parseIndex(bytes, path, true);
    const { length } = known.files;
    known.files.forEach(assertSafeShardFilename);
    if (length > MAX_SHARDS) {
      throw new SafetensorParseError(
        `Too many shard files (${length}). Maximum supported is ${MAX_SHARDS}.`,
        "INDEX_TOO_LARGE",
      );
    }
    const { dtype, metadata, weight_map } = JSON.parse(decodeText(bytes)) as SafetensorsIndexJson;
    return { index: { dtype: dtype!, metadata: metadata!, weight_map: weight_map! }, known };
  } catch (error) {
    throw asHubError(error, path);
  }
}

function tensorNames(header: SafetensorsFileHeader): string[] {
  return Object.keys(header).filter((name) => name !== "__metadata__");
}

/** Leaves tensors out that the index says are in another file. Says of how many files' headers that is so. */
function leaveOutSuperseded(headers: SafetensorsFileHeader[], known: Index): SafetensorsNote[] {
  const superseded = supersededBy(
    known,
    headers.map((header) => new Set(tensorNames(header))),
  );
  const notes: SafetensorsNote[] = [];
  for (const [number, header] of headers.entries()) {
    const names = tensorNames(header).filter((name) => superseded(number, name));
    names.forEach((name) => Reflect.deleteProperty(header, name));
    if (names.length > 0) {
      const file = known.files[number]!;
      notes.push({ kind: "SUPERSEDED", text: NOTE_TEXTS.SUPERSEDED, count: names.length, file });
    }
  }
  return notes;
}

async function readSharded(repository: Repository, path: string): Promise<Found> {
  const { index, known } = await readIndex(repository, path);
  const { files, headSizes } = known;
  const folder = path.slice(0, path.lastIndexOf("/") + 1);
  const read = await inParallel(files, AT_ONCE, (file) =>
    readHeader(repository, folder + encodeShardFilename(file), headSizes.get(file)),
  );
  const notes = leaveOutSuperseded(read, known);
  const headers: SafetensorsShardedHeaders = {};
  files.forEach((file, i) => {
    put(headers, file, read[i]!);
  });
  const filepaths = [path, ...files.map((file) => folder + file)];
  return { sharded: true, index, headers, filepaths, ...(notes.length > 0 ? { notes } : {}) };
}

/** Where weights may be, in the order of looking. */
function candidates(library: string | undefined): [single: string, index: string][] {
  const places = library === "diffusers" ? [...DIFFUSERS_WEIGHTS_SUBFOLDERS.map((folder) => `${folder}/`), ""] : [];
  return [
    [SAFETENSORS_FILE, SAFETENSORS_INDEX_FILE],
    ...places.map((folder): [string, string] => [
      folder + DIFFUSERS_SAFETENSORS_FILE,
      folder + DIFFUSERS_SAFETENSORS_INDEX_FILE,
    ]),
  ];
}

async function readModel(repository: Repository, params: ParseSafetensorsMetadataParams): Promise<Found> {
  const nothing = new Error("model id does not seem to contain safetensors weights");
  if (params.path !== undefined && params.path !== "") {
    if (params.path.endsWith(".safetensors")) {
      return readSingle(repository, params.path);
    }
    if (params.path.endsWith(".safetensors.index.json")) {
      return readSharded(repository, params.path);
    }
    throw nothing;
  }
  for (const [single, index] of candidates(params.library)) {
    for (const [path, read] of [[single, readSingle] as const, [index, readSharded] as const]) {
      try {
        return await read(repository, path);
      } catch (error) {
        // A shard that is not there is another matter than a candidate.
        if (!isMissing(error, path)) {
          throw error;
        }
      }
    }
  }
  throw nothing;
}

/** config.json; null when there is none that can be used. */
async function readConfig(repository: Repository): Promise<ModelConfig | null> {
  try {
    return JSON.parse(decodeText(await repository.whole("config.json", MAX_CONFIG_BYTES))) as ModelConfig;
  } catch {
    repository.signal?.throwIfAborted();
    return null;
  }
}

function counted(found: Found, config: ModelConfig | null): SafetensorsParseFromRepo {
  const headers = found.sharded ? Object.values(found.headers) : [found.header];
  const parameterCount = countParameters(headers, config) as Partial<Record<Dtype, number>>;
  const total = Object.values(parameterCount).reduce((a, b) => a + b, 0);
  const stated = (found.sharded ? found.index.metadata : found.header.__metadata__)?.total_parameters;
  const parameterTotal = parseTotalParameters(stated, total);
  return Object.assign(found, { parameterCount, parameterTotal }) as SafetensorsParseFromRepo;
}

/** Reads what the safetensors files of a model on the Hub consist of. */
export async function parseSafetensorsMetadata(
  params: ParseSafetensorsMetadataParams & { computeParametersCount: true },
): Promise<SafetensorsParseFromRepo & { parameterCount: Partial<Record<Dtype, number>> }>;
export async function parseSafetensorsMetadata(
  params: ParseSafetensorsMetadataParams,
): Promise<SafetensorsParseFromRepo>;
export async function parseSafetensorsMetadata(
  params: ParseSafetensorsMetadataParams,
): Promise<SafetensorsParseFromRepo> {
  const repository = new Repository(params);
  if (!params.computeParametersCount) {
    return readModel(repository, params);
  }
  const [found, config] = await Promise.all([readModel(repository, params), readConfig(repository)]);
  return counted(found, config);
}
