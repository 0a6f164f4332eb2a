/* SPDX-License-Identifier: Apache-2.0 */
/* Small work on text: see cli_text.h for the contracts. */
#include "cli_text.h"

#include "coffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

size_t cli_number_text(char text[CLI_NUMBER_SIZE], uint64_t number, bool grouped)
{
    char reversed[CLI_NUMBER_SIZE];
    size_t len = 0;
    size_t digits = 0;
    do {
        if (grouped && digits > 0 && digits % 3 == 0) {
            reversed[len++] = ',';
        }
        reversed[len++] = (char)('0' + number % 10);
        number /= 10;
        digits++;
    } while (number > 0);
    for (size_t i = 0; i < len; i++) {
        text[i] = reversed[len - 1 - i];
    }
    text[len] = '\0';
    return len;
}

size_t cli_bytes_text(char text[CLI_NUMBER_SIZE], uint64_t size)
{
    static const char *const units[] = { "kB", "MB", "GB", "TB", "PB", "EB" };
    if (size < 1000) {
        return (size_t)snprintf(text, CLI_NUMBER_SIZE, "%u B", (unsigned)size);
    }
    double value = (double)size / 1000;
    size_t unit = 0;
    /* 999.95 would be shown as 1000.0, which belongs to the next unit. */
    while (value >= 999.95 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1000;
        unit++;
    }
    return (size_t)snprintf(text, CLI_NUMBER_SIZE, "%.1f %s", value, units[unit]);
}

/* Bytes of the character that begins with `lead`, and the lowest code that may be written with so many; 0: no lead. */
static size_t character_size(unsigned char lead, uint32_t *lowest)
{
    *lowest = 0;
    if (lead < 0x80) {
        return 1;
    }
    if (lead >= 0xC2 && lead <= 0xDF) {
        *lowest = 0x80;
        return 2;
    }
    if (lead >= 0xE0 && lead <= 0xEF) {
        *lowest = 0x800;
        return 3;
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
        *lowest = 0x10000;
        return 4;
    }
    return 0;
}

size_t cli_read_character(const char *text, size_t text_len, uint32_t *code)
{
    uint32_t lowest = 0;
    if (text_len == 0) {
        return 0;
    }
    const unsigned char lead = (unsigned char)text[0];
    const size_t size = character_size(lead, &lowest);
    if (size == 0 || size > text_len) {
        return 0;
    }
    uint32_t value = size == 1 ? lead : lead & (0x7Fu >> size);
    for (size_t i = 1; i < size; i++) {
        const unsigned char byte = (unsigned char)text[i];
        if ((byte & 0xC0) != 0x80) {
            return 0;
        }
        value = value << 6 | (byte & 0x3Fu);
    }
    if (value < lowest || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
        return 0;
    }
    *code = value;
    return size;
}

bool cli_is_utf8(const char *text, size_t text_len)
{
    size_t done = 0;
    while (done < text_len) {
        uint32_t code = 0;
        const size_t size = cli_read_character(text + done, text_len - done, &code);
        if (size == 0) {
            return false;
        }
        done += size;
    }
    return true;
}

bool cli_is_unsafe(uint32_t code)
{
    return code < 0x20 || (code >= 0x7F && code <= 0x9F) || code == 0x061C || code == 0x200E || code == 0x200F ||
           (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

bool cli_is_plain(const char *text, size_t text_len)
{
    for (size_t i = 0; i < text_len; i++) {
        if (text[i] < 0x20 || text[i] > 0x7E || text[i] == '\\') {
            return false;
        }
    }
    return true;
}

size_t cli_cut_at_character(const char *text, size_t text_len, size_t most)
{
    size_t len = text_len < most ? text_len : most;
    while (len > 0 && len < text_len && ((unsigned char)text[len] & 0xC0) == 0x80) {
        len--;
    }
    return len;
}

size_t cli_escaped_width(const char *text, size_t text_len)
{
    if (cli_is_plain(text, text_len)) {
        return text_len;
    }
    char part[256];
    size_t width = 0;
    size_t done = 0;
    while (done < text_len) {
        /* No escape is longer than 8 times what it stands for, so that 24 bytes always fit the buffer. */
        const size_t take = cli_cut_at_character(text + done, text_len - done, 24);
        const size_t step = take > 0 ? take : 1;
        coffer_escape(text + done, step, part, sizeof part);
        for (const char *c = part; *c != '\0'; c++) {
            width += ((unsigned char)*c & 0xC0) != 0x80;
        }
        done += step;
    }
    return width;
}

#define DISTANCE_MOST 128 /* longer names are not compared: nobody types them by hand */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t cli_distance(const char *a, size_t a_len, const char *b, size_t b_len, size_t limit)
{
    size_t rows[3][DISTANCE_MOST + 1];
    if (a_len > DISTANCE_MOST || b_len > DISTANCE_MOST || a_len > b_len + limit || b_len > a_len + limit) {
        return limit + 1;
    }
    for (size_t j = 0; j <= b_len; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= a_len; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3];
        const size_t *two_above = rows[(i + 1) % 3];
        size_t best = row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            const size_t change = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = least(change, least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = least(row[j], two_above[j - 2] + 1);
            }
            best = least(best, row[j]);
        }
        if (best > limit) {
            return limit + 1;
        }
    }
    return least(rows[a_len % 3][b_len], limit + 1);
}

size_t cli_distance_limit(size_t text_len)
{
    return text_len < 3 ? 1 : text_len < 9 ? 2 : 3;
}

double cli_seconds(void)
{
    struct timespec now;
    if (timespec_get(&now, TIME_UTC) == 0) {
        return 0;
    }
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}
