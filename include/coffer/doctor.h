/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer/doctor.h - what is wrong with a model and with all that lies around it, and what fixes it. For everybody who
 * downloads, checks or publishes models; all of it is there since 0.2.
 *
 *     coffer_diagnosis *diagnosis;
 *     const coffer_doctor_finding *finding;
 *     coffer_doctor(&diagnosis, "gpt2", NULL, &err);
 *     for (size_t i = 0; (finding = coffer_diagnosis_finding_at(diagnosis, i)) != NULL; i++) {
 *         printf("%s: %s\n", finding->file, finding->message);
 *     }
 *     coffer_diagnosis_free(diagnosis);
 *
 * Nothing is ever changed, and nothing of a file is run. A model that is broken is no failure of the call: it is a
 * finding. That there is no finding says something of what was looked at alone: coffer_doctor_summary counts that, and
 * what was passed over.
 */
#ifndef COFFER_DOCTOR_H
#define COFFER_DOCTOR_H

#include "convert.h"
#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Asking ------------------------------------------------------------------------------------------------------ */

/* What is looked at, and how. */
typedef struct coffer_doctor_options {
    size_t struct_size;
    const coffer_allocator *allocator; /* as in coffer_open_options; several threads call it, one at a time */
    /* Read everything: numbers, digests, and whether what is there twice is the same. */
    bool data;
    /* Another model, opened, which the model is compared with too; NULL: none. `against_path` is what messages and
       advice call it; NULL: the path of its first file. */
    const coffer *against;
    const char *against_path;
    /* The model of a URL, or of a file of another program (coffer_model_import), where the caller has opened it with
       `all_notes`; NULL: it is opened here, and of such files those without pickles. Any other one at a path on this
       machine is not used. */
    const coffer *model;
    /* Called before each long step with what it is ("reading", "hashing", "verifying", "comparing") and how many bytes
       it reads, by the thread that made the call; NULL: nobody is told. The progress counts within the step. */
    void (*step)(void *ctx, const char *what, uint64_t total);
    coffer_progress progress; /* between steps it is asked whether to go on, with a total of 0; NULL: none */
    void *progress_ctx;       /* of both */
    /* Opens a file of another program, which is compared with the model, as coffer_input_open and coffer_import_open
       do; the two are freed here. For programs that read such files in a process of their own. NULL: in this one. */
    coffer_status (*import)(void *ctx, const char *path, coffer_input **input, coffer_import **imported,
                            coffer_error *err);
    void *import_ctx;
} coffer_doctor_options;
#define COFFER_DOCTOR_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(coffer_doctor_options), NULL, false, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL                     \
    }

/* What was found. It does not change, so any number of threads may look at it. */
typedef struct coffer_diagnosis coffer_diagnosis;

/*
 * Looks at a folder with all folders in it, at one file or index, or at a URL: at names, links and what programs left
 * behind, at headers and indices, at config.json and the weights by the rules of the usual families, at tokenizers,
 * adapters and pipelines. Memory is bounded by the largest header or small file, and by what is found.
 *
 * Fails as coffer_open does for a path that is not there and a URL that cannot be opened; then *diagnosis is NULL. What
 * cannot be read of a folder is a finding.
 */
COFFER_API coffer_status coffer_doctor(coffer_diagnosis **diagnosis, const char *path,
                                       const coffer_doctor_options *options, coffer_error *err);
/* Releases it with all that it handed out; NULL is ignored. */
COFFER_API void coffer_diagnosis_free(coffer_diagnosis *diagnosis);

/* ---- Findings ---------------------------------------------------------------------------------------------------- */

/* How bad a finding is. */
typedef enum coffer_severity {
    COFFER_SEVERITY_NOTE = 0,    /* good to know */
    COFFER_SEVERITY_WARNING = 1, /* to be looked at */
    COFFER_SEVERITY_ERROR = 2    /* it keeps the model from being loaded, or from being the one that was saved */
} coffer_severity;
/* "note", "warning", "error"; static. */
COFFER_API const char *coffer_severity_name(coffer_severity severity);

/* What a finding rests on: all that was read to know it. */
typedef enum coffer_evidence {
    COFFER_EVIDENCE_NAMES = 0,   /* the listing of a folder: names, links, sizes; and the first bytes of files */
    COFFER_EVIDENCE_FILES = 1,   /* small files: JSON, indices, tokenizers */
    COFFER_EVIDENCE_HEADERS = 2, /* headers of files of tensors, and small files that they were compared with */
    COFFER_EVIDENCE_DATA = 3     /* the bytes of tensors, or of whole files */
} coffer_evidence;
/* "names", "files", "headers", "data"; static. */
COFFER_API const char *coffer_evidence_name(coffer_evidence evidence);

/* What a step of advice does. */
typedef enum coffer_advice {
    COFFER_ADVICE_COFFER = 0, /* runs this command: words[1] is its verb, the words after it are its arguments */
    COFFER_ADVICE_REMOVE = 1, /* removes the file words[1] */
    COFFER_ADVICE_RENAME = 2, /* gives the file words[count - 2] the name words[count - 1] */
    COFFER_ADVICE_COPY = 3,   /* copies the file words[count - 2] to words[count - 1] */
    COFFER_ADVICE_PROGRAM = 4 /* runs another program: git, diff, ls */
} coffer_advice;

/* One step: the words of a command line, unquoted, of which the first is the program ("coffer", "rm", "mv", "cp"). */
typedef struct coffer_doctor_step {
    const char *const *words;
    size_t count;
    coffer_advice action;
} coffer_doctor_step;

/* Something that is wrong, or good to know. */
typedef struct coffer_doctor_finding {
    coffer_severity severity;
    coffer_evidence evidence;
    const char *kind;   /* for programs: "shard_missing"; docs/cli.md lists them */
    const char *file;   /* below the path, as it is; "": the path itself */
    const char *tensor; /* the first that it is about, as it is; NULL: none */
    size_t tensor_len;
    uint64_t offset;     /* byte of the file, or COFFER_NO_OFFSET */
    const char *message; /* safe for a terminal */
    uint64_t more;       /* findings of this kind that are counted and not listed */
    /* What to do, one step after the other; none where nothing is known. */
    const coffer_doctor_step *steps;
    size_t step_count;
    /* Whether the steps remove the finding, and it was shown that nothing is lost: every tensor that could be
       read before them can be read after them, bit for bit. Else they only show more. */
    bool fixes;
} coffer_doctor_finding;

/* The finding `i`, errors first, then warnings, then notes, each in the order in which they were found; NULL after the
   last one. Of a kind at most 10 are listed. Borrowed from the diagnosis, with its texts. */
COFFER_API const coffer_doctor_finding *coffer_diagnosis_finding_at(const coffer_diagnosis *diagnosis, size_t i);

/* ---- What was looked at ------------------------------------------------------------------------------------------ */

/* A model that was looked at. */
typedef struct coffer_doctor_model {
    const char *name; /* its file or index below the path; "": the path itself */
    const char *type; /* the model_type of its config.json; NULL: none */
    uint64_t file_count;
    uint64_t tensor_count;
    uint64_t size; /* of the tensors, in bytes */
} coffer_doctor_model;

/* The model `i`; NULL after the last one. Borrowed from the diagnosis, with its texts. */
COFFER_API const coffer_doctor_model *coffer_diagnosis_model_at(const coffer_diagnosis *diagnosis, size_t i);

/* What there was to look at. */
typedef enum coffer_doctor_subject {
    COFFER_DOCTOR_FOLDERS = 0, /* folders; passed over: those that cannot be listed, and those beyond the bounds */
    COFFER_DOCTOR_FILES = 1,   /* files by their names and first bytes; passed over: pipes, sockets, devices */
    COFFER_DOCTOR_MODELS = 2,  /* models by their headers; passed over: those that cannot be opened */
    COFFER_DOCTOR_CONFIGS =
        3, /* models against config.json by the rules of their family; passed over: no family known */
    COFFER_DOCTOR_NUMBERS = 4, /* models whose tensors were read; passed over: without `data` */
    COFFER_DOCTOR_DIGESTS = 5, /* models whose recorded digests were verified; passed over: recorded and not verified */
    COFFER_DOCTOR_HUB_DIGESTS = 6, /* files against the Hub's SHA-256; passed over: known and not compared */
    COFFER_DOCTOR_COPIES = 7       /* weights that are there twice, compared byte by byte; passed over: not compared */
} coffer_doctor_subject;
#define COFFER_DOCTOR_SUBJECT_COUNT 8
/* "folders", "files", "models", "configs", "numbers", "digests", "hub_digests", "copies"; static. */
COFFER_API const char *coffer_doctor_subject_name(coffer_doctor_subject subject);

/* All of it in numbers. */
typedef struct coffer_doctor_summary {
    uint64_t errors; /* findings, those that are not listed included */
    uint64_t warnings;
    uint64_t notes;
    size_t finding_count; /* that are listed */
    size_t model_count;
    bool data;       /* as it was asked for */
    bool unreadable; /* something could not be read, or there is no model */
    uint64_t looked_at[COFFER_DOCTOR_SUBJECT_COUNT];
    uint64_t passed_over[COFFER_DOCTOR_SUBJECT_COUNT];
} coffer_doctor_summary;

/* The numbers of a diagnosis; borrowed from it. */
COFFER_API const coffer_doctor_summary *coffer_diagnosis_summarize(const coffer_diagnosis *diagnosis);

#ifdef __cplusplus
}
#endif

#endif
