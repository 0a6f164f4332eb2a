// SPDX-License-Identifier: Apache-2.0
/* Reports that the command has written, opened from a folder: what it puts into the page, the page shows. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";

import { language, model } from "./models.mjs";
import { browserOf, folderOf, PAGE, pageOf } from "./page.mjs";

const command = process.env.COFFER_CLI ?? "";
const options = { skip: !existsSync(command) && "no command" };

/** The path of a report of `path`, which is a file's or a folder's. */
function reportOf(folder, path = ".") {
  const output = join(folder, "report.html");
  execFileSync(command, ["report", "-q", "-f", "--page", PAGE, "-o", output, "--", join(folder, path)], {
    stdio: "pipe",
  });
  return output;
}

test("a report of one file", options, async (t) => {
  const browser = await browserOf(t);
  // More tensors than the first read of a header has.
  const tensors = language(900);
  const folder = folderOf(t, { "small.safetensors": model(tensors, { license: "mit" }) });
  const file = reportOf(folder, "small.safetensors");
  const page = await pageOf(t, browser, {}, file);
  await page.getByText("model.embed_tokens.weight").first().waitFor();
  const text = await page.locator("body").innerText();
  assert.match(text, /small\.safetensors/);
  assert.match(text, new RegExp(tensors.length.toLocaleString("en")));
  // Of all that the browser loads, only the worker is not in the file itself: it is made of a text in it.
  const loaded = await page.evaluate(() =>
    performance.getEntriesByType("resource").map(({ name }) => new URL(name).protocol),
  );
  assert.deepEqual(
    loaded.filter((protocol) => protocol !== "blob:" && protocol !== "data:"),
    [],
  );
  assert.ok(
    readFileSync(file).length < 2 * readFileSync(PAGE).length + readFileSync(join(folder, "small.safetensors")).length,
  );
});

test("a report of a bintensors file", options, async (t) => {
  const folder = folderOf(t, { "small.safetensors": model(language(900)) });
  execFileSync(command, ["convert", "-q", join(folder, "small.safetensors"), "-o", join(folder, "small.bt")], {
    stdio: "pipe",
  });
  const page = await pageOf(t, await browserOf(t), {}, reportOf(folder, "small.bt"));
  await page.getByText("model.layers.0.input_layernorm.weight").first().waitFor();
  assert.match(await page.locator("body").innerText(), /bintensors/);
});

test("a report of several files, with their index and without", options, async (t) => {
  const browser = await browserOf(t);
  const shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
  const names = ["first.weight", "second.weight"];
  const files = Object.fromEntries(shards.map((name, i) => [name, model([[names[i], "F32", [2, 3]]])]));
  const index = {
    metadata: { total_size: 48 },
    weight_map: Object.fromEntries(names.map((name, i) => [name, shards[i]])),
  };
  const whole = { ...files, "model.safetensors.index.json": JSON.stringify(index) };
  for (const set of [whole, files]) {
    const page = await pageOf(t, browser, {}, reportOf(folderOf(t, set)));
    for (const name of names) {
      await page.getByText(name).first().waitFor();
    }
  }
});

test("names that try to get out of a report", options, async (t) => {
  const browser = await browserOf(t);
  const hostile = "<img src=x onerror=alert(1)>";
  const name = `${hostile}<!--\u2028&amp;\u202e`;
  const folder = folderOf(t, {
    [`${name}.safetensors`]: model([[`</script>${hostile}`, "U8", [1]]], { [hostile]: hostile }),
  });
  const page = await pageOf(t, browser, {}, reportOf(folder, `${name}.safetensors`));
  const dialogs = [];
  page.on("dialog", (dialog) => dialogs.push(dialog.message()));
  await page.getByText(`</script>${hostile}`).first().waitFor();
  assert.equal(await page.locator("img").count(), 0);
  assert.equal(await page.locator("script").count(), 2);
  assert.deepEqual(dialogs, []);
  const text = await page.locator("body").innerText();
  assert.ok(text.includes(`${hostile}<!--`) && !/[\u2028\u202e]/.test(text));
});
