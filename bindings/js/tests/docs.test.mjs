// SPDX-License-Identifier: Apache-2.0
/* The examples of the documentation run, in a folder with the model that they speak of and before a Hub that has it. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import test from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";

import { build } from "libcoffer";

import { folderOf } from "./files.mjs";
import { startHub } from "./hub_server.mjs";

const here = dirname(dirname(fileURLToPath(import.meta.url)));
const DOCUMENTS = ["README.md", "../../docs/javascript.md"];

async function gpt2() {
  const blob = await build(
    [
      { name: "wte.weight", data: new Float32Array(4 * 768), shape: [4, 768] },
      { name: "h.0.ln_1.bias", data: new Float32Array(768) },
      { name: "scale", dtype: "BF16", shape: [1], data: Uint16Array.of(0x3f80) },
    ],
    { metadata: { format: "pt" } },
  );
  return Buffer.from(await blob.arrayBuffer());
}

test("examples", async (t) => {
  const model = await gpt2();
  const hub = await startHub(new Map([["openai-community/gpt2/model.safetensors", model]]));
  t.after(hub.stop);
  const preload = `
    const real = globalThis.fetch;
    globalThis.fetch = (url, init) => real(String(url).replace("https://huggingface.co", ${JSON.stringify(hub.hubUrl)}), init);
  `;
  const library = pathToFileURL(join(here, "dist/index.js")).href;
  const folder = folderOf(t, { "model.safetensors": model, "preload.mjs": preload });
  for (const document of DOCUMENTS) {
    const text = readFileSync(join(here, document), "utf8");
    const examples = [...text.matchAll(/^```js\n(.*?)^```$/gms)].map(([, code]) => code);
    assert(examples.length >= 3, document);
    for (const [i, code] of examples.entries()) {
      const program = code.replaceAll('from "libcoffer"', `from ${JSON.stringify(library)}`);
      const args = ["--import", "./preload.mjs", "--input-type=module", "--eval", program];
      await t.test(`${document}, example ${i + 1}`, () => promisify(execFile)(process.execPath, args, { cwd: folder }));
    }
  }
});
