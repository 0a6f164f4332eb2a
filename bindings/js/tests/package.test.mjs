// SPDX-License-Identifier: Apache-2.0
/* The package as strangers get it: packed, installed in an empty project, compiled against, bundled, run elsewhere. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import test, { after, before } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";

import { build, open } from "libcoffer";

import { folderOf } from "./files.mjs";

const here = dirname(dirname(fileURLToPath(import.meta.url)));
const require_ = createRequire(import.meta.url);
let packed;

function npm(folder, ...args) {
  return execFileSync("npm", [...args, "--loglevel=error", "--offline"], { cwd: folder, stdio: "pipe" }).toString();
}

const folder = mkdtempSync(join(tmpdir(), "libcoffer-packed-"));
after(() => rmSync(folder, { recursive: true }));

before(() => {
  packed = join(folder, npm(here, "pack", "--silent", "--pack-destination", folder).trim().split("\n").pop());
});

/** An empty project with the package, and a model. */
async function project(t, files) {
  const model = await build([{ name: "x", data: Float32Array.of(1, 2) }], { metadata: { a: "b" } });
  const folder = folderOf(t, {
    "package.json": '{ "private": true, "type": "module" }',
    "model.safetensors": new Uint8Array(await model.arrayBuffer()),
    ...files,
  });
  npm(folder, "install", packed);
  return folder;
}

const PROGRAM = `
import { open, parseSafetensorsMetadata } from "libcoffer";
const model = await open("model.safetensors");
const { data } = await model.slice("x", "1:");
await model.close();
console.log(JSON.stringify([[...model.tensors.keys()], [...await model.get("x").catch((e) => [e.code])], [...data], typeof parseSafetensorsMetadata]));
`.replace("await model.close();\n", "");

const EXPECTED = '[["x"],[1,2],[2],"function"]';

test("in an empty project", async (t) => {
  const folder = await project(t, { "program.mjs": PROGRAM });
  assert.deepEqual(
    readdirSync(join(folder, "node_modules")).filter((name) => !name.startsWith(".")),
    ["libcoffer"],
  );
  assert.equal(execFileSync(process.execPath, ["program.mjs"], { cwd: folder }).toString().trim(), EXPECTED);
  const required = ["-e", 'require("libcoffer").open("model.safetensors").then((m) => console.log(m.tensors.size))'];
  assert.equal(execFileSync(process.execPath, required, { cwd: folder }).toString().trim(), "1");
  // Two modules, each as it is and as text.
  assert(statSync(packed).size < 297_000, `the package has ${statSync(packed).size} bytes`);
});

for (const [name, ...args] of [["deno", "run", "--allow-read"], ["bun"]]) {
  const binary = process.env[`COFFER_${name.toUpperCase()}`];
  test(`by ${name}`, { skip: !binary && `no ${name}` }, async (t) => {
    const folder = await project(t, { "program.mjs": PROGRAM });
    assert.equal(
      execFileSync(binary, [...args, "program.mjs"], { cwd: folder })
        .toString()
        .trim(),
      EXPECTED,
    );
  });
}

const TYPED = `
import { build, check, CofferError, decode, open, parseSafetensorsMetadata, type Integer, type Model, type Tensor } from "libcoffer";

export async function use(file: File): Promise<number> {
  const model: Model = await open(file, { signal: AbortSignal.timeout(1000) });
  const tensor: Tensor | undefined = model.tensors.get("x");
  const size: Integer = tensor?.size ?? 0;
  const { data } = await model.slice("x", [0, null, [1, 2]]);
  const values: Float64Array = await decode("BF16", data);
  const { ok, error, notes } = await check(file);
  const code: "JSON" | undefined = error?.code === "JSON" ? error.code : undefined;
  const found = await parseSafetensorsMetadata({ repo: "a/b", computeParametersCount: true });
  const count: number | undefined = found.parameterCount.BF16;
  const names: string[] = found.sharded ? Object.keys(found.headers) : Object.keys(found.header);
  const blob: Blob = await build([{ name: "y", dtype: "BF16", shape: [2], data: new Uint16Array(2) }]);
  void [ok, code, notes, names, blob, count, values, error instanceof CofferError];
  return Number(size);
}
`;

test("its types are strict, with those of a browser and of Node", async (t) => {
  const folder = await project(t, { "use.ts": TYPED });
  const options = [
    "--strict",
    "--exactOptionalPropertyTypes",
    "--noEmit",
    "--target",
    "ES2022",
    "--module",
    "NodeNext",
  ];
  const tsc = require_.resolve("typescript/bin/tsc");
  const command = [tsc, ...options, "--lib", "ES2022,DOM,DOM.Iterable", "use.ts"];
  execFileSync(process.execPath, command, { cwd: folder, stdio: "pipe" });
});

test("bundled by Vite", async (t) => {
  const folder = await project(t, {
    "index.html": '<!doctype html><script type="module" src="main.js"></script>',
    "main.js": 'import { open } from "libcoffer";\nglobalThis.opened = open(globalThis.given);\n',
  });
  const { build: bundle } = await import("vite");
  const warnings = [];
  const logger = {
    info() {},
    warn: (text) => warnings.push(text),
    warnOnce: (text) => warnings.push(text),
    error: (text) => warnings.push(text),
    clearScreen() {},
    hasErrorLogged: () => false,
    hasWarned: false,
  };
  await bundle({
    root: folder,
    configFile: false,
    customLogger: logger,
    build: { target: "es2022", modulePreload: false },
  });
  assert.deepEqual(warnings, []);
  const assets = join(folder, "dist/assets");
  const scripts = readdirSync(assets).filter((name) => name.endsWith(".js"));
  for (const script of scripts) {
    assert(!readFileSync(join(assets, script), "utf8").includes("node:fs"), script);
  }
  const main = scripts.find((name) => name.startsWith("index"));
  writeFileSync(join(folder, "run.mjs"), readFileSync(join(assets, main)));
  globalThis.given = await build([{ name: "x", data: Float32Array.of(1) }]);
  await import(pathToFileURL(join(assets, main)).href);
  assert.deepEqual([...(await globalThis.opened).tensors.keys()], ["x"]);
});

test("a bundle is as large as the documents say", async (t) => {
  const docs = readFileSync(join(here, "../../docs/javascript.md"), "utf8");
  const said = /`parseSafetensorsMetadata` alone takes (\d+) KB gzipped, `open` (\d+) KB;.*? Another (\d+) KB/.exec(
    docs.replace(/\s+/g, " "),
  );
  const { build: bundle } = await import("esbuild");
  const sizes = [];
  for (const name of ["parseSafetensorsMetadata", "open"]) {
    const { outputFiles } = await bundle({
      stdin: { contents: `import { ${name} } from "libcoffer"; globalThis.used = ${name};`, resolveDir: here },
      bundle: true,
      minify: true,
      splitting: true,
      format: "esm",
      platform: "browser",
      outdir: folder,
      write: false,
    });
    const zipped = outputFiles.map(({ contents }) => gzipSync(contents, { level: 9 }).length).sort((a, b) => b - a);
    sizes.push(zipped);
  }
  const [[metadata, module], [opening]] = sizes;
  assert.deepEqual(
    [metadata, opening, module].map((size) => Math.ceil(size / 1000)),
    said?.slice(1).map(Number),
  );
});

test("its version is the library's", async () => {
  const { version } = JSON.parse(readFileSync(join(here, "package.json"), "utf8"));
  const header = readFileSync(join(here, "../../include/coffer/base.h"), "utf8");
  assert.equal(version, /COFFER_VERSION_STRING "(.*)"/.exec(header)[1]);
  assert.equal(typeof open, "function");
});
