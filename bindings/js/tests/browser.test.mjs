// SPDX-License-Identifier: Apache-2.0
/* In a browser, without a bundler, under a strict Content-Security-Policy: chosen files, URLs, and another origin's. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import http from "node:http";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";

import { build, open } from "libcoffer";
import { chromium } from "playwright-core";

import { folderOf } from "./files.mjs";

const dist = fileURLToPath(new URL("../dist", import.meta.url));
const executablePath = process.env.COFFER_CHROMIUM ?? "/usr/bin/chromium";
const POLICY = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'";
const PAGE =
  '<!doctype html><meta charset="utf-8"><title>libcoffer</title><input type="file" multiple><script type="module" src="/main.js"></script>';
const MAIN = `
import * as libcoffer from "/dist/index.js";
globalThis.libcoffer = libcoffer;
globalThis.ready = true;
`;

/** A site: the page, the package, a model, a policy. Says which ranges were asked for. */
async function site(t, model, policy = POLICY) {
  const ranges = [];
  const server = http.createServer((request, response) => {
    const { pathname } = new URL(request.url, "http://here");
    const found = {
      "/": [PAGE, "text/html"],
      "/main.js": [MAIN, "text/javascript"],
      "/model.safetensors": [model, "application/octet-stream"],
    }[pathname] ?? [readFileSync(join(dist, pathname.replace("/dist/", ""))), "text/javascript"];
    const body = Buffer.from(found[0]);
    const headers = { "Content-Type": found[1], "Content-Security-Policy": policy };
    const range = /bytes=(\d+)-(\d+)/.exec(request.headers.range ?? "");
    if (range === null) {
      response.writeHead(200, headers);
      return response.end(body);
    }
    ranges.push(range[0]);
    const [first, last] = [Number(range[1]), Math.min(Number(range[2]), body.length - 1)];
    headers["Content-Range"] = `bytes ${first}-${last}/${body.length}`;
    response.writeHead(206, headers);
    response.end(body.subarray(first, last + 1));
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  t.after(() => server.close().closeAllConnections());
  return { origin: `http://127.0.0.1:${server.address().port}`, ranges };
}

test("in Chromium", { skip: !existsSync(executablePath) && "no Chromium" }, async (t) => {
  const data = Float32Array.from({ length: 1 << 20 }, (_, i) => i);
  const model = new Uint8Array(await (await build([{ name: "x", data }], { metadata: { a: "b" } })).arrayBuffer());
  const { origin, ranges } = await site(t, model);
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  t.after(() => browser.close());
  const page = await browser.newPage();
  const said = [];
  page.on("console", (message) => said.push(message.text()));
  page.on("pageerror", (error) => said.push(String(error)));
  await page.goto(origin);
  await page.waitForFunction("globalThis.ready");

  await t.test("by URL", async () => {
    const found = await page.evaluate(async () => {
      const [opened] = (await libcoffer.open("/model.safetensors")).tensors.keys();
      const { tensors, metadata } = await libcoffer.open(new URL("/model.safetensors", location.href));
      const again = await libcoffer.open(location.origin + "/model.safetensors");
      const { data } = await again.slice("x", "100:103");
      return [opened, [...tensors.keys()], metadata.a, [...data]];
    });
    assert.deepEqual(found, ["x", ["x"], "b", [100, 101, 102]]);
    const offset = model.length - (4 << 20) + 400;
    assert.deepEqual(ranges.splice(0), [
      "bytes=0-98303",
      "bytes=0-98303",
      "bytes=0-98303",
      `bytes=${offset}-${offset + 11}`,
    ]);
  });

  await t.test("a file that was chosen", async (t) => {
    const folder = folderOf(t, { "model.safetensors": model });
    await page.setInputFiles("input", join(folder, "model.safetensors"));
    const found = await page.evaluate(async () => {
      const file = document.querySelector("input").files;
      const report = await libcoffer.check(file);
      const values = await report.model.get("x");
      const blob = await libcoffer.build([{ name: "y", data: new Uint8Array(3) }]);
      return [report.ok, values.constructor.name, values[1 << 19], blob.size % 8];
    });
    assert.deepEqual(found, [true, "Float32Array", 1 << 19, 3]);
  });

  await t.test("digests, of a tensor of several pieces", async () => {
    const long = new Uint8Array((17 << 20) + 5).map((_, i) => i >> 3);
    const expected = await (await open(await build([{ name: "x", data: long }]))).contentDigest();
    const found = await page.evaluate(async () => {
      const bytes = new Uint8Array((17 << 20) + 5).map((_, i) => i >> 3);
      return (await libcoffer.open(await libcoffer.build([{ name: "x", data: bytes }]))).contentDigest();
    });
    assert.equal(found, expected);
  });

  await t.test("what is no model", async () => {
    const html = await page.evaluate(() => libcoffer.open(location.origin + "/main.js").catch((error) => error.code));
    assert.equal(html, "IS_TEXT");
    const elsewhere = await page.evaluate(() => libcoffer.open("http://127.0.0.1:1/x").catch((error) => error.code));
    assert.equal(elsewhere, "CONNECT");
  });

  const policy = said.filter((text) => !/127\.0\.0\.1:1\/x|ERR_|Failed to load resource|404|500/.test(text));
  assert.deepEqual(policy, []);
});

test(
  "in Chromium, under a policy that forbids WebAssembly",
  { skip: !existsSync(executablePath) && "no Chromium" },
  async (t) => {
    const { origin } = await site(t, new Uint8Array(), POLICY.replace(" 'wasm-unsafe-eval'", ""));
    const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
    t.after(() => browser.close());
    const page = await browser.newPage();
    await page.goto(origin);
    await page.waitForFunction("globalThis.ready");
    const said = await page.evaluate(() =>
      libcoffer.open(new Blob(["{}"])).catch(({ name, code, message }) => [name, code, message]),
    );
    assert.deepEqual(said.slice(0, 2), ["CofferError", "UNSUPPORTED"]);
    assert.match(said[2], /Content-Security-Policy .* 'wasm-unsafe-eval'/);
  },
);
