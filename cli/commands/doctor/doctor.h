/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of coffer doctor. What is named (cmd_doctor.c) is one folder or many, a file, an index or a URL; of each folder
 * the files are listed and looked at (doctor_folder.c, doctor_files.c), then each model in it (doctor_models.c,
 * doctor_index.c, doctor_data.c), and the one that loaders would take is compared with config.json (doctor_config.c), by the
 * table of families (doctor_families.c), or with another model (doctor_against.c). Everything ends in one list of findings (doctor_findings.c), which is shown
 * as text, JSON (doctor_show.c) or HTML (doctor_html.c).
 *
 * Everything but the command line comes from strangers. Reasons are safe for a terminal; names in findings are as they are.
 */
#ifndef COFFER_DOCTOR_H
#define COFFER_DOCTOR_H

#include "cli_command.h"
#include "cli_document.h"
#include "cli_inputs.h"
#include "coffer.h"

#define DOCTOR_INDEX_MAX ((size_t)32 << 20) /* bytes of an index that is taken apart */
#define DOCTOR_JSON_MAX ((size_t)256 << 20) /* bytes of any other JSON, which is only read through */
#define DOCTOR_SAME_MAX 10                  /* findings of one kind that are listed; the others are counted */
#define DOCTOR_KINDS_MAX 96

/* ---- Findings ----------------------------------------------------------------------------------------------------- */

typedef enum doctor_weight { DOCTOR_NOTE = 0, DOCTOR_WARNING = 1, DOCTOR_ERROR = 2 } doctor_weight;

typedef struct doctor_finding {
    doctor_weight weight;
    const char *kind; /* for programs: "shard_missing"; static */
    char *file;       /* below what was named; "": that itself */
    char *tensor;     /* the first that it is about; NULL: none */
    size_t tensor_len;
    uint64_t offset; /* byte of the file, or COFFER_NO_OFFSET */
    uint64_t more;   /* findings like this one that are not listed */
    char *reason;
    char *command; /* what fixes it, or looks closer; NULL: nothing does */
    bool fixes;
} doctor_finding;

/* A model that was looked at. */
typedef struct doctor_seen {
    char *name; /* below what was named; "": that itself */
    char *type; /* of its config.json; NULL: none */
    size_t files;
    uint64_t tensors;
    uint64_t size; /* of the tensors, in bytes */
} doctor_seen;

typedef struct doctor_kind {
    const char *kind;
    size_t count;
    size_t last; /* the number of the last finding of the kind */
} doctor_kind;

typedef struct doctor {
    cli *app;
    const char *path;
    const char *against; /* the model that it is compared with; NULL: none */
    bool data;
    bool strict;
    doctor_finding *findings;
    size_t count;
    size_t capacity;
    doctor_kind kinds[DOCTOR_KINDS_MAX];
    size_t kind_count;
    doctor_seen *seen;
    size_t seen_count;
    size_t seen_capacity;
    uint64_t files;     /* that were looked at */
    uint64_t totals[3]; /* findings by weight, those that are not listed included */
    bool unreadable;    /* something could not be read */
    bool failed;        /* without memory */
} doctor;

/* Adds a finding about a file ("": the folder or model itself). The answer is good until the next one is added; NULL when it
   is only counted, or without memory, which every function that takes a finding allows. */
__attribute__((format(printf, 5, 6))) doctor_finding *doctor_add(doctor *d, doctor_weight weight, const char *kind,
                                                                 const char *file, const char *format, ...);
/* Whether another finding of a kind would be listed, and not only counted. */
bool doctor_is_listed(doctor *d, const char *kind);
/* What else is known of one. */
void doctor_about(doctor *d, doctor_finding *finding, const char *tensor, size_t tensor_len);
/* Makes the command that fixes it, or looks closer, of words that are quoted for a shell; NULL closes them. A second call
   adds another command after &&. A command fixes only where it is shown that nothing is lost: whoever runs it has every
   tensor afterwards that could be read before, bit for bit. */
void doctor_fix(doctor *d, doctor_finding *finding, const char *const *words);
void doctor_look(doctor *d, doctor_finding *finding, const char *const *words);
#define DOCTOR_WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })
/* A failure of the library as a finding, an error. */
doctor_finding *doctor_add_failure(doctor *d, const char *kind, const char *file, const coffer_error *err);
/* A model that was looked at; `type` may be NULL. */
void doctor_add_seen(doctor *d, const char *name, const char *type, const coffer *model);
void doctor_free_findings(doctor *d);
/* The name as it is safe to show, cut after about 160 bytes. */
#define DOCTOR_SHOWN 200
const char *doctor_shown(char shown[DOCTOR_SHOWN], const char *name, size_t name_len);
/* The shape, of which four dimensions are shown: "[8, 24]". */
#define DOCTOR_SHAPE 120
void doctor_put_shape(char text[DOCTOR_SHAPE], const coffer_tensor *tensor);
/* A tensor's name as a pattern that only it matches, to be freed; NULL where no command line can have it. */
char *doctor_pattern(const char *name, size_t name_len);
/* "error", "warning", "note". */
const char *doctor_weight_name(doctor_weight weight);

/* ---- What shows that nothing is lost ------------------------------------------------------------------------------ */

/* Whether bytes that are to be removed are elsewhere too. They are read with --data alone. */
typedef enum doctor_same {
    DOCTOR_SAME,
    DOCTOR_DIFFERENT,
    DOCTOR_NOT_COMPARED /* without --data, after Ctrl-C, or where one of them cannot be read */
} doctor_same;

/* Whether two tensors have one dtype, one shape and the same bytes. */
doctor_same doctor_compare(doctor *d, const coffer *a, const coffer_tensor *x, const coffer *b, const coffer_tensor *y);
/* Whether the model has all tensors of a file by their names, and its metadata. */
doctor_same doctor_compare_file(doctor *d, const char *path, const char *model_path);
/* The same of a file of another program, which has tensors and nothing else. */
doctor_same doctor_compare_foreign(doctor *d, const char *path, const char *model_path);

/* ---- A folder ----------------------------------------------------------------------------------------------------- */

typedef enum doctor_type {
    DOCTOR_FILE,  /* a regular file, or a link to one */
    DOCTOR_DIR,   /* a folder, not a link to one */
    DOCTOR_OTHER, /* neither; never opened */
    DOCTOR_LOST   /* a link to nothing */
} doctor_type;

typedef struct doctor_entry {
    char *name;
    doctor_type type;
    uint64_t size;
    bool link;
    bool outside; /* a link out of the folder that was named, which no cache of the Hub has made */
    bool covered; /* a file of a model that was looked at */
    bool pickle;  /* as its first bytes say */
    bool named;   /* by an index of a variant, such as model.safetensors.index.fp16.json */
} doctor_entry;

/* One folder that is looked at, or what lies beside the model at a URL. */
typedef struct doctor_folder {
    doctor *doctor;
    const char *path;      /* to open it */
    const char *name;      /* below what was named; "": that itself */
    const char *only;      /* the one file or index that was named; NULL: all of them */
    doctor_entry *entries; /* in byte order of their names */
    size_t count;
    coffer_input *input; /* of a URL: any file of the model */
    char *type;          /* config.json's model_type */
    bool reported;       /* its files were looked at, and what cannot be read is told already */
    size_t remade;       /* indices of which it was looked whether they can be written anew */
} doctor_folder;

/* Lists a folder. False, with a finding, when it cannot be. */
bool doctor_list(doctor_folder *folder, const char *root);
void doctor_unlist(doctor_folder *folder);
/* The entry of a name, or NULL. */
doctor_entry *doctor_entry_of(const doctor_folder *folder, const char *name);
/* Whether commands may change the model where it is: its files are in the folder, and are no links. */
bool doctor_owns(const doctor_folder *folder, const coffer *model);
/* Whether the folder has a file of that name; of a URL, the server is asked. */
bool doctor_has(const doctor_folder *folder, const char *name);
/* FOLDER/NAME, to open it or to be in a command; to be freed. NULL without memory. */
char *doctor_path(const doctor_folder *folder, const char *name);
/* The same below what was named, as findings have it. */
char *doctor_name(const doctor_folder *folder, const char *name);
/* Adds a finding about a file of the folder. */
__attribute__((format(printf, 5, 6))) doctor_finding *doctor_add_in(const doctor_folder *folder, doctor_weight weight,
                                                                    const char *kind, const char *name,
                                                                    const char *format, ...);

/* Reads a file of the folder whole, which is never a pipe. False without one, or, with a finding unless it is `told`, when
   it cannot be read or is larger than `most`. To be freed. */
bool doctor_read(const doctor_folder *folder, const char *name, size_t most, cli_input *text);
/* The model that the folder stands for, to be opened or to be in a command; to be freed. */
char *doctor_model_path(const doctor_folder *folder);
/* Looks closer by reading the data, too. */
void doctor_look_at_data(const doctor_folder *folder, doctor_finding *finding);

/* The same as a document; *text is to be freed after it. False as before, and when
   it is not JSON. */
bool doctor_read_json(const doctor_folder *folder, const char *name, cli_input *text, cli_document *document);

void doctor_add_broken_json(const doctor_folder *folder, const char *name, const char *what, size_t at);

/* ---- What is looked at in it -------------------------------------------------------------------------------------- */

/* Files that are no models: leftovers, pickles, JSON, pointers, tokenizers, links. */
void doctor_check_files(doctor_folder *folder);
/* Weights that are there twice, after the models were looked at. */
void doctor_check_copies(doctor_folder *folder, bool has_model, uint64_t size);
/* Every model of the folder; whether there is one, and the bytes of the one that loaders take. */
bool doctor_check_models(doctor_folder *folder, uint64_t *size);
/* The model at a URL, and what lies beside it. */
void doctor_check_remote(doctor_folder *folder, const coffer *model);
/* What the library notes of a model that could be opened; `path` goes into commands. */
void doctor_check_notes(const doctor_folder *folder, const char *name, const char *path, const coffer *model);
/* Fixes a file that could not be opened, if that is possible without a loss; `name` is that in the folder. */
void doctor_fix_broken(const doctor_folder *folder, doctor_finding *finding, const char *name, coffer_status status);
/* What is wrong with an index that cannot be opened; `err` is what the library says. */
void doctor_check_index(doctor_folder *folder, const char *name, const coffer_error *err);
/* Notes which files an index of a variant names. */
void doctor_check_variants(doctor_folder *folder);
/* An index of files that are no tensors of ours (pytorch_model.bin.index.json): which of them are missing. */
void doctor_check_foreign_index(const doctor_folder *folder, const char *name);
/* Digests and, with --data, numbers of a model. */
void doctor_check_data(const doctor_folder *folder, const char *name, const char *path, const coffer *model);
/* Digests that the Hub's tools have left beside files. */
void doctor_check_hub(const doctor_folder *folder);
/* The model that loaders take, compared with what the folder says of it. */
void doctor_check_config(doctor_folder *folder, const char *name, const char *path, const coffer *model);
/* The quantisation that config.json states, against the tensors; whether there is any. */
bool doctor_check_quantisation(const doctor_folder *folder, const char *name, const cli_document *config,
                               const cli_node *root, const cli_node *scope, const coffer *model);
/* The model that `path` stands for, compared with `other`, that of d->against: tensors, config.json and tokenizers. */
void doctor_check_against(doctor *d, const coffer *other);
/* An adapter of PEFT: its weights, its configuration, and its base where that is on this machine. */
void doctor_check_adapter(const doctor_folder *folder);
/* What else belongs into a folder with a config.json, an adapter or a pipeline; `has_model`: weights were found. */
void doctor_check_companions(doctor_folder *folder, bool has_model);

/* ---- Showing ------------------------------------------------------------------------------------------------------ */

void doctor_show_text(const doctor *d);
void doctor_show_json(const doctor *d);
/* Writes the page. Returns the exit code. */
int doctor_write_html(const doctor *d, const char *path);

#endif
