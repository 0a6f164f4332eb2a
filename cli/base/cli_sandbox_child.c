/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading in a process that can do no harm, the end that reads: see cli_sandbox.h. Nothing here but
 * memory and the one descriptor works once cli_confine has returned, so failures leave by the
 * socket, or by the exit code alone.
 *
 * The parent is trusted: it is the same program, started by the user. What it hands over of the
 * file is not, and the library's readers treat it as they do without a sandbox. So a mistake in a
 * reader is all that an attacker has, and what it can be used for is this process: its memory, and
 * messages that the parent does not believe.
 *
 * Every byte of the input is asked for, none is mapped. Readers look at little of a file, so that
 * costs little.
 */
#include "cli_confine.h"
#include "cli_sandbox.h"
#include "sandbox_messages.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHILD_SOCKET 0
#define CHILD_MAX_WANTS ((uint64_t)1 << 20)

/* The word alone is not enough: typed by somebody, it would wait for messages from a terminal. Only
   a process that was started with a socket is a child. */
bool cli_sandbox_is_child(int argc, char **argv)
{
    int type = 0;
    socklen_t size = sizeof type;
    return CLI_CONFINE_POSSIBLE && argc == 2 && strcmp(argv[1], CLI_SANDBOX_WORD) == 0 &&
           getsockopt(CHILD_SOCKET, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

/* The parent is gone, or speaks another language: nobody is left to tell. */
static _Noreturn void child_give_up(void)
{
    _exit(1);
}

/* Asks, and takes the beginning of the answer. What failed in the parent is the failure here. */
static coffer_status child_ask(const sandbox_message *asked, const void *bytes, size_t size, sandbox_message *answer,
                               coffer_error *err)
{
    if (!sandbox_send(CHILD_SOCKET, asked, sizeof *asked) || !sandbox_send(CHILD_SOCKET, bytes, size) ||
        !sandbox_receive(CHILD_SOCKET, answer, sizeof *answer)) {
        child_give_up();
    }
    if (answer->kind == SANDBOX_DONE) {
        return COFFER_OK;
    }
    if (answer->kind != SANDBOX_FAILED || answer->size != sizeof *err ||
        !sandbox_receive(CHILD_SOCKET, err, sizeof *err)) {
        child_give_up();
    }
    return err->code;
}

/* In pieces, as the parent's buffer has a size, which is also the most that it allows to be asked
   for. */
static coffer_status child_read(void *ctx, uint32_t file, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    (void)ctx;
    unsigned char *next = buffer;
    while (size > 0) {
        const size_t piece = size < SANDBOX_PIECE ? size : SANDBOX_PIECE;
        const sandbox_message asked = { .kind = SANDBOX_READ, .file = file, .offset = offset, .size = piece };
        sandbox_message answer = { .kind = SANDBOX_FAILED };
        const coffer_status status = child_ask(&asked, NULL, 0, &answer, err);
        if (status != COFFER_OK) {
            return status;
        }
        if (answer.size != piece || !sandbox_receive(CHILD_SOCKET, next, piece)) {
            child_give_up();
        }
        next += piece;
        offset += piece;
        size -= piece;
    }
    return COFFER_OK;
}

/* The parent opens the file and gives it the number that comes next, as this process's input does:
   both count the files that were opened. */
static coffer_status child_beside(void *ctx, const char *name, size_t name_len, uint64_t *size, coffer_error *err)
{
    (void)ctx;
    const sandbox_message asked = { .kind = SANDBOX_BESIDE, .size = name_len };
    sandbox_message answer = { .kind = SANDBOX_FAILED };
    const coffer_status status = child_ask(&asked, name, name_len, &answer, err);
    *size = status == COFFER_OK ? answer.offset : 0;
    return status;
}

/* What the parent wants, in one block that stays as long as the process: the struct, and the texts
   after it, each with its NUL. Taken after the confinement, as everything is. */
static const sandbox_wants *child_take_wants(void)
{
    sandbox_message message;
    if (!sandbox_receive(CHILD_SOCKET, &message, sizeof message) || message.kind != SANDBOX_WANTS ||
        message.size < sizeof(sandbox_wants) || message.size > CHILD_MAX_WANTS) {
        child_give_up();
    }
    unsigned char *block = malloc((size_t)message.size);
    if (block == NULL || !sandbox_receive(CHILD_SOCKET, block, (size_t)message.size)) {
        child_give_up();
    }
    return (const sandbox_wants *)block;
}

/* The options as the parent had them, but for its allocator. An empty text was NULL. */
static coffer_import_options child_options(const sandbox_wants *wants, const char *root, const char *prefix)
{
    coffer_import_options options = COFFER_IMPORT_OPTIONS_INIT;
    options.root = root[0] != '\0' ? root : NULL;
    options.strip_prefix = prefix[0] != '\0' ? prefix : NULL;
    options.ties = (coffer_ties)wants->ties;
    options.scalars = (coffer_scalars)wants->scalars;
    options.bytes_as = (coffer_dtype)wants->bytes_as;
    options.skip_unsupported = (wants->flags & SANDBOX_WANTS_SKIP_UNSUPPORTED) != 0;
    options.strict = (wants->flags & SANDBOX_WANTS_STRICT) != 0;
    options.complex128 = (wants->flags & SANDBOX_WANTS_COMPLEX128) != 0;
    options.allow_expand = (wants->flags & SANDBOX_WANTS_EXPAND) != 0;
    options.scan = (wants->flags & SANDBOX_WANTS_SCAN) != 0;
    options.raw_blocks = (wants->flags & SANDBOX_WANTS_RAW) != 0;
    options.packed = (wants->flags & SANDBOX_WANTS_PACKED) != 0;
    options.constants = (wants->flags & SANDBOX_WANTS_CONSTANTS) != 0;
    options.blocks_as = (coffer_dtype)wants->blocks_as;
    options.max_metadata = wants->max_metadata;
    return options;
}

/* The patterns, which lie one after another. They stay as long as the process. */
static void child_take_patterns(const sandbox_wants *wants, const char *texts, coffer_import_options *options)
{
    const char **patterns = malloc((wants->pattern_count + (size_t)1) * sizeof *patterns);
    if (patterns == NULL) {
        child_give_up();
    }
    for (size_t i = 0; i < wants->pattern_count; i++) {
        patterns[i] = texts;
        texts += strlen(texts) + 1;
    }
    options->select = patterns;
    options->select_count = wants->pattern_count;
}

/* Reads the input and makes bytes of the import, which live as long as the process. */
static coffer_status child_import(const sandbox_wants *wants, const void **bytes, size_t *size, coffer_error *err)
{
    const char *path = (const char *)(wants + 1);
    const char *root = path + wants->path_size;
    const char *prefix = root + wants->root_size;
    coffer_import_options options = child_options(wants, root, prefix);
    child_take_patterns(wants, prefix + wants->prefix_size, &options);
    const coffer_input_functions functions = {
        .read = child_read,
        .beside = child_beside,
        .size = wants->size,
        .path = path,
        .far = strstr(path, "://") != NULL,
    };
    coffer_input *input = NULL;
    coffer_import *import = NULL;
    coffer_status status = coffer_input_open_functions(&input, &functions, NULL, err);
    if (status == COFFER_OK) {
        status = coffer_import_open(&import, input, &options, err);
    }
    return status == COFFER_OK ? coffer_import_save(import, bytes, size, err) : status;
}

/* Nothing is freed, and nothing that runs at the end of a program runs: the process is forgotten. */
int cli_sandbox_child(void)
{
    coffer_error err;
    const void *bytes = NULL;
    size_t size = 0;
    /* What the kernel cannot do is missing, and no reason to refuse to read. */
    (void)cli_confine();
    const coffer_status status = child_import(child_take_wants(), &bytes, &size, &err);
    const sandbox_message message = { .kind = status == COFFER_OK ? SANDBOX_DONE : SANDBOX_FAILED,
                                      .size = status == COFFER_OK ? size : sizeof err };
    if (!sandbox_send(CHILD_SOCKET, &message, sizeof message) ||
        !sandbox_send(CHILD_SOCKET, status == COFFER_OK ? bytes : &err, (size_t)message.size)) {
        child_give_up();
    }
    _exit(0);
}
