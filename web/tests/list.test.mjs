// SPDX-License-Identifier: Apache-2.0
/* The list of tensors: filtered, sorted, copied, by keyboard, as a tree, and of any length. */
import assert from "node:assert/strict";
import { join } from "node:path";
import test from "node:test";

import { language, model } from "./models.mjs";
import { browserOf, folderOf, listBegins, namesIn, openFile, pageOf } from "./page.mjs";

test("the list", async (t) => {
  const browser = await browserOf(t);
  const opened = async (t, tensors, options) => {
    const page = await pageOf(t, browser, options);
    const folder = folderOf(t, { "model.safetensors": model(tensors) });
    await openFile(page, join(folder, "model.safetensors"));
    await page.locator(".body-row").first().waitFor();
    return page;
  };

  await t.test("is filtered", async (t) => {
    const page = await opened(t, language(4));
    await page.keyboard.press("/");
    await page.keyboard.type("layers.3 proj f8");
    await page.getByText("2 of 36").waitFor();
    assert.deepEqual(await namesIn(page), ["model.layers.3.mlp.gate_proj.weight", "model.layers.3.mlp.up_proj.weight"]);
    await page.fill("#filter", "<b>");
    await page.getByText("No tensor has this").waitFor();
    await page.getByRole("button", { name: "Show all" }).click();
    await listBegins(page, "model.embed_tokens.weight");
    await page.getByRole("button", { name: /^I64/ }).click();
    await listBegins(page, "steps");
    assert.deepEqual(await namesIn(page), ["steps"]);
  });

  await t.test("is sorted, and says so", async (t) => {
    const page = await opened(t, language(11));
    const header = (name) => page.getByRole("columnheader", { name });
    await header("Name").getByRole("button").click();
    await listBegins(page, "lm_head.weight");
    assert.equal(await header("Name").getAttribute("aria-sort"), "ascending");
    const names = await namesIn(page);
    assert.ok(
      names.indexOf("model.layers.1.self_attn.v_proj.weight") < names.indexOf("model.layers.2.input_layernorm.weight"),
    );
    await header("Name").getByRole("button").click();
    await listBegins(page, "steps");
    assert.equal(await header("Name").getAttribute("aria-sort"), "descending");
    await header("Size").getByRole("button").click();
    await listBegins(page, "model.embed_tokens.weight");
    assert.equal(await header("Name").getAttribute("aria-sort"), "none");
    await page.evaluate(() => (document.querySelector(".table").scrollTop = 1500));
    await page.waitForFunction(() => Number(document.querySelector(".body-row").ariaRowIndex) > 20);
    await header("Dtype").getByRole("button").click();
    await listBegins(page, "model.embed_tokens.weight");
  });

  await t.test("is walked through by keys", async (t) => {
    const page = await opened(t, language(30));
    const chosen = () => page.locator('[role=row][aria-selected="true"]').getAttribute("aria-rowindex");
    await page.getByRole("grid").focus();
    await page.keyboard.press("ArrowDown");
    assert.equal(await chosen(), "2");
    await page.keyboard.press("End");
    assert.equal(await chosen(), "245");
    assert.ok(await page.getByRole("grid").getByText("steps", { exact: true }).isVisible());
    await page.keyboard.press("ArrowUp");
    assert.equal(await chosen(), "244");
    await page.keyboard.press("Home");
    assert.equal(await chosen(), "2");
    const active = await page.getByRole("grid").getAttribute("aria-activedescendant");
    assert.equal(await page.locator(`#${active}`).getAttribute("aria-selected"), "true");
    await page.keyboard.press("Escape");
    assert.equal(await page.locator('[aria-selected="true"][role=row]').count(), 0);
  });

  await t.test("is copied", async (t) => {
    const page = await opened(
      t,
      [
        ["a\tb\nc", "F32", [2, 3]],
        ["d.e", "I64", []],
      ],
      { permissions: ["clipboard-read"] },
    );
    await page.getByRole("button", { name: "Copy" }).click();
    await page.getByText("2 rows copied").waitFor({ state: "attached" });
    assert.equal(
      await page.evaluate(() => navigator.clipboard.readText()),
      "name\tdtype\tshape\tparameters\tbytes\na\\x09b\\x0ac\tF32\t[2, 3]\t6\t24\nd.e\tI64\t[]\t1\t8\n",
    );
    await page.getByText("d.e").first().click();
    await page.getByRole("grid").focus();
    await page.keyboard.press("Control+c");
    await page.getByText("name copied").waitFor({ state: "attached" });
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "d.e");
  });

  await t.test("is a tree", async (t) => {
    const page = await opened(t, language(12));
    await page.getByRole("button", { name: "Tree" }).click();
    const item = (name) => page.getByRole("treeitem").filter({ has: page.locator(`.name:text-is("${name}")`) });
    await item("0 … 11").waitFor();
    assert.match(await item("0 … 11").textContent(), /12 alike, 96 tensors/);
    assert.equal(await item("0 … 11").getAttribute("aria-expanded"), "false");
    await item("0 … 11").click();
    await item("3").click();
    await item("mlp").click();
    await item("up_proj.weight").click();
    assert.equal(await item("up_proj.weight").getAttribute("aria-level"), "6");
    // Left: to the layer, which is closed; further to the left its group.
    for (const [key, name] of [
      ["ArrowLeft", "mlp"],
      ["ArrowLeft", "mlp"],
      ["ArrowLeft", "3"],
    ]) {
      await page.getByRole("tree").press(key);
      assert.equal(await item(name).getAttribute("aria-selected"), "true", name);
    }
    await page.getByRole("tree").press("Enter");
    assert.equal(await item("3").getAttribute("aria-expanded"), "false");
    // What is chosen in the table is shown in the tree.
    await page.getByRole("button", { name: "Table" }).click();
    await page.locator(".body-row .name", { hasText: "layers.1.mlp.up_proj" }).click();
    await page.getByRole("button", { name: "Tree" }).click();
    await page.locator('.tree-row.selected[aria-level="6"]', { hasText: "up_proj.weight" }).waitFor();
    assert.equal(await item("1").getAttribute("aria-expanded"), "true");
    await page.fill("#filter", "11 down");
    await item("mlp.down_proj.weight").waitFor();
    assert.equal(await page.getByRole("treeitem").count(), 2);
  });

  await t.test("has any length", async (t) => {
    // More rows than an element can be high: 12 MB of pixels, of which browsers allow less in one piece.
    const many = Array.from({ length: 400_000 }, (_, i) => [`t${i}`, "U8", [1]]);
    const page = await opened(t, many);
    await page.getByRole("grid").focus();
    await page.keyboard.press("End");
    await page.getByRole("grid").getByText("t399999", { exact: true }).waitFor();
    await page.keyboard.press("Home");
    await page.getByRole("grid").getByText("t0", { exact: true }).waitFor();
    await page.evaluate(() => (document.querySelector(".table").scrollTop = 4_000_000));
    await page.waitForFunction(() => Number(document.querySelector(".body-row").ariaRowIndex) > 150_000);
    const box = await page.locator(".body-row").nth(8).boundingBox();
    const table = await page.locator(".table").boundingBox();
    assert.ok(box.y > table.y && box.y < table.y + table.height, "rows are where the list is looked at");
  });
});
