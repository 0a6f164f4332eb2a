/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the .metadata of a distributed checkpoint says: which tensors there are, and where each of their parts lies. It is
 * a pickle of torch's own classes, none of which is made; their states are looked at where they lie in the graph.
 */
#ifndef COFFER_TORCH_DCP_METADATA_H
#define COFFER_TORCH_DCP_METADATA_H

#include "torch.h"

/* Texts are the pickle's, NUL-terminated. `numbers` of a tensor or a part begin at a place in those of the metadata. */
typedef struct coffer__dcp_tensor {
    const char *name;
    size_t name_len;
    coffer__value path; /* the keys that lead to it, a tuple; 0: not known */
    coffer__element element;
    uint32_t rank;
    size_t sizes; /* `rank` numbers */
    size_t first; /* of its parts, in order: those with elements */
    size_t count;
} coffer__dcp_tensor;

typedef struct coffer__dcp_part {
    size_t tensor;
    size_t starts;    /* `rank` numbers, and then as many sizes */
    const char *file; /* NULL: nothing says where it is */
    size_t file_len;
    uint64_t at; /* of its archive in the file */
    uint64_t size;
} coffer__dcp_part;

/* Where something is stored, be it a part or an object that is no tensor: what a scan looks at. */
typedef struct coffer__dcp_place {
    const char *name; /* of what it is of; or NULL */
    const char *file;
    size_t file_len;
    uint64_t at;
    uint64_t size;
} coffer__dcp_place;

typedef struct coffer__dcp {
    const coffer__reader_file *file;
    coffer__graph graph;
    coffer__dcp_tensor *tensors; /* in the order of the pickle */
    size_t tensor_count;
    size_t tensor_capacity;
    coffer__dcp_part *parts; /* those of one tensor follow each other */
    size_t part_count;
    size_t part_capacity;
    coffer__dcp_place *places; /* of a scan */
    size_t place_count;
    size_t place_capacity;
    uint64_t *numbers;
    size_t number_count;
    size_t number_capacity;
    uint32_t *by_name;  /* numbers of tensors, */
    uint32_t *by_place; /* and of parts by their tensors and starts */
    size_t others;      /* entries that are no tensors */
    bool has_paths;     /* the keys that lead to each tensor are known */
} coffer__dcp;

/* Reads it. COFFER_ERR_PICKLE for what torch does not write; COFFER_ERR_UNSUPPORTED for parts that an extension has
   transformed, which the message names. coffer__dcp_free follows in any case. */
coffer_status coffer__dcp_read(coffer__dcp *dcp, const coffer__reader_file *file, coffer_error *err);
void coffer__dcp_free(coffer__dcp *dcp);
/* Key number `i` of those that lead to a tensor, if it is a text; NULL else. */
const char *coffer__dcp_key(const coffer__dcp *dcp, const coffer__dcp_tensor *tensor, size_t i, size_t *len);

#endif
