// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";

/**
 * What docs/errors.md says of each error, by its name: what it means, its usual cause and the next step.
 *
 * @param {string} root of the checkout
 * @returns {Record<string, { means: string, cause: string, step: string }>}
 */
export function errors(root) {
  const rows = readFileSync(`${root}/docs/errors.md`, "utf8").matchAll(
    /^\| \d+ \| `(\w+)` \| (.*?) \| (.*?) \| (.*?) \|$/gm,
  );
  return Object.fromEntries([...rows].map(([, name, means, cause, step]) => [name, { means, cause, step }]));
}
