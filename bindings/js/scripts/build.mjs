// SPDX-License-Identifier: Apache-2.0
/*
 * Builds the package into dist/: the WebAssembly module, the tables that come from the library's headers, and the
 * JavaScript with its types.
 *
 *   node scripts/build.mjs [--wasm FILE]    FILE: a module that is built already
 */
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { tables } from "./tables.mjs";

const here = dirname(dirname(fileURLToPath(import.meta.url)));
const root = join(here, "../..");
const generated = join(here, "src/generated");
const dist = join(here, "dist");

const given = process.argv.indexOf("--wasm");
const wasm = given < 0 ? join(here, "build/coffer.wasm") : /** @type {string} */ (process.argv[given + 1]);
if (given < 0) {
  execFileSync(join(here, "wasm/build.sh"), [dirname(wasm)], { stdio: "inherit" });
}

mkdirSync(generated, { recursive: true });
writeFileSync(join(generated, "tables.ts"), tables(root));
writeFileSync(
  join(generated, "module.ts"),
  `// Made by scripts/build.mjs: coffer.wasm, so that no loader and no bundler has to know where it lies.
export const MODULE = "${readFileSync(wasm).toString("base64")}";
`,
);

rmSync(dist, { recursive: true, force: true });
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
execFileSync(process.execPath, [tsc, "-p", here], { stdio: "inherit" });
copyFileSync(wasm, join(dist, "coffer.wasm"));
copyFileSync(join(root, "LICENSE"), join(here, "LICENSE"));
