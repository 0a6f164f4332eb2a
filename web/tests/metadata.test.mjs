// SPDX-License-Identifier: Apache-2.0
/* Metadata: JSON in texts, and in texts of that, long values, many keys, numbers that JavaScript would change. */
import assert from "node:assert/strict";
import { join } from "node:path";
import test from "node:test";

import { model } from "./models.mjs";
import { browserOf, folderOf, openFile, pageOf, source } from "./page.mjs";

const { jsonIn, membersOf, isBranch, WrittenNumber } = await source("base/nested_json.ts");

test("JSON in texts", () => {
  for (const text of ["", "abc", "12", "true", "{", '{"a":}', "[1,2", '"', "null"]) {
    assert.equal(jsonIn(text), undefined, text);
  }
  assert.deepEqual(jsonIn(' {"a":[1,"b",null]}'), { a: [1, "b", null] });
  assert.equal(jsonIn('"\\"x\\""'), '"x"');
  assert.deepEqual(membersOf(jsonIn("[5,6]")), [
    ["0", 5],
    ["1", 6],
  ]);
  assert.deepEqual(membersOf(jsonIn('{"__proto__":1}')), [["__proto__", 1]]);
  assert.deepEqual(
    [isBranch(null), isBranch("x"), isBranch([]), isBranch(new WrittenNumber("1"))],
    [false, false, true, false],
  );
  // Deeper than any stack: it is a text then.
  assert.doesNotThrow(() => jsonIn("[".repeat(1_000_000) + "]".repeat(1_000_000)));
});

const DEEP = JSON.stringify({
  level: 1,
  inner: JSON.stringify({ level: 2, inner: JSON.stringify(["at", "the", "end"]) }),
});

test("metadata", async (t) => {
  const browser = await browserOf(t);
  const shown = async (t, metadata, tensors = [["x", "F32", [1]]]) => {
    const page = await pageOf(t, browser);
    const folder = folderOf(t, { "m.safetensors": model(tensors, metadata) });
    await openFile(page, join(folder, "m.safetensors"));
    await page.getByRole("tab", { name: "Metadata" }).click();
    return page;
  };
  const value = (page, name) =>
    page
      .locator(".pair", { has: page.locator(`:scope > .pair-name > bdi:text-is("${name}")`) })
      .last()
      .locator(":scope > .pair-value");

  await t.test("JSON in texts, level by level", async (t) => {
    const page = await shown(t, { config: DEEP, format: "pt", big: '{"n":12345678901234567890,"m":1.10}' });
    assert.equal(await value(page, "format").textContent(), "pt");
    assert.equal(await value(page, "level").textContent(), "1");
    await value(page, "inner").locator("summary").click();
    await page
      .locator('.pair .pair:has(> .pair-name > bdi:text-is("level")) > .pair-value', { hasText: "2" })
      .waitFor();
    await value(page, "inner").locator("summary").click();
    await value(page, "2").waitFor();
    assert.equal(await value(page, "2").textContent(), "end");
    const big = await value(page, "big").textContent();
    assert.match(big, /n: 12345678901234567890, m: 1.10/);
    await page.locator(".pair").first().getByRole("button", { name: "As it is" }).last().click();
    await page.getByText(DEEP, { exact: true }).waitFor();
  });

  await t.test("long values, of which all can be seen", async (t) => {
    const text = "All of a licence. ".repeat(1000);
    const page = await shown(t, { licence: text, huge: "x".repeat(300_000), empty: "" });
    assert.ok((await value(page, "licence").locator(".plain").textContent()).length < 500);
    await value(page, "licence").getByRole("button", { name: "Show all 18,000 characters" }).click();
    assert.equal(await value(page, "licence").locator(".plain").textContent(), text);
    await value(page, "licence").getByRole("button", { name: "Show less" }).click();
    await value(page, "huge").getByRole("button", { name: "Show 200,000 of 300,000 characters" }).waitFor();
    assert.equal(await value(page, "empty").textContent(), "(empty)");
  });

  await t.test("many keys, and long lists", async (t) => {
    const metadata = Object.fromEntries(Array.from({ length: 250 }, (_, i) => [`key${i}`, String(i)]));
    const page = await shown(t, { ...metadata, list: JSON.stringify(Array.from({ length: 100_000 }, (_, i) => [i])) });
    assert.equal(await page.locator(".metadata section > .pairs > .pair").count(), 100);
    await page.getByRole("button", { name: "Show 100 more of 151" }).click();
    await page.getByRole("button", { name: "Show 51 more of 51" }).click();
    await value(page, "list").locator("summary").first().click();
    await value(page, "list").locator(".pair").nth(99).waitFor();
    assert.equal(await value(page, "list").locator(".pair").count(), 100);
  });

  await t.test("none", async (t) => {
    const page = await shown(t, undefined);
    await page.getByText("There are no metadata in this header.").waitFor();
  });

  await t.test("of several files, and of an index", async (t) => {
    const names = [1, 2, 3].map((i) => `m-0000${i}-of-00003.safetensors`);
    const files = names.map((name, i) => [name, model([[`t${i}`, "F32", [1]]], { part: i < 2 ? "same" : "other" })]);
    const index = {
      metadata: { total_size: 12, note: '{"a":1}' },
      weight_map: { t0: names[0], t1: names[1], t2: names[2] },
    };
    const folder = folderOf(t, Object.fromEntries([...files, ["m.safetensors.index.json", JSON.stringify(index)]]));
    const page = await pageOf(t, browser);
    await openFile(page, ...names.map((name) => join(folder, name)), join(folder, "m.safetensors.index.json"));
    await page.getByRole("tab", { name: "Metadata" }).click();
    assert.deepEqual(await page.locator(".metadata h2").allTextContents(), [
      `${names[0]} and 1 other`,
      names[2],
      "The index",
    ]);
    assert.equal(await value(page, "total_size").textContent(), "12");
  });
});
