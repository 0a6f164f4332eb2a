// SPDX-License-Identifier: Apache-2.0
/*
 * The calls that the page can make. Each has one argument, which was cloned, and gives a result that is; a call that takes
 * long looks at `signal` now and then and tells `progress` how far it is.
 */
import { arrange } from "./arrange.js";
import { compare, comparePair } from "./compare.js";
import { examine } from "./examine.js";
import { look } from "./look.js";
import { letGo } from "./models.js";
import { openWanted } from "./open_wanted.js";
import { treemap } from "./treemap_call.js";
import { tree } from "./tree.js";

export interface CallContext {
  signal: AbortSignal;
  /** `total` is undefined where nobody knows. */
  progress: (done: number, total: number | undefined) => void;
}

export const CALLS = {
  open: openWanted,
  close: ({ id }: { id: number }) => letGo(id),
  arrange,
  examine,
  look,
  treemap,
  compare,
  comparePair,
  tree,
};

export type Calls = typeof CALLS;
