// SPDX-License-Identifier: Apache-2.0
/*
 * What crosses between the page and its worker. Everything here can be cloned. Texts are as the files have them, so whoever
 * shows one does so through base/text.ts.
 */
import type { Columns } from "./columns.js";

/** What someone wants to see; with `isLenient` also with dtypes that are not known, or with bytes in the padding. */
export type Wanted =
  | { kind: "files"; files: readonly File[]; name: string; isLenient?: boolean }
  | { kind: "url"; url: string; isLenient?: boolean }
  | { kind: "report"; text: string; isLenient?: boolean };

/** The bytes around an error, as text or as hexadecimal digits. */
export interface Excerpt {
  before: string;
  at: string;
  after: string;
}

/** Why something failed. */
export interface Trouble {
  /** The library's name of the error; undefined where it is not one of the library's. */
  code: string | undefined;
  message: string;
  path?: string | undefined;
  /** The tensor's name, escaped already. */
  tensor?: string | undefined;
  offset?: number | bigint | undefined;
  expected?: number | bigint | undefined;
  actual?: number | bigint | undefined;
  httpStatus?: number | undefined;
  excerpt?: Excerpt | undefined;
}

/** What is legal but odd. */
export interface OddThing {
  kind: string;
  text: string;
  count: number;
  offset: number | bigint | undefined;
  file: string | undefined;
}

export interface OpenedFile {
  name: string;
  /** Undefined where a server does not say. */
  size: number | undefined;
  format: string;
  /** Where the data begin. */
  dataOffset: number;
  dataSize: number | bigint;
  /** Bytes of padding after the header. */
  slack: number;
  hasMetadata: boolean;
  /** In the order of the header. */
  metadata: readonly (readonly [key: string, value: string])[];
}

/** What a model has of a dtype. */
export interface DtypeShare {
  dtype: string;
  tensors: number;
  elements: bigint;
  bytes: bigint;
}

export interface Summary {
  elements: bigint;
  /** Where the elements are not that: several parameters are packed in one. */
  parameters: bigint | undefined;
  bytes: bigint;
  /** The one with the most bytes first. */
  dtypes: readonly DtypeShare[];
  /** The largest power of two, up to 4096, of which every tensor's place is a multiple; undefined without tensors. */
  alignment: number | undefined;
  /** How the tensors' names and dtypes, or config.json, say that the model was quantised. */
  quantisation: string | undefined;
}

export interface Opened {
  /** By which later calls name the model. */
  id: number;
  name: string;
  files: readonly OpenedFile[];
  notes: readonly OddThing[];
  columns: Columns;
  summary: Summary;
  /** What an index has as metadata. */
  indexMetadata: Readonly<Record<string, unknown>> | undefined;
  /** Whether tensors' values can be read: not those of a report. */
  hasValues: boolean;
  /** How much was fetched; undefined where nothing was. */
  traffic: { requests: number; bytes: number } | undefined;
  /** How long it took, in ms. */
  took: number;
}
