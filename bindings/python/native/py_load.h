/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What loading consists of: Device, Staging, Plan and Load, a file each. A Load keeps its Plan and its Staging, a Plan
 * its model and its devices. Memory that was handed out keeps none of them but its device.
 */
#ifndef PY_LOAD_H
#define PY_LOAD_H

#include "py_model.h"

/* The device behind a Device object, borrowed. NULL for None, which is host memory; *failed and a TypeError for any
   other object. */
coffer_device *py_device_of(const py_state *state, PyObject *object, bool *failed);

/* The staging buffer behind a Staging object, borrowed. NULL for None, as above. */
coffer_staging *py_staging_of(const py_state *state, PyObject *object, bool *failed);
/* An engine by its name. */
int py_engine_from(const py_state *state, const char *text, coffer_engine *engine);

/* The plan behind a Plan object, borrowed, for a load that begins: it cannot be changed until py_plan_release. NULL and a
   TypeError for any other object. */
const coffer_plan *py_plan_begin(const py_state *state, PyObject *object);
void py_plan_release(PyObject *object);
/* The Device object of a device that the plan uses, borrowed; NULL: host memory. */
PyObject *py_plan_device(PyObject *object, const coffer_device *device);

/* Memory that a load handed out, which is taken over, on failure too; `device` is None for host memory. */
PyObject *py_loaded_new(const py_state *state, const coffer_loaded *loaded, PyObject *device);

#endif
