// SPDX-License-Identifier: Apache-2.0
/*
 * Builds the package into dist/: the WebAssembly module, the tables that come from the library's headers, and the
 * JavaScript with its types.
 *
 *   node scripts/build.mjs [--wasm FOLDER]    FOLDER: where the modules are built already
 */
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { tables } from "./tables.mjs";

const here = dirname(dirname(fileURLToPath(import.meta.url)));
const root = join(here, "../..");
const generated = join(here, "src/generated");
const dist = join(here, "dist");

const given = process.argv.indexOf("--wasm");
const built = given < 0 ? join(here, "build") : /** @type {string} */ (process.argv[given + 1]);
if (given < 0) {
  execFileSync(join(here, "wasm/build.sh"), [built], { stdio: "inherit" });
}

/** A module as a source file, so that no loader and no bundler has to know where it lies. */
function embed(wasm, source) {
  writeFileSync(
    join(generated, source),
    `// Made by scripts/build.mjs: ${wasm}.
export const MODULE = "${readFileSync(join(built, wasm)).toString("base64")}";
`,
  );
}

mkdirSync(generated, { recursive: true });
writeFileSync(join(generated, "tables.ts"), tables(root));
embed("coffer.wasm", "module.ts");
embed("model.wasm", "model_module.ts");
embed("packed.wasm", "packed_module.ts");

rmSync(dist, { recursive: true, force: true });
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
execFileSync(process.execPath, [tsc, "-p", here], { stdio: "inherit" });
copyFileSync(join(built, "coffer.wasm"), join(dist, "coffer.wasm"));
copyFileSync(join(built, "model.wasm"), join(dist, "model.wasm"));
copyFileSync(join(built, "packed.wasm"), join(dist, "packed.wasm"));
if (existsSync(join(built, "xxhash-license.txt"))) {
  copyFileSync(join(built, "xxhash-license.txt"), join(dist, "xxhash-license.txt"));
}
copyFileSync(join(root, "LICENSE"), join(here, "LICENSE"));
