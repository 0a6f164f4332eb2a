/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kinds of files that have weights, and no reader here: for each what tells it, and what to do instead. They are tables, or
 * were made for a device, with weights that are packed, reordered or without names; or their framework alone can read them.
 *
 *   Parquet       "PAR1" at both ends                        TensorFlow Lite   "TFL3" at byte 4
 *   Feather 1     "FEA1" at both ends                        ExecuTorch        "ET" and two digits at byte 4
 *   OCDBT         0c db 3a 2a                                OpenVINO          XML whose element is "net"
 *   Core ML       a message whose field 1 is a version, called .mlmodel; de ad be ef, reversed, at byte 64
 *   .pdiparams    u32 0, u64 0, u32 0, i32 size of a message, whose first field is a type
 *
 * Of a checkpoint of TensorFlow its other files are known, too: its text, its data by their name, and the graph of a SavedModel.
 */
#include "kinds.h"

#include "bytes.h"
#include "text.h"

#define KINDS_XML 1024u /* bytes in which the first element begins */

static const struct kinds_row {
    const char *magic;
    uint8_t size;
    uint8_t at;
    bool both; /* at the end as well */
    const char *sentence;
} kinds_rows[] = {
    { "PAR1", 4, 0, true,
      "this is a Parquet file, which is a table: pyarrow.parquet.read_table reads it, and pyarrow.ipc.new_file makes "
      "an "
      "Arrow file of that, which can be converted" },
    { "FEA1", 4, 0, true,
      "this is a Feather file of version 1: pyarrow.feather.write_feather makes one of version 2 of it, which can be "
      "converted if it is uncompressed" },
    { "TFL3", 4, 4, false,
      "this is a TensorFlow Lite model, whose weights were changed for devices: convert the Keras or TensorFlow model "
      "that "
      "it was made of" },
    { "\x0c\xdb\x3a\x2a", 4, 0, false,
      "this is an OCDBT database, as Orbax keeps checkpoints in: load it with orbax.checkpoint, and write it with "
      "safetensors.flax.save_file" },
    { "model_checkpoint_path: ", 23, 0, false,
      "this is a list of checkpoints of TensorFlow: convert its folder, for the latest of them, or the .index file of "
      "one" },
};

static bool kinds_are_at(const uint8_t *bytes, size_t size, size_t at, const char *magic, size_t magic_size)
{
    return at <= size && magic_size <= size - at && memcmp(bytes + at, magic, magic_size) == 0;
}

static bool kinds_is_executorch(const uint8_t *head, size_t size)
{
    return kinds_are_at(head, size, 4, "ET", 2) && size >= 8 && head[6] >= '0' && head[6] <= '9' && head[7] >= '0' &&
           head[7] <= '9';
}

/* The first element, after the declaration and comments, whatever these are. */
static bool kinds_is_openvino(const uint8_t *head, size_t size)
{
    const size_t end = size < KINDS_XML ? size : KINDS_XML;
    for (size_t at = 0; at < end && head[0] == '<'; at++) {
        if (kinds_are_at(head, size, at, "<net ", 5)) {
            return true;
        }
    }
    return false;
}

static bool kinds_is_core_ml(const uint8_t *head, size_t size, const char *path, size_t path_len)
{
    const bool model = size >= 3 && head[0] == 8 && head[1] > 0 && head[1] < 32 && head[2] == 0x12 &&
                       coffer__text_ends(path, path_len, ".mlmodel");
    return model || (kinds_are_at(head, size, 64, "\xef\xbe\xad\xde", 4) && coffer__load_u32le(head + 4) == 2);
}

/* Parameters one after another, each with its shape and without its name: all versions are 0. */
static bool kinds_is_paddle(const uint8_t *head, size_t size)
{
    return kinds_are_at(head, size, 0, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16) && size >= 22 &&
           coffer__load_u32le(head + 16) >= 2 && coffer__load_u32le(head + 16) < 1024 && head[20] == 8 && head[21] < 64;
}

static bool kinds_is_saved_model(const uint8_t *head, size_t size, const char *path, size_t path_len)
{
    return size >= 3 && head[0] == 8 && head[1] == 1 && head[2] == 0x12 &&
           coffer__text_ends(path, path_len, "saved_model.pb");
}

/* PREFIX.data-00000-of-00001, whatever is in it. */
static bool kinds_is_tensorflow_data(const char *path, size_t path_len)
{
    static const char form[] = ".data-00000-of-00000";
    const size_t len = sizeof form - 1;
    if (path_len < len) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        const char c = path[path_len - len + i];
        if (form[i] == '0' ? c < '0' || c > '9' : c != form[i]) {
            return false;
        }
    }
    return true;
}

const char *coffer__kind_of(const uint8_t *head, size_t head_size, const uint8_t *tail, size_t tail_size,
                            const char *path, size_t path_len)
{
    for (size_t i = 0; i < sizeof kinds_rows / sizeof kinds_rows[0]; i++) {
        const struct kinds_row *row = &kinds_rows[i];
        if (kinds_are_at(head, head_size, row->at, row->magic, row->size) &&
            (!row->both ||
             (tail_size >= row->size && kinds_are_at(tail, tail_size, tail_size - row->size, row->magic, row->size)))) {
            return row->sentence;
        }
    }
    if (kinds_is_executorch(head, head_size)) {
        return "this is an ExecuTorch program, whose weights were changed for devices: convert the PyTorch checkpoint "
               "that "
               "it was made of";
    }
    if (kinds_is_openvino(head, head_size)) {
        return "this is the graph of an OpenVINO model, whose weights have no names in the .bin file next to it: "
               "convert the "
               "model that it was made of";
    }
    if (kinds_is_core_ml(head, head_size, path, path_len)) {
        return "this is a Core ML model or its weights, which were changed for devices: convert the model that it was "
               "made "
               "of";
    }
    if (kinds_is_paddle(head, head_size)) {
        return "these are parameters of Paddle without their names (.pdiparams): paddle.jit.load reads them with the "
               "model "
               "next to them, and paddle.save writes their state_dict as .pdparams, which can be converted";
    }
    if (kinds_is_saved_model(head, head_size, path, path_len)) {
        return "this is the graph of a SavedModel of TensorFlow: convert its folder, or variables/variables.index in "
               "it";
    }
    if (kinds_is_tensorflow_data(path, path_len)) {
        return "these are data of a checkpoint of TensorFlow: convert the .index file next to them";
    }
    return NULL;
}

bool coffer__kind_is_tensors(const uint8_t *head, size_t head_size)
{
    return head_size > 8 && head[8] == '{' && coffer__load_u32le(head + 4) == 0;
}
