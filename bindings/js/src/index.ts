// SPDX-License-Identifier: Apache-2.0
/*
 * libcoffer: reads, checks and writes safetensors files, in browsers and in Node.
 */
export { decode, type TensorArray } from "./arrays.js";
export {
  build,
  buildStream,
  layOut,
  type BuildOptions,
  type Layout,
  type NewTensor,
  type TensorData,
} from "./build.js";
export { escapeText, useModule } from "./core.js";
export { CofferError, type ErrorDetails } from "./errors.js";
export type { Algorithm } from "./hashes.js";
export { STATUSES, type Code, type NoteKind } from "./generated/tables.js";
export type { Integer } from "./integers.js";
export {
  check,
  Model,
  open,
  Tensors,
  type BytesOptions,
  type ModelFile,
  type ModelNote,
  type OpenOptions,
  type ReadOptions,
  type Report,
  type Tensor,
} from "./model.js";
export { distance, statistics, type Chunks, type Distance, type Distribution, type Numbers } from "./numbers.js";
export type { Openable } from "./places.js";
export type { Index } from "./runs.js";
export { BlobSource, HEAD_SIZE, MemorySource, type Source } from "./source.js";
export { HttpError, HttpSource, type HttpOptions } from "./source_http.js";
export { readTable, Table, type Format, type Note, type TableEntry, type TableOptions } from "./table.js";
export * from "./hub.js";
export {
  computeNumOfParamsByDtypeSingleFile,
  countParameters,
  getQuantizationMultiplier,
  globMatch,
  isQuantizedTensor,
  matchesCompressedTensorsTarget,
  type CountedHeader,
  type MlxQuantizationConfig,
  type ModelConfig,
  type QuantizationConfig,
} from "./parameters.js";
