// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { join } from "node:path";
import test from "node:test";

import { browserOf, folderOf, pageOf, safetensors } from "./page.mjs";

test("a chosen file", async (t) => {
  const page = await pageOf(t, await browserOf(t));
  const header = { "a.weight": { dtype: "F32", shape: [2, 3], data_offsets: [0, 24] } };
  const folder = folderOf(t, { "model.safetensors": safetensors(header, 24) });
  await page.setInputFiles("input[type=file] >> nth=0", join(folder, "model.safetensors"));
  await page.getByText("a.weight").first().waitFor();
  assert.equal(await page.title(), "Coffer");
});
