/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Object headers of HDF5: messages, what those of a dataset say, and attributes.
 *
 *   version 1:  1 | 0 | messages 2 | references 4 | bytes 4 | 0 4 | messages: type 2 | bytes 2 | flags 1 | 0 3 | …
 *   version 2:  "OHDR" | 2 | flags 1 | [times 16, flag 32] | [counts 4, flag 16] | bytes 1 to 8 | messages: type 1 | bytes 2 |
 *               flags 1 | [order 2, flag 4] | … | checksum 4
 *   continued:  address 8 | bytes 8, in a message of type 16; of version 2 with "OCHK" before, and a checksum after
 *
 *   layout 3:   3 | class 1 | compact: bytes 2 | … ; contiguous: address 8 | bytes 8; chunked: rank + 1 1 | tree 8 | sizes 4 each
 *   filters 1:  1 | count 1 | 0 6 | each: number 2 | bytes of the name 2 | flags 2 | values 2 | name | values 4 each | [0 4]
 *   filters 2:  2 | count 1 | each: number 2 | [bytes of the name 2, from 256 on] | flags 2 | values 2 | [name] | values
 *   attribute:  version 1 | flags 1 | bytes of name 2 | of datatype 2 | of dataspace 2 | [character set 1, version 3] | the three |
 *               values; in version 1 each of the three is filled up to a multiple of 8
 *   "GCOL":     1 | 0 3 | bytes 8 | objects: number 2 | references 2 | 0 4 | bytes 8 | …, filled up to a multiple of 8
 */
#include "hdf5.h"

#include "alloc.h"
#include "error.h"
#include "text.h"

#include <string.h>

#define HDF5_MAX_PARTS 64u
#define HDF5_MAX_TEXTS ((size_t)16 << 20)
#define HDF5_SHARED 2u

enum {
    HDF5_SPACE = 1,
    HDF5_LINK_INFO = 2,
    HDF5_TYPE = 3,
    HDF5_LINK = 6,
    HDF5_EXTERNAL = 7,
    HDF5_LAYOUT = 8,
    HDF5_FILTERS = 11,
    HDF5_ATTRIBUTE = 12,
    HDF5_CONTINUED = 16,
    HDF5_TABLE = 17,
    HDF5_ATTRIBUTE_INFO = 21
};

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* A stretch of messages. */
typedef struct hdf5_part {
    uint64_t at;
    uint64_t size;
} hdf5_part;

/* A header that is being read. Its parts are found while it is read, and read one after another. */
typedef struct hdf5_header {
    coffer__hdf5 *h;
    coffer__hdf5_look *look;
    void *ctx;
    bool second;       /* version 2 */
    uint64_t overhead; /* bytes before the contents of each message */
    hdf5_part parts[HDF5_MAX_PARTS];
    uint32_t count;
} hdf5_header;

static coffer_status hdf5_begin_old(hdf5_header *header, uint64_t address, coffer_error *err)
{
    uint8_t head[16];
    const coffer_status status = coffer__hdf5_read(header->h, address, head, sizeof head, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (head[0] != 1) {
        return coffer__hdf5_fail(header->h, address, "an address leads to no object", err);
    }
    header->overhead = 8;
    header->parts[0] = (hdf5_part){ address + sizeof head, coffer__load_u32le(head + 8) };
    return COFFER_OK;
}

/* Each part of a header of version 2 has a checksum, which is compared before any of its messages is read. */
static coffer_status hdf5_begin(hdf5_header *header, uint64_t address, coffer_error *err)
{
    uint8_t head[6];
    uint8_t size[8] = { 0 };
    coffer_status status = coffer__hdf5_read(header->h, address, head, sizeof head, err);
    if (status != COFFER_OK) {
        return status;
    }
    header->count = 1;
    header->second = memcmp(head, "OHDR", 4) == 0;
    if (!header->second) {
        return hdf5_begin_old(header, address, err);
    }
    if (head[4] != 2) {
        return coffer__hdf5_refuse(header->h, address, "an object header of an unknown version", err);
    }
    const unsigned flags = head[5];
    const uint64_t at = address + sizeof head + (flags & 32 ? 16 : 0) + (flags & 16 ? 4 : 0);
    const size_t width = (size_t)1 << (flags & 3);
    status = coffer__hdf5_read(header->h, at, size, width, err);
    header->overhead = flags & 4 ? 6 : 4;
    header->parts[0] = (hdf5_part){ at + width, coffer__load_u64le(size) };
    if (status != COFFER_OK) {
        return status;
    }
    if (header->parts[0].size > header->h->size - at - width) {
        return coffer__hdf5_fail(header->h, address, "an object header reaches beyond its end", err);
    }
    return coffer__hdf5_verify(header->h, address, at + width + header->parts[0].size - address, err);
}

/* A further part, whose messages come after those of all that are known already. */
static coffer_status hdf5_continue(hdf5_header *header, size_t size, uint64_t at, coffer_error *err)
{
    coffer__hdf5 *h = header->h;
    const uint64_t begin = coffer__load_u64le(h->message);
    const uint64_t left = coffer__load_u64le(h->message + 8);
    uint8_t signature[4];
    if (size < 16 || (header->second && left < 8)) {
        return coffer__hdf5_fail(h, at, "a header is continued nowhere", err);
    }
    if (header->count == HDF5_MAX_PARTS) {
        return coffer__hdf5_refuse(h, at, "an object header of too many parts", err);
    }
    header->parts[header->count++] = header->second ? (hdf5_part){ begin + 4, left - 8 } : (hdf5_part){ begin, left };
    if (!header->second) {
        return COFFER_OK;
    }
    const coffer_status status = coffer__hdf5_read_signed(h, begin, "OCHK", signature, sizeof signature, err);
    return status == COFFER_OK ? coffer__hdf5_verify(h, begin, left - 4, err) : status;
}

/* Shared messages are elsewhere in the file: a datatype that was given a name, or the table of a file that shares all that
   are equal. Of those that say nothing about weights that is no loss. */
static bool hdf5_matters(unsigned type)
{
    return type == HDF5_SPACE || type == HDF5_TYPE || type == HDF5_LAYOUT || type == HDF5_FILTERS ||
           type == HDF5_ATTRIBUTE;
}

/* One message at `at`; *next is where the one after it begins. */
static coffer_status hdf5_read_message(hdf5_header *header, uint64_t at, uint64_t left, uint64_t *next,
                                       coffer_error *err)
{
    coffer__hdf5 *h = header->h;
    uint8_t head[8];
    coffer_status status = coffer__hdf5_read(h, at, head, (size_t)header->overhead, err);
    if (status != COFFER_OK) {
        return status;
    }
    const unsigned type = header->second ? head[0] : coffer__load_u16le(head);
    const size_t size = coffer__load_u16le(head + (header->second ? 1 : 2));
    const unsigned flags = head[header->second ? 3 : 4];
    const uint64_t begin = at + header->overhead;
    if (size > left - header->overhead) {
        return coffer__hdf5_fail(h, at, "a message reaches beyond its header", err);
    }
    *next = begin + size;
    if ((flags & HDF5_SHARED) && hdf5_matters(type)) {
        return coffer__hdf5_refuse(h, at, "a shared message, as of a datatype with a name,", err);
    }
    status = coffer__hdf5_read(h, begin, h->message, size, err);
    if (status != COFFER_OK) {
        return status;
    }
    return type == HDF5_CONTINUED ? hdf5_continue(header, size, begin, err)
                                  : header->look(header->ctx, type, h->message, size, begin, err);
}

/* Bytes at the end of a part that are fewer than a message needs are a gap. */
coffer_status coffer__hdf5_messages(coffer__hdf5 *h, uint64_t address, coffer__hdf5_look *look, void *ctx,
                                    coffer_error *err)
{
    hdf5_header header = { .h = h, .look = look, .ctx = ctx };
    coffer_status status = hdf5_begin(&header, address, err);
    for (uint32_t i = 0; status == COFFER_OK && i < header.count; i++) {
        uint64_t at = header.parts[i].at;
        if (at > h->size || header.parts[i].size > h->size - at) {
            return coffer__hdf5_fail(h, address, "an object header reaches beyond its end", err);
        }
        const uint64_t end = at + header.parts[i].size;
        while (status == COFFER_OK && end - at >= header.overhead) {
            status = hdf5_read_message(&header, at, end - at, &at, err);
        }
    }
    return status;
}

/* ---- what an object is ------------------------------------------------------------------------------------------- */

/* What each layout is called that is not read. */
static coffer_status hdf5_read_layout(const coffer__hdf5 *h, coffer__hdf5_object *object, coffer__cursor *in,
                                      uint64_t at, coffer_error *err)
{
    uint64_t version = 0;
    uint64_t kind = 0;
    uint64_t number = 0;
    bool is_there = coffer__hdf5_take(in, 1, &version) && coffer__hdf5_take(in, 1, &kind);
    object->has_layout = true;
    object->layout = (coffer__hdf5_layout)kind;
    if (!is_there || (version != 3 && version != 4) || kind > COFFER__HDF5_CHUNKED) {
        object->elsewhere = kind == 3;
        object->refused =
            kind == 3 ? "it is virtual: its data are in other datasets" : "its layout is of another version";
        return COFFER_OK;
    }
    if (kind == COFFER__HDF5_CHUNKED) {
        is_there = version == 3 && coffer__hdf5_take(in, 1, &number) && coffer__hdf5_take(in, 8, &object->at);
        if (version == 4) {
            object->refused =
                "its chunks have an index of the kinds that h5py writes with libver=\"latest\" or \"v110\": create "
                "the dataset again in a file that is opened without libver";
        }
        object->chunk_rank = (uint32_t)number;
        for (uint32_t i = 0; i < object->chunk_rank && i <= COFFER__HDF5_MAX_RANK && is_there; i++) {
            is_there = coffer__hdf5_take(in, 4, &number);
            object->chunk[i] = (uint32_t)number;
        }
    } else if (kind == COFFER__HDF5_COMPACT) {
        is_there = coffer__hdf5_take(in, 2, &object->bytes) && object->bytes <= coffer__left(in);
        object->at = at + 4;
    } else {
        is_there = coffer__hdf5_take(in, 8, &object->at) && coffer__hdf5_take(in, 8, &object->bytes);
    }
    return is_there || object->refused != NULL ? COFFER_OK : coffer__hdf5_fail(h, at, "a layout is cut", err);
}

/* One filter of the pipeline. Names of filters of users' own say nothing that the numbers do not. */
static bool hdf5_read_filter(coffer__hdf5_object *object, coffer__cursor *in, bool first_version)
{
    uint64_t number = 0;
    uint64_t name = 0;
    uint64_t flags = 0;
    uint64_t values = 0;
    uint64_t value = 0;
    if (!coffer__hdf5_take(in, 2, &number) || ((first_version || number >= 256) && !coffer__hdf5_take(in, 2, &name)) ||
        !coffer__hdf5_take(in, 2, &flags) || !coffer__hdf5_take(in, 2, &values) ||
        !coffer__hdf5_pass(in, first_version ? (name + 7) & ~(uint64_t)7 : name)) {
        return false;
    }
    for (uint64_t i = 0; i < values; i++) {
        if (!coffer__hdf5_take(in, 4, &value)) {
            return false;
        }
        object->shuffled = number == COFFER__HDF5_SHUFFLE && i == 0 ? (uint32_t)value : object->shuffled;
    }
    const bool is_known = number >= COFFER__HDF5_DEFLATE && number <= COFFER__HDF5_FLETCHER32;
    if (!is_known) {
        object->refused = number == 4       ? "its chunks are compressed by szip"
                          : number == 5     ? "its chunks went through the filter nbit"
                          : number == 6     ? "its chunks went through the filter scaleoffset"
                          : number == 32000 ? "its chunks are compressed by LZF"
                                            : "its chunks went through a filter of another library";
    } else if (object->filter_count < COFFER__HDF5_MAX_FILTERS) {
        object->filters[object->filter_count++] = (uint16_t)number;
    } else {
        object->refused = "its chunks went through too many filters";
    }
    return !(first_version && values % 2 == 1) || coffer__hdf5_pass(in, 4);
}

static coffer_status hdf5_read_filters(const coffer__hdf5 *h, coffer__hdf5_object *object, coffer__cursor *in,
                                       uint64_t at, coffer_error *err)
{
    uint64_t version = 0;
    uint64_t count = 0;
    bool is_there = coffer__hdf5_take(in, 1, &version) && coffer__hdf5_take(in, 1, &count) &&
                    (version == 1 || version == 2) && coffer__hdf5_pass(in, version == 1 ? 6 : 0);
    for (uint64_t i = 0; i < count && is_there; i++) {
        is_there = hdf5_read_filter(object, in, version == 1);
    }
    return is_there ? COFFER_OK : coffer__hdf5_fail(h, at, "a list of filters is cut", err);
}

/* Links or attributes may lie in a heap of another kind, when there are many of them. An address says that they do. */
static coffer_status hdf5_read_info(const coffer__hdf5 *h, coffer__cursor *in, unsigned type, uint64_t at,
                                    coffer_error *err)
{
    uint64_t version = 0;
    uint64_t flags = 0;
    uint64_t heap = 0;
    const unsigned order = type == HDF5_LINK_INFO ? 8 : 2;
    if (!coffer__hdf5_take(in, 1, &version) || !coffer__hdf5_take(in, 1, &flags) ||
        !coffer__hdf5_pass(in, flags & 1 ? order : 0) || !coffer__hdf5_take(in, 8, &heap)) {
        return coffer__hdf5_fail(h, at, "a header's account of links or attributes is cut", err);
    }
    if (heap == COFFER__HDF5_NOWHERE) {
        return COFFER_OK;
    }
    return coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, h->start + at,
                           "the HDF5 file has %s at byte %u, as h5py writes with libver=\"latest\", which is not read: "
                           "create its groups and datasets again in a file that is opened without libver",
                           type == HDF5_LINK_INFO ? "a dense group" : "dense attributes", h->start + at);
}

/* An object and the file that it is in: what looking at messages needs. */
typedef struct hdf5_looking {
    const coffer__hdf5 *h;
    coffer__hdf5_object *object;
} hdf5_looking;

static coffer_status hdf5_look_at_object(void *ctx, unsigned type, const uint8_t *bytes, size_t size, uint64_t at,
                                         coffer_error *err)
{
    const hdf5_looking *looking = ctx;
    coffer__hdf5_object *object = looking->object;
    coffer__cursor in = { .base = bytes, .length = size };
    switch (type) {
    case HDF5_SPACE:
        object->has_space = true;
        return coffer__hdf5_space_read(&in, &object->space)
                   ? COFFER_OK
                   : coffer__hdf5_fail(looking->h, at, "a dataspace is cut, or has too many elements", err);
    case HDF5_TYPE:
        object->has_type = true;
        return coffer__hdf5_type_read(&in, &object->type)
                   ? COFFER_OK
                   : coffer__hdf5_fail(looking->h, at, "a datatype is cut, or none", err);
    case HDF5_LAYOUT:
        return hdf5_read_layout(looking->h, object, &in, at, err);
    case HDF5_FILTERS:
        return hdf5_read_filters(looking->h, object, &in, at, err);
    case HDF5_EXTERNAL:
        object->elsewhere = true;
        object->refused = "its data are in another file";
        return COFFER_OK;
    case HDF5_LINK_INFO:
    case HDF5_ATTRIBUTE_INFO:
        return hdf5_read_info(looking->h, &in, type, at, err);
    case HDF5_LINK:
        object->has_links = true;
        return COFFER_OK;
    case HDF5_TABLE:
        object->has_table = coffer__hdf5_take(&in, 8, &object->tree) && coffer__hdf5_take(&in, 8, &object->heap);
        return object->has_table ? COFFER_OK : coffer__hdf5_fail(looking->h, at, "a group's table is cut", err);
    default:
        return COFFER_OK;
    }
}

coffer_status coffer__hdf5_object_read(coffer__hdf5 *h, uint64_t address, coffer__hdf5_object *object,
                                       coffer_error *err)
{
    hdf5_looking looking = { h, object };
    *object = (coffer__hdf5_object){ .at = COFFER__HDF5_NOWHERE };
    return coffer__hdf5_messages(h, address, hdf5_look_at_object, &looking, err);
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

/* Looking at attributes: at all of them, or at those of one name. */
typedef struct hdf5_wanted {
    const coffer__hdf5 *h;
    const char *name; /* NULL: all */
    coffer__hdf5_on_attribute *on_attribute;
    void *ctx;
} hdf5_wanted;

/* In version 1 each part is filled up. */
static uint64_t hdf5_filled(uint64_t version, uint64_t size)
{
    return version == 1 ? (size + 7) & ~(uint64_t)7 : size;
}

/* Reads datatype and dataspace out of their parts of the message, and has the attribute looked at. */
static coffer_status hdf5_read_attribute(const hdf5_wanted *wanted, coffer__hdf5_attribute *attribute,
                                         coffer__cursor *in, uint64_t version, const uint64_t sizes[3], uint64_t at,
                                         coffer_error *err)
{
    coffer__cursor type = { .base = in->base + in->position, .length = (size_t)sizes[1] };
    if (!coffer__hdf5_pass(in, hdf5_filled(version, sizes[1]))) {
        return coffer__hdf5_fail(wanted->h, at, "the datatype of an attribute is cut", err);
    }
    coffer__cursor space = { .base = in->base + in->position, .length = (size_t)sizes[2] };
    if (!coffer__hdf5_pass(in, hdf5_filled(version, sizes[2])) || !coffer__hdf5_type_read(&type, &attribute->type) ||
        !coffer__hdf5_space_read(&space, &attribute->space)) {
        return coffer__hdf5_fail(wanted->h, at, "an attribute is cut", err);
    }
    attribute->at = at + in->position;
    attribute->size = coffer__left(in);
    return wanted->on_attribute(wanted->ctx, attribute, err);
}

/* Flags of later versions say that datatype or dataspace is a shared one. */
static coffer_status hdf5_look_for_attribute(void *ctx, unsigned type, const uint8_t *bytes, size_t size, uint64_t at,
                                             coffer_error *err)
{
    const hdf5_wanted *wanted = ctx;
    coffer__cursor in = { .base = bytes, .length = size };
    uint64_t version = 0;
    uint64_t flags = 0;
    uint64_t sizes[3];
    if (type != HDF5_ATTRIBUTE) {
        return COFFER_OK;
    }
    if (!coffer__hdf5_take(&in, 1, &version) || !coffer__hdf5_take(&in, 1, &flags) ||
        !coffer__hdf5_take(&in, 2, &sizes[0]) || !coffer__hdf5_take(&in, 2, &sizes[1]) ||
        !coffer__hdf5_take(&in, 2, &sizes[2]) || !coffer__hdf5_pass(&in, version == 3 ? 1 : 0) || version < 1 ||
        version > 3) {
        return coffer__hdf5_fail(wanted->h, at, "an attribute is cut", err);
    }
    coffer__hdf5_attribute attribute = { .name = (const char *)in.base + in.position };
    if (!coffer__hdf5_pass(&in, hdf5_filled(version, sizes[0])) || sizes[0] == 0 ||
        attribute.name[sizes[0] - 1] != '\0') {
        return coffer__hdf5_fail(wanted->h, at, "the name of an attribute is cut", err);
    }
    if (wanted->name != NULL && !coffer__same_text(attribute.name, wanted->name)) {
        return COFFER_OK;
    }
    if (version > 1 && flags != 0) {
        return coffer__hdf5_refuse(wanted->h, at, "an attribute of a shared datatype", err);
    }
    return hdf5_read_attribute(wanted, &attribute, &in, version, sizes, at, err);
}

coffer_status coffer__hdf5_attributes(coffer__hdf5 *h, uint64_t address, coffer__hdf5_on_attribute *on_attribute,
                                      void *ctx, coffer_error *err)
{
    hdf5_wanted wanted = { .h = h, .on_attribute = on_attribute, .ctx = ctx };
    return coffer__hdf5_messages(h, address, hdf5_look_for_attribute, &wanted, err);
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/* Ends a text that was written. */
static coffer_status hdf5_end_text(const coffer__hdf5 *h, coffer__hdf5_texts *texts, coffer_error *err)
{
    uint32_t *ends = coffer__grow_array(h->allocator, texts->ends, texts->count, &texts->capacity, sizeof *ends, err);
    if (ends == NULL || texts->text.failed) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the texts of an HDF5 file");
    }
    texts->ends = ends;
    ends[texts->count++] = (uint32_t)texts->text.used;
    return COFFER_OK;
}

/* A text of the bytes at an address, up to its NUL or its end. */
static coffer_status hdf5_put_text(coffer__hdf5 *h, uint64_t at, uint64_t size, coffer__hdf5_texts *texts,
                                   coffer_error *err)
{
    if (size > HDF5_MAX_TEXTS - texts->text.used) {
        return coffer__hdf5_refuse(h, at, "longer lists of names than a file of weights", err);
    }
    char *text = size > 0 ? coffer__write_space(&texts->text, (size_t)size) : NULL;
    if (size > 0 && text == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the texts of an HDF5 file");
    }
    const coffer_status status = size > 0 ? coffer__hdf5_read(h, at, text, (size_t)size, err) : COFFER_OK;
    if (status != COFFER_OK) {
        return status;
    }
    const char *end = size > 0 ? memchr(text, 0, (size_t)size) : NULL;
    texts->text.used -= end == NULL ? 0 : (size_t)size - (size_t)(end - text);
    return hdf5_end_text(h, texts, err);
}

/* Object `number` of a collection, whose objects say how long they are: they are passed one after another. */
static coffer_status hdf5_find_in_heap(coffer__hdf5 *h, uint64_t collection, uint32_t number, uint64_t *at,
                                       uint64_t *size, coffer_error *err)
{
    uint8_t head[16];
    coffer_status status = coffer__hdf5_read_signed(h, collection, "GCOL", head, sizeof head, err);
    if (status != COFFER_OK) {
        return status;
    }
    const uint64_t all = coffer__load_u64le(head + 8);
    if (all > h->size - collection) {
        return coffer__hdf5_fail(h, collection, "a heap reaches beyond its end", err);
    }
    for (uint64_t place = sizeof head; place <= all && all - place >= sizeof head;) {
        status = coffer__hdf5_read(h, collection + place, head, sizeof head, err);
        if (status != COFFER_OK) {
            return status;
        }
        place += sizeof head;
        *size = coffer__load_u64le(head + 8);
        if (*size > all - place || coffer__load_u16le(head) == 0) {
            break;
        }
        *at = collection + place;
        if (coffer__load_u16le(head) == number) {
            return COFFER_OK;
        }
        place += (*size + 7) & ~(uint64_t)7;
    }
    return coffer__hdf5_fail(h, collection, "a text is not in its heap", err);
}

/* length 4 | collection 8 | number 4. An empty text may lead nowhere. */
static coffer_status hdf5_put_any_text(coffer__hdf5 *h, uint64_t at, coffer__hdf5_texts *texts, coffer_error *err)
{
    uint8_t place[16];
    uint64_t begin = 0;
    uint64_t size = 0;
    coffer_status status = coffer__hdf5_read(h, at, place, sizeof place, err);
    if (status != COFFER_OK) {
        return status;
    }
    const uint64_t len = coffer__load_u32le(place);
    if (len == 0) {
        return hdf5_end_text(h, texts, err);
    }
    status = hdf5_find_in_heap(h, coffer__load_u64le(place + 4), coffer__load_u32le(place + 12), &begin, &size, err);
    if (status != COFFER_OK) {
        return status;
    }
    return len <= size ? hdf5_put_text(h, begin, len, texts, err)
                       : coffer__hdf5_fail(h, at, "a text is longer than in its heap", err);
}

/* An empty list may be of any type: NumPy calls it one of floats. */
coffer_status coffer__hdf5_attribute_texts(coffer__hdf5 *h, const coffer__hdf5_attribute *attribute,
                                           coffer__hdf5_texts *texts, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    texts->found = true;
    texts->text.allocator = h->allocator;
    const bool any = attribute->type.class_ == COFFER__HDF5_TEXT_ANY;
    const uint64_t count = attribute->space.none ? 0 : attribute->space.elements;
    if (count > 0 && !any && attribute->type.class_ != COFFER__HDF5_TEXT) {
        return coffer__hdf5_fail(h, attribute->at, "a list of names is not one of texts", err);
    }
    if (count > attribute->size / attribute->type.size) {
        return coffer__hdf5_fail(h, attribute->at, "a list of names is longer than its bytes", err);
    }
    for (uint64_t i = 0; i < count && status == COFFER_OK; i++) {
        const uint64_t at = attribute->at + i * attribute->type.size;
        status = any ? hdf5_put_any_text(h, at, texts, err) : hdf5_put_text(h, at, attribute->type.size, texts, err);
    }
    return status;
}

/* What was said of the last attribute of a name stays when its message is gone. */
static coffer_status hdf5_keep_attribute(void *ctx, const coffer__hdf5_attribute *attribute, coffer_error *err)
{
    (void)err;
    *(coffer__hdf5_attribute *)ctx = *attribute;
    return COFFER_OK;
}

coffer_status coffer__hdf5_texts_read(coffer__hdf5 *h, uint64_t address, const char *name, coffer__hdf5_texts *texts,
                                      coffer_error *err)
{
    coffer__hdf5_attribute attribute = { .name = NULL };
    hdf5_wanted wanted = { .h = h, .name = name, .on_attribute = hdf5_keep_attribute, .ctx = &attribute };
    const coffer_status status = coffer__hdf5_messages(h, address, hdf5_look_for_attribute, &wanted, err);
    return status != COFFER_OK || attribute.name == NULL ? status
                                                         : coffer__hdf5_attribute_texts(h, &attribute, texts, err);
}

void coffer__hdf5_texts_free(const coffer__hdf5 *h, coffer__hdf5_texts *texts)
{
    coffer__writing_free(&texts->text);
    coffer__free(h->allocator, texts->ends, texts->capacity * sizeof *texts->ends);
}

const char *coffer__hdf5_text(const coffer__hdf5_texts *texts, size_t i, size_t *text_len)
{
    const size_t begin = i == 0 ? 0 : texts->ends[i - 1];
    *text_len = texts->ends[i] - begin;
    return *text_len == 0 ? "" : texts->text.text + begin;
}
