// SPDX-License-Identifier: Apache-2.0
/* The treemap and the byte map: what they show, by keys and in words, and that they are linked with the list. */
import assert from "node:assert/strict";
import { join } from "node:path";
import test from "node:test";

import { experts, language, model } from "./models.mjs";
import { browserOf, folderOf, LIBCOFFER, openFile, pageOf } from "./page.mjs";

const { build } = await import(LIBCOFFER);

const TENSORS = [
  ["big.weight", "F32", [100, 100]],
  ["part.a.weight", "BF16", [100, 50]],
  ["part.a.bias", "BF16", [50]],
  ["part.b", "U8", [4000]],
];

async function opened(t, browser, files, panel, options) {
  const page = await pageOf(t, browser, options);
  const folder = folderOf(t, files);
  await openFile(page, ...Object.keys(files).map((name) => join(folder, name)));
  await page.locator(".body-row").first().waitFor();
  await page.getByRole("tab", { name: panel }).click();
  return page;
}

const selectedName = (page) => page.locator('[role=row][aria-selected="true"] .name').textContent();
const hoveredName = (page) => page.locator(".body-row.hovered .name").textContent();
const readout = (page) => page.locator(".panel .readout").textContent();
/** How many points of a canvas are not empty. */
const painted = (page, selector) =>
  page.locator(selector).evaluate((canvas) => {
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
    return data.filter((value, i) => i % 4 === 3 && value > 0).length / (data.length / 4);
  });

test("the treemap", async (t) => {
  const browser = await browserOf(t);

  await t.test("by keys, and linked with the list", async (t) => {
    const page = await opened(t, browser, { "a.safetensors": model(TENSORS) }, "Treemap");
    const map = page.getByRole("application", { name: /^Treemap of 4 tensors by parameters/ });
    await map.waitFor();
    assert.ok((await painted(page, ".treemap canvas >> nth=0")) > 0.95);
    await map.focus();
    await page.keyboard.press("ArrowRight");
    assert.match(await readout(page), /^big.weight F32, 10,000 parameters, 52.5 %/);
    assert.equal(await hoveredName(page), "big.weight");
    await page.keyboard.press("ArrowRight");
    assert.match(await readout(page), /^part, 9,050 parameters in 3 tensors/);
    await page.keyboard.press("ArrowDown");
    assert.match(await readout(page), /^part.a, 5,050 parameters in 2 tensors/);
    await page.keyboard.press("ArrowRight");
    assert.match(await readout(page), /^part.b U8, 4,000 parameters/);
    await page.keyboard.press("Enter");
    assert.equal(await selectedName(page), "part.b");
    assert.equal(await page.getByRole("tab", { name: "Treemap" }).getAttribute("aria-selected"), "true");
    // Into a group, and back.
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("Enter");
    await page.getByRole("application", { name: /^Treemap of 2 tensors/ }).waitFor();
    const trail = page.getByRole("navigation", { name: "Group" });
    assert.deepEqual(await trail.getByRole("button").allTextContents(), ["all", "part", ".a"]);
    await page.keyboard.press("Backspace");
    await page.getByRole("application", { name: /^Treemap of 3 tensors/ }).waitFor();
    await trail.getByRole("button", { name: "all" }).click();
    await map.waitFor();
    await page.getByLabel("Areas:").selectOption("bytes");
    await page.getByText("All, 54.1 kB in 4 tensors").waitFor();
  });

  await t.test("by pointer", async (t) => {
    const page = await opened(t, browser, { "a.safetensors": model(TENSORS) }, "Treemap");
    const map = page.getByRole("application", { name: /^Treemap/ });
    await map.hover({ position: { x: 20, y: 100 } });
    assert.equal(await hoveredName(page), "big.weight");
    await map.click({ position: { x: 20, y: 100 } });
    assert.equal(await selectedName(page), "big.weight");
    // What the pointer is on in the list is marked in the map.
    const marks = () => page.locator(".treemap .marks").evaluate((canvas) => canvas.toDataURL());
    const before = await marks();
    await page.locator(".body-row").nth(1).hover();
    await page.waitForFunction((old) => document.querySelector(".treemap .marks").toDataURL() !== old, before);
  });

  await t.test("in words", async (t) => {
    const page = await opened(t, browser, { "a.safetensors": model(TENSORS) }, "Treemap");
    await page.getByText("2 members as a table").click();
    const rows = page.locator(".panel table tbody tr");
    assert.deepEqual(await rows.first().locator("th, td").allTextContents(), ["big.weight", "1", "10.0K", "52.5 %"]);
    await rows.nth(1).getByRole("button").click();
    await page.getByText("part, 9,050 parameters in 3 tensors").waitFor();
  });

  await t.test("92,000 tensors", async (t) => {
    const page = await opened(t, browser, { "a.safetensors": model(experts()) }, "Treemap");
    await page.getByRole("application", { name: /^Treemap of 92,000 tensors/ }).waitFor();
    assert.ok((await painted(page, ".treemap canvas >> nth=0")) > 0.9);
    await page.locator(".body-row").nth(3).click();
    await page.waitForFunction(() => document.querySelector(".body-row.selected") !== null);
    assert.ok((await painted(page, ".treemap .marks")) > 0, "the group of the chosen tensor is marked");
  });
});

test("the byte map", async (t) => {
  const browser = await browserOf(t);

  await t.test("by keys, and linked with the list", async (t) => {
    const given = [
      { name: "x", data: new Float32Array(1000) },
      { name: "y", data: new Uint8Array(3000) },
    ];
    const file = Buffer.from(await (await build(given, { slack: 512 })).arrayBuffer());
    const page = await opened(t, browser, { "a.safetensors": file }, "Byte map");
    const map = page.getByRole("application", { name: /^Byte map of 1 file/ });
    await map.focus();
    assert.match(await readout(page), /^length of the header, 8 B, bytes 0 to 7$/);
    await page.keyboard.press("ArrowRight");
    assert.match(await readout(page), /^header, /);
    await page.keyboard.press("ArrowRight");
    assert.match(await readout(page), /^room in the header, \d+ B/);
    await page.keyboard.press("ArrowRight");
    assert.match(await readout(page), /^x F32, 4.0 kB, bytes [\d,]+ to [\d,]+$/);
    assert.equal(await hoveredName(page), "x");
    await page.keyboard.press("Enter");
    assert.equal(await selectedName(page), "x");
    await page.keyboard.press("End");
    assert.match(await readout(page), /^y U8, 3.0 kB/);
    await page.keyboard.press("+");
    await page.getByText(/^Bytes [\d,]+ to [\d,]+$/).waitFor();
    await page.keyboard.press("Home");
    assert.match(await readout(page), /^length of the header/);
    await page.getByText(/^Bytes 0 to /).waitFor();
    await page.keyboard.press("-");
    await page
      .locator(".panel")
      .getByText(/^7\.\d kB$/)
      .waitFor();
    // Choosing in the list leads here.
    await page.locator(".body-row").filter({ hasText: "y" }).click();
    await page.locator(".panel .readout").getByText(/^y$/).waitFor();
    assert.equal(await page.getByRole("tab", { name: "Byte map" }).getAttribute("aria-selected"), "true");
  });

  await t.test("in words", async (t) => {
    const page = await opened(t, browser, { "a.safetensors": model(TENSORS) }, "Byte map");
    const rows = page.locator(".panel table tbody tr");
    const cells = await Promise.all((await rows.all()).map((row) => row.locator("th, td").allTextContents()));
    assert.deepEqual(cells.map(([what, number]) => [what, number]), [
      ["length of the header", "1"], ["header", "1"], ["room in the header", "1"], ["F32", "1"], ["BF16", "2"], ["U8", "1"],
    ]); // prettier-ignore
    assert.deepEqual(cells[3].slice(2), ["40.0 kB", "73.5 %"]);
  });

  await t.test("shards, each from a row of its own on", async (t) => {
    const names = ["m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"];
    const files = { [names[0]]: model(language(2)), [names[1]]: model([["other", "F32", [10]]]) };
    const page = await opened(t, browser, files, "Byte map");
    const map = page.getByRole("application", { name: /^Byte map of 2 files/ });
    await map.focus();
    await page.keyboard.press("End");
    await page.keyboard.press("ArrowRight");
    assert.match(await readout(page), new RegExp(`^length of the header, 8 B, bytes 0 to 7 of ${names[1]}$`));
    await page.getByRole("combobox", { name: "File" }).selectOption({ label: names[1] });
    await page.getByText(/^Bytes 0 to /).waitFor();
    await page.locator(".body-row").filter({ hasText: "embed" }).click();
    await page.locator(".panel .readout").getByText("model.embed_tokens.weight").waitFor();
  });

  await t.test("by pointer", async (t) => {
    const page = await opened(t, browser, { "a.safetensors": model(TENSORS) }, "Byte map");
    const map = page.getByRole("application", { name: /^Byte map/ });
    await map.hover({ position: { x: 200, y: 40 } });
    assert.equal(await hoveredName(page), "big.weight");
    await map.click({ position: { x: 200, y: 40 } });
    assert.equal(await selectedName(page), "big.weight");
    assert.ok((await painted(page, ".byte-rows canvas >> nth=0")) > 0.5);
  });
});
