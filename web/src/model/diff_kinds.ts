// SPDX-License-Identifier: Apache-2.0
/** What became of a tensor: by these numbers in columns. */
export const DIFF_KINDS = ["same", "added", "removed", "changed"] as const;
export type DiffKind = (typeof DIFF_KINDS)[number];
