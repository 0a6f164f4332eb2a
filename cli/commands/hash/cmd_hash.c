/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer hash PATH...: digests of files. As lines, which sha256sum and xxhsum check; or as the
 * manifest of one model, which model signing checks, signed or not.
 */
#include "cli_digest.h"
#include "cli_folder.h"
#include "cli_guard.h"
#include "cli_inputs.h"
#include "cli_manifest.h"
#include "cli_options.h"
#include "cli_parallel.h"
#include "cli_publish.h"
#include "cli_report.h"
#include "hash_model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct hash_file {
    char *path;
    const char *name; /* in the manifest */
    uint64_t size;
    cli_digest digest;
    coffer_status status;
    coffer_error err;
} hash_file;

typedef struct hash_run {
    cli *app;
    const char *output; /* -o, or NULL */
    coffer_algorithm algorithm;
    bool as_manifest;
    bool follows_links;
    coffer_manifest *manifest; /* what is left out and, as a manifest, the digests */
    hash_file *files;
    size_t count;
    cli_output *out; /* of lines */
    cli_progress progress;
    int code;
} hash_run;

/* ---- Which files ---- */

static bool is_left_out(const void *ctx, const char *name)
{
    return coffer_manifest_ignores(ctx, name);
}

static bool add_file(hash_run *run, const char *path, size_t name_at, uint64_t size)
{
    hash_file *files = realloc(run->files, (run->count + 1) * sizeof *files);
    char *copy = strdup(path);
    if (files == NULL || copy == NULL) {
        run->files = files != NULL ? files : run->files;
        free(copy);
        run->code = cli_fail_memory(run->app, path);
        return false;
    }
    run->files = files;
    run->files[run->count++] = (hash_file){ .path = copy, .name = copy + name_at, .size = size };
    return true;
}

static void add_folder(hash_run *run, const char *path)
{
    cli_folder folder;
    const cli_folder_rule rule = { .follows_links = run->follows_links,
                                   .leaves_out = is_left_out,
                                   .ctx = run->manifest };
    run->code = cli_worse(run->code, cli_folder_list(run->app, path, &rule, &folder));
    for (size_t i = 0; i < folder.count; i++) {
        const cli_folder_file *file = &folder.files[i];
        if (!add_file(run, file->path, (size_t)(file->name - file->path), file->size)) {
            break;
        }
    }
    cli_folder_free(&folder);
}

/* A manifest that is empty but for what it leaves out. */
static bool begin_manifest(hash_run *run, const char *path)
{
    char *real = realpath(path, NULL);
    const char *slash = real != NULL ? strrchr(real, '/') : NULL;
    coffer_manifest_free(run->manifest);
    run->manifest = NULL;
    const bool fine = coffer_manifest_new(&run->manifest, slash != NULL ? slash + 1 : path, NULL, NULL) == COFFER_OK &&
                      cli_manifest_pass_over(run->manifest, path, run->output);
    free(real);
    if (!fine) {
        run->code = cli_fail_memory(run->app, path);
        return false;
    }
    coffer_manifest_set_follows_links(run->manifest, run->follows_links);
    return true;
}

static void add_path(hash_run *run, const char *path)
{
    cli_identity identity = { .size = 0 };
    if (!begin_manifest(run, path)) {
        return;
    }
    if (cli_is_folder(path)) {
        add_folder(run, path);
        return;
    }
    (void)cli_identify(path, &identity);
    add_file(run, path, 0, identity.size);
    if (run->count > 0) {
        run->files[run->count - 1].name = "."; /* the model is this file */
    }
}

/* ---- Their digests ---- */

/* Runs on any thread. */
static void hash_one(void *ctx, size_t i)
{
    hash_run *run = ctx;
    hash_file *file = &run->files[i];
    file->status = cli_digest_file(file->path, run->algorithm, &run->progress, &file->digest, &file->err);
}

/* As sha256sum writes and reads it; on a terminal as names are everywhere, which nobody can act upon. */
static void put_line(cli_output *out, const char *digest, const char *path)
{
    if (out->width > 0) {
        cli_put_text(out, digest);
        cli_put_text(out, "  ");
        cli_put_escaped(out, path, strlen(path), 0);
        cli_put_char(out, '\n');
        return;
    }
    const bool escaped = strpbrk(path, "\\\n\r") != NULL;
    cli_put_text(out, escaped ? "\\" : "");
    cli_put_text(out, digest);
    cli_put_text(out, "  ");
    for (const char *c = path; *c != '\0'; c++) {
        if (strchr("\\\n\r", *c) != NULL) {
            cli_put_text(out, *c == '\\' ? "\\\\" : *c == '\n' ? "\\n" : "\\r");
        } else {
            cli_put_char(out, *c);
        }
    }
    cli_put_char(out, '\n');
}

static void put_object(cli_output *out, coffer_algorithm algorithm, const char *digest, const char *path, uint64_t size)
{
    cli_json_open(out, '{', false);
    cli_json_key(out, "path");
    cli_json_string(out, path);
    cli_json_key(out, "algorithm");
    cli_json_string(out, coffer_algorithm_name(algorithm));
    cli_json_key(out, "digest");
    cli_json_string(out, digest);
    cli_json_key(out, "size");
    cli_json_number(out, size);
    cli_json_close(out, '}');
}

void hash_show(cli *app, cli_output *out, coffer_algorithm algorithm, const uint8_t *digest, const char *path,
               uint64_t size)
{
    char text[2 * COFFER_LARGEST_DIGEST_SIZE + 1];
    cli_digest_text(algorithm, digest, text);
    if (app->json) {
        put_object(out, algorithm, text, cli_shown_path(path), size);
    } else {
        put_line(out, text, cli_shown_path(path));
    }
}

static void show_one(void *ctx, size_t i)
{
    hash_run *run = ctx;
    hash_file *file = &run->files[i];
    coffer_error *err = &file->err;
    if (file->status == COFFER_OK && run->as_manifest) {
        const size_t size = coffer_algorithm_digest_size(run->algorithm);
        file->status = coffer_manifest_add(run->manifest, file->name, run->algorithm, file->digest.bytes, size, err);
    }
    if (file->status != COFFER_OK) {
        run->code = cli_worse(run->code, cli_fail(run->app, file->path, err));
    } else if (!run->as_manifest) {
        hash_show(run->app, run->out, run->algorithm, file->digest.bytes, file->path, file->digest.size);
    }
}

static void hash_all(hash_run *run)
{
    uint64_t total = 0;
    const cli_jobs jobs = { hash_one, show_one, run };
    for (size_t i = 0; i < run->count; i++) {
        total += run->files[i].size;
    }
    cli_progress_begin(&run->progress, run->app, "hashing", total);
    if (run->app->json) {
        cli_json_open(run->out, '[', true);
    }
    cli_parallel(&jobs, run->count, cli_processors());
    if (run->app->json) {
        cli_json_close(run->out, ']');
    }
    cli_progress_finish(&run->progress);
}

/* ---- What is written ---- */

/* The manifest's text, signed when there is a key. */
static void write_manifest(hash_run *run, const char *key_path)
{
    coffer_error err;
    cli_input key = { .size = 0 };
    const char *text = NULL;
    size_t text_len = 0;
    if (key_path != NULL && !cli_input_read(run->app, key_path, CLI_KEY_MAX, &key, &run->code)) {
        return;
    }
    const coffer_manifest_format format = key_path != NULL ? COFFER_MANIFEST_BUNDLE : COFFER_MANIFEST_STATEMENT;
    const coffer_status status =
        coffer_manifest_write(run->manifest, format, key.bytes, key.size, &text, &text_len, &err);
    cli_input_free(&key);
    if (status != COFFER_OK) {
        run->code =
            cli_fail(run->app, key_path != NULL && status == COFFER_ERR_KEY ? key_path : run->files[0].path, &err);
        return;
    }
    cli_put(run->out, text, text_len);
    cli_put_char(run->out, '\n');
}

/* Whether a file was written by this command: JSON, or a manifest in any form. What else lies in a
   folder belongs to the model. */
static bool is_own_output(hash_run *run, const char *path)
{
    static const char json[] = "[\n  {\"path\"";
    int code = CLI_EXIT_OK;
    coffer_error err;
    cli_input text = { .size = 0 };
    coffer_manifest *manifest = NULL;
    if (!cli_input_read(run->app, path, CLI_MANIFEST_MAX, &text, &code)) {
        return false;
    }
    const size_t json_len = sizeof json - 1;
    const bool own = text.size == 0 || (text.size >= json_len && memcmp(text.bytes, json, json_len) == 0) ||
                     coffer_manifest_parse(&manifest, text.bytes, text.size, NULL, 0, NULL, &err) == COFFER_OK;
    coffer_manifest_free(manifest);
    cli_input_free(&text);
    return own;
}

/* What lies in a folder at the output's place is passed over when the folder is hashed; a manifest
   may be replaced there. */
static int guard_folder(hash_run *run, const char *folder)
{
    struct stat about;
    if (!cli_is_folder(folder) || stat(run->output, &about) != 0 || !S_ISREG(about.st_mode)) {
        return CLI_EXIT_OK;
    }
    char *name = cli_name_below(folder, run->output);
    const bool inside = name != NULL;
    free(name);
    return inside && !is_own_output(run, run->output) ? cli_guard_refuse(run->app, run->output, run->output)
                                                      : CLI_EXIT_OK;
}

/* The output is none of the files that are hashed, nor the key. */
static int guard_output(hash_run *run, const cli_arguments *arguments, const char *key_path)
{
    int code = CLI_EXIT_OK;
    if (run->output == NULL) {
        return CLI_EXIT_OK;
    }
    for (size_t i = 0; i < arguments->name_count && code == CLI_EXIT_OK; i++) {
        code = guard_folder(run, arguments->names[i]);
    }
    for (size_t i = 0; i < run->count && code == CLI_EXIT_OK; i++) {
        code = cli_guard_input(run->app, run->output, run->files[i].path);
    }
    return code == CLI_EXIT_OK && key_path != NULL ? cli_guard_input(run->app, run->output, key_path) : code;
}

static void hash_and_write(hash_run *run, const char *key_path)
{
    cli_publish file = { .out = NULL };
    if (run->output != NULL) {
        const int opened = cli_publish_open(run->app, &file, run->output);
        if (opened != CLI_EXIT_OK) {
            run->code = opened;
            return;
        }
    }
    run->out = run->output != NULL ? file.out : &run->app->out;
    hash_all(run);
    if (run->code == CLI_EXIT_OK && run->as_manifest) {
        write_manifest(run, key_path);
    }
    if (run->output != NULL) {
        run->code = cli_publish_close(run->app, &file, run->code);
    }
}

static int check_usage(cli *app, const cli_arguments *arguments)
{
    const bool as_manifest = cli_given(arguments, CLI_OPTION_MANIFEST) || cli_given(arguments, CLI_OPTION_SIGN);
    const bool of_tensors = cli_given(arguments, CLI_OPTION_CONTENT) || cli_given(arguments, CLI_OPTION_WRITE);
    if (as_manifest && (app->json || cli_given(arguments, CLI_OPTION_ALGORITHM))) {
        return cli_usage_error(app, "a manifest is always JSON, with SHA-256 digests");
    }
    if (as_manifest && (arguments->name_count != 1 || strcmp(arguments->names[0], "-") == 0)) {
        return cli_usage_error(app, "a manifest is about one model: one file or one folder");
    }
    if (cli_given(arguments, CLI_OPTION_CONTENT) + cli_given(arguments, CLI_OPTION_WRITE) + as_manifest > 1) {
        return cli_usage_error(app, "--content, --write and a manifest exclude each other");
    }
    if (of_tensors && cli_given(arguments, CLI_OPTION_OUTPUT)) {
        return cli_usage_error(app, "-o is only for lines and manifests");
    }
    return CLI_EXIT_OK;
}

static int hash_files(cli *app, const cli_arguments *arguments, coffer_algorithm algorithm)
{
    const char *key_path = cli_value(arguments, CLI_OPTION_SIGN);
    hash_run run = { .app = app, .output = cli_value(arguments, CLI_OPTION_OUTPUT), .algorithm = algorithm };
    if (run.output != NULL) {
        run.code = cli_publish_check(app, run.output, cli_given(arguments, CLI_OPTION_FORCE));
    }
    if (run.code != CLI_EXIT_OK) {
        return run.code;
    }
    run.as_manifest = key_path != NULL || cli_given(arguments, CLI_OPTION_MANIFEST);
    run.follows_links = !run.as_manifest || cli_given(arguments, CLI_OPTION_FOLLOW_LINKS);
    for (size_t i = 0; i < arguments->name_count; i++) {
        add_path(&run, arguments->names[i]);
    }
    const int refused = guard_output(&run, arguments, key_path);
    if (refused == CLI_EXIT_OK) {
        hash_and_write(&run, key_path);
    } else {
        run.code = refused;
    }
    for (size_t i = 0; i < run.count; i++) {
        free(run.files[i].path);
    }
    free(run.files);
    coffer_manifest_free(run.manifest);
    return run.code;
}

static int run_hash(cli *app, const cli_arguments *arguments)
{
    const coffer_algorithm algorithm =
        cli_which(arguments, CLI_OPTION_ALGORITHM) == 1 ? COFFER_XXH3_128 : COFFER_SHA256;
    const int code = check_usage(app, arguments);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    return cli_given(arguments, CLI_OPTION_CONTENT) ? hash_content(app, arguments, algorithm)
           : cli_given(arguments, CLI_OPTION_WRITE) ? hash_record(app, arguments, algorithm)
                                                    : hash_files(app, arguments, algorithm);
}

static const cli_option HASH_OPTIONS[] = {
    { CLI_OPTION_ALGORITHM, 0, "algorithm", "NAME", "sha256, or xxh3 (128 bits): faster, only against accidents",
      "sha256|xxh3" },
    { CLI_OPTION_CONTENT, 'c', "content", NULL, "the digest of a model's tensors, however they are stored", NULL },
    { CLI_OPTION_WRITE, 'w', "write", NULL, "record digests of the tensors inside each file", NULL },
    { CLI_OPTION_MANIFEST, 'm', "manifest", NULL, "write the manifest of model signing, in JSON", NULL },
    { CLI_OPTION_SIGN, 0, "sign", "FILE", "the same, signed with the private key in FILE, in PEM", NULL },
    { CLI_OPTION_FOLLOW_LINKS, 0, "follow-links", NULL,
      "treat links as files: in a manifest, and to write their targets", NULL },
    { CLI_OPTION_OUTPUT, 'o', "output", "FILE", "write to FILE, which appears when it is complete", NULL },
    { CLI_OPTION_FORCE, 'f', "force", NULL, "overwrite FILE; with --write, change read-only files, too", NULL },
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example HASH_EXAMPLES[] = {
    { "coffer hash *.safetensors -o SHA256SUMS", "what `sha256sum -c SHA256SUMS` checks" },
    { "coffer hash --content model.safetensors parts/model.safetensors.index.json", "same digest: same tensors" },
    { "coffer hash --write model.safetensors", "so that `coffer verify model.safetensors` can detect damage" },
    { "coffer hash my-model --sign key.pem -o my-model.sig", "what `model_signing verify key` checks" },
    { NULL, NULL },
};

const cli_command cli_hash = {
    .name = "hash",
    .run = run_hash,
    .summary = "write digests of files, or the signed manifest of a model",
    .usage = "PATH...",
    .about =
        "Writes a line for each file, \"DIGEST  PATH\", several files at a time: what sha256sum -c, xxhsum -c\n"
        "and coffer verify check. A folder stands for all files in it, except git's own. - is standard input.\n"
        "\n"
        "With --manifest it writes the manifest of OpenSSF model signing, with --sign a bundle that is signed\n"
        "with a P-256, P-384 or P-521 key: `model_signing verify key PATH --signature FILE --public_key PUB`\n"
        "checks it, and so does `coffer verify PATH --manifest FILE --key PUB`.\n"
        "\n"
        "With --content the digest is that of all tensors of a model, in one file or several: two copies have\n"
        "the same digest if names, dtypes, shapes and data are the same, regardless of the order, the\n"
        "division into files and the metadata. With --write digests are recorded in the metadata of each\n"
        "file, in place if they fit into the header's slack, and those of the whole model in the index of\n"
        "several files; nothing is verified first.\n"
        "\n"
        "JSON: an array of {path, algorithm, digest, size (of a model's tensors, of a file)}; with --write of\n"
        "{path, done (\"clone\", \"in_place\", \"rewrite\", \"nothing\"), seconds}. A file that fails has path and\n"
        "error (see coffer help info).\n",
    .options = HASH_OPTIONS,
    .examples = HASH_EXAMPLES,
    .least_names = 1,
    .most_names = SIZE_MAX,
};
