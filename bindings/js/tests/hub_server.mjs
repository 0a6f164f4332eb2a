// SPDX-License-Identifier: Apache-2.0
/* A Hub on this machine: files by the Hub's routes, and a record of what was asked. */
import http from "node:http";

/** A file of tensors. `tensors` are [name, dtype, shape, bytes]; `spell` changes the header's text. */
export function safetensors(tensors, { metadata, spell = (text) => text, data = true } = {}) {
  const header = metadata === undefined ? {} : { __metadata__: metadata };
  let at = 0;
  for (const [name, dtype, shape, size] of tensors) {
    header[name] = { dtype, shape, data_offsets: [at, at + size] };
    at += size;
  }
  const text = Buffer.from(spell(JSON.stringify(header)));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([size, text, Buffer.alloc(data ? at : 0)]);
}

/** Starts it. `files` maps "owner/name/path" to bytes; whatever is put into it later is served, too. */
export async function startHub(files = new Map()) {
  const asked = [];
  const server = http.createServer((request, response) => {
    const [, repo, path] = /^\/([^/]+\/[^/]+)\/(?:resolve|raw)\/[^/]+\/(.*)$/.exec(decodeURI(request.url)) ?? [];
    const content = files.get(`${repo}/${path}`);
    const entry = {
      method: request.method,
      url: request.url,
      path,
      range: request.headers.range,
      auth: request.headers.authorization,
      bytes: 0,
    };
    asked.push(entry);
    if (content === undefined) {
      response.writeHead(404, { "X-Error-Code": "EntryNotFound", "Content-Length": 0 });
      return response.end();
    }
    const headers = {
      ETag: `"${content.length}"`,
      "Accept-Ranges": "bytes",
      "Content-Type": "application/octet-stream",
    };
    const range = /bytes=(\d+)-(\d+)?/.exec(request.headers.range ?? "");
    const first = Number(range?.[1] ?? 0);
    if (range && first >= content.length) {
      response.writeHead(416, { "Content-Range": `bytes */${content.length}`, "Content-Length": 0 });
      return response.end();
    }
    const body = content.subarray(first, range?.[2] === undefined ? undefined : Number(range[2]) + 1);
    headers["Content-Length"] = body.length;
    if (range) {
      headers["Content-Range"] = `bytes ${first}-${first + body.length - 1}/${content.length}`;
    }
    entry.bytes = request.method === "HEAD" ? 0 : body.length;
    response.writeHead(range ? 206 : 200, headers);
    response.end(request.method === "HEAD" ? undefined : body);
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return {
    files,
    hubUrl: `http://127.0.0.1:${server.address().port}`,
    /** What was asked since the last time. */
    take: () => asked.splice(0),
    stop: () => new Promise((done) => server.close(done).closeAllConnections()),
  };
}
