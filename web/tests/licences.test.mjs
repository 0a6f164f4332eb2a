// SPDX-License-Identifier: Apache-2.0
/* The licences of what is bundled come with the page, and a package without one does not get into it. */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";

import { asHtml, compiledIn, licences } from "../scripts/licences.mjs";
import { browserOf, folderOf, pageOf } from "./page.mjs";

const web = fileURLToPath(new URL("..", import.meta.url));
const root = join(web, "..");
const XXHASH = join(root, "bindings/js/dist/xxhash-license.txt");
const BUNDLED = ["@preact/signals", "@preact/signals-core", "d3-hierarchy", "preact"];
const licenceOf = (name) => readFileSync(join(web, "node_modules", name, "LICENSE"), "utf8").trim();
const oneLine = (text) => text.replace(/\s+/g, " ");

/** A folder `node_modules` with one package of these files. */
function packaged(t, files) {
  const folder = join(folderOf(t, {}), "node_modules/@some/thing");
  mkdirSync(folder, { recursive: true });
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(folder, name), text);
  }
  return join(folder, "dist/index.js");
}

test("packages are found by their modules, each once, in order", async (t) => {
  const manifest = JSON.stringify({ name: "@some/thing", version: "1.2.3", license: "MIT" });
  const id = packaged(t, { "package.json": manifest, LICENSE: "Terms & <conditions>\n", "NOTICE.md": "Names\n" });
  const preact = join(web, "node_modules/preact/dist/preact.mjs");
  const parts = licences(
    [preact, `\0${id}?commonjs`, "\0virtual:worker", join(web, "src/main.tsx"), id],
    [join(web, "src")],
  );
  assert.deepEqual(
    parts.map(({ name }) => name),
    ["@some/thing", "preact"],
  );
  assert.equal(
    asHtml(parts.slice(0, 1)),
    "<details><summary>@some/thing 1.2.3, MIT</summary><pre>Terms &amp; &lt;conditions&gt;\n\nNames</pre></details>",
  );
});

test("what has no licence stops the build", async (t) => {
  const manifest = JSON.stringify({ name: "@some/thing", version: "1.2.3", license: "MIT" });
  for (const files of [
    { "package.json": manifest },
    { "package.json": manifest, LICENSE: " \n" },
    { "package.json": '{ "name": "@some/thing" }', LICENSE: "Terms" },
  ]) {
    const id = packaged(t, files);
    assert.throws(() => licences([id], []), /@some\/thing is in the bundle, but its package has no licence/);
  }
  assert.throws(() => licences(["/elsewhere/x.js"], [join(web, "src")]), /"\/elsewhere\/x.js" is in the bundle/);
});

test("the page shows the licence of everything in it", async (t) => {
  const page = await pageOf(t, await browserOf(t));
  const about = page.getByRole("dialog", { name: "About Coffer" });
  assert.equal(await about.isVisible(), false);
  await page.getByRole("button", { name: "About" }).click();
  const { version } = JSON.parse(readFileSync(join(web, "package.json"), "utf8"));
  await about.getByText(`Version ${version}.`).waitFor();
  const shown = await about
    .locator("details")
    .evaluateAll((all) =>
      all.map((part) => [part.querySelector("summary").textContent, part.querySelector("pre").textContent]),
    );
  const others = existsSync(XXHASH) ? compiledIn(join(root, "bindings/js/dist")) : [];
  assert.deepEqual(
    shown.map(([title]) => title.replace(/( [\d.]+)?,.*/, "")),
    [...BUNDLED, ...others.map(({ name }) => name)],
  );
  BUNDLED.forEach((name, i) => assert.equal(shown[i][1], licenceOf(name)));
  if (others.length > 0) {
    const text = shown.at(-1)[1];
    assert.match(text, /^xxHash - Extremely Fast Hash algorithm\n/);
    assert.match(
      text,
      /Copyright \(C\) .*Yann Collet\n\nBSD 2-Clause License[^*]+\n +\* Redistributions of source[^]*THIS SOFTWARE/,
    );
  }
  await about.getByText(/^preact /).click();
  assert.ok(await about.getByText("Jason Miller").isVisible());
  await page.keyboard.press("Escape");
  assert.equal(await about.isVisible(), false);
  await page.getByRole("button", { name: "About" }).click();
  await about.getByRole("button", { name: "Close" }).click();
  assert.equal(await about.isVisible(), false);
});

test("so do the packages for Debian", () => {
  // A paragraph's lines begin with a space there, and a dot stands for an empty one.
  const told = oneLine(readFileSync(join(root, "cmake/debian/copyright"), "utf8").replace(/^ \.?/gm, ""));
  for (const name of BUNDLED) {
    const [, holder, terms] = /Copyright (?:\(c\) )?(.*?)\n\n([^]*)/.exec(licenceOf(name));
    assert.ok(told.includes(`node_modules/${name}/*`), name);
    assert.ok(told.includes(`Copyright: ${holder}`), `${name}: ${holder}`);
    assert.ok(told.includes(oneLine(terms)), `${name}: its terms`);
  }
  assert.match(told, /Files: xxhash.h Copyright: 2012-2020 Yann Collet License: BSD-2-Clause/);
});
