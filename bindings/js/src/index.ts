// SPDX-License-Identifier: Apache-2.0
export { CofferError } from "./errors.js";
export * from "./table.js";
export * from "./source.js";
export * from "./source_http.js";
