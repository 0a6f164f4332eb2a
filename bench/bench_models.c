/* SPDX-License-Identifier: Apache-2.0 */
/* The headers of three real models, tensor by tensor: names, dtypes and shapes as their files on the Hub have them. */
#include "bench.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *bench_shape_name(bench_shape shape)
{
    static const char *const names[BENCH_SHAPES] = { "GPT-2, 160 tensors", "Llama 70B, 723 tensors",
                                                     "experts, 92,000 tensors" };
    return names[shape];
}

/* Declares a tensor; columns 0: it has one dimension. */
static void declare(coffer_header *header, coffer_dtype dtype, uint64_t rows, uint64_t columns, const char *format, ...)
{
    char name[256];
    va_list values;
    va_start(values, format);
    const int length = vsnprintf(name, sizeof name, format, values);
    va_end(values);
    const uint64_t shape[2] = { rows, columns };
    coffer_error err = { 0 };
    bench_check(coffer_header_add(header, name, (size_t)length, dtype, shape, columns == 0 ? 1 : 2, &err), &err);
}

static void declare_gpt2(coffer_header *header)
{
    declare(header, COFFER_F32, 50257, 768, "wte.weight");
    declare(header, COFFER_F32, 1024, 768, "wpe.weight");
    for (unsigned i = 0; i < 12; i++) {
        char mask[32];
        const int length = snprintf(mask, sizeof mask, "h.%u.attn.bias", i);
        const uint64_t shape[4] = { 1, 1, 1024, 1024 };
        bench_check(coffer_header_add(header, mask, (size_t)length, COFFER_F32, shape, 4, NULL), NULL);
        declare(header, COFFER_F32, 768, 0, "h.%u.ln_1.weight", i);
        declare(header, COFFER_F32, 768, 0, "h.%u.ln_1.bias", i);
        declare(header, COFFER_F32, 768, 2304, "h.%u.attn.c_attn.weight", i);
        declare(header, COFFER_F32, 2304, 0, "h.%u.attn.c_attn.bias", i);
        declare(header, COFFER_F32, 768, 768, "h.%u.attn.c_proj.weight", i);
        declare(header, COFFER_F32, 768, 0, "h.%u.attn.c_proj.bias", i);
        declare(header, COFFER_F32, 768, 0, "h.%u.ln_2.weight", i);
        declare(header, COFFER_F32, 768, 0, "h.%u.ln_2.bias", i);
        declare(header, COFFER_F32, 768, 3072, "h.%u.mlp.c_fc.weight", i);
        declare(header, COFFER_F32, 3072, 0, "h.%u.mlp.c_fc.bias", i);
        declare(header, COFFER_F32, 3072, 768, "h.%u.mlp.c_proj.weight", i);
        declare(header, COFFER_F32, 768, 0, "h.%u.mlp.c_proj.bias", i);
    }
    declare(header, COFFER_F32, 768, 0, "ln_f.weight");
    declare(header, COFFER_F32, 768, 0, "ln_f.bias");
}

static void declare_llama(coffer_header *header)
{
    declare(header, COFFER_BF16, 32000, 8192, "model.embed_tokens.weight");
    declare(header, COFFER_BF16, 32000, 8192, "lm_head.weight");
    declare(header, COFFER_BF16, 8192, 0, "model.norm.weight");
    for (unsigned i = 0; i < 80; i++) {
        declare(header, COFFER_BF16, 8192, 0, "model.layers.%u.input_layernorm.weight", i);
        declare(header, COFFER_BF16, 8192, 0, "model.layers.%u.post_attention_layernorm.weight", i);
        declare(header, COFFER_BF16, 8192, 8192, "model.layers.%u.self_attn.q_proj.weight", i);
        declare(header, COFFER_BF16, 1024, 8192, "model.layers.%u.self_attn.k_proj.weight", i);
        declare(header, COFFER_BF16, 1024, 8192, "model.layers.%u.self_attn.v_proj.weight", i);
        declare(header, COFFER_BF16, 8192, 8192, "model.layers.%u.self_attn.o_proj.weight", i);
        declare(header, COFFER_BF16, 28672, 8192, "model.layers.%u.mlp.gate_proj.weight", i);
        declare(header, COFFER_BF16, 28672, 8192, "model.layers.%u.mlp.up_proj.weight", i);
        declare(header, COFFER_BF16, 8192, 28672, "model.layers.%u.mlp.down_proj.weight", i);
    }
}

/* A weight in FP8 and the scales of its blocks of 128 by 128. */
static void declare_scaled(coffer_header *header, uint64_t rows, uint64_t columns, unsigned layer, const char *part)
{
    declare(header, COFFER_F8_E4M3, rows, columns, "model.layers.%u.%s.weight", layer, part);
    declare(header, COFFER_F32, (rows + 127) / 128, (columns + 127) / 128, "model.layers.%u.%s.weight_scale_inv", layer,
            part);
}

static void declare_gated(coffer_header *header, uint64_t width, unsigned layer, const char *part)
{
    char name[128];
    snprintf(name, sizeof name, "%s.gate_proj", part);
    declare_scaled(header, width, 7168, layer, name);
    snprintf(name, sizeof name, "%s.up_proj", part);
    declare_scaled(header, width, 7168, layer, name);
    snprintf(name, sizeof name, "%s.down_proj", part);
    declare_scaled(header, 7168, width, layer, name);
}

static void declare_experts(coffer_header *header)
{
    declare(header, COFFER_BF16, 129280, 7168, "model.embed_tokens.weight");
    declare(header, COFFER_BF16, 129280, 7168, "lm_head.weight");
    declare(header, COFFER_BF16, 7168, 0, "model.norm.weight");
    for (unsigned i = 0; i < 62; i++) {
        declare(header, COFFER_BF16, 7168, 0, "model.layers.%u.input_layernorm.weight", i);
        declare(header, COFFER_BF16, 7168, 0, "model.layers.%u.post_attention_layernorm.weight", i);
        declare(header, COFFER_BF16, 1536, 0, "model.layers.%u.self_attn.q_a_layernorm.weight", i);
        declare(header, COFFER_BF16, 512, 0, "model.layers.%u.self_attn.kv_a_layernorm.weight", i);
        declare_scaled(header, 1536, 7168, i, "self_attn.q_a_proj");
        declare_scaled(header, 24576, 1536, i, "self_attn.q_b_proj");
        declare_scaled(header, 576, 7168, i, "self_attn.kv_a_proj_with_mqa");
        declare_scaled(header, 32768, 512, i, "self_attn.kv_b_proj");
        declare_scaled(header, 7168, 16384, i, "self_attn.o_proj");
        if (i < 3) {
            declare_gated(header, 18432, i, "mlp");
            continue;
        }
        declare(header, COFFER_BF16, 256, 7168, "model.layers.%u.mlp.gate.weight", i);
        declare(header, COFFER_F32, 256, 0, "model.layers.%u.mlp.gate.e_score_correction_bias", i);
        declare_gated(header, 2048, i, "mlp.shared_experts");
        for (unsigned expert = 0; expert < 256; expert++) {
            char part[64];
            snprintf(part, sizeof part, "mlp.experts.%u", expert);
            declare_gated(header, 2048, i, part);
        }
    }
}

static coffer_header *new_header(void)
{
    coffer_error err = { 0 };
    coffer_header *header = NULL;
    bench_check(coffer_header_new(&header, NULL, &err), &err);
    return header;
}

coffer_header *bench_model(bench_shape shape)
{
    coffer_header *header = new_header();
    bench_check(coffer_header_set_metadata(header, "format", 6, "pt", 2, NULL), NULL);
    if (shape == BENCH_GPT2) {
        declare_gpt2(header);
    } else if (shape == BENCH_LLAMA) {
        declare_llama(header);
    } else {
        declare_experts(header);
    }
    return header;
}

coffer_header *bench_matrix(uint64_t rows, uint64_t columns)
{
    coffer_header *header = new_header();
    declare(header, COFFER_F32, rows, columns, "data");
    return header;
}
