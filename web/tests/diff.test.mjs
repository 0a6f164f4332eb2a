// SPDX-License-Identifier: Apache-2.0
/* Two models: what their headers have otherwise, and, when it is asked for, their values. */
import assert from "node:assert/strict";
import { join } from "node:path";
import test from "node:test";

import { experts, model } from "./models.mjs";
import { browserOf, folderOf, LIBCOFFER, openFile, pageOf } from "./page.mjs";

const { build } = await import(LIBCOFFER);
const fileOf = async (tensors, metadata) => Buffer.from(await (await build(tensors, { metadata })).arrayBuffer());

const BEFORE = [
  { name: "same", data: Float32Array.of(1, 2, 3) },
  { name: "values", data: Float32Array.of(1, 2, NaN, 4) },
  { name: "sign", data: Float32Array.of(0) },
  { name: "shape", data: Float32Array.of(1, 2) },
  { name: "dtype", data: Float32Array.of(1) },
  { name: "old", data: Uint8Array.of(1) },
];
const AFTER = [
  { name: "same", data: Float32Array.of(1, 2, 3) },
  { name: "values", data: Float32Array.of(1, 2.5, NaN, Infinity) },
  { name: "sign", data: Float32Array.of(-0) },
  { name: "shape", data: Float32Array.of(1, 2), shape: [2, 1] },
  { name: "dtype", data: Float64Array.of(1) },
  { name: "new", data: Uint8Array.of(1) },
];

test("a comparison", async (t) => {
  const browser = await browserOf(t);
  const compared = async (t, before, after) => {
    const folder = folderOf(t, { "before.safetensors": before, "after.safetensors": after });
    const page = await pageOf(t, browser);
    await openFile(page, join(folder, "before.safetensors"));
    await page.locator(".body-row").first().waitFor();
    await page.getByRole("tab", { name: "Compare" }).click();
    await page.locator('.panel input[type="file"]').first().setInputFiles(join(folder, "after.safetensors"));
    await page.getByText("From before.safetensors to after.safetensors").waitFor();
    return page;
  };
  const rows = async (page) => {
    const found = await page.locator(".diff-row").all();
    return Object.fromEntries(
      await Promise.all(
        found.map(async (row) => [
          await row.locator(".name").textContent(),
          await row.locator(".diff-text").textContent(),
        ]),
      ),
    );
  };

  await t.test("headers, and values on demand", async (t) => {
    const page = await compared(t, await fileOf(BEFORE, { a: "1", b: "2" }), await fileOf(AFTER, { b: "3", c: "4" }));
    assert.deepEqual(await page.getByRole("group", { name: "Tensors that are listed" }).getByRole("button").allTextContents(), [
      "≠2 changed", "+1 added", "−1 removed", "·3 same dtype and shape",
    ]); // prettier-ignore
    assert.deepEqual(await rows(page), {
      shape: "F32 2 → F32 2 × 1",
      dtype: "F32 1 → F64 1",
      old: "U8 1",
      new: "U8 1",
    });
    assert.deepEqual(await page.locator(".comparison .pair").allTextContents(), ["a− 1", "b− 2+ 3", "c+ 4"]);

    await page.getByRole("button", { name: "Compare the values of 3 tensors" }).click();
    await page.getByRole("button", { name: "2 other values" }).waitFor();
    await page.getByRole("button", { name: "1 equal" }).waitFor();
    const after = await rows(page);
    assert.equal(after.values, "2 of 4 differ (50 %), by at most 0.5, on average 0.5, 1 infinitely far apart");
    assert.equal(after.sign, "1 byte differs, but no number does");
    assert.equal(after.same, undefined);
    await page.getByRole("button", { name: "1 equal" }).click();
    assert.equal((await rows(page)).same, "equal, byte by byte");

    // By keys, to the tensor itself.
    const list = page.getByRole("grid", { name: "Tensors that differ" });
    await list.focus();
    await page.keyboard.press("Home");
    await page.keyboard.press("Enter");
    await page.getByText(/^Of all \d+ number/).waitFor();
    await page.getByRole("tab", { name: "Compare" }).click();
    await page.getByText("From before.safetensors").waitFor();
    await page.getByRole("button", { name: "Compare with another" }).click();
    await page.getByText("See which tensors another model adds").waitFor();
  });

  await t.test("nothing differs", async (t) => {
    const file = await fileOf(BEFORE);
    const page = await compared(t, file, file);
    await page.getByText("Both models have the same tensors, of the same dtypes and shapes.").waitFor();
    await page.getByText("The metadata are the same.").waitFor();
  });

  await t.test("a file that is no model", async (t) => {
    const folder = folderOf(t, { "a.safetensors": await fileOf(BEFORE), "b.safetensors": "hello" });
    const page = await pageOf(t, browser);
    await openFile(page, join(folder, "a.safetensors"));
    await page.getByRole("tab", { name: "Compare" }).click();
    await page.locator('.panel input[type="file"]').first().setInputFiles(join(folder, "b.safetensors"));
    await page.locator(".panel").getByRole("alert").waitFor();
    assert.equal(await page.locator(".body-row").count(), BEFORE.length, "the model that is shown stays");
  });

  await t.test("92,000 tensors", async (t) => {
    const tensors = experts();
    const page = await compared(t, model(tensors), model(tensors.slice(10).reverse()));
    await page.getByRole("button", { name: "10 removed" }).waitFor();
    await page.getByRole("button", { name: "91,990 same dtype and shape" }).click();
    await page.getByRole("grid", { name: "Tensors that differ" }).focus();
    await page.keyboard.press("End");
    await page.locator(".diff-row[aria-rowindex='92000']").waitFor();
    await page.getByRole("button", { name: /^Compare the values of 91,990/ }).click();
    await page.getByRole("progressbar", { name: "Comparing values" }).waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: /^Compare the values of/ }).waitFor();
  });
});
