// SPDX-License-Identifier: Apache-2.0
/* Shows the tensors of a file that was chosen: its header is read, and nothing leaves the page. */
import { check } from "libcoffer";

const input = document.querySelector("input");
const output = document.querySelector("pre");

input.addEventListener("change", async () => {
  const { error, model } = await check(input.files);
  // As text, never as markup: names are whatever the file says.
  output.textContent =
    error?.message ??
    Array.from(model.tensors, ({ name, dtype, shape }) => `${name}: ${dtype} [${shape.join(", ")}]`).join("\n");
});
