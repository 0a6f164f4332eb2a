// SPDX-License-Identifier: Apache-2.0
/*
 * Builds the page as one file, which works from a folder too: a page that was opened by file:// cannot load scripts, styles or
 * workers of other files. The worker is a text in the page's script, which makes a blob of it.
 *
 *   node scripts/build.mjs [FILE]    FILE: where to, build/web/index.html without it
 *
 * The policy names the script and the style by their hashes, so nothing else that gets into the page can run.
 */
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "vite";

import { errors } from "./errors.mjs";
import { asHtml, compiledIn, licences } from "./licences.mjs";

const here = dirname(dirname(fileURLToPath(import.meta.url)));
const dist = join(here, "../bindings/js/dist");
const output = resolve(process.argv[2] ?? join(here, "../build/web/index.html"));

/**
 * A bundle of one script, the styles that it imports, and the modules that are part of it.
 *
 * @param {string} entry
 * @param {import("vite").Plugin[]} plugins
 */
async function bundle(entry, plugins = []) {
  const results = await build({
    root: here,
    configFile: false,
    logLevel: "warn",
    plugins,
    resolve: { alias: { libcoffer: join(dist, "index.js") } },
    esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
    define: { "process.env.NODE_ENV": '"production"' },
    build: {
      write: false,
      target: "es2022",
      minify: "esbuild",
      cssMinify: true,
      reportCompressedSize: false,
      lib: { entry: join(here, entry), formats: ["iife"], name: "coffer", fileName: "coffer" },
      rollupOptions: { output: { inlineDynamicImports: true } },
    },
  });
  const files = /** @type {import("rollup").RollupOutput[]} */ (results)[0].output;
  const chunk = /** @type {import("rollup").OutputChunk} */ (files.find((file) => file.type === "chunk"));
  const style = files.find((file) => file.type === "asset" && file.fileName.endsWith(".css"));
  return {
    script: chunk.code.trim(),
    style: String(/** @type {import("rollup").OutputAsset | undefined} */ (style)?.source ?? "").trim(),
    modules: Object.keys(chunk.modules).filter((id) => chunk.modules[id].renderedLength > 0),
  };
}

/**
 * A module that exists only while building.
 *
 * @param {string} name
 * @param {unknown} value what it exports
 * @returns {import("vite").Plugin}
 */
function made(name, value) {
  return {
    name,
    resolveId: (id) => (id === `virtual:${name}` ? `\0${id}` : undefined),
    load: (id) => (id === `\0virtual:${name}` ? `export default ${JSON.stringify(value)};` : undefined),
  };
}

/** What ends a script, or hides the rest of one, in texts of a script that stands in a page. */
function inPage(/** @type {string} */ code) {
  return code.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
}

const hash = (/** @type {string} */ text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

/** A digest of what the page is made of, by which the one that comes with the sources is known to be of them. */
function sourcesOf(/** @type {string[]} */ folders) {
  const digest = createHash("sha256");
  const files = folders.flatMap((folder) =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !entry.parentPath.includes("generated"))
      .map((entry) => join(entry.parentPath, entry.name)),
  );
  for (const file of [...files, join(here, "index.html")].sort()) {
    digest.update(`${relative(here, file)}\0`).update(readFileSync(file));
  }
  return digest.digest("hex");
}

const worker = await bundle("src/worker/main.ts");
const main = await bundle("src/main.tsx", [made("worker", worker.script), made("errors", errors(join(here, "..")))]);
const { style } = main;
const script = inPage(main.script);
const parts = licences([...worker.modules, ...main.modules], [join(here, "src"), resolve(dist)]);
const { version } = JSON.parse(readFileSync(join(here, "package.json"), "utf8"));
const policy = [
  "default-src 'none'",
  `script-src ${hash(script)} 'wasm-unsafe-eval'`,
  "worker-src blob:",
  `style-src ${hash(style)}`,
  "img-src blob: data:",
  "connect-src https: http:",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");
const icon = `data:image/svg+xml,${encodeURIComponent(readFileSync(join(here, "src/icon.svg"), "utf8").trim())}`;
const texts = {
  SOURCES: sourcesOf([join(here, "src"), join(here, "scripts"), join(here, "../bindings/js/src")]),
  POLICY: policy,
  ICON: icon,
  STYLE: style,
  SCRIPT: script,
  VERSION: version,
  LICENCES: asHtml([...parts, ...compiledIn(dist)]),
};
// White space around the script would be part of what is hashed.
const page = readFileSync(join(here, "index.html"), "utf8").replace(
  /\s*%(POLICY|SOURCES|ICON|STYLE|SCRIPT|VERSION|LICENCES)%\s*/g,
  (_, name) => texts[name],
);
if (page.split("<!--coffer-report-->").length !== 2) {
  throw new Error("the place for a report is not there once");
}
mkdirSync(dirname(output), { recursive: true });
writeFileSync(output, page);
console.log(`${output}: ${Buffer.byteLength(page)} bytes`);
