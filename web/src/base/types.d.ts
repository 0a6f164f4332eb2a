// SPDX-License-Identifier: Apache-2.0
/** The worker's script, put in by scripts/build.mjs. */
declare module "virtual:worker" {
  const code: string;
  export default code;
}
/** What docs/errors.md says of each error, put in by scripts/build.mjs. */
declare module "virtual:errors" {
  const errors: Readonly<Record<string, { means: string; cause: string; step: string } | undefined>>;
  export default errors;
}
declare module "*.css";
