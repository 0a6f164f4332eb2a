// SPDX-License-Identifier: Apache-2.0
/* What cannot be shown says why, and what to do. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";

import { model } from "./models.mjs";
import { browserOf, folderOf, openFile, pageOf, safetensors, serve } from "./page.mjs";

const vectors = process.env.COFFER_VECTORS ?? fileURLToPath(new URL("../../tests/vectors", import.meta.url));
const vector = (code) =>
  readFileSync(
    join(
      vectors,
      readdirSync(vectors).find((name) => name.startsWith(`err_${code}_`)),
    ),
  );
const WHOLE = model([["w", "F32", [1000]]]);

/** What is opened, and words of the title and of the advice. */
const FILES = {
  IS_LFS_POINTER: ["This is a Git LFS pointer", "git lfs pull"],
  IS_PICKLE: ["This is a Python pickle", "Look for a .safetensors file next to it"],
  IS_ZIP: ["This is a zip archive", "convert it"],
  IS_HTML: ["This is a web page", "the URL is that of a page about the file"],
  IS_GGUF: ["This is a GGUF file", "coffer convert"],
  JSON: ["Not JSON by RFC 8259", "Report the file to its maker"],
  HOLE: ["Bytes that no tensor covers", "Write the file again"],
  DUPLICATE_NAME: ["Two tensors of one name", "Rename one"],
};

test("errors", async (t) => {
  const browser = await browserOf(t);
  const page = await pageOf(t, browser);
  const says = async (code, ...words) => {
    await page.locator(".failure code", { hasText: new RegExp(`^${code}$`) }).waitFor();
    const text = await page.getByRole("alert").innerText();
    words.forEach((word) => assert.ok(text.includes(word), `${code}: "${word}" is not in ${text}`));
  };
  const opened = async (t, bytes, name = "model.safetensors") =>
    openFile(page, join(folderOf(t, { [name]: bytes }), name));

  for (const [code, words] of Object.entries(FILES)) {
    await t.test(code, async (t) => {
      await opened(t, vector(code));
      await says(code, ...words, "What to do:", "Usual cause:");
    });
  }

  await t.test("a truncated file, with what is missing", async (t) => {
    await opened(t, WHOLE.subarray(0, WHOLE.length - 1500));
    await says("DATA_TRUNCATED", "The file ends within its data", "Get the rest, 1.5 kB");
  });

  await t.test("the bytes where a header is wrong", async (t) => {
    await opened(t, safetensors(`{"a\u202e":"x","é":{}}`));
    await says("TYPE", "What to do:");
    const excerpt = page.locator(".excerpt");
    assert.match(await excerpt.textContent(), /^The bytes there: \{"a\\u\{202e\}":"x","é":\{\}\} *$/);
    assert.equal(await excerpt.locator("mark").textContent(), '"');
  });

  await t.test("what can be shown anyway", async (t) => {
    await opened(t, safetensors({ a: { dtype: "F32X", shape: [1], data_offsets: [0, 4] } }, 4));
    await says("DTYPE", "Not a dtype of the format", "F32X");
    await page.getByRole("button", { name: "Show it anyway" }).click();
    await page.getByText("Conforms, with 1 note").waitFor();
    assert.match(await page.locator(".body-row").innerText(), /^a\s+F32X/);
  });

  await t.test("an empty file", async (t) => {
    await opened(t, Buffer.alloc(0));
    await says("EMPTY", "No bytes at all");
  });

  await t.test("a shard that is not there", async (t) => {
    const names = ["model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors"];
    const folder = folderOf(t, Object.fromEntries(names.map((name) => [name, WHOLE])));
    await openFile(page, ...names.map((name) => join(folder, name)));
    await says("SHARD_MISSING", "Drop all files of the model together");
  });

  await t.test("URLs", async (t) => {
    const { origin } = await serve(t, { "page.html": Buffer.from("<!doctype html><title>x</title>") });
    const go = async (url) => {
      await page.getByRole("textbox").fill(url);
      await page.keyboard.press("Enter");
    };
    await go(`${origin}/none.safetensors`);
    await says("NOT_FOUND", "Check the URL", "404");
    await go(`${origin}/page.html`);
    await says("IS_HTML", "This is a web page");
    await go("http://127.0.0.1:1/x.safetensors");
    await says("CONNECT", "does not let other pages read from it");
    await page.getByRole("button", { name: "Try again" }).waitFor();
    await go("file:///etc/passwd");
    await page.getByText("Give the URL of a file").waitFor();
    await page.getByText("Open another model").waitFor();
  });
});
