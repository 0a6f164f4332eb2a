// SPDX-License-Identifier: Apache-2.0
/* For everybody: axe-core finds nothing in either theme, narrow screens have room, less motion is respected. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import test from "node:test";

import { language, model } from "./models.mjs";
import { browserOf, folderOf, openFile, pageOf } from "./page.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** What axe-core finds, as lines. */
async function faults(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return violations.flatMap(({ id, impact, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${impact} ${id} ${target.join(" ")}: ${failureSummary}`),
  );
}

test("the page", async (t) => {
  const browser = await browserOf(t);
  const folder = folderOf(t, {
    "model.safetensors": model(language(12), { format: "pt" }),
    "odd.txt": "Entry not found",
  });
  const isRight = async (page, what) => assert.deepEqual(await faults(page), [], what);

  for (const colorScheme of ["light", "dark"]) {
    for (const viewport of [
      { width: 1280, height: 800 },
      { width: 360, height: 740 },
    ]) {
      await t.test(`${colorScheme}, ${viewport.width} wide`, async (t) => {
        const page = await pageOf(t, browser, { colorScheme, viewport });
        const hasRoom = async (what) => {
          const width = await page.evaluate(() => document.documentElement.scrollWidth);
          assert.ok(width <= viewport.width, `${what} is ${width} wide`);
        };
        await isRight(page, "the start");
        await hasRoom("the start");
        await page.getByRole("button", { name: "About" }).click();
        await page.locator("#about summary").first().click();
        await isRight(page, "the licences");
        await hasRoom("the licences");
        await page.keyboard.press("Escape");
        await openFile(page, join(folder, "odd.txt"));
        await page.getByRole("alert").waitFor();
        await isRight(page, "an error");
        await openFile(page, join(folder, "model.safetensors"));
        await page.locator(".body-row").first().waitFor();
        await page.locator(".body-row").nth(3).click();
        await isRight(page, "the table");
        await hasRoom("the table");
        for (const tab of await page.getByRole("tab").all()) {
          await tab.click();
          await isRight(page, await tab.textContent());
          await hasRoom(await tab.textContent());
        }
        await page.getByRole("button", { name: "Tree" }).click();
        await page.getByText("0 … 11").click();
        await isRight(page, "the tree");
        await hasRoom("the tree");
      });
    }
  }

  await t.test("the switch of themes, which is remembered", async (t) => {
    const page = await pageOf(t, browser, { colorScheme: "light" });
    const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const light = await ground();
    await page.getByLabel("Colours").selectOption("Dark");
    const dark = await ground();
    assert.notEqual(light, dark);
    await page.reload();
    assert.equal(await ground(), dark);
    await page.getByLabel("Colours").selectOption("Auto");
    assert.equal(await ground(), light);
    await page.emulateMedia({ colorScheme: "dark" });
    assert.equal(await ground(), dark);
    await page.getByLabel("Colours").selectOption("Light");
    assert.equal(await ground(), light);
  });

  await t.test("less motion", async (t) => {
    const page = await pageOf(t, browser, { reducedMotion: "reduce" });
    await openFile(page, join(folder, "model.safetensors"));
    await page.getByRole("button", { name: "Tree" }).click();
    await page.locator(".twist").first().waitFor({ state: "attached" });
    const moving = () =>
      [...document.querySelectorAll("*")].filter((element) => {
        const { transitionDuration, animationName } = getComputedStyle(element);
        return transitionDuration !== "0s" || animationName !== "none";
      }).length;
    assert.equal(await page.evaluate(moving), 0);
  });

  await t.test("tabs by keys, and everything by Tab", async (t) => {
    const page = await pageOf(t, browser);
    await openFile(page, join(folder, "model.safetensors"));
    await page.getByRole("tab", { name: "Tensor" }).focus();
    await page.keyboard.press("ArrowRight");
    const second = await page.getByRole("tab").nth(1).textContent();
    assert.equal(await page.locator('[role=tab][aria-selected="true"]').textContent(), second);
    await page.keyboard.press("End");
    assert.equal(await page.getByRole("tab").last().getAttribute("aria-selected"), "true");
    const reached = new Set();
    await page.locator("body").click({ position: { x: 5, y: 5 } });
    for (let i = 0; i < 40; i++) {
      await page.keyboard.press("Tab");
      reached.add(await page.evaluate(() => document.activeElement?.className || document.activeElement?.id));
    }
    for (const wanted of ["brand", "field filter", "sort", "table", "tab", "panel", "legend"]) {
      assert.ok(reached.has(wanted), `${wanted} is reached by Tab: ${[...reached].join(", ")}`);
    }
  });
});
