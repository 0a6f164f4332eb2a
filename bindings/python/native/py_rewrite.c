/* SPDX-License-Identifier: Apache-2.0 */
/* Model.rewrite: the model written again by rules, or only what that would do. */
#include "py_merge.h"
#include "py_model.h"

#include <string.h>

/* What the library borrows while a rewrite is planned and run: the texts belong to the tuples. */
typedef struct rewrite_rules {
    coffer_rewrite_rule *rules;
    coffer_edit *edits;
    PyObject *given; /* the tuples that the two come from */
    PyObject *given_edits;
} rewrite_rules;

static void rewrite_rules_free(rewrite_rules *rules)
{
    PyMem_Free(rules->rules);
    PyMem_Free(rules->edits);
    Py_XDECREF(rules->given);
    Py_XDECREF(rules->given_edits);
}

/* A str without NUL, as C has it, borrowed; NULL and an exception for anything else. */
static const char *rewrite_text(PyObject *text)
{
    Py_ssize_t size = 0;
    const char *found = py_text(text, "what a rule is made of", &size);
    if (found != NULL && strlen(found) != (size_t)size) {
        py_fail_call(PY_WRONG_VALUE, "a pattern or name of a rule has no NUL in it; ? stands for one");
        return NULL;
    }
    return found;
}

/* A rule of (what is done, pattern, name or dtype or None). */
static int rewrite_rule_from(const py_state *state, coffer_rewrite_rule *rule, PyObject *triple)
{
    static const char *const kinds[] = {
        "drop", "keep", "rename", "cast", "rename exact", "rename regex", "rename regex all", "rename map", "layers",
    };
    PyObject *items[3];
    if (py_unpack(triple, "a rule is what is done, a pattern, and the new name or dtype", items, 3) < 0) {
        return -1;
    }
    const char *kind = rewrite_text(items[0]);
    rule->pattern = kind == NULL ? NULL : rewrite_text(items[1]);
    const char *to = rule->pattern == NULL || items[2] == Py_None ? NULL : rewrite_text(items[2]);
    if (PyErr_Occurred() != NULL) {
        return -1;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kind, kinds[i]) == 0) {
            rule->kind = (coffer_rewrite_kind)(i + 1);
        }
    }
    if (rule->kind == COFFER_REWRITE_CAST && to != NULL) {
        rule->dtype = coffer_dtype_from_name(to, strlen(to));
    }
    rule->name = to;
    return rule->kind != 0
               ? 0
               : (py_fail(state, COFFER_ERR_ARGUMENT, "a rule drops, keeps, renames or casts, or chooses layers"), -1);
}

static int rewrite_rules_init(const py_state *state, rewrite_rules *rules, PyObject *given, PyObject *given_edits,
                              coffer_rewrite_options *options)
{
    memset(rules, 0, sizeof *rules);
    rules->given = PySequence_Tuple(given);
    rules->given_edits = rules->given == NULL ? NULL : PySequence_Tuple(given_edits);
    if (rules->given_edits == NULL) {
        return -1;
    }
    options->rule_count = (size_t)PyTuple_Size(rules->given);
    options->edit_count = (size_t)PyTuple_Size(rules->given_edits);
    rules->rules = PyMem_Calloc(options->rule_count + 1, sizeof *rules->rules);
    rules->edits = PyMem_Calloc(options->edit_count + 1, sizeof *rules->edits);
    if (rules->rules == NULL || rules->edits == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int ready = 0;
    for (size_t i = 0; i < options->rule_count && ready == 0; i++) {
        ready = rewrite_rule_from(state, &rules->rules[i], PyTuple_GetItem(rules->given, (Py_ssize_t)i));
    }
    for (size_t i = 0; i < options->edit_count && ready == 0; i++) {
        ready = py_edit_from(&rules->edits[i], PyTuple_GetItem(rules->given_edits, (Py_ssize_t)i));
    }
    options->rules = rules->rules;
    options->edits = rules->edits;
    return ready;
}

/* ---- what is told ---- */

/* (name, dtype, offset, shard); None for what is left out. */
static PyObject *rewrite_tensor(const coffer_tensor *tensor)
{
    if (tensor == NULL) {
        return Py_NewRef(Py_None);
    }
    PyObject *name = py_tensor_name(tensor);
    return name == NULL ? NULL
                        : Py_BuildValue("(NsKI)", name, coffer_tensor_dtype_name(tensor),
                                        (unsigned long long)tensor->offset, (unsigned)tensor->shard);
}

static PyObject *rewrite_change(const coffer_rewrite_change *change)
{
    PyObject *from = rewrite_tensor(change->from);
    PyObject *to = from == NULL ? NULL : rewrite_tensor(change->to);
    if (to == NULL) {
        Py_XDECREF(from);
        return NULL;
    }
    return Py_BuildValue("(NNKKO)", from, to, (unsigned long long)change->overflowed,
                         (unsigned long long)change->vanished, change->computed ? Py_True : Py_False);
}

static PyObject *rewrite_reported(const coffer_rewrite *rewrite)
{
    static const char *const ways[] = { "nothing", "headers", "files" };
    const coffer_rewrite_summary *summary = coffer_rewrite_summarize(rewrite);
    const coffer_rewrite_change *change = NULL;
    PyObject *changes = PyList_New(0);
    for (size_t i = 0; changes != NULL && (change = coffer_rewrite_at(rewrite, i)) != NULL; i++) {
        PyObject *one = rewrite_change(change);
        if (one == NULL || PyList_Append(changes, one) < 0) {
            Py_CLEAR(changes);
        }
        Py_XDECREF(one);
    }
    return changes == NULL ? NULL
                           : Py_BuildValue("(snnKKKKN)", ways[summary->way], (Py_ssize_t)summary->file_count,
                                           (Py_ssize_t)summary->tensor_count, (unsigned long long)summary->size_before,
                                           (unsigned long long)summary->size, (unsigned long long)summary->copied,
                                           (unsigned long long)summary->cast, changes);
}

/* ---- the whole ---- */

static PyObject *rewrite_run(const py_state *state, const py_handle *handle, const coffer_rewrite_options *options,
                             py_merge *merge, int dry_run, PyObject *progress, unsigned threads)
{
    coffer_rewrite *rewrite = NULL;
    coffer_error err;
    py_watch watch;
    py_watch_begin(&watch, progress, threads);
    coffer_status status = py_merge_plan(merge, &rewrite, py_handle_model(handle), options, &err);
    if (status == COFFER_OK) {
        status = (dry_run ? coffer_rewrite_check : coffer_rewrite_run)(rewrite, &watch.options, &err);
    }
    py_watch_finish(&watch);
    PyObject *reported = status == COFFER_OK ? rewrite_reported(rewrite) : py_raise(state, &err);
    coffer_rewrite_free(rewrite);
    return reported;
}

PyObject *py_model_rewrite(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {
        "rules",        "edits", "output",  "format",  "alignment", "max_shard_size",   "digests",  "sync",
        "follow_links", "force", "dry_run", "threads", "progress",  "ignore_unmatched", "computed", NULL
    };
    const py_state *state = py_state_of(self);
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    PyObject *given = NULL;
    PyObject *edits = NULL;
    PyObject *output = NULL;
    PyObject *progress = NULL;
    PyObject *computed = NULL;
    const char *format = NULL;
    const char *digests = NULL;
    const char *sync = "replace";
    unsigned long long alignment = 0;
    unsigned long long max_shard_size = 0;
    unsigned threads = 0;
    int follow_links = 0;
    int force = 0;
    int dry_run = 0;
    int ignore_unmatched = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|$OzKKzspppIOpO:rewrite", names, &given, &edits, &output, &format,
                                     &alignment, &max_shard_size, &digests, &sync, &follow_links, &force, &dry_run,
                                     &threads, &progress, &ignore_unmatched, &computed)) {
        return NULL;
    }
    PyObject *path = NULL;
    if (output != NULL && output != Py_None && !py_to_path(output, &path)) {
        return NULL;
    }
    rewrite_rules rules;
    py_merge merge;
    options.output = path == NULL ? NULL : PyBytes_AsString(path);
    options.alignment = alignment;
    options.max_shard_size = max_shard_size;
    options.follow_links = follow_links != 0;
    options.force = force != 0;
    options.ignore_unmatched = ignore_unmatched != 0;
    const int ruled = rewrite_rules_init(state, &rules, given, edits, &options) == 0;
    const int ready = py_merge_init(state, &merge, ruled ? computed : NULL) == 0 && ruled &&
                      py_format_from(state, format, &options.format) == 0 &&
                      py_algorithm_from(state, digests, &options.digests) == 0 &&
                      py_sync_from(state, sync, &options.sync) == 0;
    py_handle *handle = ready ? py_model_use(self) : NULL;
    PyObject *reported =
        handle == NULL ? NULL : rewrite_run(state, handle, &options, &merge, dry_run, progress, threads);
    py_handle_release(handle);
    py_merge_free(&merge);
    rewrite_rules_free(&rules);
    Py_XDECREF(path);
    return reported;
}
