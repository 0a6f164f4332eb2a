// SPDX-License-Identifier: Apache-2.0
/* What a file says stays text, whatever it is: markup, control characters, marks that turn the direction, names of 1 MB. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";

import { model } from "./models.mjs";
import { browserOf, folderOf, openFile, PAGE, pageOf } from "./page.mjs";

const HOSTILE = [
  `<img src=x onerror="globalThis.harmed = 1">`,
  `</style></script><script>globalThis.harmed = 1</script>`,
  `javascript:globalThis.harmed=1`,
  `"><svg onload=globalThis.harmed=1>`,
  "\u001b[2Jclear\u0000\u0007",
  "abc\u202egnp.exe\u202c",
  "\u05d0\u05d1\u05d2.weight",
  "__proto__",
  "constructor.prototype",
  "{{7*7}}${7*7}",
  "a".repeat(1 << 20),
  `${"x.".repeat(1 << 19)}weight`,
  "\u0301".repeat(5000),
];

test("hostile files", async (t) => {
  const browser = await browserOf(t);
  const isUnharmed = async (page) => {
    assert.equal(await page.evaluate(() => globalThis.harmed), undefined);
    assert.equal(await page.locator("#page img, #page script, #page iframe, #page a, #page svg[onload]").count(), 0);
    assert.equal(await page.evaluate(() => Object.prototype.harmed), undefined);
  };
  const misleading = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/;

  await t.test("names, metadata, the file's own name", async (t) => {
    const page = await pageOf(t, browser);
    const metadata = Object.fromEntries(HOSTILE.map((text, i) => [`${text}${i}`, text]));
    const bytes = model(
      HOSTILE.map((name) => [name, "F32", [1]]),
      metadata,
    );
    const name = "<b onclick=x>\u202efdp.safetensors";
    await openFile(page, join(folderOf(t, { [name]: bytes }), name));
    await page.locator(".body-row").first().waitFor();
    assert.equal(await page.locator(".body-row").count(), HOSTILE.length);
    for (const look of ["Table", "Tree"]) {
      await page.getByRole("button", { name: look, exact: true }).click();
      await page.locator(".body-row").first().waitFor();
      for (const tab of await page.getByRole("tab").all()) {
        await tab.click();
        for (const row of await page.locator(".body-row").all()) await row.click({ timeout: 5000 });
        await tab.click();
        // Not innerText: that has tabs of its own between the cells of a table.
        const text = await page.locator("#page").textContent();
        assert.equal(misleading.exec(text), null);
        assert.ok(text.length < 200_000, `the page has ${text.length} characters`);
        await isUnharmed(page);
      }
    }
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
    assert.equal(wide, false, "long names make the page no wider");
  });

  await t.test("errors that quote the file", async (t) => {
    const page = await pageOf(t, browser);
    for (const text of [
      `{"${HOSTILE[0].replaceAll('"', '\\"')}":{"dtype":"<b>","shape":[],"data_offsets":[0,1]}}`,
      `{"\u202e\u009b<i>":{"dtype":"F32","shape":[1],"data_offsets":[0,3]}}`,
      `{"${"n".repeat(1 << 20)}":{"dtype":"F32","shape":[2],"data_offsets":[0,3]}}`,
    ]) {
      const length = Buffer.alloc(8);
      length.writeBigUInt64LE(BigInt(Buffer.byteLength(text)));
      const folder = folderOf(t, { "x.safetensors": Buffer.concat([length, Buffer.from(text)]) });
      await openFile(page, join(folder, "x.safetensors"));
      await page.getByRole("alert").waitFor();
      assert.equal(misleading.exec(await page.locator("#page").innerText()), null);
      await isUnharmed(page);
    }
    const folder = folderOf(t, { "a.txt": `<img src=x onerror="globalThis.harmed=1">${"\u202e".repeat(100)}` });
    await openFile(page, join(folder, "a.txt"));
    await page.getByText("IS_TEXT").or(page.getByText("IS_HTML")).waitFor();
    await isUnharmed(page);
  });

  await t.test("the policy lets nothing else run, and the page keeps to it", async (t) => {
    const page = await pageOf(t, browser, { complains: true });
    const policy = await page.locator('meta[http-equiv="Content-Security-Policy"]').getAttribute("content");
    assert.match(policy, /^default-src 'none'; script-src 'sha256-[^']+' 'wasm-unsafe-eval'; worker-src blob:;/);
    assert.doesNotMatch(policy, /unsafe-inline|'unsafe-eval'/);
    const refused = await page.evaluate(async () => {
      const events = [];
      document.addEventListener("securitypolicyviolation", (event) => events.push(event.effectiveDirective));
      const script = document.createElement("script");
      script.textContent = "globalThis.harmed = 1";
      document.body.append(script);
      const image = document.createElement("div");
      image.innerHTML = `<p style="color: red" onclick="harmed = 1"></p>`;
      document.body.append(image);
      await new Promise((done) => setTimeout(done, 100));
      return events;
    });
    assert.ok(refused.includes("script-src-elem") && refused.includes("style-src-attr"), String(refused));
    await isUnharmed(page);
    assert.equal(readFileSync(PAGE, "utf8").match(/\sstyle=/g), null);
  });
});
