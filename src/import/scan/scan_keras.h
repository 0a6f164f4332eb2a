/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Keras would make of an object of a model's configuration, which names it:
 *
 *   {"module": "keras.layers", "class_name": "Dense", "config": {…}, "registered_name": null, …}
 *   {"module": "builtins", "class_name": "function", "config": "relu", "registered_name": "function"}
 *   {"class_name": "Dense", "config": {…}}       in HDF5
 *
 * Keras before 3.9 imports any module that is named so, and later ones their own functions, those included that download
 * and write files or end the safe mode. Pure.
 */
#ifndef COFFER_SCAN_SCAN_KERAS_H
#define COFFER_SCAN_SCAN_KERAS_H

#include "coffer.h"

enum {
    COFFER__KERAS_CLASS,
    COFFER__KERAS_MODULE,
    COFFER__KERAS_REGISTERED,
    COFFER__KERAS_CONFIG,
    COFFER__KERAS_VOCABULARY, /* of the configuration */
    COFFER__KERAS_MEMBERS
};

/* The members of an object that are texts, without a NUL; NULL: the object has none. */
typedef struct coffer__keras_object {
    const char *members[COFFER__KERAS_MEMBERS];
    size_t lens[COFFER__KERAS_MEMBERS];
    bool has_config; /* without one Keras takes it for a dict */
} coffer__keras_object;

typedef struct coffer__keras_finding {
    coffer_weight weight;
    const char *sentence; /* has the subject as %q */
    char subject[256];
    size_t len;
} coffer__keras_finding;

/* How a member is called. Static. */
const char *coffer__keras_member_name(unsigned member);
/* Whether there is something to say of an object that has a class. */
bool coffer__keras_judge(const coffer__keras_object *object, coffer__keras_finding *finding);

#endif
