/* SPDX-License-Identifier: Apache-2.0 */
/* Quantisation: whether the tensors are there that the method in config.json packs weights into, and the other way round. */
#include "checkup.h"

#include <stdlib.h>
#include <string.h>

/* A method, and the end of the names of its packed weights; or, without one, the dtypes that they may have. */
typedef struct quant_method {
    const char *name;
    const char *ending;
    coffer_dtype dtypes[3];
} quant_method;

static const quant_method METHODS[] = {
    { "gptq", ".qweight", { COFFER_UNKNOWN_DTYPE } },
    { "awq", ".qweight", { COFFER_UNKNOWN_DTYPE } },
    { "mxfp4", "_blocks", { COFFER_UNKNOWN_DTYPE } },
    { "bitsandbytes", NULL, { COFFER_U8, COFFER_I8, COFFER_UNKNOWN_DTYPE } },
    { "fp8", NULL, { COFFER_F8_E4M3, COFFER_F8_E5M2, COFFER_F8_E4M3FNUZ } },
    { "fbgemm_fp8", NULL, { COFFER_F8_E4M3, COFFER_F8_E4M3FNUZ, COFFER_UNKNOWN_DTYPE } },
    { "compressed-tensors", NULL, { COFFER_I32, COFFER_I8, COFFER_F8_E4M3 } },
};

static bool tensor_ends(const coffer_tensor *tensor, const char *ending)
{
    const size_t len = strlen(ending);
    return tensor->name_len > len && memcmp(tensor->name + tensor->name_len - len, ending, len) == 0;
}

static bool is_packed(const coffer_tensor *tensor, const quant_method *method)
{
    bool packed = method->ending != NULL && tensor_ends(tensor, method->ending);
    for (size_t i = 0; i < 3 && method->ending == NULL; i++) {
        packed = packed || (method->dtypes[i] != COFFER_UNKNOWN_DTYPE && tensor->dtype == method->dtypes[i]);
    }
    return packed || (method->ending == NULL && tensor_ends(tensor, "weight_packed"));
}

static const coffer_tensor *first_packed(const coffer *model, const quant_method *method)
{
    for (size_t i = 0; i < coffer_count(model); i++) {
        if (is_packed(coffer_at(model, i), method)) {
            return coffer_at(model, i);
        }
    }
    return NULL;
}

static const coffer__json_node *quantisation_of(const coffer__document *config, const coffer__json_node *object)
{
    const coffer__json_node *node = coffer__document_member(config, object, "quantization_config");
    node = node != NULL ? node : coffer__document_member(config, object, "quantization");
    return node != NULL && node->kind == '{' ? node : NULL;
}

/* Packed weights that no config.json tells how to unpack. */
static void check_unsaid(const coffer__doctor_folder *folder, const char *name, const coffer *model)
{
    const quant_method packed = { "", ".qweight", { COFFER_UNKNOWN_DTYPE } };
    const coffer_tensor *tensor = first_packed(model, &packed);
    if (tensor == NULL || coffer__doctor_has(folder, "quantize_config.json") ||
        coffer__doctor_has(folder, "quant_config.json")) {
        return;
    }
    coffer__finding *finding =
        coffer__doctor_add_in(folder, COFFER_SEVERITY_WARNING, "quantisation_unsaid", name,
                              "the weights are quantised, and config.json has no quantization_config that says how");
    coffer__doctor_about(folder->doctor, finding, tensor->name, tensor->name_len);
}

bool coffer__doctor_check_quantisation(const coffer__doctor_folder *folder, const char *name,
                                       const coffer__document *config, const coffer__json_node *root,
                                       const coffer__json_node *scope, const coffer *model)
{
    const coffer__json_node *node = quantisation_of(config, root);
    node = node != NULL ? node : quantisation_of(config, scope);
    if (node == NULL) {
        check_unsaid(folder, name, model);
        return false;
    }
    const coffer__json_node *method = coffer__document_member(config, node, "quant_method");
    for (size_t i = 0; i < sizeof METHODS / sizeof METHODS[0]; i++) {
        if (coffer__document_is(config, method, METHODS[i].name) && first_packed(model, &METHODS[i]) == NULL) {
            coffer__doctor_add_in(folder, COFFER_SEVERITY_ERROR, "quantisation_missing", name,
                                  "config.json says that the weights are quantised by %s, and none of them are",
                                  METHODS[i].name);
        }
    }
    return true;
}
