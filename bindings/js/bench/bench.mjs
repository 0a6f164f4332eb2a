// SPDX-License-Identifier: Apache-2.0
/*
 * The figures of docs/benchmarks.md: the header of a file of 92,000 tensors, and requests and bytes for models on a Hub, each
 * beside @huggingface/hub in the same run. The least of several times, in milliseconds.
 *
 *   node bench/bench.mjs
 */
import * as theirs from "@huggingface/hub";
import * as ours from "libcoffer";

import { safetensors, startHub } from "../tests/hub_server.mjs";

const TENSORS = 92_000;
const ROUNDS = 9;

async function least(job) {
  let best = Infinity;
  for (let round = 0; round < ROUNDS; round++) {
    const began = performance.now();
    await job();
    best = Math.min(best, performance.now() - began);
  }
  return best;
}

const parts = ["gate_proj", "up_proj", "down_proj"];
const names = Array.from({ length: TENSORS }, (_, i) => {
  const [layer, expert] = [Math.floor(i / 768), Math.floor(i / 3) % 256];
  return `model.layers.${layer}.mlp.experts.${expert}.${parts[i % 3]}.weight`;
});
// The data are left out: nobody reads them, and servers send no size.
const file = safetensors(
  names.map((name) => [name, "BF16", [2048, 1408], 2 * 2048 * 1408]),
  { metadata: { format: "pt" }, data: false },
);
const header = file.subarray(8);
console.log(`header of ${TENSORS} tensors, ${(header.length / 1e6).toFixed(1)} MB`);

const size = file.length + TENSORS * 2 * 2048 * 1408;
const source = {
  name: "memory",
  size,
  head: async () => file.subarray(0, 98_304),
  read: async (o, n) => file.subarray(o, o + n),
};
/** What @huggingface/hub does after the bytes are there. */
function parseAndValidate() {
  const json = JSON.parse(new TextDecoder().decode(header));
  const { __metadata__: _, ...tensors } = json;
  for (const [name, info] of Object.entries(tensors)) {
    theirs.validateTensorEntry("x", name, info, size);
  }
  return json;
}
const rows = {
  "JSON.parse alone": await least(() => JSON.parse(new TextDecoder().decode(header))),
  "JSON.parse and the checks of @huggingface/hub": await least(parseAndValidate),
  "libcoffer, a table": await least(() => ours.readTable(source)),
  "libcoffer, every tensor looked at": await least(async () => {
    const model = await ours.open(source);
    let sum = 0;
    for (const tensor of model.tensors) {
      sum += tensor.name.length + tensor.shape.length + Number(tensor.offset);
    }
    return sum;
  }),
};
/** A Hub without a network, whose file has all of its data as far as anybody can see. */
async function hubWithoutNetwork(_, { headers, method }) {
  const range = /bytes=(\d+)-(\d+)/.exec(new Headers(headers).get("Range") ?? "");
  const [first, last] = range === null ? [0, -1] : [Number(range[1]), Math.min(Number(range[2]), file.length - 1)];
  const body = method === "HEAD" ? null : file.subarray(first, last + 1);
  return new Response(body, {
    status: range === null ? 200 : 206,
    headers: {
      "Content-Range": `bytes ${first}-${last}/${size}`,
      "Content-Length": String(last + 1 - first),
      ETag: '"x"',
    },
  });
}
for (const [name, client] of [
  ["@huggingface/hub", theirs],
  ["libcoffer", ours],
]) {
  const params = { repo: "a/b", path: "model.safetensors", fetch: hubWithoutNetwork };
  rows[`parseSafetensorsMetadata of ${name}`] = await least(() => client.parseSafetensorsMetadata(params));
}
for (const [what, time] of Object.entries(rows)) {
  console.log(`  ${what.padEnd(48)} ${time.toFixed(1).padStart(7)} ms`);
}

function shards(files, count) {
  const digits = (k) => String(k).padStart(5, "0");
  const model = {};
  const weight_map = {};
  for (let k = 1; k <= count; k++) {
    const name = `model-${digits(k)}-of-${digits(count)}.safetensors`;
    const list = Array.from({ length: 12 }, (_, i) => [`layers.${k}.experts.${i}.weight`, "BF16", [64, 64], 8192]);
    files.set(`o/${count}/${name}`, safetensors(list));
    list.forEach(([tensor]) => (weight_map[tensor] = name));
  }
  files.set(`o/${count}/model.safetensors.index.json`, Buffer.from(JSON.stringify({ metadata: {}, weight_map })));
  return model;
}

const files = new Map([["o/1/model.safetensors", safetensors([["a", "F32", [64, 64], 16384]])]]);
shards(files, 40);
shards(files, 125);
const hub = await startHub(files);
for (const repo of ["o/1", "o/40", "o/125"]) {
  for (const [name, client] of [
    ["@huggingface/hub", theirs],
    ["libcoffer", ours],
  ]) {
    const time = await least(() => client.parseSafetensorsMetadata({ repo, hubUrl: hub.hubUrl }));
    hub.take();
    await client.parseSafetensorsMetadata({ repo, hubUrl: hub.hubUrl });
    const asked = hub.take();
    const bytes = asked.reduce((sum, { bytes }) => sum + bytes, 0);
    console.log(
      `${repo.slice(2).padStart(4)} files, ${name.padEnd(17)} ${String(asked.length).padStart(4)} requests ${String(bytes).padStart(9)} bytes ${time.toFixed(1).padStart(7)} ms`,
    );
  }
}
await hub.stop();
