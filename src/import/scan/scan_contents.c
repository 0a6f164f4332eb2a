/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a loader would run of what is in a container: see scan_contents.h.
 *
 * Containers within containers are a stack of frames, whose height is bounded, as is the number of all containers and what
 * is inflated of them. A frame reads through a view: a range of the file, or memory that a member was inflated into. Its
 * findings are made in the view's bytes, and are moved to those of the file after each member.
 *
 * The bytes of a checkpoint's storages are not looked at: nobody loads them as pickles, and a large checkpoint on the Hub is
 * scanned by reading its directory and its pickles. In programs of torch.export they may be pickles, and NumPy takes any
 * member for an array; so there all are.
 *
 * A scan never gives up where something is wrong, since that may be what was meant to stop it: what cannot be read or is too
 * large becomes a finding of its own.
 */
#include "scan_contents.h"

#include "alloc.h"
#include "error.h"
#include "gzip.h"
#include "numpy.h"
#include "pickle_archive.h"
#include "pickle_scan.h"
#include "readers.h"
#include "scan_code.h"
#include "tar.h"
#include "text.h"

#include <string.h>

/* Containers within each other, the outermost counted; and all of them. */
#define CONTENTS_MAX_FRAMES 6
#define CONTENTS_MAX_ARCHIVES 256
/* Bytes of members that are in memory at a time; and of all of them, one after another. */
#define CONTENTS_MAX_HELD ((uint64_t)64 << 20)
#define CONTENTS_MAX_INFLATED ((uint64_t)1 << 30)
#define CONTENTS_MAX_MEMBERS 100000               /* of an archive (tar), each of which costs a read */
#define CONTENTS_MAX_PADDING ((uint64_t)64 << 10) /* zeros after the end of an archive (tar) */
#define CONTENTS_NAME 1024                        /* of a member in an archive in another one; a longer one is cut */

/* Bytes that are read as if they were a file. */
typedef struct contents_view {
    const coffer__reader_file *file; /* whose range it is */
    const uint8_t *bytes;            /* NULL: they are in the file */
    uint64_t at; /* of the first one in the file; of those in memory, of what they were inflated from */
} contents_view;

/* A part of a file is a container of one member, which is all of it. */
typedef enum contents_kind {
    CONTENTS_NOTHING,
    CONTENTS_PART,
    CONTENTS_ZIP,
    CONTENTS_TAR,
    CONTENTS_HDF5,
    CONTENTS_NPY,
    CONTENTS_PACKED /* a part, once it is unpacked */
} contents_kind;

/* A container that is open. */
typedef struct contents_frame {
    contents_kind kind;
    contents_view view;
    coffer__input_files input; /* of the view */
    coffer__reader_file file;  /* the same, for whoever wants a file */
    uint8_t *held;             /* memory of the view that is the frame's own; or NULL */
    uint32_t name;             /* a text: which member it is; 0: none */
    const char *called;        /* a part */
    bool embedded;             /* one of many archives in a file, which says where they end */
    coffer__pickle_archive archive;
    coffer__tar tar;
    size_t next;     /* member */
    bool everywhere; /* it is of a kind whose storages may be pickles */
    bool script;     /* torch.load hands it to the loader of TorchScript */
    bool oldest;     /* the members of PyTorch's first kind are looked at elsewhere */
    size_t
        folder; /* of a checkpoint: bytes of the name of the folder in which its data.pkl is, with the slash; 0: none */
} contents_frame;

typedef struct contents {
    const coffer__reader_file *file;
    contents_frame frames[CONTENTS_MAX_FRAMES];
    size_t depth;
    size_t archives;
    uint64_t held;
    uint64_t inflated;
} contents;

/* A member of a frame's container. */
typedef struct contents_member {
    const char *name;
    size_t name_len;
    uint64_t head; /* where messages have it */
    uint64_t at;   /* in the view */
    uint64_t size;
    coffer__zip_member *zip; /* or NULL */
    contents_kind is;        /* what there is to go into */
} contents_member;

/* ---- views --------------------------------------------------------------------------------------------------------- */

/* Offsets were compared with the size of the view. */
static coffer_status contents_view_read(void *ctx, uint32_t file, uint64_t offset, void *bytes, size_t size,
                                        coffer_error *err)
{
    const contents_view *view = ctx;
    (void)file;
    if (view->bytes != NULL) {
        memcpy(bytes, view->bytes + offset, size);
        return COFFER_OK;
    }
    return coffer__input_files_read(view->file->input, view->file->file, view->file->size, view->at + offset, bytes,
                                    size, err);
}

static coffer__input_files contents_view_input(contents_view *view, uint64_t size)
{
    return (coffer__input_files){ .ctx = view, .read = contents_view_read, .size = size, .path = "" };
}

/* The range of a view that a stored member is, or the bytes that it was inflated into. */
static contents_view contents_member_view(const contents_frame *frame, const contents_member *member,
                                          const uint8_t *bytes)
{
    contents_view view = frame->view;
    if (bytes != NULL) {
        view.bytes = bytes;
        view.at += frame->view.bytes == NULL ? member->at : 0;
    } else if (view.bytes != NULL) {
        view.bytes += member->at;
    } else {
        view.at += member->at;
    }
    return view;
}

static bool contents_is_stored(const contents_member *member)
{
    return member->zip == NULL || member->zip->coding == COFFER__CODING_STORED;
}

/* ---- findings ------------------------------------------------------------------------------------------------------ */

/* About a member; the sentence has its name as %q. */
static coffer_status contents_put(const contents_frame *frame, const contents_member *member, coffer_weight weight,
                                  const char *sentence, coffer_error *err)
{
    return coffer__import_plan_put_finding(frame->file.plan, weight, frame->file.file, member->head, member->name,
                                           sentence, member->name, member->name_len, err);
}

/* Writes the name of a member behind that of the archives that it is in. */
static size_t contents_join(const coffer__import_plan *plan, uint32_t outer, uint32_t inner, char name[CONTENTS_NAME])
{
    const uint32_t parts[] = { outer, inner };
    size_t used = 0;
    for (size_t i = 0; i < 2; i++) {
        size_t len = 0;
        const char *text = coffer__import_plan_text(plan, parts[i], &len);
        if (len > 0 && used > 0 && used < CONTENTS_NAME) {
            name[used++] = '/';
        }
        len = len < CONTENTS_NAME - used ? len : CONTENTS_NAME - used;
        memcpy(name + used, text, len);
        used += len;
    }
    return used;
}

/* Findings from number `first` on were made in the bytes of the frame's view: gives them their places in the file. */
static coffer_status contents_move(const contents_frame *frame, size_t first, coffer_error *err)
{
    coffer__import_plan *plan = frame->file.plan;
    char name[CONTENTS_NAME];
    for (size_t i = first; i < plan->findings.count; i++) {
        coffer__import_plan_finding *finding = (coffer__import_plan_finding *)plan->findings.items + i;
        if (finding->offset != UINT64_MAX) {
            finding->offset = frame->view.at + (frame->view.bytes == NULL ? finding->offset : 0);
        }
        if (frame->name != 0) {
            const size_t len = contents_join(plan, frame->name, finding->member, name);
            const coffer_status status = coffer__import_plan_put_text(plan, name, len, &finding->member, err);
            if (status != COFFER_OK) {
                return status;
            }
        }
    }
    return COFFER_OK;
}

/* ---- members ------------------------------------------------------------------------------------------------------- */

static bool contents_ends(const contents_member *member, const char *ending)
{
    return coffer__text_ends(member->name, member->name_len, ending);
}

/* The first bytes; of a member of an archive (zip) its place is known after this. */
static coffer_status contents_head(contents_frame *frame, contents_member *member, uint8_t *head, size_t size,
                                   coffer_error *err)
{
    if (member->zip == NULL) {
        return coffer__input_files_read(&frame->input, 0, frame->input.size, member->at, head, size, err);
    }
    const coffer_status status = coffer__zip_load(&frame->archive.zip, &frame->input, member->zip, head, size, err);
    member->at = member->zip->at;
    return status;
}

/* All of a member, in memory. *bytes is NULL where there is a bound in the way, and that is a finding. */
static coffer_status contents_load(contents *c, contents_frame *frame, contents_member *member, uint8_t **bytes,
                                   coffer_error *err)
{
    size_t size = 0;
    *bytes = NULL;
    if (member->size > CONTENTS_MAX_HELD - c->held || member->size > CONTENTS_MAX_INFLATED - c->inflated) {
        return contents_put(frame, member, COFFER_WEIGHT_DANGER,
                            "%q is packed or text, and too large to look at together with the rest: it was not "
                            "looked at",
                            err);
    }
    c->inflated += member->size;
    if (member->zip != NULL) {
        return coffer__pickle_archive_load(&frame->archive, member->zip, CONTENTS_MAX_HELD, bytes, &size, err);
    }
    *bytes = coffer__alloc_array(frame->file.plan->allocator, (size_t)member->size, 1, err);
    return *bytes == NULL ? COFFER_ERR_MEMORY
                          : coffer__input_files_read(&frame->input, 0, frame->input.size, member->at, *bytes,
                                                     (size_t)member->size, err);
}

static void contents_unload(const contents_frame *frame, const contents_member *member, uint8_t *bytes)
{
    coffer__free_array(frame->file.plan->allocator, bytes, (size_t)member->size, 1);
}

/* Whether a member is the bytes of a storage of a checkpoint: FOLDER/data/KEY, where a key is a number. */
static bool contents_is_storage(const contents_frame *frame, const contents_member *member)
{
    static const char data[] = "data/";
    const size_t key = frame->folder + sizeof data - 1;
    if (frame->folder == 0 || member->name_len <= key ||
        memcmp(member->name, frame->archive.zip.members[0].name, frame->folder) != 0 ||
        memcmp(member->name + frame->folder, data, sizeof data - 1) != 0) {
        return false;
    }
    bool number = true;
    for (size_t i = key; i < member->name_len; i++) {
        number = number && member->name[i] >= '0' && member->name[i] <= '9';
    }
    return number;
}

/* Whether a member is called as pickles are, in letters of any case. */
static bool contents_is_named(const contents_member *member)
{
    static const char *const endings[] = { ".pkl", ".debug_pkl", ".pickle", ".joblib", ".dill" };
    char end[10];
    const size_t len = member->name_len < sizeof end ? member->name_len : sizeof end;
    for (size_t i = 0; i < len; i++) {
        const char c = member->name[member->name_len - len + i];
        end[i] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
    }
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (coffer__text_ends(end, len, endings[i])) {
            return true;
        }
    }
    return false;
}

static bool contents_is_below(const contents_member *member, const char *folder)
{
    return coffer__reader_has((const uint8_t *)member->name, member->name_len, folder);
}

/* Whether a member may be numbers as well as a pickle: a weight of torch.export, whose loader goes by a description, a
   constant of TorchScript, a storage with a key of another kind. */
static bool contents_is_weight(const contents_frame *frame, const contents_member *member)
{
    const bool weight = frame->everywhere && contents_is_below(member, "/data/") && !contents_ends(member, ".json") &&
                        !contents_ends(member, ".npy");
    return weight || (frame->folder > 0 && !contents_is_named(member) &&
                      (contents_is_below(member, "/constants/") || contents_is_below(member, "/data/")));
}

/* Whether a member is what AOTInductor has compiled, or what it compiled it of. */
static bool contents_is_compiled(const contents_frame *frame, const contents_member *member)
{
    return frame->everywhere && contents_is_below(member, COFFER__PICKLE_ARCHIVE_COMPILED) &&
           !contents_ends(member, ".json");
}

/* A range that may be a pickle: of what nothing says so there are findings only if a loader might run something. */
static coffer_status contents_pickle(const contents_frame *frame, const contents_member *member, const uint8_t *bytes,
                                     bool sure, coffer_error *err)
{
    const coffer__scan_range range = { .member = member->name,
                                       .bytes = bytes,
                                       .at = member->at,
                                       .size = member->size,
                                       .expected = 1,
                                       .unsure = !sure,
                                       .script = frame->script };
    return coffer__scan_pickles(&frame->file, &range, NULL, err);
}

/* Text that may name code, in memory. */
static coffer_status contents_text(contents *c, contents_frame *frame, contents_member *member, coffer_error *err)
{
    uint8_t *bytes = NULL;
    coffer_status status = contents_load(c, frame, member, &bytes, err);
    if (status == COFFER_OK && bytes != NULL) {
        status = coffer__scan_text(&frame->file, member->name, member->at, member->name, member->name_len, bytes,
                                   (size_t)member->size, err);
    }
    contents_unload(frame, member, bytes);
    return status;
}

/* What nothing tells of but its being there, and pickles, deflated or not. */
static coffer_status contents_rest(contents *c, contents_frame *frame, contents_member *member, const uint8_t *head,
                                   size_t head_size, coffer_error *err)
{
    const bool begins = coffer__scan_is_pickle(head, head_size);
    const bool sure =
        member->is != CONTENTS_PACKED && (begins || contents_is_named(member)) && !contents_is_weight(frame, member);
    uint8_t *bytes = NULL;
    coffer_status status = COFFER_OK;
    if (!contents_is_stored(member)) {
        status = contents_load(c, frame, member, &bytes, err);
        if (status != COFFER_OK || bytes == NULL) {
            contents_unload(frame, member, bytes);
            return status;
        }
    }
    status = contents_pickle(frame, member, bytes, sure, err);
    contents_unload(frame, member, bytes);
    return status;
}

/* ---- containers ---------------------------------------------------------------------------------------------------- */

/* A program of torch.export says what it is; archives of arrays have members that are called so. */
static bool contents_everywhere(const coffer__zip *zip)
{
    for (size_t i = 0; i < zip->count; i++) {
        const coffer__zip_member *member = &zip->members[i];
        if (coffer__text_ends(member->name, member->name_len, "/archive_format") ||
            coffer__text_ends(member->name, member->name_len, ".npy")) {
            return true;
        }
    }
    return false;
}

/* Bytes of the first member's name that are its folder, with the slash; 0: it is in none. */
static size_t contents_folder(const coffer__zip *zip)
{
    size_t len = 0;
    while (zip->count > 0 && len < zip->members[0].name_len) {
        if (zip->members[0].name[len++] == '/') {
            return len;
        }
    }
    return 0;
}

/* Whether there is a member of that name in the folder. */
static bool contents_has(const coffer__zip *zip, size_t folder, const char *name)
{
    for (size_t i = 0; i < zip->count; i++) {
        const coffer__zip_member *member = &zip->members[i];
        if (member->name_len == folder + coffer__text_len(name) &&
            memcmp(member->name, zip->members[0].name, folder) == 0 &&
            coffer__text_ends(member->name, member->name_len, name)) {
            return true;
        }
    }
    return false;
}

/* What is known of an archive by the names of its members. A name is only looked for in the folder of the first one, as
   torch.load does. An archive within another is opened by no loader of TorchScript. */
static void contents_judge(const contents *c, contents_frame *frame)
{
    const coffer__zip *zip = &frame->archive.zip;
    const size_t folder = contents_folder(zip);
    frame->everywhere = contents_everywhere(zip);
    frame->folder = !frame->everywhere && contents_has(zip, folder, "data.pkl") ? folder : 0;
    frame->script = folder > 0 && contents_has(zip, folder, "constants.pkl") &&
                    (c->depth == 1 || (c->depth == 2 && c->frames[0].kind == CONTENTS_PART));
}

/* Opens the container that the frame's view is. */
static coffer_status contents_open(const contents *c, contents_frame *frame, coffer_error *err)
{
    const coffer__reader_file *file = &frame->file;
    const size_t first = file->plan->findings.count;
    if (frame->kind == CONTENTS_HDF5 || frame->kind == CONTENTS_NPY) {
        uint64_t objects = 0;
        const coffer_status read = frame->kind == CONTENTS_NPY
                                       ? coffer__numpy_put_file(file, &objects, err)
                                       : coffer__reader_hdf5.read(&frame->input, file->wants, file->plan, err);
        return read == COFFER_OK ? contents_move(frame, first, err) : read;
    }
    if (frame->kind != CONTENTS_ZIP) {
        frame->tar =
            (coffer__tar){ .input = &frame->input, .allocator = file->plan->allocator, .size = frame->input.size };
        return COFFER_OK;
    }
    frame->archive.file = file;
    const coffer_status status = (frame->embedded ? coffer__zip_read_embedded : coffer__zip_read)(
        &frame->archive.zip, &frame->input, file->file, 0, frame->input.size, file->wants, file->plan,
        file->plan->allocator, err);
    const coffer_status moved = contents_move(frame, first, status == COFFER_OK ? err : NULL);
    if (status != COFFER_OK) {
        /* Nothing is there to be freed. */
        frame->kind = CONTENTS_NOTHING;
        return status;
    }
    contents_judge(c, frame);
    return moved;
}

/* Puts a frame on the stack, which is not open yet. */
static contents_frame *contents_push(contents *c, const contents_view *view, uint64_t size, contents_kind kind)
{
    contents_frame *frame = &c->frames[c->depth++];
    *frame = (contents_frame){ .kind = kind, .view = *view };
    frame->input = contents_view_input(&frame->view, size);
    frame->file = (coffer__reader_file){
        .input = &frame->input, .wants = c->file->wants, .plan = c->file->plan, .file = c->file->file, .size = size
    };
    c->archives++;
    return frame;
}

/* Takes the uppermost frame off the stack. */
static void contents_pop(contents *c)
{
    contents_frame *frame = &c->frames[--c->depth];
    if (frame->kind == CONTENTS_ZIP) {
        coffer__zip_free(&frame->archive.zip);
    }
    if (frame->held != NULL) {
        c->held -= frame->input.size;
        coffer__free_array(c->file->plan->allocator, frame->held, (size_t)frame->input.size, 1);
    }
}

/* Puts what packed bytes stand for in their place; NULL where that is not known, which is told. */
static coffer_status contents_unpack(contents *c, contents_frame *frame, contents_member *member, uint8_t **bytes,
                                     coffer_error *err)
{
    const uint64_t held = CONTENTS_MAX_HELD - c->held;
    const uint64_t left = CONTENTS_MAX_INFLATED - c->inflated;
    uint8_t *unpacked = NULL;
    size_t size = 0;
    bool all = false;
    coffer_status status = coffer__gzip_unpack(frame->file.plan->allocator, *bytes, (size_t)member->size,
                                               (size_t)(held < left ? held : left), &unpacked, &size, &all, err);
    if (status == COFFER_OK && unpacked == NULL && c->depth == 1 && frame->kind == CONTENTS_PART) {
        status =
            coffer__fail(err, COFFER_ERR_DAMAGED, "the file is compressed, and cannot be unpacked: unpack it first");
    }
    if (status == COFFER_OK && (unpacked == NULL || !all)) {
        status = contents_put(frame, member, COFFER_WEIGHT_OPAQUE,
                              unpacked == NULL ? "%q is compressed once more, and was not looked at"
                                               : "%q goes on behind what is compressed: that was not looked at",
                              err);
    }
    contents_unload(frame, member, *bytes);
    member->size = size;
    *bytes = unpacked;
    c->inflated += size; /* also where it was in vain */
    return status;
}

/* The frame of a member that is an archive, not open yet; NULL where there is a bound in the way, or a failure. */
static contents_frame *contents_descend(contents *c, contents_frame *frame, contents_member *member,
                                        coffer_status *status, coffer_error *err)
{
    char joined[CONTENTS_NAME];
    uint8_t *bytes = NULL;
    uint32_t name = 0;
    coffer__import_plan *plan = frame->file.plan;
    if (c->depth == CONTENTS_MAX_FRAMES || c->archives == CONTENTS_MAX_ARCHIVES) {
        *status = contents_put(frame, member, COFFER_WEIGHT_DANGER,
                               "%q is an archive in too many others, or one too many: it was not looked at", err);
        return NULL;
    }
    const bool packed = member->is == CONTENTS_PACKED;
    if (packed || !contents_is_stored(member)) {
        *status = contents_load(c, frame, member, &bytes, err);
        if (*status == COFFER_OK && bytes != NULL && packed) {
            *status = contents_unpack(c, frame, member, &bytes, err);
        }
        if (*status != COFFER_OK || bytes == NULL) {
            contents_unload(frame, member, bytes);
            return NULL;
        }
    }
    member->is = packed ? CONTENTS_PART : member->is;
    /* That of the archive comes first. */
    *status = coffer__import_plan_put_text(plan, member->name, member->name_len, &name, err);
    if (*status == COFFER_OK) {
        const size_t len = contents_join(plan, frame->name, name, joined);
        *status = coffer__import_plan_put_text(plan, joined, len, &name, err);
    }
    const contents_view view = contents_member_view(frame, member, bytes);
    contents_frame *inner = contents_push(c, &view, member->size, *status == COFFER_OK ? member->is : CONTENTS_NOTHING);
    inner->held = bytes;
    inner->name = name;
    inner->called = "";
    inner->embedded = frame->embedded && frame->kind == CONTENTS_PART && !packed;
    c->held += bytes != NULL ? member->size : 0;
    return inner;
}

/* Goes into a member that is an archive. One that cannot be opened was not looked at. */
static coffer_status contents_enter(contents *c, contents_frame *frame, contents_member *member, coffer_error *err)
{
    coffer_error trouble;
    coffer_status status = COFFER_OK;
    coffer__error_clear(&trouble);
    contents_frame *inner = contents_descend(c, frame, member, &status, &trouble);
    if (inner != NULL && status == COFFER_OK) {
        status = contents_open(c, inner, &trouble);
    }
    if (status == COFFER_OK) {
        return status;
    }
    if (inner != NULL) {
        contents_pop(c);
    }
    if (inner != NULL && status == COFFER_ERR_DAMAGED) {
        return contents_put(frame, member, COFFER_WEIGHT_DANGER,
                            "%q begins as an archive or HDF5, and cannot be read as that: it was not looked at", err);
    }
    if (err != NULL) {
        *err = trouble;
    }
    return status;
}

/* ---- one member ---------------------------------------------------------------------------------------------------- */

/* A program, a source, or what is packed in a way that is not undone. *known: that is all there is to say. */
static coffer_status contents_code(const contents_frame *frame, const contents_member *member, const uint8_t *head,
                                   size_t size, bool *known, coffer_error *err)
{
    coffer_weight weight = COFFER_WEIGHT_DANGER;
    const char *sentence = coffer__scan_code_of(head, size, member->name, member->name_len, &weight);
    if (contents_is_compiled(frame, member)) {
        weight = COFFER_WEIGHT_DANGER;
        sentence =
            "this was compiled by AOTInductor, or is what it was compiled of: it runs when the program is loaded";
    }
    /* The sources of TorchScript are no Python, and its loader runs nothing of them. */
    if (frame->script && weight == COFFER_WEIGHT_OPAQUE) {
        sentence = NULL;
    }
    if (sentence == NULL && !contents_is_weight(frame, member) && !coffer__gzip_is(head, size) &&
        coffer__scan_packing_of(head, size) != NULL) {
        weight = COFFER_WEIGHT_OPAQUE;
        sentence = "%q is compressed once more, and was not looked at";
    }
    *known = sentence != NULL;
    return *known ? contents_put(frame, member, weight, sentence, err) : COFFER_OK;
}

/* By the first bytes: names alone would miss a pickle that is called .bin. */
static coffer_status contents_by_head(contents *c, contents_frame *frame, contents_member *member, const uint8_t *head,
                                      size_t size, coffer_error *err)
{
    bool known = false;
    coffer_status status = COFFER_OK;
    const bool begins = memcmp(head, "\x93NUM", 4) == 0;
    if (member->zip != NULL && (contents_ends(member, ".npy") || begins)) {
        status = coffer__numpy_put_member(&frame->file, &frame->archive.zip, member->zip, err);
    }
    if (status != COFFER_OK || begins) {
        member->is = begins && member->zip == NULL ? CONTENTS_NPY : CONTENTS_NOTHING;
        return status;
    }
    if (memcmp(head, "PK\3\4", 4) == 0) {
        member->is = CONTENTS_ZIP;
        return COFFER_OK;
    }
    /* What is an archive by its sum may be a pickle by its first member's name. */
    if (size >= COFFER__TAR_BLOCK && coffer__tar_is_head(head)) {
        member->is = CONTENTS_TAR;
        return contents_rest(c, frame, member, head, size, err);
    }
    if (memcmp(head, "\x89HDF\r\n\x1a\n", 8) == 0) {
        member->is = CONTENTS_HDF5;
        return contents_rest(c, frame, member, head, size, err);
    }
    status = contents_code(frame, member, head, size, &known, err);
    if (status == COFFER_OK && !known && coffer__scan_is_telling(head, size, member->name, member->name_len)) {
        status = contents_text(c, frame, member, err);
    }
    if (status == COFFER_OK && !known && !contents_is_weight(frame, member) && coffer__gzip_is(head, size)) {
        member->is = CONTENTS_PACKED;
    }
    return status == COFFER_OK ? contents_rest(c, frame, member, head, size, err) : status;
}

static coffer_status contents_look(contents *c, contents_frame *frame, contents_member *member, coffer_error *err)
{
    uint8_t head[COFFER__SCAN_HEAD] = { 0 };
    const size_t size = member->size < sizeof head ? (size_t)member->size : sizeof head;
    /* Storages are most of a checkpoint. Not even their first bytes are read, which on a server would be a request for
       each. */
    if (member->size == 0 || contents_is_storage(frame, member)) {
        return COFFER_OK;
    }
    const coffer_status status = contents_head(frame, member, head, size, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* A scan goes on past members whose sizes are lies. */
    if (contents_is_stored(member) &&
        (member->at > frame->input.size || member->size > frame->input.size - member->at)) {
        return contents_put(frame, member, COFFER_WEIGHT_DANGER,
                            "%q reaches past the end of the file; get the file again", err);
    }
    return contents_by_head(c, frame, member, head, size, err);
}

/* A member that cannot be read is a finding; the others are looked at all the same. */
static coffer_status contents_try(contents *c, contents_frame *frame, contents_member *member, coffer_error *err)
{
    coffer_error trouble;
    coffer__error_clear(&trouble);
    coffer_status status = contents_look(c, frame, member, &trouble);
    if (status == COFFER_ERR_DAMAGED || status == COFFER_ERR_CHECKSUM || status == COFFER_ERR_RANGE) {
        /* A copy, since putting the finding may fail and write another error over it. */
        char message[sizeof trouble.message];
        memcpy(message, trouble.message, sizeof message);
        member->is = CONTENTS_NOTHING;
        status = coffer__import_plan_put_finding(frame->file.plan, COFFER_WEIGHT_DANGER, frame->file.file, member->head,
                                                 member->name, "a member of the archive cannot be read: %p", message,
                                                 coffer__text_len(message), &trouble);
    }
    if (status != COFFER_OK && err != NULL) {
        *err = trouble;
    }
    return status;
}

/* ---- one after another ---------------------------------------------------------------------------------------------- */

/* The three that the reader of PyTorch's first kind looks at. */
static bool contents_is_oldest(const contents_frame *frame, const char *name)
{
    return frame->oldest && (coffer__tar_is_named(name, "storages") || coffer__tar_is_named(name, "tensors") ||
                             coffer__tar_is_named(name, "pickle"));
}

/* What unpacking a member would do besides making a file or a folder below the one that it is unpacked in. */
static coffer_status contents_judge_tar(const contents_frame *frame, const coffer__tar_member *found, coffer_error *err)
{
    const size_t skipped = memcmp(found->name, "./", 2) == 0 ? 2 : 0;
    const size_t len = coffer__text_len(found->name);
    const char *sentence = NULL;
    if (len > skipped && !coffer__zip_is_plain_name(found->name + skipped, len - skipped)) {
        sentence = "%q is a name that leads out of the folder in which the archive (tar) is unpacked";
    } else if (!found->plain && !found->folder) {
        sentence = "%q is a link or a device of the archive (tar), and no file that could be looked at";
    }
    return sentence != NULL ? coffer__import_plan_put_finding(frame->file.plan, COFFER_WEIGHT_DANGER, frame->file.file,
                                                              found->at, found->name, sentence, found->name, len, err)
                            : COFFER_OK;
}

/* Loaders stop at the end of an archive (tar). What follows is zeros. */
static coffer_status contents_end_of_tar(const contents_frame *frame, coffer_error *err)
{
    uint8_t block[COFFER__TAR_BLOCK];
    const coffer__tar *tar = &frame->tar;
    const uint64_t rest = tar->size - tar->at;
    bool zeros = rest <= CONTENTS_MAX_PADDING;
    for (uint64_t at = tar->at; zeros && at < tar->size;) {
        const size_t size = tar->size - at < sizeof block ? (size_t)(tar->size - at) : sizeof block;
        const coffer_status status =
            coffer__input_files_read(&frame->input, 0, frame->input.size, at, block, size, err);
        if (status != COFFER_OK) {
            return status;
        }
        for (size_t i = 0; i < size; i++) {
            zeros = zeros && block[i] == 0;
        }
        at += size;
    }
    return zeros ? COFFER_OK
                 : coffer__import_plan_put_finding(
                       frame->file.plan, COFFER_WEIGHT_DANGER, frame->file.file, tar->at, "",
                       "there are bytes after the end of the archive (tar), which were not looked "
                       "at",
                       "", 0, err);
}

/* The next plain file of an archive (tar). */
static coffer_status contents_next_of_tar(contents_frame *frame, coffer__tar_member *found, contents_member *member,
                                          bool *more, coffer_error *err)
{
    while (*more) {
        if (frame->next++ == CONTENTS_MAX_MEMBERS) {
            return coffer__fail(err, COFFER_ERR_DAMAGED, "the archive (tar) has more than %u members",
                                (uint64_t)CONTENTS_MAX_MEMBERS);
        }
        coffer_status status = coffer__tar_next(&frame->tar, found, more, err);
        if (status == COFFER_OK) {
            status = *more ? contents_judge_tar(frame, found, err) : contents_end_of_tar(frame, err);
        }
        if (status != COFFER_OK || (*more && found->plain && !contents_is_oldest(frame, found->name))) {
            *member = (contents_member){ .name = found->name,
                                         .name_len = coffer__text_len(found->name),
                                         .head = found->at,
                                         .at = found->at,
                                         .size = found->size };
            return status;
        }
    }
    return COFFER_OK;
}

/* The next member; *more is false at the end. `found` has its name. */
static coffer_status contents_next(contents_frame *frame, coffer__tar_member *found, contents_member *member,
                                   bool *more, coffer_error *err)
{
    *more = true;
    if (frame->kind == CONTENTS_TAR) {
        return contents_next_of_tar(frame, found, member, more, err);
    }
    if (frame->kind == CONTENTS_PART) {
        *member = (contents_member){ .name = frame->called,
                                     .name_len = coffer__text_len(frame->called),
                                     .size = frame->input.size };
        *more = frame->next++ == 0;
        return COFFER_OK;
    }
    *more = frame->kind == CONTENTS_ZIP && frame->next < frame->archive.zip.count;
    if (*more) {
        coffer__zip_member *zip = &frame->archive.zip.members[frame->next++];
        *member = (contents_member){ .name = zip->name,
                                     .name_len = zip->name_len,
                                     .head = zip->head,
                                     .at = zip->at,
                                     .size = zip->size,
                                     .zip = zip };
    }
    return COFFER_OK;
}

/* One member of the uppermost frame; one that is at its end is taken off. The rest of an archive (tar) that is damaged was
   not looked at. */
static coffer_status contents_step(contents *c, coffer_error *err)
{
    contents_frame *frame = &c->frames[c->depth - 1];
    coffer__import_plan *plan = frame->file.plan;
    const size_t first = plan->findings.count;
    coffer__tar_member found;
    contents_member member;
    bool more = true;
    coffer_status status = contents_next(frame, &found, &member, &more, err);
    if (status == COFFER_ERR_DAMAGED && c->depth > 1) {
        status = coffer__import_plan_put_finding(plan, COFFER_WEIGHT_DANGER, frame->file.file, 0, "",
                                                 "the archive (tar) is damaged: the rest of it was not looked at", "",
                                                 0, err);
        more = false;
    } else if (status == COFFER_OK && more) {
        status = contents_try(c, frame, &member, err);
    }
    if (status == COFFER_OK) {
        status = contents_move(frame, first, err);
    }
    if (status == COFFER_OK && !more) {
        contents_pop(c);
    } else if (status == COFFER_OK && member.is != CONTENTS_NOTHING) {
        const size_t before = plan->findings.count;
        const size_t depth = c->depth;
        status = contents_enter(c, frame, &member, err);
        /* Findings of what was entered are in their places already. */
        status = status == COFFER_OK && c->depth == depth ? contents_move(frame, before, err) : status;
    }
    return status;
}

/* All that is in the file, or in its part if it is embedded. */
static coffer_status contents_scan(const coffer__reader_file *file, contents_kind kind, const char *name, bool oldest,
                                   coffer_error *err)
{
    contents c = { .file = file };
    const contents_view view = { .file = file, .at = file->embedded ? file->at : 0 };
    contents_frame *frame = contents_push(&c, &view, file->embedded ? file->part : file->size, kind);
    frame->embedded = kind == CONTENTS_PART;
    frame->oldest = oldest;
    frame->called = name;
    coffer_status status = contents_open(&c, frame, err);
    if (status == COFFER_ERR_DAMAGED && err != NULL && err->offset != UINT64_MAX) {
        err->offset += view.at;
    }
    while (status == COFFER_OK && c.depth > 0) {
        status = contents_step(&c, err);
    }
    while (c.depth > 0) {
        contents_pop(&c);
    }
    return status;
}

coffer_status coffer__scan_zip(const coffer__reader_file *file, coffer_error *err)
{
    return contents_scan(file, CONTENTS_ZIP, "", false, err);
}

coffer_status coffer__scan_tar(const coffer__reader_file *file, bool oldest, coffer_error *err)
{
    return contents_scan(file, CONTENTS_TAR, "", oldest, err);
}

coffer_status coffer__scan_part(const coffer__reader_file *file, const char *name, coffer_error *err)
{
    return contents_scan(file, CONTENTS_PART, name, false, err);
}
