// SPDX-License-Identifier: Apache-2.0
/*
 * What the page takes for a file of 92,000 tensors: printed, and never compared with a limit, since machines differ.
 * docs/benchmarks.md records what one of them had.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";

import { experts, model } from "./models.mjs";
import { browserOf, folderOf, openFile, pageOf } from "./page.mjs";

/** Kilobytes that the browser's process of the page has in memory. */
async function memoryOf(browser) {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  await session.detach();
  const kilobytes = processInfo
    .filter(({ type }) => type === "renderer")
    .map(({ id }) => Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${id}/smaps_rollup`, "utf8"))?.[1] ?? 0));
  return Math.max(...kilobytes);
}

/** In the page: notes when a file was chosen, when its first row is there, and every task of more than 50 ms. */
function watch() {
  globalThis.long = [];
  new PerformanceObserver((list) => globalThis.long.push(...list.getEntries().map(({ duration }) => duration))).observe(
    {
      type: "longtask",
    },
  );
  document.addEventListener("change", () => (globalThis.chosen = performance.now()), { capture: true });
  new MutationObserver(() => {
    if (globalThis.chosen !== undefined && globalThis.there === undefined && document.querySelector(".body-row")) {
      // After the frame in which it is painted.
      requestAnimationFrame(() => setTimeout(() => (globalThis.there = performance.now())));
    }
  }).observe(document.body, { childList: true, subtree: true });
}

/** In the page: 60 rows, one for each frame. */
async function scrollRows() {
  const before = globalThis.long.length;
  const table = document.querySelector(".table");
  let slowest = 0;
  let last = performance.now();
  for (let i = 0; i < 60; i++) {
    table.scrollTop += 30;
    await new Promise((done) => requestAnimationFrame(done));
    const now = performance.now();
    slowest = Math.max(slowest, now - last);
    last = now;
  }
  return { slowest, long: globalThis.long.slice(before), first: document.querySelector(".body-row").ariaRowIndex };
}

test("92,000 tensors", async (t) => {
  const bytes = model(experts(), { format: "pt" });
  const folder = folderOf(t, { "model.safetensors": bytes });
  const browser = await browserOf(t);
  const page = await pageOf(t, browser);
  await page.evaluate(watch);
  const before = await memoryOf(browser);
  await openFile(page, join(folder, "model.safetensors"));
  const time = await page.waitForFunction(() => globalThis.there && globalThis.there - globalThis.chosen);
  t.diagnostic(
    `header of ${(bytes.length / 1e6).toFixed(1)} MB, first row painted after ${Math.round(await time.jsonValue())} ms`,
  );
  t.diagnostic(`tasks of more than 50 ms until then: ${JSON.stringify(await page.evaluate(() => globalThis.long))}`);

  const { slowest, long, first } = await page.evaluate(scrollRows);
  assert.ok(Number(first) > 40, `after scrolling the first row is ${first}`);
  t.diagnostic(
    `60 rows scrolled: slowest frame ${slowest.toFixed(1)} ms, tasks of more than 50 ms: ${JSON.stringify(long)}`,
  );

  for (const [what, act] of Object.entries({
    "filter of two words": () => page.fill("#filter", "experts.7. scale"),
    "sorted by name": () => page.getByRole("button", { name: "Name" }).click(),
    "as a tree": () => page.getByRole("button", { name: "Tree" }).click(),
  })) {
    const began = Date.now();
    const list = await page.locator(".body-row").first().innerText();
    await act();
    await page.waitForFunction((old) => document.querySelector(".body-row")?.innerText !== old, list);
    t.diagnostic(`${what}: ${Date.now() - began} ms`);
  }
  t.diagnostic(
    `memory of the tab: ${Math.round((await memoryOf(browser)) / 1000)} MB, ${Math.round(before / 1000)} MB of them before the file`,
  );
});
