/* SPDX-License-Identifier: Apache-2.0 */
/* What a rewrite computes from other models (py_merge.c), and what extracting and adding share with it. */
#ifndef PY_MERGE_H
#define PY_MERGE_H

#include "py_model.h"

/* Adapters, models to average, or how quantised layers become plain; none of them: nothing is computed. */
typedef struct py_merge {
    PyObject *kept; /* a list of what texts belong to */
    size_t count;   /* of adapters, or of models with the one that is rewritten */
    const char **paths;
    coffer_adapter *adapters;
    coffer_lora **loras;
    const char **select;
    coffer_lora_options lora;
    py_handle **handles; /* of the models but the first */
    const coffer **models;
    coffer_average_rule *rules;
    double *numbers;
    double *next_number; /* where the next weights go */
    coffer_average_options average;
    coffer_dequantize_options dequantize;
    bool dequantizes;
} py_merge;

/* A pattern that is a str, as C has it, kept by the tuple that it is in; NULL and an exception for anything else. */
const char *py_pattern_text(PyObject *text);
/* From what Python says; None or NULL for nothing. py_merge_free follows in any case. */
int py_merge_init(const py_state *state, py_merge *merge, PyObject *given);
/* Opens the adapters, without the GIL. They are closed by py_merge_free. */
coffer_status py_merge_open(py_merge *merge, coffer_error *err);
/* Plans it, without the GIL. Adapters are opened here, and released after the plan. */
coffer_status py_merge_plan(py_merge *merge, coffer_rewrite **rewrite, const coffer *model,
                            const coffer_rewrite_options *options, coffer_error *err);
void py_merge_free(py_merge *merge);

#endif
