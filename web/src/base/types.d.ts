// SPDX-License-Identifier: Apache-2.0
/** The worker's script, put in by scripts/build.mjs. */
declare module "virtual:worker" {
  const code: string;
  export default code;
}
declare module "*.css";
