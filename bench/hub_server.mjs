// SPDX-License-Identifier: Apache-2.0
/*
 * A Hub that is far away: one model of many files by the Hub's routes, and each journey to it takes time, that to connect too.
 *
 *   node hub_server.mjs FILES MILLISECONDS
 *
 * Says where it is on one line. For each line that it is told then, says how many requests and connections there were since
 * the last one. Ends with its input.
 */
import http from "node:http";

const [files, latency] = process.argv.slice(2).map(Number);
const TENSORS = 12;
const INDEX = "model.safetensors.index.json";

function digits(number) {
  return String(number).padStart(5, "0");
}

/** What each file is, by its name. */
function model() {
  const found = new Map();
  const weights = {};
  for (let number = 1; number <= files; number++) {
    const file = `model-${digits(number)}-of-${digits(files)}.safetensors`;
    const header = { __metadata__: { format: "pt" } };
    for (let i = 0; i < TENSORS; i++) {
      const name = `model.layers.${number}.mlp.experts.${i}.weight`;
      header[name] = { dtype: "BF16", shape: [64, 64], data_offsets: [i * 8192, (i + 1) * 8192] };
      weights[name] = file;
    }
    const text = Buffer.from(JSON.stringify(header));
    const size = Buffer.alloc(8);
    size.writeBigUInt64LE(BigInt(text.length));
    found.set(file, Buffer.concat([size, text, Buffer.alloc(TENSORS * 8192)]));
  }
  const index = { metadata: { total_size: files * TENSORS * 8192 }, weight_map: weights };
  return found.set(INDEX, Buffer.from(JSON.stringify(index)));
}

const served = model();
let requests = 0;
let connections = 0;

function answer(request, response) {
  const content = served.get(request.url.split("?")[0].split("/").pop());
  if (content === undefined) {
    response.writeHead(404, { "X-Error-Code": "EntryNotFound", "Content-Length": 0 });
    return response.end();
  }
  const headers = { "X-Repo-Commit": "0".repeat(40), ETag: `"${content.length}"`, "Accept-Ranges": "bytes" };
  const range = /bytes=(\d+)-(\d+)/.exec(request.headers.range ?? "");
  const first = range ? Number(range[1]) : 0;
  const body = range ? content.subarray(first, Number(range[2]) + 1) : content;
  headers["Content-Length"] = body.length;
  if (range) {
    headers["Content-Range"] = `bytes ${first}-${first + body.length - 1}/${content.length}`;
  }
  response.writeHead(range ? 206 : 200, headers);
  response.end(request.method === "HEAD" ? undefined : body);
}

const server = http.createServer((request, response) => {
  requests++;
  // The first request of a connection waited for it to be made.
  const journeys = request.socket.isKnown ? 1 : 2;
  request.socket.isKnown = true;
  setTimeout(answer, journeys * latency, request, response);
});
server.keepAliveTimeout = 60_000;
server.on("connection", () => connections++);
server.listen({ port: 0, host: "127.0.0.1", backlog: 1024 }, () => {
  console.log(`http://127.0.0.1:${server.address().port}`);
});
process.stdin.on("data", () => {
  console.log(`${requests} ${connections}`);
  requests = connections = 0;
});
process.stdin.on("end", () => process.exit());
