/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of coffer_doctor. What is named (doctor_run.c) is one folder or many, a file, an index or a URL; of each folder
 * the files are listed and looked at (doctor_folder.c, doctor_files.c), then each model in it (doctor_models.c,
 * doctor_index.c, doctor_data.c), and the one that loaders would take is compared with config.json (doctor_config.c), by the
 * table of families (doctor_families.c), or with another model (doctor_against.c). Everything ends in one list of findings
 * (doctor_findings.c).
 *
 * Everything but the options comes from strangers. Messages are safe for a terminal; names in findings are as they are.
 * Without memory a rule goes on as if nothing were there; the allocator notes it, and all of it is a failure in the end.
 */
#ifndef COFFER_DOCTOR_CHECKUP_H
#define COFFER_DOCTOR_CHECKUP_H

#include "block.h"
#include "coffer.h"
#include "json_document.h"
#include "locked_allocator.h"

#include <stdarg.h>

#define COFFER__DOCTOR_INDEX_MAX ((size_t)32 << 20) /* bytes of an index that is taken apart */
#define COFFER__DOCTOR_JSON_MAX ((size_t)256 << 20) /* bytes of any other JSON, which is only read through */
#define COFFER__DOCTOR_SAME_MAX 10                  /* findings of one kind that are listed; the others are counted */
#define COFFER__DOCTOR_KINDS_MAX 96

/* ---- Findings ----------------------------------------------------------------------------------------------------- */

typedef struct coffer__finding {
    coffer_severity severity;
    coffer_evidence evidence;
    const char *kind; /* for programs: "shard_missing"; static */
    char *file;       /* below what was named; "": that itself */
    char *tensor;     /* the first that it is about; NULL: none */
    size_t tensor_len;
    uint64_t offset; /* byte of the file, or COFFER_NO_OFFSET */
    uint64_t more;   /* findings like this one that are not listed */
    char *reason;
    coffer_doctor_step *steps; /* what fixes it, or looks closer; none where nothing does */
    void **step_blocks;        /* each has the words of a step */
    size_t step_count;
    bool fixes;
} coffer__finding;

/* A model that was looked at. */
typedef struct coffer__doctor_seen {
    char *name; /* below what was named; "": that itself */
    char *type; /* of its config.json; NULL: none */
    size_t files;
    uint64_t tensors;
    uint64_t size; /* of the tensors, in bytes */
} coffer__doctor_seen;

typedef struct coffer__doctor_kind {
    const char *kind;
    size_t count;
    size_t last; /* the number of the last finding of the kind */
} coffer__doctor_kind;

/* What was found, and where a run stands. The diagnosis is what is left of it when the run is over. */
typedef struct coffer_diagnosis {
    coffer_doctor_options options;
    const coffer *foreign;         /* the model, where it is a file of another program */
    coffer_allocator given;        /* the caller's */
    coffer__locked_allocator lock; /* around that, since several threads read models */
    coffer_allocator allocator;    /* the same, which also notes in `failed` where it gave nothing */
    const char *path;              /* the caller's, as long as the run lasts */
    const char *against;           /* what the other model is called; NULL: none */
    bool data;
    coffer__finding *findings;
    size_t count;
    size_t capacity;
    coffer__doctor_kind kinds[COFFER__DOCTOR_KINDS_MAX];
    size_t kind_count;
    coffer__doctor_seen *seen;
    size_t seen_count;
    size_t seen_capacity;
    char **below; /* files of models whose index lies in a folder above them, below what was named; sorted once */
    size_t below_count;
    size_t below_capacity;
    coffer_doctor_summary summary;
    coffer_doctor_finding *reported_findings; /* when the run is over, what is handed out: the worst first */
    coffer_doctor_model *reported_models;
    uint64_t totals[3]; /* findings by severity, those that are not listed included */
    bool unreadable;    /* something could not be read */
    bool cancelled;
    bool failed; /* without memory */
} coffer__checkup;

/* ---- Memory, and going on ------------------------------------------------------------------------------------------ */

/* Each is NULL without memory; to be freed by coffer__block_free. */
void *coffer__doctor_new(coffer__checkup *d, size_t size);
void *coffer__doctor_array(coffer__checkup *d, size_t count, size_t size);
/* Room for one more item: the block, or one of twice the capacity. */
void *coffer__doctor_grow(coffer__checkup *d, void *items, size_t count, size_t *capacity, size_t size);
char *coffer__doctor_copy(coffer__checkup *d, const char *text);
char *coffer__doctor_copy_part(coffer__checkup *d, const char *text, size_t text_len);
/* Whether the caller has asked to stop. */
bool coffer__doctor_stopped(coffer__checkup *d);
/* Says that a long step begins. */
void coffer__doctor_begin_step(const coffer__checkup *d, const char *what, uint64_t total);
/* Counts what was looked at, or passed over. */
void coffer__doctor_count(coffer__checkup *d, coffer_doctor_subject subject, bool looked_at, uint64_t count);

/* ---- Adding -------------------------------------------------------------------------------------------------------- */

/* Adds a finding about a file ("": the folder or model itself). The answer is good until the next one is added; NULL when it
   is only counted, or without memory, which every function that takes a finding allows. */
__attribute__((format(printf, 5, 6))) coffer__finding *coffer__doctor_add(coffer__checkup *d, coffer_severity severity,
                                                                          const char *kind, const char *file,
                                                                          const char *format, ...);
/* Whether another finding of a kind would be listed, and not only counted. */
bool coffer__doctor_is_listed(coffer__checkup *d, const char *kind);
/* What else is known of one. */
void coffer__doctor_about(coffer__checkup *d, coffer__finding *finding, const char *tensor, size_t tensor_len);
/* The finding rests on bytes that were compared for it. */
void coffer__doctor_by_data(coffer__finding *finding);
/* Adds a step that fixes it, or looks closer, as the words of a command line; NULL closes them. Steps fix only where it is
   shown that nothing is lost: every tensor that could be read before them can be read after them, bit for bit. */
void coffer__doctor_fix(coffer__checkup *d, coffer__finding *finding, const char *const *words);
void coffer__doctor_look(coffer__checkup *d, coffer__finding *finding, const char *const *words);
#define COFFER__DOCTOR_WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })
/* A failure of the library as a finding, an error. */
coffer__finding *coffer__doctor_add_failure(coffer__checkup *d, const char *kind, const char *file,
                                            const coffer_error *err);
/* A model that was looked at; `type` may be NULL. */
void coffer__doctor_add_seen(coffer__checkup *d, const char *name, const char *type, const coffer *model);
void coffer__doctor_free_findings(coffer__checkup *d);
/* Makes of what was found what is handed out. */
void coffer__doctor_close_findings(coffer__checkup *d);
/* The name as it is safe to show, cut after about 160 bytes. */
#define COFFER__DOCTOR_SHOWN 200
const char *coffer__doctor_shown(char shown[COFFER__DOCTOR_SHOWN], const char *name, size_t name_len);
/* The shape, of which four dimensions are shown: "[8, 24]". */
#define COFFER__DOCTOR_SHAPE 120
void coffer__doctor_put_shape(char text[COFFER__DOCTOR_SHAPE], const coffer_tensor *tensor);
/* A tensor's name as a pattern that only it matches, to be freed; NULL where no command line can have it. */
char *coffer__doctor_pattern(coffer__checkup *d, const char *name, size_t name_len);

/* ---- What shows that nothing is lost ------------------------------------------------------------------------------ */

/* Whether bytes that are to be removed are elsewhere too. They are read with `data` alone. */
typedef enum coffer__doctor_same {
    COFFER__DOCTOR_SAME,
    COFFER__DOCTOR_DIFFERENT,
    COFFER__DOCTOR_NOT_COMPARED /* without `data`, once the caller stops, or where one of them cannot be read */
} coffer__doctor_same;

/* Whether two tensors have one dtype, one shape and the same bytes. */
coffer__doctor_same coffer__doctor_compare(coffer__checkup *d, const coffer *a, const coffer_tensor *x, const coffer *b,
                                           const coffer_tensor *y);
/* Whether the model has all tensors of a file by their names, and its metadata. */
coffer__doctor_same coffer__doctor_compare_file(coffer__checkup *d, const char *path, const char *model_path);
/* The same of a file of another program, which has tensors and nothing else. */
coffer__doctor_same coffer__doctor_compare_foreign(coffer__checkup *d, const char *path, const char *model_path);

/* ---- A folder ----------------------------------------------------------------------------------------------------- */

typedef enum coffer__doctor_type {
    COFFER__DOCTOR_FILE,  /* a regular file, or a link to one */
    COFFER__DOCTOR_DIR,   /* a folder, not a link to one */
    COFFER__DOCTOR_OTHER, /* neither; never opened */
    COFFER__DOCTOR_LOST   /* a link to nothing */
} coffer__doctor_type;

typedef struct coffer__doctor_entry {
    char *name;
    coffer__doctor_type type;
    uint64_t size;
    bool link;
    bool outside; /* a link out of the folder that was named, which no cache of the Hub has made */
    bool covered; /* a file of a model that was looked at */
    bool pickle;  /* as its first bytes say */
    bool named;   /* by an index of a variant, such as model.safetensors.index.fp16.json */
} coffer__doctor_entry;

/* One folder that is looked at, or what lies beside the model at a URL. */
typedef struct coffer__doctor_folder {
    coffer__checkup *doctor;
    const char *path;              /* to open it */
    const char *name;              /* below what was named; "": that itself */
    const char *only;              /* the one file or index that was named; NULL: all of them */
    coffer__doctor_entry *entries; /* in byte order of their names */
    size_t count;
    coffer_input *input; /* of a URL: any file of the model */
    char *type;          /* config.json's model_type */
    bool reported;       /* its files were looked at, and what cannot be read is told already */
    size_t remade;       /* indices of which it was looked whether they can be written anew */
} coffer__doctor_folder;

/* The bytes of a small file; a NUL follows, which does not count. */
typedef struct coffer__doctor_text {
    char *bytes;
    size_t size;
} coffer__doctor_text;

/* FOLDER/NAME as text; to be freed. */
char *coffer__doctor_join(coffer__checkup *d, const char *folder, const char *name);
/* The last separator of a path; NULL without one. */
const char *coffer__doctor_last_slash(const char *path);
/* Its last component. */
const char *coffer__doctor_last_name(const char *path);
/* Whether a path is a folder. */
bool coffer__doctor_is_folder(const char *path);
/* The first bytes of a regular file, at most `size`, fewer where it has fewer; 0 for what cannot be read. */
size_t coffer__doctor_first_bytes(const char *path, char *bytes, size_t size);
/* The options by which a run opens what it reads. */
coffer_open_options coffer__doctor_open_options(const coffer__checkup *d, bool all_notes);
/* Opens a model to be read, without a map. */
coffer_status coffer__doctor_open(coffer__checkup *d, coffer **model, const char *path, bool all_notes,
                                  coffer_error *err);
/* What coffer_fix_file and coffer_fix_index would do: with `dry_run`, so that nothing is written. */
coffer_status coffer__doctor_would_fix_file(coffer__checkup *d, const char *path, coffer_fixed_file *fixed,
                                            coffer_error *err);
coffer_status coffer__doctor_would_fix_index(coffer__checkup *d, const char *path, coffer_fixed_index *fixed,
                                             coffer_error *err);
/* Whether a failure is one of reading, and says nothing of what the file has. */
bool coffer__doctor_is_unread(coffer_status status);
/* "20 B", "2.2 GB". */
#define COFFER__DOCTOR_NUMBER 32
void coffer__doctor_put_bytes(char text[COFFER__DOCTOR_NUMBER], uint64_t size);
/* Whether two tensors have one shape. */
bool coffer__doctor_same_shape(const coffer_tensor *a, const coffer_tensor *b);

/* Lists a folder. False, with a finding, when it cannot be. */
bool coffer__doctor_list(coffer__doctor_folder *folder, const char *root);
void coffer__doctor_unlist(coffer__doctor_folder *folder);
/* The entry of a name, or NULL. */
coffer__doctor_entry *coffer__doctor_entry_of(const coffer__doctor_folder *folder, const char *name);
/* Whether commands may change the model where it is: its files are in the folder, and are no links. */
bool coffer__doctor_owns(const coffer__doctor_folder *folder, const coffer *model);
/* Whether the folder has a file of that name; of a URL, the server is asked. */
bool coffer__doctor_has(const coffer__doctor_folder *folder, const char *name);
/* FOLDER/NAME, to open it or to be in a command; to be freed. NULL without memory. */
char *coffer__doctor_path(const coffer__doctor_folder *folder, const char *name);
/* The same below what was named, as findings have it. */
char *coffer__doctor_name(const coffer__doctor_folder *folder, const char *name);
/* Adds a finding about a file of the folder. */
__attribute__((format(printf, 5, 6))) coffer__finding *coffer__doctor_add_in(const coffer__doctor_folder *folder,
                                                                             coffer_severity severity, const char *kind,
                                                                             const char *name, const char *format, ...);

/* Reads a file of the folder whole, which is never a pipe. False without one, or, with a finding unless it is `told`, when
   it cannot be read or is larger than `most`. To be freed. */
bool coffer__doctor_read(const coffer__doctor_folder *folder, const char *name, size_t most, coffer__doctor_text *text);
/* The model that the folder stands for, to be opened or to be in a command; to be freed. */
char *coffer__doctor_model_path(const coffer__doctor_folder *folder);
/* Looks closer by reading the data, too. */
void coffer__doctor_look_at_data(const coffer__doctor_folder *folder, coffer__finding *finding);

/* The same as a document; *text is to be freed after it. False as before, and when
   it is not JSON. */
bool coffer__doctor_read_json(const coffer__doctor_folder *folder, const char *name, coffer__doctor_text *text,
                              coffer__document *document);

void coffer__doctor_add_broken_json(const coffer__doctor_folder *folder, const char *name, const char *what, size_t at);

/* ---- What is looked at in it -------------------------------------------------------------------------------------- */

/* Files that are no models: leftovers, pickles, JSON, pointers, tokenizers, links. */
void coffer__doctor_check_files(coffer__doctor_folder *folder);
/* Weights that are there twice, after the models were looked at. */
void coffer__doctor_check_copies(coffer__doctor_folder *folder, bool has_model, uint64_t size);
/* Every model of the folder; whether there is one, and the bytes of the one that loaders take. */
bool coffer__doctor_check_models(coffer__doctor_folder *folder, uint64_t *size);
/* The model at a URL, and what lies beside it. */
void coffer__doctor_check_remote(coffer__doctor_folder *folder, const coffer *model);
/* What the library notes of a model that could be opened; `path` goes into commands. */
void coffer__doctor_check_notes(const coffer__doctor_folder *folder, const char *name, const char *path,
                                const coffer *model);
/* Fixes a file that could not be opened, if that is possible without a loss; `name` is that in the folder. */
void coffer__doctor_fix_broken(const coffer__doctor_folder *folder, coffer__finding *finding, const char *name,
                               coffer_status status);
/* What is wrong with an index that cannot be opened; `err` is what the library says. */
void coffer__doctor_check_index(coffer__doctor_folder *folder, const char *name, const coffer_error *err);
/* Notes which files an index of a variant names. */
void coffer__doctor_check_variants(coffer__doctor_folder *folder);
/* An index of files that are no tensors of ours (pytorch_model.bin.index.json): which of them are missing. */
void coffer__doctor_check_foreign_index(const coffer__doctor_folder *folder, const char *name);
/* A file of another program, which is all that was named. */
void coffer__doctor_check_foreign(coffer__checkup *d, const coffer *model);
/* Digests and, with `data`, numbers of a model. */
void coffer__doctor_check_data(const coffer__doctor_folder *folder, const char *name, const char *path,
                               const coffer *model);
/* Digests that the Hub's tools have left beside files. */
void coffer__doctor_check_hub(const coffer__doctor_folder *folder);
/* The model that loaders take, compared with what the folder says of it. */
void coffer__doctor_check_config(coffer__doctor_folder *folder, const char *name, const char *path,
                                 const coffer *model);
/* The quantisation that config.json states, against the tensors; whether there is any. */
bool coffer__doctor_check_quantisation(const coffer__doctor_folder *folder, const char *name,
                                       const coffer__document *config, const coffer__json_node *root,
                                       const coffer__json_node *scope, const coffer *model);
/* The model that `path` stands for, compared with `other`, that of d->against: tensors, config.json and tokenizers. */
void coffer__doctor_check_against(coffer__checkup *d, const coffer *other);
/* An adapter of PEFT: its weights, its configuration, and its base where that is on this machine. */
void coffer__doctor_check_adapter(const coffer__doctor_folder *folder);
/* What else belongs into a folder with a config.json, an adapter or a pipeline; `has_model`: weights were found. */
void coffer__doctor_check_companions(coffer__doctor_folder *folder, bool has_model);

#endif
