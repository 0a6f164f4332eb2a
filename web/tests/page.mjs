// SPDX-License-Identifier: Apache-2.0
/* What several tests want: the page in a browser, modules of its sources, models, and a server of ranges. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { chromium } from "playwright-core";

import { errors } from "../scripts/errors.mjs";

const here = dirname(dirname(fileURLToPath(import.meta.url)));
export const PAGE = process.env.COFFER_PAGE ?? join(here, "../build/web/index.html");
export const LIBCOFFER = pathToFileURL(join(here, "../bindings/js/dist/index.js")).href;

/** A module of sources, all in one, for tests of what needs no page: `await source("base/text.ts")`. */
export async function source(...files) {
  const vite = createRequire(import.meta.url).resolve("vite");
  const { build } = createRequire(vite)("esbuild");
  const { outputFiles } = await build({
    stdin: { contents: files.map((file) => `export * from "./${file}";`).join("\n"), resolveDir: join(here, "src") },
    bundle: true,
    write: false,
    format: "esm",
    platform: "node",
    external: ["node:*"],
    alias: { libcoffer: join(here, "../bindings/js/dist/index.js") },
    plugins: [
      {
        name: "errors",
        setup: (builder) => {
          builder.onResolve({ filter: /^virtual:errors$/ }, ({ path }) => ({ path, namespace: "made" }));
          builder.onLoad({ filter: /./, namespace: "made" }, () => ({
            contents: JSON.stringify(errors(join(here, ".."))),
            loader: "json",
          }));
        },
      },
    ],
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
export async function pageOf(t, browser, { complains = false, ...options } = {}, file = PAGE, hash = "") {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  const complaints = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  t.after(async () => {
    await context.close();
    const ours = complaints.filter((text) => !/Failed to load resource|net::ERR_|CORS policy/.test(text));
    if (ours.length > 0 && !complains) throw new Error(`the page complained: ${ours.join("\n")}`);
  });
  await page.goto(pathToFileURL(file).href + hash);
  return page;
}

/** Chooses files, as the first button does. */
export function openFile(page, ...files) {
  return page.setInputFiles("input[type=file] >> nth=0", files);
}

/** A server of these files, in ranges, which pages may read from. It waits before the answer to what `slow` names. */
export async function serve(t, files, { slow = [] } = {}) {
  const requests = [];
  const cookies = [];
  const server = http.createServer((request, response) => {
    const name = decodeURIComponent(request.url.slice(1));
    requests.push([name, request.headers.range]);
    cookies.push(request.headers.cookie);
    const headers = {
      "Access-Control-Allow-Origin": "*",
      "Access-Control-Allow-Headers": "Range",
      "Access-Control-Expose-Headers": "Content-Range, ETag",
    };
    if (slow.includes(name)) {
      response.writeHead(206, { ...headers, "Content-Range": "bytes 0-98303/1000000" });
      response.write(Buffer.alloc(1000));
      return;
    }
    const body = files[name] === undefined ? undefined : Buffer.from(files[name]);
    const range = /bytes=(\d+)-(\d+)/.exec(request.headers.range ?? "");
    if (body === undefined || range === null) {
      response.writeHead(body === undefined ? 404 : 200, headers);
      response.end(body);
      return;
    }
    const [first, last] = [Number(range[1]), Math.min(Number(range[2]), body.length - 1)];
    response.writeHead(206, { ...headers, "Content-Range": `bytes ${first}-${last}/${body.length}` });
    response.end(body.subarray(first, last + 1));
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  t.after(() => server.close().closeAllConnections());
  return { origin: `http://127.0.0.1:${server.address().port}`, requests, cookies };
}

/** The names in the list that are in view. */
export function namesIn(page) {
  return page.locator(".body-row .name").evaluateAll((names) => names.map(({ textContent }) => textContent));
}

/** Waits until the list begins with a name. */
export function listBegins(page, name) {
  return page.waitForFunction((first) => document.querySelector(".body-row .name")?.textContent === first, name);
}
