// SPDX-License-Identifier: Apache-2.0
/* One tensor's values in the page: read when they are wanted, in pieces, with their numbers, a histogram and a heat map. */
import assert from "node:assert/strict";
import { closeSync, openSync, truncateSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";

import { browserOf, folderOf, LIBCOFFER, openFile, pageOf, safetensors, serve } from "./page.mjs";

const { build } = await import(LIBCOFFER);
const bytesOf = async (tensors, options) => new Uint8Array(await (await build(tensors, options)).arrayBuffer());

/** 0, 1, 2 … */
const counting = (count, Type = Float32Array) => Type.from({ length: count }, (_, i) => i);

const TENSORS = [
  { name: "grid", shape: [6, 8], data: counting(48) },
  { name: "cube", shape: [4, 5, 6], data: counting(120) },
  { name: "odd", shape: [6], data: Float32Array.of(NaN, Infinity, -Infinity, 0, -0, 2) },
  { name: "wide", shape: [3], data: BigInt64Array.of(-(2n ** 63n), 5n, 2n ** 63n - 1n) },
  { name: "small", dtype: "F4", shape: [4, 4], data: counting(8, Uint8Array) },
  { name: "complex", dtype: "C64", shape: [2, 2], data: Float32Array.of(3, 4, 0, 0, -1, 0, 0, 2) },
  { name: "bits", dtype: "BOOL", shape: [4], data: Uint8Array.of(0, 1, 1, 0) },
  { name: "one", shape: [], data: Float64Array.of(Math.PI) },
  { name: "hollow", shape: [0, 3], data: new Float32Array(0) },
  { name: "long", shape: [2000, 300], data: counting(600_000) },
];

/** Chooses a tensor in the list. */
async function choose(page, name) {
  await page.fill("#filter", name);
  await page.locator(".body-row").filter({ hasText: name }).first().click();
  await page.locator("article.tensor").getByText(name, { exact: true }).waitFor();
}

/** What stands beside the name of a fact. */
async function fact(page, name) {
  const dd = page.locator(".panel .fact", { has: page.locator(`dt:text-is("${name}")`) }).locator("dd");
  return dd.textContent();
}

test("a tensor's values", async (t) => {
  const browser = await browserOf(t);
  const folder = folderOf(t, { "model.safetensors": await bytesOf(TENSORS) });
  const page = await pageOf(t, browser);
  await openFile(page, join(folder, "model.safetensors"));
  await page.locator(".body-row").first().waitFor();
  const heatMap = page.getByRole("application", { name: /^Heat map/ });
  const heatText = () => page.locator(".plot .readout").last().textContent();

  await t.test("its numbers", async () => {
    await choose(page, "grid");
    await page.getByText("Of all 48 numbers.").waitFor();
    assert.equal(await fact(page, "Shape"), "6 × 8");
    assert.equal(await fact(page, "Minimum"), "0");
    assert.equal(await fact(page, "Maximum"), "47");
    assert.equal(await fact(page, "Mean"), "23.5");
    assert.equal(await fact(page, "Standard deviation"), "13.8534");
    assert.equal(await fact(page, "Zeros"), "1 (2.08 %)");
    assert.equal(await fact(page, "NaN"), "0");
  });

  await t.test("what is not finite, and integers that no double can be", async () => {
    await choose(page, "odd");
    await page.getByText("Of all 6 numbers.").waitFor();
    assert.equal(await fact(page, "NaN"), "1 (16.7 %)");
    assert.equal(await fact(page, "Infinite"), "2 (33.3 %)");
    assert.equal(await fact(page, "Zeros"), "2 (33.3 %)");
    await choose(page, "wide");
    await page.getByText("Of all 3 numbers.").waitFor();
    assert.equal(await fact(page, "Minimum"), "−9,223,372,036,854,775,808");
    assert.equal(await fact(page, "Maximum"), "9,223,372,036,854,775,807");
  });

  await t.test("a histogram, by keys", async () => {
    await choose(page, "grid");
    const bars = page.getByRole("application", { name: /^Histogram/ });
    await bars.focus();
    await page.keyboard.press("Home");
    const readout = page.locator(".plot .readout").first();
    assert.match(await readout.textContent(), /^0 to .*: 1 \(2.08 %\)$/);
    await page.keyboard.press("End");
    assert.match(await readout.textContent(), / to 47: 1 \(2.08 %\)$/);
    const height = () => page.locator(".bar-count").first().getAttribute("height");
    await choose(page, "bits");
    await page.getByText("Of all 4 numbers.").waitFor();
    assert.equal(await page.locator(".bar-count").count(), 2);
    assert.equal(await height(), "170");
    await choose(page, "odd");
    await page.getByText("Of all 6 numbers.").waitFor();
    const linear = await page.locator(".bar-count").last().getAttribute("height");
    await page.getByLabel("logarithmic counts").check();
    const logarithmic = await page.locator(".bar-count").last().getAttribute("height");
    assert.ok(Number(logarithmic) > Number(linear), `${logarithmic} and ${linear}`);
  });

  await t.test("a heat map, by keys", async () => {
    await choose(page, "cube");
    await heatMap.waitFor();
    assert.equal(await heatText(), "[0, 0, 0] = 0");
    await heatMap.focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowRight");
    assert.equal(await heatText(), "[0, 1, 1] = 7");
    await page.keyboard.press("End");
    await page.keyboard.press("PageDown");
    assert.equal(await heatText(), "[0, 4, 5] = 29");
    await page.getByLabel("Dimension 0:").fill("3");
    await page.getByLabel("Dimension 0:").press("Enter");
    await page.getByText("[3, 4, 5] = 119").waitFor();
    // Another pair of dimensions; choosing the one that the other axis has exchanges both.
    await page.getByLabel("Down:").selectOption("0");
    await page.getByText("[0, 0, 0] = 0").waitFor();
    await heatMap.focus();
    await page.keyboard.press("PageDown");
    assert.equal(await heatText(), "[3, 0, 0] = 90");
    await page.getByLabel("Across:").selectOption("0");
    await page.getByRole("application", { name: /^Heat map of 6 rows and 4 columns/ }).waitFor();
    await page.getByText("The numbers there, as a table").click();
    assert.deepEqual(await page.locator(".scroll tbody tr").first().locator("td").allTextContents(), [
      "0",
      "30",
      "60",
      "90",
    ]);
  });

  await t.test("more than the picture has room for", async () => {
    await choose(page, "long");
    await page.getByText("Shown are every 4th row and every column.").waitFor();
    await heatMap.focus();
    await page.keyboard.press("PageDown");
    assert.equal(await heatText(), "[1,996, 0] = 598,800");
    await page.keyboard.press("+");
    await page.getByText("Every element is a point.").waitFor();
    await page.keyboard.press("PageDown");
    assert.equal(await heatText(), "[1,999, 0] = 599,700");
    await page.getByRole("button", { name: "All of it" }).click();
    await page.getByText("Shown are every 4th row and every column.").waitFor();
  });

  await t.test("every kind of element", async () => {
    await choose(page, "small");
    await heatMap.waitFor();
    await heatMap.focus();
    await page.keyboard.press("End");
    assert.equal(await heatText(), "[0, 3] = 0"); // the upper half of the second byte, 1
    await page.keyboard.press("ArrowLeft");
    assert.equal(await heatText(), "[0, 2] = 0.5");
    await choose(page, "complex");
    await page.getByText("Of all 8 numbers, two for each complex one.").waitFor();
    await heatMap.waitFor();
    assert.equal(await heatText(), "[0, 0] = 3 + 4i");
    await page.getByLabel("Show:").selectOption("magnitude");
    await page.getByText("The numbers there, as a table").click();
    assert.deepEqual(await page.locator(".scroll tbody td").allTextContents(), ["5", "0", "1", "2"]);
    await choose(page, "one");
    await page.getByText("3.141592653589793").waitFor();
    assert.equal(await fact(page, "Shape"), "scalar");
    await choose(page, "hollow");
    await page.getByText("This tensor has no values").waitFor();
  });

  await t.test("another theme has other colours", async () => {
    await choose(page, "grid");
    await heatMap.waitFor();
    const picture = () => page.locator(".heat-map canvas").evaluate((canvas) => canvas.toDataURL());
    const light = await picture();
    await page.emulateMedia({ colorScheme: "dark" });
    await page.waitForFunction((before) => document.querySelector(".heat-map canvas").toDataURL() !== before, light);
  });
});

/** A file with one tensor of `size` bytes, of which the file system stores hardly any. */
function sparse(folder, size) {
  const header = { x: { dtype: "F32", shape: [size / 4096, 1024], data_offsets: [0, size] } };
  const head = safetensors(header);
  const path = join(folder, "large.safetensors");
  writeFileSync(path, head);
  truncateSync(path, head.length + size);
  const file = openSync(path, "r+");
  const seven = new Uint8Array(Float32Array.of(7).buffer);
  writeSync(file, seven, 0, 4, head.length); // the first number, and the last
  writeSync(file, seven, 0, 4, head.length + size - 4);
  closeSync(file);
  return path;
}

test("a tensor of 5 GB", async (t) => {
  const browser = await browserOf(t);
  const page = await pageOf(t, browser);
  await openFile(page, sparse(folderOf(t, {}), 5 * 2 ** 30));
  await page.locator(".body-row").first().click();
  await page.getByRole("button", { name: "Sample 67.1 MB" }).click();
  await page.getByText("Of a sample: 67.1 MB of 5.4 GB, in 256 pieces spread evenly.").waitFor();
  assert.equal(await fact(page, "Maximum"), "7");
  assert.equal(await fact(page, "Zeros"), "16,776,192 (> 99.99 %)");

  // All of it: it goes on while something else is looked at, and ends when it is told to.
  await page.getByRole("button", { name: "Read all 5.4 GB" }).click();
  await page.getByRole("progressbar", { name: "Reading values" }).waitFor();
  await page.getByRole("tab", { name: "Metadata" }).click();
  await page.getByRole("tab", { name: "Tensor" }).click();
  await page.getByText(/Reading values: .* of 5.4 GB/).waitFor();
  const statistics = page.getByRole("region", { name: "Statistics" });
  await statistics.getByRole("button", { name: "Cancel" }).click();
  await page.getByText("Of a sample").waitFor();
  await page.getByRole("button", { name: "Read all 5.4 GB" }).waitFor();

  await page.getByRole("application", { name: /^Heat map of 512 rows and 512 columns/ }).waitFor();
  await page.getByText("[0, 0] = 7").waitFor();
});

test("a file that is gone says so, and what to do", async (t) => {
  const browser = await browserOf(t);
  const folder = folderOf(t, { "model.safetensors": await bytesOf(TENSORS) });
  const page = await pageOf(t, browser);
  await openFile(page, join(folder, "model.safetensors"));
  await page.locator(".body-row").first().waitFor();
  truncateSync(join(folder, "model.safetensors"), 100);
  await choose(page, "grid");
  await page.getByText("choose it again").first().waitFor();
});

test("of a URL only what is asked for is read", async (t) => {
  const browser = await browserOf(t);
  const { origin, requests } = await serve(t, { "model.safetensors": await bytesOf(TENSORS) });
  const page = await pageOf(t, browser);
  await page.goto(`${page.url()}#url=${origin}/model.safetensors`);
  await page.reload();
  await page.locator(".body-row").first().waitFor();
  const before = requests.length;
  await choose(page, "long");
  await page.getByRole("button", { name: "Read all 2.4 MB" }).waitFor();
  assert.equal(requests.length, before, "nothing is read without being asked for");
  await page.getByRole("button", { name: "Read all 2.4 MB" }).click();
  await page.getByText("Of all 600,000 numbers.").waitFor();
  assert.equal(requests.length, before + 1);
  await page.getByRole("button", { name: /^Read about/ }).click();
  await page.getByRole("application", { name: /^Heat map/ }).waitFor();
  assert.ok(requests.length <= before + 2, `${requests.length - before} requests`);
});

test("a packed file shows the values of the original", async (t) => {
  const page = await pageOf(t, await browserOf(t));
  const packed = new URL("../../tests/vectors/packed/ok__bf16_raw_huff.safetensors", import.meta.url);
  await openFile(page, fileURLToPath(packed));
  await page.locator(".body-row").first().waitFor();
  await choose(page, "packed");
  await page.getByText("Of all 3,000 numbers.").waitFor();
  assert.equal(await fact(page, "Maximum"), "28.5");
  assert.equal(await fact(page, "NaN"), "0");
});
