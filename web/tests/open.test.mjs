// SPDX-License-Identifier: Apache-2.0
/* The ways to open a model: chosen, dropped, by URL, in a report; of one file, of several, of a folder. */
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { deflateRawSync } from "node:zlib";

import { language, model } from "./models.mjs";
import { browserOf, folderOf, listBegins, openFile, PAGE, pageOf, safetensors, serve } from "./page.mjs";

const tensor = (name) => model([[name, "F32", [2, 3]]], { format: "pt" });
const index = (files) => JSON.stringify({ metadata: { total_size: 48 }, weight_map: files });
const SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
const PARTS = { [SHARDS[0]]: tensor("a"), [SHARDS[1]]: tensor("b") };
const INDEX = { "model.safetensors.index.json": index({ a: SHARDS[0], b: SHARDS[1] }) };

test("opening", async (t) => {
  const browser = await browserOf(t);
  const heading = (page, name) => page.getByRole("heading", { name, exact: true }).waitFor();
  const fact = (page, name) => page.locator(`.fact:has(dt:text-is("${name}")) dd`).textContent();

  await t.test("a file", async (t) => {
    const page = await pageOf(t, browser);
    const folder = folderOf(t, { "model.safetensors": model(language(2), { format: "pt" }) });
    await openFile(page, join(folder, "model.safetensors"));
    await heading(page, "model.safetensors");
    assert.equal(await page.title(), "model.safetensors – Coffer");
    assert.equal(await page.locator(".verdict").textContent(), "✓ Conforms");
    assert.equal(await fact(page, "Format"), "safetensors");
    assert.equal(await fact(page, "Tensors"), "20");
    assert.equal(await fact(page, "Parameters"), "259K");
    assert.equal(await fact(page, "Quantisation"), "F8_E4M3");
    assert.equal(await page.locator(".legend").count(), 5);
  });

  await t.test("shards without an index, which is a note", async (t) => {
    const page = await pageOf(t, browser);
    const folder = folderOf(t, PARTS);
    await openFile(page, ...SHARDS.map((name) => join(folder, name)));
    await heading(page, "model-*-of-00002.safetensors");
    await page.getByText("Conforms, with 1 note").click();
    await page.getByText("a sharded model has no index").waitFor();
    assert.equal(await fact(page, "Files"), "2");
  });

  await t.test("an index and its shards", async (t) => {
    const page = await pageOf(t, browser);
    const folder = folderOf(t, { ...PARTS, ...INDEX });
    await openFile(page, ...[...SHARDS, ...Object.keys(INDEX)].map((name) => join(folder, name)));
    await heading(page, "model.safetensors.index.json");
    assert.equal(await page.locator(".verdict").textContent(), "✓ Conforms");
  });

  await t.test("a folder, and one of several models in it", async (t) => {
    const page = await pageOf(t, browser);
    const folder = folderOf(t, { "README.md": "# A model" });
    for (const [name, files] of Object.entries({
      unet: { "x.safetensors": tensor("u") },
      text: { ...PARTS, ...INDEX },
    })) {
      mkdirSync(join(folder, name));
      Object.entries(files).forEach(([file, bytes]) => writeFileSync(join(folder, name, file), bytes));
    }
    await page.setInputFiles("input[webkitdirectory]", folder);
    await page.getByRole("heading", { name: "Which of these models?" }).waitFor();
    const names = await page.locator(".choice").allTextContents();
    assert.equal(names.length, 2);
    await page.getByRole("button", { name: /unet/ }).click();
    await listBegins(page, "u");
    await page.setInputFiles("input[webkitdirectory]", folder);
    await page.getByRole("button", { name: /index.json/ }).click();
    await listBegins(page, "a");
    await page.setInputFiles("input[webkitdirectory]", join(folder, "unet"));
    await listBegins(page, "u");
  });

  await t.test("dropped files", async (t) => {
    const page = await pageOf(t, browser);
    const data = await page.evaluateHandle(
      (files) => {
        const data = new DataTransfer();
        for (const [name, bytes] of files) data.items.add(new File([new Uint8Array(bytes)], name));
        return data;
      },
      Object.entries(PARTS).map(([name, bytes]) => [name, [...bytes]]),
    );
    await page.dispatchEvent("body", "dragenter", { dataTransfer: data });
    await page.getByText("Drop it anywhere").waitFor();
    await page.dispatchEvent("body", "drop", { dataTransfer: data });
    await listBegins(page, "a");
    assert.equal(await page.getByText("Drop it anywhere").count(), 0);
  });

  await t.test("a dropped folder, on a page that was opened from one", async (t) => {
    const page = await pageOf(t, browser);
    const folder = folderOf(t, { "README.md": "# Models" });
    ["a", "b"].forEach((name) => mkdirSync(join(folder, name)));
    writeFileSync(join(folder, "a", "model.safetensors"), tensor("x"));
    const session = await page.context().newCDPSession(page);
    const dropped = async (...files) => {
      const data = { items: [], files, dragOperationsMask: 1 };
      for (const type of ["dragEnter", "dragOver", "drop"]) {
        await session.send("Input.dispatchDragEvent", { type, x: 300, y: 300, data });
      }
    };
    await dropped(folder);
    await listBegins(page, "x");
    await heading(page, `${folder.split("/").pop()}/a/model.safetensors`);
    await dropped(join(folder, "b"));
    await page.getByText("There are no files in it").waitFor();
    await dropped(join(folder, "a", "model.safetensors"));
    await listBegins(page, "x");
  });

  await t.test("a URL, by ranges", async (t) => {
    const page = await pageOf(t, browser);
    const big = model([["w", "F32", [500, 1000]]]);
    const { origin, requests } = await serve(t, { "model.safetensors": big });
    await page.getByRole("textbox").fill(`${origin}/model.safetensors`);
    await page.keyboard.press("Enter");
    await listBegins(page, "w");
    assert.deepEqual(requests, [["model.safetensors", "bytes=0-98303"]]);
    assert.match(await fact(page, "Read"), /^98\.3 kB in 1 request/);
  });

  await t.test("the URL of a link, and that of an index", async (t) => {
    const { origin, requests } = await serve(t, { ...PARTS, ...INDEX });
    const url = encodeURIComponent(`${origin}/model.safetensors.index.json`);
    const page = await pageOf(t, browser, {}, PAGE, `#url=${url}`);
    await listBegins(page, "a");
    assert.equal(requests.length, 3);
    await page.evaluate((other) => (location.hash = `url=${other}`), encodeURIComponent(`${origin}/${SHARDS[1]}`));
    await listBegins(page, "b");
  });

  await t.test("a URL of the page's own server, without its cookies", async (t) => {
    const { origin, cookies } = await serve(t, { "index.html": readFileSync(PAGE), "x.safetensors": tensor("x") });
    const page = await pageOf(t, browser);
    await page.context().addCookies([{ name: "session", value: "secret", url: origin }]);
    await page.goto(`${origin}/index.html`);
    await page.getByRole("textbox").fill(`${origin}/x.safetensors`);
    await page.keyboard.press("Enter");
    await listBegins(page, "x");
    assert.deepEqual(cookies, ["session=secret", undefined]);
  });

  await t.test("one after the other, and back to the start", async (t) => {
    const page = await pageOf(t, browser);
    const folder = folderOf(t, { "1.safetensors": tensor("one"), "2.safetensors": tensor("two"), bad: "x" });
    await openFile(page, join(folder, "1.safetensors"));
    await listBegins(page, "one");
    await openFile(page, join(folder, "2.safetensors"));
    await listBegins(page, "two");
    await openFile(page, join(folder, "bad"));
    await page.getByRole("alert").waitFor();
    await openFile(page, join(folder, "2.safetensors"));
    await listBegins(page, "two");
    await page.getByRole("button", { name: "Coffer: back to the start" }).click();
    await heading(page, "See what is in a model");
  });

  await t.test("what takes long can be cancelled", async (t) => {
    const page = await pageOf(t, browser);
    const { origin } = await serve(t, {}, { slow: ["slow.safetensors"] });
    await page.getByRole("textbox").fill(`${origin}/slow.safetensors`);
    await page.keyboard.press("Enter");
    await page.getByText("1.0 kB", { exact: true }).waitFor({ timeout: 5000 });
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByText("Fetching the header").waitFor({ state: "detached" });
    assert.equal(await page.getByRole("alert").count(), 0);
  });
});

test("a report", async (t) => {
  const browser = await browserOf(t);
  const packed = (bytes) => deflateRawSync(bytes).toString("base64");
  const headerOf = (bytes) => packed(bytes.subarray(0, 8 + Number(bytes.readBigUInt64LE())));
  const planted = (t, report) => {
    const page = readFileSync(PAGE, "utf8");
    const text = JSON.stringify(report).replace(
      /[<>&\u2028\u2029]/g,
      (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`,
    );
    const script = `<script type="application/json" id="coffer-report">${text}</script>`;
    const parts = page.split("<!--coffer-report-->");
    assert.equal(parts.length, 2);
    return join(folderOf(t, { "report.html": parts.join(script) }), "report.html");
  };

  await t.test("of one file", async (t) => {
    const bytes = safetensors({ "</script><b>x": { dtype: "F32", shape: [1000], data_offsets: [0, 4000] } });
    const file = { name: "m.safetensors", size: bytes.length + 4000, header: headerOf(bytes) };
    const report = { version: 2, name: "A <b>model</b> & more", files: [file], index: null };
    const page = await pageOf(t, browser, {}, planted(t, report));
    await listBegins(page, "</script><b>x");
    await page.getByRole("heading", { name: "A <b>model</b> & more" }).waitFor();
    await page.getByText("Report: headers only").waitFor();
    await page.locator(".body-row").click();
    await page.getByText("A report has the header only.").waitFor();
    assert.equal(await page.getByRole("button", { name: /^Read/ }).count(), 0);
  });

  await t.test("of several with an index", async (t) => {
    const files = Object.entries(PARTS).map(([name, bytes]) => ({ name, size: bytes.length, header: headerOf(bytes) }));
    const [[name, text]] = Object.entries(INDEX);
    const report = { version: 2, name: "m", files, index: { name, text: packed(Buffer.from(text)) } };
    const page = await pageOf(t, browser, {}, planted(t, report));
    await listBegins(page, "a");
    assert.equal(await page.locator(".verdict").textContent(), "✓ Conforms");
  });

  await t.test("of a version that the page does not know", async (t) => {
    const page = await pageOf(t, browser, {}, planted(t, { version: 3, name: "m", files: [], index: null }));
    await page.getByText("This report has version 3").waitFor();
  });
});
