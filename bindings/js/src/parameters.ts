// SPDX-License-Identifier: Apache-2.0
/*
 * How many parameters a model has, when quantisation has packed several of them into an element. What was packed, and how,
 * is known from config.json and from the names that each method gives its tensors. Every tensor has a share: how many
 * parameters an element of it stands for, 0 when it only says how to unpack others. The numbers are those that
 * @huggingface/hub 2.17.5 counts; names and configurations are untrusted, and no regular expression is made of them.
 */

/** What config.json says of quantisation: the `quantization_config`, or MLX's `quantization`. */
export interface QuantizationConfig {
  quant_method?: string;
  /** Of experts, when it differs from the rest. */
  expert_dtype?: string;
  store_dtype?: string;
  /** MLX's. */
  mode?: string;
  group_size?: number;
  bits?: number;
  load_in_4bit?: boolean;
  load_in_8bit?: boolean;
  /** compressed-tensors'. */
  format?: string;
  config_groups?: Record<string, { format?: string; targets?: string[]; weights?: { num_bits?: number } }>;
  /** What is left as it was. */
  modules_to_not_convert?: string[];
  ignore?: string[];
}

export type MlxQuantizationConfig = QuantizationConfig & Record<string, unknown>;

/** A model's config.json, as far as it matters here. */
export interface ModelConfig {
  quantization?: MlxQuantizationConfig;
  quantization_config?: QuantizationConfig | MlxQuantizationConfig;
  expert_dtype?: string;
  text_config?: Pick<ModelConfig, "expert_dtype" | "quantization" | "quantization_config">;
}

/** What is counted: tensors by name, among which metadata may be. */
export type CountedHeader = object;
interface Counted {
  dtype: string;
  shape: readonly number[];
}

/** Parameters that an element of a tensor stands for. */
type Share = (name: string, dtype: string) => number;

function tensorsOf(header: CountedHeader): [name: string, tensor: Counted][] {
  return Object.entries(header as Record<string, Counted>).filter(([name]) => name !== "__metadata__");
}

// ---- Names --------------------------------------------------------------------------------------------------------------

/** Exponents alone: they hold scales, whatever they are called. */
const SCALE_DTYPES: ReadonlySet<string> = new Set(["F8_E8M0", "E8M0", "UE8"]);

/** With any method: what weights are scaled and shifted by. */
const SCALES: ReadonlySet<string> = new Set([
  "weight_scale",
  "weight_scale_inv",
  "weight_scale_2",
  "weight_global_scale",
  "weight_zero_point",
  "input_scale",
  "input_global_scale",
  "input_zero_point",
  "zero_point",
  "weight_shape",
  "weight_g_idx",
]);
const GPTQ_HELPERS: ReadonlySet<string> = new Set(["qzeros", "g_idx", "scales"]);
const BITSANDBYTES_HELPERS: ReadonlySet<string> = new Set(["absmax", "quant_map", "nested_absmax", "nested_quant_map"]);

function lastPart(name: string): string {
  return name.slice(name.lastIndexOf(".") + 1);
}

/** The module that a tensor belongs to. */
function moduleOf(name: string): string {
  const dot = name.lastIndexOf(".");
  return dot < 0 ? name : name.slice(0, dot);
}

/** Without ".weight" and what follows it: "x.weight_packed" is of the module "x". */
function moduleOfWeight(name: string): string {
  const at = name.lastIndexOf(".weight");
  return at < 0 ? name : name.slice(0, at);
}

/** Whether a whole text matches a pattern in which `*` is any text. */
export function globMatch(pattern: string, text: string): boolean {
  const [first = "", ...rest] = pattern.split("*");
  const last = rest.pop();
  if (last === undefined) {
    return pattern === text;
  }
  if (text.length < first.length + last.length || !text.startsWith(first) || !text.endsWith(last)) {
    return false;
  }
  const end = text.length - last.length;
  let at = first.length;
  for (const part of rest) {
    const found = text.indexOf(part, at);
    if (found < 0 || found + part.length > end) {
      return false;
    }
    at = found + part.length;
  }
  return true;
}

/**
 * Whether a target of compressed-tensors is a module: its name, or after "re:" a regular expression, of which `.*`, `\.`
 * and anchors are understood. One with more in it matches nothing.
 */
export function matchesCompressedTensorsTarget(target: string, moduleName: string): boolean {
  if (!target.startsWith("re:")) {
    return target === moduleName;
  }
  const body = target.slice(3).replace(/^\^/, "");
  const whole = body.endsWith("$") ? body.slice(0, -1) : `${body}.*`;
  const glob = whole.replaceAll(".*", "*").replaceAll("\\.", ".");
  return !/[\\+?()[\]{}|^$]/.test(glob) && globMatch(glob, moduleName);
}

// ---- Bits ---------------------------------------------------------------------------------------------------------------

const CONTAINER_BITS: Readonly<Record<string, number>> = { U8: 8, I8: 8, U16: 16, I16: 16, U32: 32, I32: 32 };
const FORMAT_BITS: readonly [part: string, bits: number][] = [
  ["fp4", 4],
  ["int4", 4],
  ["nf4", 4],
  ["int2", 2],
];

/** The bits that a format's name speaks of: "mxfp4-pack-quantized" has 4. */
function bitsOfFormat(format: unknown): number | undefined {
  const text = typeof format === "string" ? format.toLowerCase() : "";
  return FORMAT_BITS.find(([part]) => text.includes(part))?.[1];
}

/** How many numbers of so many bits an element of a dtype holds: not always a whole number, for they are packed densely. */
function packed(dtype: string, bits: number | undefined): number {
  const container = CONTAINER_BITS[dtype];
  return container === undefined || !bits || bits <= 0 || bits >= container ? 1 : container / bits;
}

// ---- Methods ------------------------------------------------------------------------------------------------------------

function methodOf(config: QuantizationConfig | undefined): string | undefined {
  return typeof config?.quant_method === "string" ? config.quant_method.toLowerCase() : undefined;
}

/** Whether the configuration leaves a tensor as it was. */
function isLeftOut(name: string, config: QuantizationConfig): boolean {
  const module = moduleOfWeight(name);
  return (
    (config.ignore ?? []).some((target) => matchesCompressedTensorsTarget(target, module)) ||
    (config.modules_to_not_convert ?? []).some((pattern) =>
      pattern.includes("*") ? globMatch(pattern, name) : name.includes(pattern),
    )
  );
}

function gptqShare(config: QuantizationConfig): Share {
  const bits = config.bits !== undefined && config.bits > 0 ? config.bits : 4;
  return (name, dtype) => {
    if (lastPart(name) === "qweight") {
      return Math.max(1, Math.floor(32 / bits));
    }
    return dtype === "U8" && (config.bits === 4 || config.bits === 2) ? 8 / config.bits : 1;
  };
}

function compressedShare(config: QuantizationConfig): Share {
  const groups = Object.values(config.config_groups ?? {});
  const anyBits = groups.find(({ weights }) => weights?.num_bits)?.weights?.num_bits;
  return (name, dtype) => {
    if (CONTAINER_BITS[dtype] === undefined) {
      return 1;
    }
    const module = moduleOfWeight(name);
    const group = groups.find(({ targets }) =>
      targets?.some((target) => matchesCompressedTensorsTarget(target, module)),
    );
    const format = (group?.format ?? config.format)?.toLowerCase();
    if (!format?.endsWith("pack-quantized")) {
      return 1;
    }
    return packed(dtype, group?.weights?.num_bits ?? anyBits ?? bitsOfFormat(format) ?? 4);
  };
}

/** Weights of 8 bits, but experts may be of fewer. */
function fp8Share(config: QuantizationConfig, expertDtype: string | undefined): Share {
  const bits = bitsOfFormat(config.expert_dtype ?? expertDtype ?? config.store_dtype);
  return (name, dtype) => (name.includes(".experts.") && !name.includes("shared_experts") ? packed(dtype, bits) : 1);
}

/** What a method packs, in tensors that are not left out. */
function packedShare(config: QuantizationConfig, expertDtype: string | undefined): Share {
  switch (methodOf(config)) {
    case "gptq":
    case "awq":
      return gptqShare(config);
    case "compressed-tensors":
      return compressedShare(config);
    case "fp8":
      return fp8Share(config, expertDtype);
    case "mxfp4":
      return (name, dtype) => (dtype === "U8" && name.includes("_blocks") ? 2 : 1);
    case "bitsandbytes":
      return (_, dtype) => (dtype === "U8" && config.load_in_4bit ? 2 : 1);
    default:
      return (_, dtype) => (dtype === "U8" && (config.load_in_4bit || config.bits === 4) ? 2 : 1);
  }
}

/** What only says how to unpack, by the method's own names. */
function helperOf(config: QuantizationConfig): (name: string, dtype: string) => boolean {
  switch (methodOf(config)) {
    case "gptq":
    case "awq":
      return (name) => GPTQ_HELPERS.has(lastPart(name)) && !isLeftOut(name, config);
    case "mxfp4":
      return (name, dtype) => dtype === "U8" && lastPart(name).endsWith("_scales");
    case "bitsandbytes":
      return (name) => BITSANDBYTES_HELPERS.has(lastPart(name)) || lastPart(name).startsWith("bitsandbytes__");
    default:
      return () => false;
  }
}

function shareOf(config: QuantizationConfig, expertDtype: string | undefined): Share {
  const share = packedShare(config, expertDtype);
  const isHelper = helperOf(config);
  return (name, dtype) => (isHelper(name, dtype) ? 0 : isLeftOut(name, config) ? 1 : share(name, dtype));
}

// ---- MLX ----------------------------------------------------------------------------------------------------------------

interface MlxParameters {
  bits: number;
  mode: string;
}

/** The modes: which bits and which group sizes each has, the usual ones first. */
const MLX_MODES: ReadonlyMap<string, { bits: readonly number[]; groups: readonly number[] }> = new Map([
  ["affine", { bits: [4, 2, 3, 5, 6, 8], groups: [64, 32, 128] }],
  ["mxfp4", { bits: [4], groups: [32] }],
  ["nvfp4", { bits: [4], groups: [16] }],
  ["mxfp8", { bits: [8], groups: [32] }],
]);

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function mlxParameters(of: Readonly<Record<string, unknown>>): MlxParameters | undefined {
  const named = of.mode ?? "affine";
  const mode = typeof named === "string" && of.mode !== null ? named.toLowerCase() : "";
  const known = MLX_MODES.get(mode);
  const bits = (of.bits ?? known?.bits[0]) as number;
  const group = (of.group_size ?? known?.groups[0]) as number;
  return known?.bits.includes(bits) && known.groups.includes(group) ? { bits, mode } : undefined;
}

/** Whether it speaks of MLX's parameters, and they are some that MLX has. */
function isMlx(config: Readonly<Record<string, unknown>>): boolean {
  const states = (of: Record<string, unknown>) =>
    ("bits" in of || "group_size" in of || "mode" in of) && mlxParameters(of) !== undefined;
  return states(config) || Object.values(config).some((value) => isObject(value) && states(value));
}

/** The parameters of a tensor: its module's own, if those are stated. */
function mlxParametersOf(name: string, config: MlxQuantizationConfig): MlxParameters | undefined {
  const own = config[moduleOf(name)];
  return own === false ? undefined : mlxParameters(isObject(own) ? own : config);
}

/** Modules that are packed indeed: a U32 weight with scales beside it, and with biases where the mode has them. */
function mlxModules(headers: readonly CountedHeader[], config: MlxQuantizationConfig): ReadonlySet<string> {
  const with_ = { scales: new Set<string>(), biases: new Set<string>(), weight: new Set<string>() };
  for (const header of headers) {
    for (const [name, { dtype }] of tensorsOf(header)) {
      const part = lastPart(name);
      if (part === "scales" || part === "biases" || (part === "weight" && dtype === "U32")) {
        with_[part].add(moduleOf(name));
      }
    }
  }
  return new Set(
    [...with_.weight].filter((module) => {
      const parameters = mlxParametersOf(`${module}.weight`, config);
      return (
        parameters !== undefined &&
        with_.scales.has(module) &&
        (parameters.mode !== "affine" || with_.biases.has(module))
      );
    }),
  );
}

/** What an element of a packed weight stands for. */
function mlxPacked(name: string, dtype: string, { bits }: MlxParameters): number {
  return lastPart(name) === "weight" && dtype === "U32" ? packed(dtype, bits) : 1;
}

function mlxShare(config: MlxQuantizationConfig, modules: ReadonlySet<string>): Share {
  return (name, dtype) => {
    const parameters = modules.has(moduleOf(name)) ? mlxParametersOf(name, config) : undefined;
    if (parameters === undefined) {
      return 1;
    }
    const part = lastPart(name);
    const isHelper = part === "scales" || (part === "biases" && parameters.mode === "affine");
    return isHelper ? 0 : mlxPacked(name, dtype, parameters);
  };
}

// ---- One tensor ---------------------------------------------------------------------------------------------------------

/**
 * Whether a configuration quantises a tensor, by the tensor's name. `mlxQuantizedModules` are the modules of MLX that are
 * packed in the file; without them the configuration alone decides.
 */
export function isQuantizedTensor(
  tensorName: string,
  quantConfig?: QuantizationConfig,
  mlxQuantizedModules?: ReadonlySet<string>,
): boolean {
  if (quantConfig === undefined) {
    return false;
  }
  if (methodOf(quantConfig) !== "mlx") {
    return !isLeftOut(tensorName, quantConfig);
  }
  const isPacked = mlxQuantizedModules?.has(moduleOf(tensorName)) ?? true;
  return isPacked && mlxParametersOf(tensorName, quantConfig as MlxQuantizationConfig) !== undefined;
}

/** How many parameters an element of a tensor stands for; 1 for what is not quantised, and for scales and the like. */
export function getQuantizationMultiplier(
  tensorName: string,
  dtype: string,
  quantConfig?: QuantizationConfig,
  expertDtype?: string,
  mlxQuantizedModules?: ReadonlySet<string>,
): number {
  if (quantConfig === undefined || !isQuantizedTensor(tensorName, quantConfig, mlxQuantizedModules)) {
    return 1;
  }
  return methodOf(quantConfig) === "mlx"
    ? mlxPacked(tensorName, dtype, mlxParametersOf(tensorName, quantConfig as MlxQuantizationConfig)!)
    : packedShare(quantConfig, expertDtype)(tensorName, dtype);
}

// ---- Counting -----------------------------------------------------------------------------------------------------------

/** What config.json says of quantisation; `method` "mlx" where that was found out. */
function quantisationOf(config: ModelConfig | undefined): QuantizationConfig | undefined {
  const own = config?.quantization;
  const usual = config?.quantization_config;
  for (const candidate of [own, usual]) {
    const isUnsaid = isObject(candidate) && (candidate.quant_method === undefined || methodOf(candidate) === "mlx");
    if (isUnsaid && isMlx(candidate)) {
      return { ...candidate, quant_method: "mlx" };
    }
  }
  return isObject(usual) ? usual : undefined;
}

/** Parameters by dtype of several headers, by a configuration that was found. */
function countBy(
  headers: readonly CountedHeader[],
  quantisation: QuantizationConfig | undefined,
  expertDtype: string | undefined,
): Record<string, number> {
  let share: Share = () => 1;
  if (quantisation !== undefined) {
    share =
      methodOf(quantisation) === "mlx"
        ? mlxShare(quantisation as MlxQuantizationConfig, mlxModules(headers, quantisation as MlxQuantizationConfig))
        : shareOf(quantisation, expertDtype);
  }
  const counts: Record<string, number> = {};
  for (const header of headers) {
    for (const [name, { dtype, shape }] of tensorsOf(header)) {
      const isScale = SCALE_DTYPES.has(dtype) || (quantisation !== undefined && SCALES.has(lastPart(name)));
      const elements = shape.reduce((a, b) => a * b, 1);
      const of = isScale || shape.length === 0 || !Number.isFinite(elements) ? 0 : share(name, dtype);
      if (of > 0) {
        counts[dtype] = (counts[dtype] ?? 0) + Math.round(elements * of);
      }
    }
  }
  return counts;
}

/** Parameters by dtype, of all headers of a model, as @huggingface/hub counts them: scalars do not count. */
export function countParameters(
  headers: readonly CountedHeader[],
  config?: ModelConfig | null,
): Record<string, number> {
  // What is not an object has no such properties, and null is as good as nothing.
  const known = config ?? undefined;
  const quantisation = quantisationOf(known) ?? quantisationOf(known?.text_config);
  return countBy(headers, quantisation, known?.expert_dtype ?? known?.text_config?.expert_dtype);
}

/** Parameters by dtype of one header, by the `quantization_config` that is given. */
export function computeNumOfParamsByDtypeSingleFile(
  header: CountedHeader,
  quantConfig?: QuantizationConfig,
  expertDtype?: string,
): Record<string, number> {
  return countBy([header], quantConfig, expertDtype);
}
