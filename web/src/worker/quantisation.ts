// SPDX-License-Identifier: Apache-2.0
/*
 * How a model was quantised. config.json says it, where it is at hand; otherwise the tensors' names and dtypes give a hint. With
 * config.json the parameters can be counted even though several of them are packed in one element.
 */
import { countParameters, type ModelConfig, type QuantizationConfig } from "libcoffer";

import { dtypeAt, nameAt, shapeAt, type Columns } from "../model/columns.js";
import type { DtypeShare, Wanted } from "../model/opened.js";

/** More than any config.json has. */
const MAX_CONFIG_BYTES = 4_000_000;

/** The last parts of names of tensors that a method gives a module, all of which are there. */
const LAYOUTS: readonly [parts: readonly string[], method: string][] = [
  [["qweight", "qzeros", "scales", "g_idx"], "GPTQ"],
  [["qweight", "qzeros", "scales"], "AWQ or GPTQ"],
  [["weight_packed", "weight_scale"], "compressed-tensors"],
  [["weight", "weight_scale_2"], "NVFP4"],
  [["weight", "weight_scale_inv"], "FP8, scaled by blocks"],
  [["weight", "weight_scale"], "scaled weights"],
  [["blocks", "scales"], "MXFP4"],
  [["weight", "scales", "biases"], "MLX"],
  [["weight", "SCB"], "LLM.int8"],
  [["weight", "absmax"], "bitsandbytes, 4 bits"],
];
const INTERESTING = new Set(LAYOUTS.flatMap(([parts]) => parts));
const SMALL_FLOATS = /^F(4$|6_|8_)/;

/** The longest part of a name that is looked at. */
const LONGEST_PART = 64;

/** How a model seems to be quantised; undefined when it does not seem to be. */
export function quantisationHint(columns: Columns, shares: readonly DtypeShare[]): string | undefined {
  const parts = new Set<string>();
  for (let i = 0; i < columns.count; i++) {
    const name = nameAt(columns, i).slice(-LONGEST_PART);
    const last = name.slice(name.lastIndexOf(".") + 1);
    // Of "gate_up_proj_blocks" the part is "blocks".
    parts.add(INTERESTING.has(last) ? last : last.slice(last.lastIndexOf("_") + 1));
  }
  const method = LAYOUTS.find(([wanted]) => wanted.every((part) => parts.has(part)))?.[1];
  const small = shares.filter(({ dtype }) => SMALL_FLOATS.test(dtype)).map(({ dtype }) => dtype);
  return method ?? (small.length > 0 ? small.join(", ") : undefined);
}

async function configText(wanted: Wanted, hint: string | undefined, ask: typeof fetch): Promise<string | undefined> {
  if (wanted.kind === "files") {
    const file = wanted.files.find(({ name }) => name === "config.json");
    return file === undefined || file.size > MAX_CONFIG_BYTES ? undefined : file.text();
  }
  // A request more only where it is of use.
  if (wanted.kind === "url" && hint !== undefined) {
    const response = await ask(new URL("config.json", wanted.url));
    const isSmall = Number(response.headers.get("Content-Length") ?? 0) <= MAX_CONFIG_BYTES;
    return response.ok && isSmall ? response.text() : undefined;
  }
  return undefined;
}

/** The config.json of a model. Without one, or with one that cannot be understood, nothing is lost. */
export async function configOf(
  wanted: Wanted,
  hint: string | undefined,
  ask: typeof fetch,
): Promise<ModelConfig | undefined> {
  try {
    const config: unknown = JSON.parse((await configText(wanted, hint, ask)) ?? "null");
    return typeof config === "object" && config !== null ? config : undefined;
  } catch {
    return undefined;
  }
}

function settingsOf(config: ModelConfig): QuantizationConfig | undefined {
  const { quantization_config, quantization, text_config } = config;
  const found: unknown = quantization_config ?? quantization ?? text_config?.quantization_config;
  return typeof found === "object" && found !== null ? found : undefined;
}

/** What config.json says of quantisation, in a few words: "gptq, 4 bits". */
function wordsOf(settings: QuantizationConfig, isMlx: boolean): string {
  const { quant_method, bits, format, load_in_4bit, load_in_8bit } = settings;
  const method = typeof quant_method === "string" ? quant_method : isMlx ? "MLX" : "quantised";
  const width = load_in_4bit === true ? 4 : load_in_8bit === true ? 8 : bits;
  const more = typeof format === "string" ? `, ${format}` : "";
  return `${method}${typeof width === "number" ? `, ${width} bits` : ""}${more}`;
}

/** The number of parameters; undefined where config.json is not what it should be. */
function countedWith(columns: Columns, config: ModelConfig): bigint | undefined {
  const header = Object.create(null) as Record<string, object>;
  for (let i = 0; i < columns.count; i++) {
    header[nameAt(columns, i)] = { dtype: dtypeAt(columns, i), shape: Array.from(shapeAt(columns, i), Number) };
  }
  try {
    const counts = Object.values(countParameters([header], config));
    return counts.reduce((all, count) => all + BigInt(Math.round(count)), 0n);
  } catch {
    return undefined;
  }
}

export interface Quantisation {
  quantisation: string | undefined;
  /** The number of parameters, where it is not that of the elements. */
  parameters: bigint | undefined;
}

export function quantisationOf(
  columns: Columns,
  hint: string | undefined,
  config: ModelConfig | undefined,
): Quantisation {
  const settings = config === undefined ? undefined : settingsOf(config);
  if (config === undefined || settings === undefined) {
    return { quantisation: hint, parameters: undefined };
  }
  return {
    quantisation: wordsOf(settings, config.quantization !== undefined),
    parameters: countedWith(columns, config),
  };
}
