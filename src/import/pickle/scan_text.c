/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of a pickle as text: see scan_text.h. Containers that are open are on a stack of a few frames.
 *
 * Everything is bounded, since the pickle wants to be read: the text by its buffer, containers by how many
 * items are shown and how deep, texts by their length. That also ends cycles.
 */
#include "scan_text.h"

#include "text.h"

#include <string.h>

#define RENDER_MAX_DEPTH 8
/* Bytes of one text, and items of one container. */
#define RENDER_MAX_BYTES 200
#define RENDER_MAX_ITEMS 32

/* A container that is open: what closes it, and the item that comes next. */
typedef struct render_frame {
    const char *close;
    uint32_t link;
    uint32_t done;
    bool pairs;
    bool call; /* the next item is what is called, and the one after that its arguments */
} render_frame;

typedef struct render_out {
    char *text;
    size_t used;
} render_out;

/* Adds what fits. A character may be cut in the middle, which whoever escapes the text for showing has to expect. */
static void render_add(render_out *out, const char *more, size_t len)
{
    /* Space for the NUL. */
    const size_t capacity = COFFER__SCAN_TEXT - 1 - out->used;
    const size_t taken = len < capacity ? len : capacity;
    memcpy(out->text + out->used, more, taken);
    out->used += taken;
}

/* For words of our own, which end with a NUL. */
static void render_say(render_out *out, const char *word)
{
    render_add(out, word, coffer__text_len(word));
}

/* Quotes within are not escaped: the text is for people, and nobody reads it back. */
static void render_quoted(render_out *out, const coffer__graph *graph, coffer__value value, const char *open)
{
    size_t len = 0;
    const char *bytes = coffer__pickle_bytes_of(graph->pickle, value, &len);
    render_say(out, open);
    if (bytes != NULL) {
        render_add(out, bytes, len < RENDER_MAX_BYTES ? len : RENDER_MAX_BYTES);
    }
    /* Long texts were not kept by the machine, or are cut here; either way an ellipsis says so. */
    render_say(out, bytes == NULL || len > RENDER_MAX_BYTES ? "…'" : "'");
}

/* In unsigned arithmetic, since the least integer has no positive twin. */
static void render_integer(render_out *out, int64_t value)
{
    char digits[20];
    render_say(out, value < 0 ? "-" : "");
    render_add(out, digits, coffer__write_u64(digits, value < 0 ? 0 - (uint64_t)value : (uint64_t)value));
}

/* What is no container. */
static void render_atom(render_out *out, const coffer__graph *graph, coffer__value value)
{
    const coffer__node *node = coffer__pickle_node(graph->pickle, value);
    switch (node->kind) {
    case COFFER__VALUE_NONE:
        render_say(out, "None");
        break;
    case COFFER__VALUE_BOOL:
        render_say(out, node->as.integer != 0 ? "True" : "False");
        break;
    case COFFER__VALUE_INT:
        render_integer(out, node->as.integer);
        break;
    case COFFER__VALUE_BIG:
        render_say(out, "<integer>");
        break;
    case COFFER__VALUE_FLOAT:
        render_say(out, "<float>");
        break;
    case COFFER__VALUE_TEXT:
        render_quoted(out, graph, value, "'");
        break;
    case COFFER__VALUE_BYTES:
        render_quoted(out, graph, value, "b'");
        break;
    case COFFER__VALUE_GLOBAL:
        render_say(out, coffer__pickle_module(graph->pickle, value));
        render_say(out, ".");
        render_say(out, coffer__pickle_name(graph->pickle, value));
        break;
    default:
        render_say(out, "…");
        break;
    }
}

/* Opens a container; false when it is none. A call's arguments are a tuple, whose brackets are those of the call. */
static bool render_open(render_out *out, const coffer__node *node, render_frame *frame)
{
    static const struct {
        coffer__value_kind kind;
        const char *open;
        const char *close;
    } brackets[] = {
        { COFFER__VALUE_TUPLE, "(", ")" }, { COFFER__VALUE_LIST, "[", "]" }, { COFFER__VALUE_DICT, "{", "}" },
        { COFFER__VALUE_SET, "{", "}" },   { COFFER__VALUE_CALL, "", "" },   { COFFER__VALUE_PERSISTENT, "<id ", ">" },
    };
    /* Sets look like dicts without values, as in Python; a call's brackets come from its arguments. */
    for (size_t i = 0; i < sizeof brackets / sizeof *brackets; i++) {
        if (node->kind == brackets[i].kind) {
            *frame = (render_frame){ .close = brackets[i].close, .link = node->first };
            frame->pairs = node->kind == COFFER__VALUE_DICT;
            frame->call = node->kind == COFFER__VALUE_CALL;
            render_say(out, brackets[i].open);
            return true;
        }
    }
    return false;
}

/* What stands before the next item: nothing between a callable and its arguments, which bring their own
   brackets. */
static const char *render_separator(const render_frame *frame)
{
    if (frame->call || frame->done == 0) {
        return "";
    }
    return frame->pairs && frame->done % 2 == 1 ? ": " : ", ";
}

void coffer__scan_render(const coffer__graph *graph, coffer__value value, char text[COFFER__SCAN_TEXT])
{
    render_out out = { .text = text };
    /* On the stack of the machine, as the depth is bounded: rendering allocates nothing. */
    render_frame frames[RENDER_MAX_DEPTH];
    size_t depth = 0;
    const coffer__node *node = coffer__pickle_node(graph->pickle, value);
    if (node != NULL && render_open(&out, node, &frames[0])) {
        depth = 1;
    } else if (node != NULL) {
        render_atom(&out, graph, value);
    }
    /* One item of the container on top each time round. A container ends with its items, its share of them, or
       the buffer. */
    while (depth > 0) {
        render_frame *frame = &frames[depth - 1];
        if (frame->link == 0 || frame->done == RENDER_MAX_ITEMS || out.used == COFFER__SCAN_TEXT - 1) {
            render_say(&out, frame->link != 0 ? ", …" : "");
            render_say(&out, frame->close);
            depth--;
            continue;
        }
        render_say(&out, render_separator(frame));
        frame->done++;
        const coffer__value item = coffer__pickle_item(graph->pickle, &frame->link);
        /* What is nested deeper is an ellipsis. */
        if (depth < RENDER_MAX_DEPTH && render_open(&out, coffer__pickle_node(graph->pickle, item), &frames[depth])) {
            depth++;
        } else {
            render_atom(&out, graph, item);
        }
    }
    text[out.used] = '\0';
}
