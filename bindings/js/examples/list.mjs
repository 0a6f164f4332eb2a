// SPDX-License-Identifier: Apache-2.0
/*
 * Lists the tensors of a model, and says what is odd about it.
 *
 *   node list.mjs PATH|URL
 */
import { check, escapeText } from "libcoffer";

const [source] = process.argv.slice(2);
if (source === undefined) {
  console.error("usage: node list.mjs PATH|URL");
  process.exit(2);
}

const { error, notes, model } = await check(source);
if (error !== undefined) {
  console.error(error.message);
  process.exit(1);
}
for (const { name, dtype, shape, size } of model.tensors) {
  // Escaped: names are whatever the file says, and terminals obey some of it.
  console.log(`${dtype}\t[${shape.join(", ")}]\t${size}\t${await escapeText(name)}`);
}
for (const { text, count } of notes) {
  console.error(`note: ${text} (${count})`);
}
await model.close();
