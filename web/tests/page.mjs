// SPDX-License-Identifier: Apache-2.0
/* What several tests want: the page in a browser, modules of its sources, models, and a server of ranges. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { chromium } from "playwright-core";

const here = dirname(dirname(fileURLToPath(import.meta.url)));
export const PAGE = process.env.COFFER_PAGE ?? join(here, "../build/web/index.html");
export const LIBCOFFER = pathToFileURL(join(here, "../bindings/js/dist/index.js")).href;

/** A module of the sources, for tests of what needs no page: `await source("base/text.ts")`. */
export async function source(file) {
  const vite = createRequire(import.meta.url).resolve("vite");
  const { build } = createRequire(vite)("esbuild");
  const { outputFiles } = await build({
    entryPoints: [join(here, "src", file)],
    bundle: true,
    write: false,
    format: "esm",
    platform: "node",
    external: ["node:*"],
    alias: { libcoffer: join(here, "../bindings/js/dist/index.js") },
    logLevel: "warning",
  });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
}

/** A folder of files for the time of a test. */
export function folderOf(t, files) {
  const folder = mkdtempSync(join(tmpdir(), "coffer-page-"));
  t.after(() => rmSync(folder, { recursive: true }));
  for (const [name, bytes] of Object.entries(files)) {
    writeFileSync(join(folder, name), bytes);
  }
  return folder;
}

/** A file of the format by its header alone: an object, or the text. The data are zeros. */
export function safetensors(header, dataSize = 0) {
  const text = Buffer.from(typeof header === "string" ? header : JSON.stringify(header));
  const padded = Buffer.concat([text, Buffer.alloc((8 - (text.length % 8)) % 8, " ")]);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(padded.length));
  return Buffer.concat([length, padded, Buffer.alloc(dataSize)]);
}

/** A browser for the tests of a file; it ends with them. */
export async function browserOf(t) {
  const browser = await chromium.launch({
    executablePath: process.env.COFFER_CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
  });
  t.after(() => browser.close());
  return browser;
}

/** The page, as it is opened from a folder. What it complains about fails the test. */
export async function pageOf(t, browser, options = {}, file = PAGE, hash = "") {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  const complaints = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  t.after(async () => {
    await context.close();
    const ours = complaints.filter((text) => !/Failed to load resource|net::ERR_|CORS policy/.test(text));
    if (ours.length > 0) throw new Error(`the page complained: ${ours.join("\n")}`);
  });
  await page.goto(pathToFileURL(file).href + hash);
  return page;
}
