/* SPDX-License-Identifier: Apache-2.0 */
/* coffer._native.doctor: what is wrong with a model and its folder, as tuples. */
#include "py_model.h"

#include <string.h>

/* Text of a file that nobody trusts, which need not be UTF-8; None for NULL. */
static PyObject *doctor_text(const char *text, size_t text_len)
{
    return text == NULL ? Py_NewRef(Py_None) : PyUnicode_DecodeUTF8(text, (Py_ssize_t)text_len, "backslashreplace");
}

/* Appends an object that is taken over, and may be NULL after a failure; the list goes with it then. */
static void doctor_append(PyObject **list, PyObject *object)
{
    if (*list != NULL && (object == NULL || PyList_Append(*list, object) < 0)) {
        Py_CLEAR(*list);
    }
    Py_XDECREF(object);
}

static PyObject *doctor_words(const coffer_doctor_step *step)
{
    PyObject *words = PyTuple_New((Py_ssize_t)step->count);
    for (size_t i = 0; words != NULL && i < step->count; i++) {
        PyObject *word = PyUnicode_DecodeFSDefault(step->words[i]);
        if (word == NULL || PyTuple_SetItem(words, (Py_ssize_t)i, word) < 0) {
            Py_CLEAR(words);
        }
    }
    return words;
}

static PyObject *doctor_steps(const coffer_doctor_finding *finding)
{
    static const char *const actions[] = { "coffer", "remove", "rename", "copy", "program" };
    PyObject *steps = PyList_New(0);
    for (size_t i = 0; steps != NULL && i < finding->step_count; i++) {
        PyObject *words = doctor_words(&finding->steps[i]);
        doctor_append(&steps, words == NULL ? NULL : Py_BuildValue("(sN)", actions[finding->steps[i].action], words));
    }
    return steps;
}

static PyObject *doctor_finding(const coffer_doctor_finding *finding)
{
    const bool placed = finding->offset != COFFER_NO_OFFSET;
    return Py_BuildValue("(sssNNNNKNO)", coffer_severity_name(finding->severity), finding->kind,
                         coffer_evidence_name(finding->evidence), PyUnicode_DecodeFSDefault(finding->file),
                         doctor_text(finding->tensor, finding->tensor_len),
                         placed ? PyLong_FromUnsignedLongLong(finding->offset) : Py_NewRef(Py_None),
                         doctor_text(finding->message, strlen(finding->message)), (unsigned long long)finding->more,
                         doctor_steps(finding), finding->fixes ? Py_True : Py_False);
}

static PyObject *doctor_findings(const coffer_diagnosis *diagnosis)
{
    const coffer_doctor_finding *finding = NULL;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && (finding = coffer_diagnosis_finding_at(diagnosis, i)) != NULL; i++) {
        doctor_append(&list, doctor_finding(finding));
    }
    return list;
}

static PyObject *doctor_models(const coffer_diagnosis *diagnosis)
{
    const coffer_doctor_model *model = NULL;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && (model = coffer_diagnosis_model_at(diagnosis, i)) != NULL; i++) {
        doctor_append(&list, Py_BuildValue("(NNKKK)", PyUnicode_DecodeFSDefault(model->name),
                                           doctor_text(model->type, model->type == NULL ? 0 : strlen(model->type)),
                                           (unsigned long long)model->file_count,
                                           (unsigned long long)model->tensor_count, (unsigned long long)model->size));
    }
    return list;
}

/* {subject: (looked at, passed over)} */
static PyObject *doctor_scope(const coffer_doctor_summary *summary)
{
    PyObject *scope = PyDict_New();
    for (int i = 0; scope != NULL && i < COFFER_DOCTOR_SUBJECT_COUNT; i++) {
        PyObject *counts = Py_BuildValue("(KK)", (unsigned long long)summary->looked_at[i],
                                         (unsigned long long)summary->passed_over[i]);
        if (counts == NULL ||
            PyDict_SetItemString(scope, coffer_doctor_subject_name((coffer_doctor_subject)i), counts) < 0) {
            Py_CLEAR(scope);
        }
        Py_XDECREF(counts);
    }
    return scope;
}

static PyObject *doctor_reported(const coffer_diagnosis *diagnosis)
{
    const coffer_doctor_summary *summary = coffer_diagnosis_summarize(diagnosis);
    return Py_BuildValue("(KKKNNNO)", (unsigned long long)summary->errors, (unsigned long long)summary->warnings,
                         (unsigned long long)summary->notes, doctor_findings(diagnosis), doctor_models(diagnosis),
                         doctor_scope(summary), summary->unreadable ? Py_True : Py_False);
}

/* Between steps, where nothing is counted, only signals are looked for. */
static int doctor_progress(void *ctx, uint64_t done, uint64_t total)
{
    py_watch *watch = ctx;
    PyObject *progress = watch->progress;
    watch->progress = total == 0 ? NULL : progress;
    const int answer = watch->options.progress(watch, done, total);
    watch->progress = progress;
    return answer;
}

static PyObject *doctor_run(const py_state *state, const char *path, coffer_doctor_options *options, PyObject *progress)
{
    py_watch watch;
    coffer_error err;
    coffer_diagnosis *diagnosis = NULL;
    py_watch_begin(&watch, progress, 0);
    options->progress = doctor_progress;
    options->progress_ctx = &watch;
    const coffer_status status = coffer_doctor(&diagnosis, path, options, &err);
    py_watch_finish(&watch);
    PyObject *reported = status == COFFER_OK ? doctor_reported(diagnosis) : py_raise(state, &err);
    coffer_diagnosis_free(diagnosis);
    return reported;
}

PyObject *py_doctor(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = { "path", "against", "against_path", "data", "progress", NULL };
    const py_state *state = PyModule_GetState(module);
    PyObject *path = NULL;
    PyObject *against = Py_None;
    PyObject *against_path = NULL;
    PyObject *progress = NULL;
    int data = 0;
    coffer_doctor_options options = COFFER_DOCTOR_OPTIONS_INIT;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|OO&pO:doctor", keywords, py_to_path, &path, &against, py_to_path,
                                     &against_path, &data, &progress)) {
        return NULL;
    }
    const bool compared = against != Py_None && PyObject_TypeCheck(against, (PyTypeObject *)state->model_type);
    py_handle *handle = compared ? py_model_use(against) : NULL;
    PyObject *reported = NULL;
    if (against == Py_None || handle != NULL) {
        options.data = data != 0;
        options.against = handle != NULL ? py_handle_model(handle) : NULL;
        options.against_path = against_path != NULL ? PyBytes_AsString(against_path) : NULL;
        reported = doctor_run(state, PyBytes_AsString(path), &options, progress);
    } else if (!compared) {
        py_fail_call(PY_WRONG_TYPE, "what a model is compared with is a model");
    }
    py_handle_release(handle);
    Py_XDECREF(against_path);
    Py_DECREF(path);
    return reported;
}
