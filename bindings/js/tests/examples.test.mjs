// SPDX-License-Identifier: Apache-2.0
/* The examples: in Node, in a browser as they are, and bundled by Vite. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, readFileSync } from "node:fs";
import http from "node:http";
import { dirname, join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";

import { build } from "libcoffer";
import { chromium } from "playwright-core";

import { folderOf } from "./files.mjs";

const here = dirname(dirname(fileURLToPath(import.meta.url)));
const executablePath = process.env.COFFER_CHROMIUM ?? "/usr/bin/chromium";
const noBrowser = !existsSync(executablePath) && "no Chromium";
const TYPES = { html: "text/html", js: "text/javascript" };

async function folder(t) {
  const blob = await build([
    { name: "<b>x</b>\u202e", data: new Float32Array(6), shape: [2, 3] },
    { name: "y", data: new Uint8Array(3) },
  ]);
  return folderOf(t, { "model.safetensors": new Uint8Array(await blob.arrayBuffer()), "odd.bin": "<!doctype html>" });
}

test("list.mjs", async (t) => {
  const models = await folder(t);
  const list = (...args) =>
    spawnSync(process.execPath, [join(here, "examples/list.mjs"), ...args], { encoding: "utf8" });
  const found = list(join(models, "model.safetensors"));
  assert.equal(found.status, 0, found.stderr);
  assert.equal(found.stdout, "F32\t[2, 3]\t24\t<b>x</b>\\u{202e}\nU8\t[3]\t3\ty\n");
  assert.equal(list(join(models, "odd.bin")).status, 1);
  assert.equal(list().status, 2);
});

/** Serves a folder; what the page shows of the model then. */
async function shown(t, root, path) {
  const server = http.createServer((request, response) => {
    const file = join(root, decodeURI(new URL(request.url, "http://here").pathname));
    response.writeHead(existsSync(file) ? 200 : 404, { "Content-Type": TYPES[file.split(".").pop()] ?? "text/plain" });
    response.end(existsSync(file) ? readFileSync(file) : "");
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  t.after(() => server.close().closeAllConnections());
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  t.after(() => browser.close());
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${server.address().port}${path}`, { waitUntil: "networkidle" });
  await page.setInputFiles("input", join(await folder(t), "model.safetensors"));
  await page.waitForFunction("document.querySelector('pre').textContent !== ''");
  return page.evaluate("[document.querySelector('pre').textContent, document.querySelectorAll('b').length]");
}

const EXPECTED = ["<b>x</b>\u202e: F32 [2, 3]\ny: U8 [3]", 0];

test("the page, as it is", { skip: noBrowser }, async (t) => {
  assert.deepEqual(await shown(t, here, "/examples/page/index.html"), EXPECTED);
});

test("the page, by Vite", { skip: noBrowser }, async (t) => {
  const project = folderOf(t, { "package.json": '{ "private": true, "type": "module" }' });
  cpSync(join(here, "examples/page"), project, { recursive: true });
  const packed = execFileSync("npm", ["pack", "--silent", "--offline", "--pack-destination", project], { cwd: here });
  const file = packed.toString().trim().split("\n").pop();
  execFileSync("npm", ["install", "--silent", "--offline", `./${file}`], { cwd: project, stdio: "pipe" });
  const { build: bundle } = await import("vite");
  await bundle({ root: project, configFile: false, logLevel: "error", build: { target: "es2022" } });
  assert.deepEqual(await shown(t, join(project, "dist"), "/index.html"), EXPECTED);
});
