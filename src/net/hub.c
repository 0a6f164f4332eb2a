/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Hub's names, paths and URLs: see hub.h. Names come from users and from servers, and become
 * paths in the file system and URLs. So each component is checked once, when it is read
 * (hub_is_component), and everything else may rely on that: no name leads out of the cache or of
 * the repository.
 */
#include "hub.h"

#include "error.h"
#include "os.h"
#include "text.h"

#include <string.h>

#define HUB_DEFAULT_ENDPOINT "https://huggingface.co"

/* ---- settings ---------------------------------------------------------------------------------------------------- */

/* A setting that has two names, of which the first takes precedence. */
static const char *hub_variable(const char *name, const char *other)
{
    const char *value = coffer__os_variable(name);
    return value != NULL || other == NULL ? value : coffer__os_variable(other);
}

/* Joins the two texts; false if that is too long. */
static bool hub_path(coffer__path *path, const char *folder, const char *rest)
{
    path->text[0] = '\0';
    return coffer__text_append(path->text, sizeof path->text, folder, coffer__text_len(folder)) &&
           coffer__text_append(path->text, sizeof path->text, rest, coffer__text_len(rest));
}

/* Where clients of the Hub keep their files: HF_HOME, or huggingface in the user's caches. False if
   there is none. The order is that of huggingface_hub, so that all clients find the same cache. */
static bool hub_home(coffer__path *home)
{
    const char *stated = coffer__os_variable("HF_HOME");
    const char *caches = coffer__os_variable("XDG_CACHE_HOME");
    const char *user = coffer__os_variable("HOME");
    if (stated != NULL) {
        return hub_path(home, stated, "");
    }
    if (caches != NULL) {
        return hub_path(home, caches, "/huggingface");
    }
    return user != NULL && hub_path(home, user, "/.cache/huggingface");
}

/* The beginning of a small file, up to the first byte that is not printable ASCII; false if there
   is nothing. It reads refs, which have 40 characters and perhaps a line break; nothing of a larger
   file is read beyond `size`. */
static bool hub_read_line(const char *path, char *line, size_t size)
{
    int fd = -1;
    size_t got = 0;
    if (coffer__os_open(path, COFFER__OS_READ, true, &fd) != 0) {
        return false;
    }
    const int os_error = coffer__os_read_at(fd, 0, line, size - 1, &got);
    (void)coffer__os_close(fd);
    size_t len = 0;
    while (len < got && (unsigned char)line[len] > ' ' && (unsigned char)line[len] < 0x7F) {
        len++;
    }
    line[len] = '\0';
    return os_error == 0 && len > 0;
}

/* 1, ON, YES and TRUE, in any case: what the Hub's own client accepts. Bit 5 makes letters lower
   case. It also maps some control characters to digits and signs, which cannot make a word of these
   out of a sensible value. */
static bool hub_is_true(const char *text)
{
    static const char *const words[] = { "1", "on", "yes", "true" };
    for (size_t i = 0; text != NULL && i < sizeof words / sizeof words[0]; i++) {
        size_t at = 0;
        while (words[i][at] != '\0' && (text[at] | 0x20) == (words[i][at] | 0x20)) {
            at++;
        }
        if (words[i][at] == '\0' && text[at] == '\0') {
            return true;
        }
    }
    return false;
}

/* Accepts a token. It becomes a part of a request's head, so whatever could end a line there, or a
   C string, is refused before anything is sent. The message says where the bad character is, and
   never shows the token. */
static coffer_status hub_take_token(coffer__hub *hub, const char *what, const char *token, size_t len,
                                    coffer_error *err)
{
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)token[i];
        if (c <= ' ' || c >= 0x7F) {
            return coffer__fail(err, COFFER_ERR_ARGUMENT,
                                "%s is not a token: its character %u has the code %u, and tokens have letters, digits "
                                "and marks of ASCII only",
                                what, (uint64_t)i + 1, (uint64_t)c);
        }
    }
    if (len >= sizeof hub->token) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "%s is not a token: it is longer than %u characters", what,
                            (uint64_t)sizeof hub->token - 1);
    }
    memcpy(hub->token, token, len);
    hub->token[len] = '\0';
    return COFFER_OK;
}

/* The token in a file, if there is one, without the white space after it. A file that cannot be
   read is like none. What is in the file is checked like any token. The space is a little larger
   than a token, so that white space at the end does not count as too long. */
static coffer_status hub_read_token(coffer__hub *hub, const char *path, coffer_error *err)
{
    char text[sizeof hub->token + 64];
    int fd = -1;
    size_t len = 0;
    if (coffer__os_open(path, COFFER__OS_READ, true, &fd) != 0) {
        return COFFER_OK;
    }
    const int os_error = coffer__os_read_at(fd, 0, text, sizeof text, &len);
    (void)coffer__os_close(fd);
    while (len > 0 && (text[len - 1] == ' ' || (text[len - 1] >= '\t' && text[len - 1] <= '\r'))) {
        len--;
    }
    return os_error != 0 ? COFFER_OK
                         : hub_take_token(hub, "the content of the file with the Hub's token", text, len, err);
}

/* The token that the caller gave, or else that of the environment, unless
   HF_HUB_DISABLE_IMPLICIT_TOKEN forbids that. A variable takes precedence over the file that
   logging in writes. */
static coffer_status hub_token(coffer__hub *hub, const char *given, const coffer__path *home, coffer_error *err)
{
    coffer__path file;
    const char *token = hub_variable("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN");
    const char *stated = coffer__os_variable("HF_TOKEN_PATH");
    if (given != NULL) {
        return hub_take_token(hub, "the option `token`", given, coffer__text_len(given), err);
    }
    if (hub_is_true(coffer__os_variable("HF_HUB_DISABLE_IMPLICIT_TOKEN"))) {
        return COFFER_OK;
    }
    if (token != NULL) {
        return hub_take_token(hub, "the environment variable HF_TOKEN", token, coffer__text_len(token), err);
    }
    const bool named =
        stated != NULL ? hub_path(&file, stated, "") : home != NULL && hub_path(&file, home->text, "/token");
    return named ? hub_read_token(hub, file.text, err) : COFFER_OK;
}

/* A cache whose path is too long is like none. An endpoint or token that is invalid is an error.
   The default endpoint is a constant and always valid. The cache is only remembered here and looked
   at when a file is asked for, so that a missing folder is no failure. */
coffer_status coffer__hub_settings(coffer__hub *hub, const char *token, coffer_error *err)
{
    coffer__path home;
    memset(hub, 0, sizeof *hub);
    const char *endpoint = coffer__os_variable("HF_ENDPOINT");
    coffer_status status = coffer__url_read_base(&hub->usual, "HF_ENDPOINT", HUB_DEFAULT_ENDPOINT, err);
    if (status != COFFER_OK) {
        return status;
    }
    hub->endpoint = hub->usual;
    if (endpoint != NULL) {
        status = coffer__url_read_base(&hub->endpoint, "HF_ENDPOINT", endpoint, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    /* The home is needed for the token even if the cache has a variable of its own. */
    const bool has_home = hub_home(&home);
    const char *cache = hub_variable("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE");
    if (!(cache != NULL ? hub_path(&hub->cache, cache, "/") : has_home && hub_path(&hub->cache, home.text, "/hub/"))) {
        hub->cache.text[0] = '\0';
    }
    hub->offline = hub_is_true(hub_variable("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"));
    return hub_token(hub, token, has_home ? &home : NULL, err);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* Whether a text may stand between slashes: it names something inside, so it is not empty, "." or
   "..". Control characters and backslashes are refused, too, as some systems treat the latter as
   slashes. */
static bool hub_is_component(const char *text, size_t len)
{
    if (len == 0 || (text[0] == '.' && (len == 1 || (len == 2 && text[1] == '.')))) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7F || text[i] == '\\') {
            return false;
        }
    }
    return true;
}

/* Whether each component between slashes is valid. So an empty text, a slash at either end and two
   slashes in a row are all invalid. */
static bool hub_is_path(const char *text, size_t len)
{
    size_t from = 0;
    for (size_t at = 0; at <= len; at++) {
        if (at == len || text[at] == '/') {
            if (!hub_is_component(text + from, at - from)) {
                return false;
            }
            from = at + 1;
        }
    }
    return true;
}

/* The number of characters before the first of `ends`, or before the end of the text. strchr never
   finds the NUL here, since the loop ends at it first. */
static size_t hub_span(const char *text, const char *ends)
{
    size_t len = 0;
    while (text[len] != '\0' && strchr(ends, text[len]) == NULL) {
        len++;
    }
    return len;
}

/* Keeps a checked name; false if it is invalid or too long. */
static bool hub_keep(char *to, size_t size, const char *text, size_t len)
{
    to[0] = '\0';
    return hub_is_path(text, len) && coffer__text_append(to, size, text, len);
}

/* A revision ends at a slash, but refs/pr/1 and its like contain two. Branches may contain slashes,
   too, and those are written as %2F, which is the only escape that is decoded. *len is the length
   as written. Decoding comes before the check, so that %2F cannot bring in a component that the
   check has not seen. Any other % is kept and becomes %25 in a URL. */
static bool hub_read_revision(coffer__hub_name *name, const char *text, size_t *len)
{
    *len = hub_span(text, "/");
    for (unsigned i = 0; i < 2 && strncmp(text, "refs/", 5) == 0 && text[*len] == '/'; i++) {
        *len += 1 + hub_span(text + *len + 1, "/");
    }
    if (*len >= sizeof name->revision) {
        return false;
    }
    size_t to = 0;
    for (size_t at = 0; at < *len; to++) {
        const bool escaped = *len - at >= 3 && text[at] == '%' && text[at + 1] == '2' && (text[at + 2] | 0x20) == 'f';
        name->revision[to] = escaped ? '/' : text[at];
        at += escaped ? 3 : 1;
    }
    name->revision[to] = '\0';
    return hub_is_path(name->revision, to);
}

/* Kinds of repositories; the first is the default. The kind of a name points to one of these texts,
   so kinds are compared by address. */
static const char *const hub_kinds[] = { "models", "datasets", "spaces" };

/* Skips the kind, where one is stated. "models/" is not skipped: the Hub's own URLs do not have it,
   and it could be an owner. */
static const char *hub_read_kind(const char **at)
{
    for (size_t i = 1; i < sizeof hub_kinds / sizeof hub_kinds[0]; i++) {
        const size_t len = coffer__text_len(hub_kinds[i]);
        if (strncmp(*at, hub_kinds[i], len) == 0 && (*at)[len] == '/') {
            *at += len + 1;
            return hub_kinds[i];
        }
    }
    return hub_kinds[0];
}

/* The first component is an owner if a slash follows it, and the name of a repository without an
   owner if a revision does. `hf://name` alone is refused: it may be an owner whose repository was
   forgotten. Everything is checked by hub_keep and hub_read_revision as it is taken, which is what
   the rest of this file relies on. On failure *name is incomplete and must not be used. */
coffer_status coffer__hub_read(coffer__hub_name *name, const char *text, coffer_error *err)
{
    const char *at = text + sizeof "hf://" - 1;
    memset(name, 0, sizeof *name);
    name->kind = hub_read_kind(&at);
    size_t len = hub_span(at, "/@");
    bool fine = at[len] != '\0';
    if (fine && at[len] == '/') {
        fine = hub_keep(name->owner, sizeof name->owner, at, len);
        at += len + 1;
        len = hub_span(at, "/@");
    }
    fine = fine && hub_keep(name->name, sizeof name->name, at, len);
    at += len;
    if (fine && at[0] == '@') {
        fine = hub_read_revision(name, at + 1, &len);
        at += 1 + len;
    } else {
        memcpy(name->revision, "main", 5);
    }
    if (fine && at[0] == '/' && at[1] != '\0') {
        len = coffer__text_len(at + 1);
        /* A slash at the end says that it is a folder. */
        fine = hub_keep(name->file, sizeof name->file, at + 1, at[len] == '/' ? len - 1 : len);
    }
    if (!fine) {
        return coffer__fail(
            err, COFFER_ERR_URL,
            "%q is neither hf://owner/name[@revision][/file] nor, without an owner, hf://name@revision[/file]", text,
            coffer__text_len(text));
    }
    return COFFER_OK;
}

/* Appends `count` texts; false if that is too long. On failure the text is cut, and the caller must
   not use it. */
static bool hub_build(coffer__path *path, const char *const *parts, size_t count)
{
    bool fine = true;
    for (size_t i = 0; i < count && fine; i++) {
        fine = coffer__text_append(path->text, sizeof path->text, parts[i], coffer__text_len(parts[i]));
    }
    return fine;
}

/* It always ends in a slash, whether after the repository or after the file; open_url.c removes it
   for a file. A slash within a revision is written as it is, which is right for commits. */
bool coffer__hub_write(const coffer__hub_name *name, const char *revision, coffer__path *text)
{
    const bool is_model = name->kind == hub_kinds[0];
    const char *const parts[] = { "hf://",
                                  is_model ? "" : name->kind,
                                  is_model ? "" : "/",
                                  name->owner,
                                  name->owner[0] != '\0' ? "/" : "",
                                  name->name,
                                  "@",
                                  revision,
                                  "/",
                                  name->file,
                                  name->file[0] != '\0' ? "/" : "" };
    text->text[0] = '\0';
    return hub_build(text, parts, sizeof parts / sizeof parts[0]);
}

/* The file's name up to its last slash, or all of it. The space has one byte more than a file's
   name, for the slash of the longest folder. */
void coffer__hub_folder(const coffer__hub_name *name, bool is_folder, char folder[COFFER__HUB_MAX_FILE + 1])
{
    const size_t all = coffer__text_len(name->file);
    size_t len = is_folder ? all : 0;
    for (size_t at = 0; at < all && !is_folder; at++) {
        len = name->file[at] == '/' ? at : len;
    }
    memcpy(folder, name->file, len);
    memcpy(folder + len, "/", 2);
    folder[len == 0 ? 0 : len + 1] = '\0';
}

/* The name is checked with its folder as one path, so it cannot leave the repository whatever it
   says. On failure the file of *name is "". */
bool coffer__hub_beside(coffer__hub_name *name, bool is_folder, const char *file, size_t len)
{
    char path[COFFER__HUB_MAX_FILE + 1];
    coffer__hub_folder(name, is_folder, path);
    return coffer__text_append(path, sizeof path, file, len) &&
           hub_keep(name->file, sizeof name->file, path, coffer__text_len(path));
}

/* ---- in the cache and on the server ------------------------------------------------------------------------------ */

/* The default endpoint counts even if another one is set: the token is issued for it. The whole
   origin is compared, scheme and port included: a token must not go in plain text to the same host,
   nor to another program on it. */
bool coffer__hub_is_host(const coffer__hub *hub, const coffer__url *url)
{
    return coffer__url_same_origin(&hub->endpoint, url) || coffer__url_same_origin(&hub->usual, url);
}

/* 40 lower-case hexadecimal digits. */
bool coffer__hub_is_commit(const char *text)
{
    size_t len = 0;
    while ((text[len] >= '0' && text[len] <= '9') || (text[len] >= 'a' && text[len] <= 'f')) {
        len++;
    }
    return len == 40 && text[len] == '\0';
}

/* The commit that the cache has for a revision; *commit is "" if it has none. What the file says is
   checked, since it becomes a component of a path. A revision that is a commit needs no file.
   Otherwise refs/REVISION has it: a text that any program of this user may have written, which is
   why it is checked. */
static bool hub_commit(const coffer__path *repository, const char *revision, char *commit)
{
    coffer__path refs = *repository;
    const char *const parts[] = { "/refs/", revision };
    if (coffer__hub_is_commit(revision)) {
        memcpy(commit, revision, coffer__text_len(revision) + 1);
        return true;
    }
    const bool found = hub_build(&refs, parts, 2) && hub_read_line(refs.text, commit, COFFER__HUB_MAX_REVISION) &&
                       coffer__hub_is_commit(commit);
    if (!found) {
        commit[0] = '\0';
    }
    return found;
}

/* A snapshot's file is usually a link to a blob; one whose blob was deleted does not exist. The
   path is not resolved here; model_dir.c does that. *path is unspecified after false. */
bool coffer__hub_cached(const coffer__hub *hub, const coffer__hub_name *name, char *commit, coffer__path *path)
{
    commit[0] = '\0';
    /* The cache writes the slashes of a repository's name as "--". */
    const char *const repository[] = { name->kind, "--", name->owner, name->owner[0] != '\0' ? "--" : "", name->name };
    *path = hub->cache;
    if (path->text[0] == '\0' || !hub_build(path, repository, 5) || !hub_commit(path, name->revision, commit)) {
        return false;
    }
    const char *const file[] = { "/snapshots/", commit, "/", name->file };
    return hub_build(path, file, 4) && coffer__os_exists(path->text);
}

/* A part of a URL, and which of its characters are not written as %XX. A slash in a revision must
   become %2F, and one in a file's name must not. */
typedef struct hub_part {
    const char *text;
    const char *keep;
} hub_part;

/* Joins the parts to the endpoint and reads the result like any URL, so that there is one way to
   make one. */
static coffer_status hub_make_url(const coffer__hub *hub, const hub_part *parts, size_t count, coffer__url *url,
                                  coffer_error *err)
{
    char text[COFFER__URL_SIZE];
    size_t used = hub->endpoint.path + hub->endpoint.path_len;
    memcpy(text, hub->endpoint.text, used);
    for (size_t i = 0; i < count; i++) {
        used = coffer__url_append(text, used, parts[i].text, coffer__text_len(parts[i].text), parts[i].keep);
        if (used == 0) {
            return coffer__fail(err, COFFER_ERR_URL, "the URL is longer than %u characters", (uint64_t)sizeof text - 1);
        }
    }
    return coffer__url_read(url, text, err);
}

/* Models have no kind in this URL, unlike in that of the listing. Each part has its own set of
   characters to keep: only the slashes that separate parts, and those of the file's path, stay
   slashes. */
coffer_status coffer__hub_url(const coffer__hub *hub, const coffer__hub_name *name, const char *revision,
                              coffer__url *url, coffer_error *err)
{
    const bool is_model = name->kind == hub_kinds[0];
    const hub_part parts[] = { { "/", "/" },
                               { is_model ? "" : name->kind, "" },
                               { is_model ? "" : "/", "/" },
                               { name->owner, "" },
                               { name->owner[0] != '\0' ? "/" : "", "/" },
                               { name->name, "" },
                               { "/resolve/", "/" },
                               { revision, "" },
                               { "/", "/" },
                               { name->file, "/" } };
    return hub_make_url(hub, parts, sizeof parts / sizeof parts[0], url, err);
}

/* Always for the revision as it was named: the answer of /revision/ is how the commit becomes known. */
static coffer_status hub_make_api_url(const coffer__hub *hub, const coffer__hub_name *name, const char *what,
                                      const char *file, const char *query, coffer__url *url, coffer_error *err)
{
    const hub_part parts[] = { { "/api/", "/" },
                               { name->kind, "" },
                               { "/", "/" },
                               { name->owner, "" },
                               { name->owner[0] != '\0' ? "/" : "", "/" },
                               { name->name, "" },
                               { what, "/" },
                               { name->revision, "" },
                               { file[0] != '\0' ? "/" : "", "/" },
                               { file, "/" },
                               { query, "?=" } };
    return hub_make_url(hub, parts, sizeof parts / sizeof parts[0], url, err);
}

coffer_status coffer__hub_listing_url(const coffer__hub *hub, const coffer__hub_name *name, coffer__url *url,
                                      coffer_error *err)
{
    return hub_make_api_url(hub, name, "/revision/", "", "", url, err);
}

coffer_status coffer__hub_tree_url(const coffer__hub *hub, const coffer__hub_name *name, coffer__url *url,
                                   coffer_error *err)
{
    return hub_make_api_url(hub, name, "/tree/", name->file, "?recursive=true", url, err);
}
