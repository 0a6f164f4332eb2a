// SPDX-License-Identifier: Apache-2.0
/* @huggingface/hub and this package, side by side against one server: results, errors, requests. */
import assert from "node:assert/strict";
import test, { after, before } from "node:test";

import * as theirs from "@huggingface/hub";
import * as ours from "libcoffer";

import { safetensors, startHub } from "./hub_server.mjs";

let hub;
let number = 0;

before(async () => (hub = await startHub()));
after(() => hub.stop());

/** Puts a repository there; the parameters that name it. */
function repository(files) {
  const repo = `owner/model${number++}`;
  for (const [path, content] of Object.entries(files)) {
    const bytes = Buffer.isBuffer(content)
      ? content
      : Buffer.from(typeof content === "string" ? content : JSON.stringify(content));
    hub.files.set(`${repo}/${path}`, bytes);
  }
  return { repo, hubUrl: hub.hubUrl };
}

async function outcome(package_, params) {
  try {
    return { result: await package_.parseSafetensorsMetadata(params) };
  } catch (error) {
    return { error };
  } finally {
    hub.take();
  }
}

/** Both packages find the same. */
async function same(params) {
  const [expected, found] = [await outcome(theirs, params), await outcome(ours, params)];
  assert.equal(found.error?.stack, undefined);
  assert.equal(expected.error?.stack, undefined);
  // As JSON: their properties that are undefined are none.
  assert.deepEqual(JSON.parse(JSON.stringify(found.result)), JSON.parse(JSON.stringify(expected.result)));
  return found.result;
}

const PLAIN = [
  ["wte.weight", "F32", [4, 6], 96],
  ["ln.bias", "BF16", [8], 16],
  ["step", "I64", [], 8],
  ["empty", "F16", [0, 3], 0],
];

function shards(count, tensors = (k) => [[`layer.${k}.weight`, "BF16", [2, 4], 16]], prefix = "") {
  const digits = (k) => String(k).padStart(5, "0");
  const files = {};
  const weight_map = {};
  let total = 0;
  for (let k = 1; k <= count; k++) {
    const file = `model-${digits(k)}-of-${digits(count)}.safetensors`;
    const list = tensors(k);
    files[prefix + file] = safetensors(list, { metadata: { format: "pt" } });
    for (const [name, , , size] of list) {
      weight_map[name] = file;
      total += size;
    }
  }
  files[`${prefix}model.safetensors.index.json`] = { metadata: { total_size: total }, weight_map };
  return files;
}

// ---- Results ------------------------------------------------------------------------------------------------------------

test("a tensor belongs to the file that the index names, and a copy elsewhere is left out and said", async () => {
  const stale = (k) => (k === 2 ? [["layer.1.weight", "F32", [8, 8], 256]] : []);
  const files = shards(3, (k) => [[`layer.${k}.weight`, "BF16", [2, 4], 16], ...stale(k)]);
  const index = files["model.safetensors.index.json"];
  index.weight_map["layer.1.weight"] = "model-00001-of-00003.safetensors";
  // The index may also name a file that has no such tensor, and a copy is then no copy; and metadata are no tensor.
  index.weight_map["__metadata__"] = "model-00001-of-00003.safetensors";
  const params = { ...repository(files), computeParametersCount: true };
  const { result, error } = await outcome(ours, params);
  assert.equal(error, undefined);
  assert.deepEqual(Object.keys(result.headers["model-00002-of-00003.safetensors"]), ["__metadata__", "layer.2.weight"]);
  assert.deepEqual(result.parameterCount, { BF16: 24 });
  assert.deepEqual(
    result.notes.map(({ kind, count, file }) => [kind, count, file]),
    [["SUPERSEDED", 1, "model-00002-of-00003.safetensors"]],
  );
  assert.match(result.notes[0].text, /index/);
  index.weight_map["layer.1.weight"] = "model-00003-of-00003.safetensors";
  const unowned = await outcome(ours, { ...repository(files), computeParametersCount: true });
  assert.equal(unowned.result.notes, undefined);
  assert.deepEqual(unowned.result.parameterCount, { BF16: 24, F32: 64 });
  assert.equal((await outcome(ours, { ...repository(shards(2)) })).result.notes, undefined);
});

test("what is exported has the same value", () => {
  for (const name of Object.keys(ours).filter((name) => /SAFETENSORS/.test(name))) {
    assert.deepEqual(ours[name], theirs[name], name);
  }
  for (const name of [
    "model-00001-of-00002.safetensors",
    "a_b-00001-of-000002.safetensors",
    "model.safetensors",
    "-1-of-2",
  ]) {
    assert.deepEqual(ours.parseSafetensorsShardFilename(name), theirs.parseSafetensorsShardFilename(name), name);
  }
});

test("what is exported has the same name", () => {
  const kin = /safetensor|shard|quantiz|globMatch|ParamsByDtype|CompressedTensors|TotalParameters|TensorEntry/i;
  const names = Object.keys(theirs).filter((name) => kin.test(name));
  assert(names.length >= 18, String(names));
  assert.deepEqual(
    names.filter((name) => typeof ours[name] !== typeof theirs[name]),
    [],
  );
});

test("functions of one tensor have the same results", () => {
  const names = [
    "m.0.weight",
    "lm_head.weight",
    "m.0.qweight",
    "m.0.experts.1.w.weight_packed",
    "m.0.scales",
    "a_blocks",
    "",
  ];
  const configs = [
    undefined,
    {},
    { quant_method: "gptq", bits: 3 },
    { quant_method: "AWQ", bits: 4, modules_to_not_convert: ["lm_head", "m.*.weight"] },
    { quant_method: "compressed-tensors", format: "pack-quantized", ignore: ["re:.*head$", "m.0"] },
    {
      quant_method: "compressed-tensors",
      config_groups: { a: { format: "nvfp4-pack-quantized", targets: ["re:m.*"] } },
    },
    { quant_method: "fp8", store_dtype: "mxfp4" },
    { quant_method: "mxfp4" },
    { quant_method: "bitsandbytes", load_in_4bit: true },
    { quant_method: "mlx", bits: 4, group_size: 64, "m.0": { bits: 3 }, lm_head: false },
  ];
  const modules = [undefined, new Set(["m.0"])];
  let differing = 0;
  for (const config of configs) {
    for (const name of names) {
      for (const set of modules) {
        assert.equal(ours.isQuantizedTensor(name, config, set), theirs.isQuantizedTensor(name, config, set));
        for (const dtype of ["U8", "I32", "U32", "BF16"]) {
          const [found, expected] = [ours, theirs].map((from) =>
            from.getQuantizationMultiplier(name, dtype, config, "fp4", set),
          );
          assert.equal(found, expected, `${name} ${dtype} ${JSON.stringify(config)}`);
          differing += expected === 1 ? 0 : 1;
        }
      }
    }
    const header = Object.fromEntries(
      names.map((name) => [name, { dtype: "U32", shape: [6, 4], data_offsets: [0, 96] }]),
    );
    assert.deepEqual(
      ours.computeNumOfParamsByDtypeSingleFile(header, config, "fp4"),
      theirs.computeNumOfParamsByDtypeSingleFile(header, config, "fp4"),
    );
  }
  assert(differing > 50);
});

test("functions of one tensor refuse the same", () => {
  const entries = [
    [{ shape: [1, 2], data_offsets: [0, 8] }, undefined],
    [{ shape: [1, 2], data_offsets: [0, 8] }, 8],
    [{ shape: [1, 2], data_offsets: [0, 8] }, 7],
    [{ shape: [2 ** 32], data_offsets: [0, 0] }, undefined],
    ...[[2 ** 32 + 1], [-1], [1.5], ["1"], [NaN], null].map((shape) => [{ shape, data_offsets: [0, 0] }, undefined]),
    ...[[0], [0, 1, 2], [1, 0], [-1, 0], [0, Infinity], ["0", 1], null].map((data_offsets) => [
      { shape: [], data_offsets },
      9,
    ]),
  ];
  const refuses = (from, call) => {
    try {
      call(from);
      return false;
    } catch (error) {
      assert(error instanceof from.SafetensorParseError, String(error.stack));
      return true;
    }
  };
  let count = 0;
  for (const [info, size] of entries) {
    const [found, expected] = [ours, theirs].map((from) =>
      refuses(from, () => from.validateTensorEntry("f", "t", info, size)),
    );
    assert.equal(found, expected, JSON.stringify(info));
    count += expected ? 1 : 0;
  }
  assert(count > 10 && count < entries.length);
  const names = [
    "",
    "a",
    "a/b",
    "a b",
    "a?b#c",
    "%41",
    "a%3Fb",
    "100%",
    "%zz",
    "a:b",
    "x/a:b",
    "a/../b",
    "%252e%252e",
    "..a",
  ];
  for (const name of [...names, "%2525252525252e./b", "/a", "a//b", "a/", ".", "C:\\a", "a\u007f"]) {
    const [found, expected] = [ours, theirs].map((from) => refuses(from, () => from.assertSafeShardFilename(name)));
    assert.equal(found, expected, name);
  }
});

test("a single file", async () => {
  const params = repository({ "model.safetensors": safetensors(PLAIN, { metadata: { format: "pt", 1: "one" } }) });
  await same(params);
  await same({ ...params, path: "model.safetensors" });
  await same({ ...params, computeParametersCount: true });
  await same({ ...params, repo: { type: "model", name: params.repo }, revision: "refs/pr/1" });
});

test("odd but sound headers", async () => {
  const spellings = [
    (text) => text + "   ",
    (text) => text.replaceAll(",", " , "),
    (text) => text.replace("wte", "\\u0077te"),
    (text) => text.replace("{", '{"__metadata__":null,'),
    (text) => text.replace("ln.bias", "__proto__"),
    (text) => text.replace("ln.bias", "constructor"),
    (text) => text.replace("ln.bias", "7"),
    (text) => text.replace("ln.bias", "\u{1F600}é\\u0000"),
    (text) => text.replace("ln.bias", "\uFEFFbom"),
  ];
  for (const spell of spellings) {
    await same(repository({ "model.safetensors": safetensors(PLAIN, { spell }) }));
  }
  await same(repository({ "model.safetensors": safetensors([]) }));
});

test("headers of every length around that of the first request", async () => {
  for (const length of [98_287, 98_288, 98_295, 98_296, 98_297, 98_303, 98_304, 99_993, 100_001, 131_072, 400_000]) {
    const spell = (text) => text.padEnd(length, " ");
    await same(repository({ "model.safetensors": safetensors(PLAIN, { spell }) }));
  }
});

test("several files", async () => {
  const params = repository(shards(7));
  await same(params);
  await same({ ...params, computeParametersCount: true });
  await same({ ...params, path: "model.safetensors.index.json" });
  const below = repository(shards(3, undefined, "sub/"));
  await same({ ...below, path: "sub/model.safetensors.index.json", computeParametersCount: true });
});

test("diffusers", async () => {
  const file = safetensors(PLAIN);
  for (const folder of ["transformer/", "unet/", ""]) {
    const params = repository({ [`${folder}diffusion_pytorch_model.safetensors`]: file });
    await same({ ...params, library: "diffusers" });
  }
  const index = shards(2, undefined, "unet/");
  index["unet/diffusion_pytorch_model.safetensors.index.json"] = index["unet/model.safetensors.index.json"];
  delete index["unet/model.safetensors.index.json"];
  await same({ ...repository(index), library: "diffusers" });
});

// ---- Counting -----------------------------------------------------------------------------------------------------------

const QUANTISED = {
  gptq: [
    ["a.qweight", "I32", [8, 16], 512],
    ["a.qzeros", "I32", [2, 2], 16],
    ["a.scales", "F16", [2, 16], 64],
    ["a.g_idx", "I32", [8], 32],
    ["lm_head.weight", "F16", [4, 4], 32],
    ["u.weight", "U8", [6], 6],
  ],
  compressed: [
    ["m.a.weight_packed", "I32", [8, 4], 128],
    ["m.a.weight_scale", "BF16", [8, 1], 16],
    ["m.a.weight_shape", "I64", [2], 16],
    ["m.a.weight_zero_point", "I32", [2], 8],
    ["lm_head.weight_packed", "I32", [4, 4], 64],
    ["m.b.weight_packed", "U8", [4, 4], 16],
    ["m.c.weight", "BF16", [4, 4], 32],
  ],
  mxfp4: [
    ["x.experts.gate_up_proj_blocks", "U8", [2, 4, 16], 128],
    ["x.experts.gate_up_proj_scales", "U8", [2, 4], 8],
    ["x.scale", "F8_E8M0", [4], 4],
    ["x.weight", "BF16", [4], 8],
  ],
  bitsandbytes: [
    ["y.weight", "U8", [32, 1], 32],
    ["y.weight.absmax", "F32", [2], 8],
    ["y.weight.quant_map", "F32", [16], 64],
    ["y.weight.nested_absmax", "F32", [1], 4],
    ["y.weight.quant_state.bitsandbytes__nf4", "U8", [10], 10],
    ["y.SCB", "F32", [2], 8],
    ["z.weight", "I8", [4], 4],
  ],
  mlx: [
    ["q.weight", "U32", [4, 8], 128],
    ["q.scales", "F16", [4, 1], 8],
    ["q.biases", "F16", [4, 1], 8],
    ["r.weight", "U32", [4, 8], 128],
    ["r.scales", "F16", [4, 1], 8],
    ["s.weight", "U32", [2, 2], 16],
    ["t.scales", "F16", [3], 6],
    ["q.bias", "F16", [4], 8],
  ],
  fp8: [
    ["l.experts.0.w1.weight", "I8", [4, 4], 16],
    ["l.shared_experts.0.weight", "I8", [4, 4], 16],
    ["l.weight", "F8_E4M3", [4, 4], 16],
    ["l.weight_scale_inv", "F32", [1], 4],
    ["l.experts.table", "I32", [8], 32],
  ],
};

const CONFIGS = [
  {},
  null,
  7,
  "text",
  { quantization_config: null },
  { quantization_config: {} },
  { quantization_config: { quant_method: "gptq", bits: 4 } },
  { quantization_config: { quant_method: "GPTQ", bits: 3 } },
  { quantization_config: { quant_method: "awq", bits: 8, modules_to_not_convert: ["lm_head"] } },
  { quantization_config: { quant_method: "awq", bits: 2, modules_to_not_convert: ["*weight"] } },
  { quantization_config: { quant_method: "gptq" } },
  {
    quantization_config: {
      quant_method: "compressed-tensors",
      format: "pack-quantized",
      config_groups: { group_0: { targets: ["Linear"], weights: { num_bits: 4 } } },
      ignore: ["lm_head"],
    },
  },
  {
    quantization_config: {
      quant_method: "compressed-tensors",
      format: "mxfp4-pack-quantized",
      config_groups: {
        a: { targets: ["re:.*m\\.a$"], weights: { num_bits: 3 } },
        b: { targets: ["m.b"], format: "int2-pack-quantized" },
      },
      ignore: ["re:^lm_.*", "re:(bad|regex)"],
    },
  },
  { quantization_config: { quant_method: "compressed-tensors", format: "float-quantized" } },
  { quantization_config: { quant_method: "mxfp4", modules_to_not_convert: ["model.*.x"] } },
  { quantization_config: { quant_method: "bitsandbytes", load_in_4bit: true } },
  { quantization_config: { quant_method: "bitsandbytes", load_in_8bit: true } },
  { quantization_config: { load_in_4bit: true } },
  { quantization_config: { quant_method: "other", bits: 4 } },
  { quantization: { group_size: 64, bits: 4 } },
  { quantization: { group_size: 64, bits: 5, mode: "affine", r: { bits: 8, group_size: 32 }, q: false } },
  { quantization: { mode: "mxfp4" } },
  { quantization: { bits: 7 } },
  { quantization_config: { group_size: 32, bits: 3 } },
  { quantization_config: { quant_method: "fp8", expert_dtype: "fp4" } },
  { quantization_config: { quant_method: "fp8" }, expert_dtype: "fp4" },
  { quantization_config: { quant_method: "fp8", store_dtype: "mxfp4" } },
  { text_config: { quantization_config: { quant_method: "fp8" }, expert_dtype: "int2" } },
  { text_config: { quantization: { bits: 4 } } },
];

test("parameters of quantised models of every layout", async () => {
  for (const [layout, tensors] of Object.entries(QUANTISED)) {
    for (const config of CONFIGS) {
      const params = {
        ...repository({ "model.safetensors": safetensors(tensors), "config.json": config }),
        computeParametersCount: true,
      };
      await assert.doesNotReject(same(params), `${layout} ${JSON.stringify(config)}`);
    }
  }
});

test("siblings of MLX's weights may be in another file", async () => {
  const files = shards(2, (k) => QUANTISED.mlx.filter((_, i) => i % 2 === k - 1));
  files["config.json"] = { quantization: { group_size: 64, bits: 4 } };
  await same({ ...repository(files), computeParametersCount: true });
});

test("what metadata state of the number of parameters", async () => {
  for (const stated of ["12", "99999", "-1", "x", ""]) {
    const file = safetensors(PLAIN, { metadata: { total_parameters: stated } });
    await same({ ...repository({ "model.safetensors": file }), computeParametersCount: true });
  }
});

// ---- Errors -------------------------------------------------------------------------------------------------------------

test("what is refused by both", async () => {
  const frame = (text, n = text.length) => {
    const size = Buffer.alloc(8);
    size.writeBigUInt64LE(BigInt(n));
    return Buffer.concat([size, Buffer.from(text)]);
  };
  const index = (weight_map) => ({ metadata: {}, weight_map });
  const cases = [
    [{ "model.safetensors": frame("{]") }, "JSON"],
    [{ "model.safetensors": frame("") }, "HEADER_LENGTH"],
    [{ "model.safetensors": frame('{"a":7}') }, "TYPE"],
    [{ "model.safetensors": frame("{}", 2 ** 40) }, "HEADER_TOO_LARGE"],
    [{ "model.safetensors.index.json": "{" }, "JSON"],
    ...["../a", "%2e%2e/a", "%252e%252e/a", "a\\b", "/a", "https://a/b", "a\u0001"].map((name) => [
      { "model.safetensors.index.json": index({ t: name }) },
      "SHARD_NAME",
    ]),
  ];
  for (const [files, code] of cases) {
    const params = repository(files);
    const [expected, found] = [await outcome(theirs, params), await outcome(ours, params)];
    assert(expected.error !== undefined, `they accept ${code}`);
    assert(found.error instanceof ours.SafetensorParseError, String(found.error?.stack));
    assert.equal(found.error.code, code);
    assert.equal(found.error.name, "SafetensorParseError");
  }
});

test("what only we refuse", async () => {
  const lfs = `version https://git-lfs.github.com/spec/v1\noid sha256:${"a".repeat(64)}\nsize 12345\n`;
  const cases = [
    [{ "model.safetensors": safetensors([["a", "U8", [2], 3]]) }, "SIZE"],
    [
      { "model.safetensors": safetensors(PLAIN, { spell: (text) => text.replace("ln.bias", "wte.weight") }) },
      "DUPLICATE_NAME",
    ],
    [{ "model.safetensors": safetensors([["a", "U8", [9], 9]]).subarray(0, -3) }, "DATA_TRUNCATED"],
    [{ "model.safetensors": lfs }, "IS_LFS_POINTER"],
    [{ "model.safetensors": safetensors(PLAIN, { metadata: { total_parameters: 7 } }) }, "TYPE"],
    [{ "model.safetensors.index.json": { metadata: {} } }, "MISSING_FIELD"],
    [{ "model.safetensors.index.json": '{"weight_map":{"a":"x","a":"y"}}' }, "DUPLICATE_NAME"],
    [{ "model.safetensors.index.json": '{"weight_map":{"a":"x","\\ud800":"x"}}' }, "UTF8"],
  ];
  for (const [files, code] of cases) {
    const { error } = await outcome(ours, repository(files));
    assert.equal(error?.code, code, String(error?.stack));
    assert(error instanceof ours.SafetensorParseError);
  }
});

test("what is not there", async () => {
  const params = repository({});
  const [expected, found] = [await outcome(theirs, params), await outcome(ours, params)];
  assert.equal(found.error.message, expected.error.message);
  for (const repo of ["datasets/a/b", { type: "space", name: "a/b" }, "models/a/b"]) {
    assert((await outcome(theirs, { ...params, repo })).error instanceof TypeError);
    assert((await outcome(ours, { ...params, repo })).error instanceof TypeError);
  }
  const missing = shards(2);
  delete missing["model-00002-of-00002.safetensors"];
  const lacking = repository(missing);
  for (const params of [
    lacking,
    { ...lacking, path: "x.safetensors" },
    { ...lacking, path: "x.safetensors.index.json" },
  ]) {
    assert((await outcome(theirs, params)).error instanceof theirs.SafetensorParseError);
    const { error } = await outcome(ours, params);
    assert(error instanceof ours.SafetensorParseError, String(error?.stack));
    assert.deepEqual([error.code, error.httpStatus], ["NOT_FOUND", 404]);
  }
  // Any other 404, such as of a repository that is not there, is the Hub's.
  const fetch = async () => new Response("", { status: 404, headers: { "X-Error-Code": "RepoNotFound" } });
  for (const [from, error] of [ours, theirs].map((from) => [
    from,
    outcome(from, { ...lacking, fetch, path: "x.safetensors" }),
  ])) {
    assert((await error).error instanceof from.HubApiError);
  }
});

test("what the Hub says of a failure", async () => {
  const headers = { "X-Request-Id": "Root=1-2", "Content-Type": "application/json; charset=utf-8" };
  for (const [body, more] of [
    [JSON.stringify({ error: "Access to model o/m is restricted" }), {}],
    ["no JSON", {}],
    ["<p>none</p>", { "Content-Type": "text/html" }],
  ]) {
    const fetch = async () => new Response(body, { status: 403, headers: { ...headers, ...more } });
    const params = { repo: "o/m", path: "x.safetensors", fetch, hubUrl: "https://hub.invalid" };
    const [mine, other] = [await outcome(ours, params), await outcome(theirs, params)].map(({ error }) => error);
    assert(mine instanceof ours.HubApiError);
    assert.deepEqual([mine.statusCode, mine.requestId], [403, "Root=1-2"]);
    if (other instanceof theirs.HubApiError) {
      assert.deepEqual([mine.statusCode, mine.requestId, mine.data], [other.statusCode, other.requestId, other.data]);
    }
    assert.deepEqual(mine.data, body.startsWith("{") ? JSON.parse(body) : { message: body });
    assert.equal(mine.message.includes("restricted"), body.includes("restricted"));
    assert(!mine.message.includes("<"));
  }
  const error = new ours.HubApiError("https://x", 500, "id", "message");
  assert.deepEqual([error.url, error.statusCode, error.requestId, error.message], ["https://x", 500, "id", "message"]);
});

test("it can be ended", async () => {
  const params = repository(shards(3));
  await assert.rejects(ours.parseSafetensorsMetadata({ ...params, signal: AbortSignal.abort() }), {
    name: "AbortError",
  });
});

// ---- Requests -----------------------------------------------------------------------------------------------------------

async function requests(package_, params) {
  hub.take();
  await package_.parseSafetensorsMetadata(params);
  return hub.take();
}

test("fewer requests", async () => {
  const single = repository({ "model.safetensors": safetensors(PLAIN) });
  assert.equal((await requests(ours, single)).length, 1);
  assert.equal((await requests(theirs, single)).length, 4);
  const long = repository({ "model.safetensors": safetensors(PLAIN, { spell: (text) => text.padEnd(200_000) }) });
  assert.deepEqual(
    (await requests(ours, long)).map(({ range }) => range),
    ["bytes=0-98303", "bytes=98304-200007"],
  );
  const several = repository(shards(40));
  assert.equal((await requests(ours, { ...several, path: "model.safetensors.index.json" })).length, 41);
  assert.equal((await requests(ours, several)).length, 42);
  assert.equal((await requests(theirs, several)).length, 124);
  // From the index it is known how long the headers are, nearly.
  const bytes = (asked) => asked.reduce((sum, { bytes }) => sum + bytes, 0);
  const large = repository(
    shards(9, (k) => Array.from({ length: 3000 }, (_, i) => [`layer.${k}.${i}.weight`, "BF16", [4], 8])),
  );
  const [found, expected] = [await requests(ours, large), await requests(theirs, large)];
  assert.equal(found.length, 11);
  assert(bytes(found) < 1.5 * bytes(expected), `${bytes(found)} and ${bytes(expected)} bytes`);
});

test("what is no token is not sent", async () => {
  const params = repository({ "model.safetensors": safetensors(PLAIN) });
  for (const more of [{ accessToken: "secret" }, { credentials: { accessToken: "secret" } }]) {
    for (const from of [ours, theirs]) {
      await assert.rejects(from.parseSafetensorsMetadata({ ...params, ...more }), TypeError);
    }
  }
  assert.deepEqual(hub.take(), []);
});

test("the token goes along", async () => {
  const params = repository({ "model.safetensors": safetensors(PLAIN) });
  for (const more of [{ accessToken: "hf_a" }, { credentials: { accessToken: "hf_a" } }]) {
    assert.deepEqual(
      (await requests(ours, { ...params, ...more })).map(({ auth }) => auth),
      ["Bearer hf_a"],
    );
  }
});
