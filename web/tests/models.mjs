// SPDX-License-Identifier: Apache-2.0
/* Models for tests, by their headers; the data are zeros. */
import { safetensors } from "./page.mjs";

export const BITS = { F32: 32, BF16: 16, F16: 16, I64: 64, I32: 32, U8: 8, F8_E4M3: 8 };

/** A file with these tensors, one after the other: [name, dtype, shape][]. */
export function fileOf(tensors, metadata) {
  const header = Object.assign(Object.create(null), metadata === undefined ? {} : { __metadata__: metadata });
  let end = 0;
  for (const [name, dtype, shape] of tensors) {
    const begin = end;
    end += (shape.reduce((all, dimension) => all * dimension, 1) * BITS[dtype]) / 8;
    header[name] = { dtype, shape, data_offsets: [begin, end] };
  }
  return { bytes: safetensors(header, 0), dataSize: end, header };
}

/** The tensors of a small language model. */
export function language(layers, width = 64) {
  const all = [["model.embed_tokens.weight", "BF16", [1000, width]]];
  for (let i = 0; i < layers; i++) {
    const layer = `model.layers.${i}`;
    all.push([`${layer}.input_layernorm.weight`, "F32", [width]]);
    for (const part of ["q_proj", "k_proj", "v_proj", "o_proj"]) {
      all.push([`${layer}.self_attn.${part}.weight`, "BF16", [width, width]]);
    }
    for (const part of ["gate_proj", "up_proj"]) {
      all.push([`${layer}.mlp.${part}.weight`, "F8_E4M3", [4 * width, width]]);
    }
    all.push([`${layer}.mlp.down_proj.weight`, "F16", [width, 4 * width]]);
  }
  all.push(["model.norm.weight", "F32", [width]], ["lm_head.weight", "BF16", [1000, width]], ["steps", "I64", []]);
  return all;
}

/** A whole file of tensors. */
export function model(tensors, metadata) {
  const { header, dataSize } = fileOf(tensors, metadata);
  return safetensors(header, dataSize);
}

/** 92,000 tensors, as a mixture of experts of 60 layers has; their data take a few bytes each. */
export function experts() {
  const all = [];
  for (let layer = 0; layer < 60; layer++) {
    for (let expert = 0; expert < 256; expert++) {
      for (const part of ["gate_proj", "up_proj", "down_proj"]) {
        const name = `model.layers.${layer}.mlp.experts.${expert}.${part}`;
        all.push([`${name}.weight`, "F8_E4M3", [8]], [`${name}.weight_scale_inv`, "F32", [2]]);
      }
    }
  }
  return all.slice(0, 92_000);
}
