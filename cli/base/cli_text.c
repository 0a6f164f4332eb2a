/* SPDX-License-Identifier: Apache-2.0 */
/* Small work on text: see cli_text.h for the contracts. */
#include "cli_text.h"

#include "cli_host.h"
#include "coffer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
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

#define UNITS 7 /* powers of 1000 that a number of 64 bits reaches */

/* Writes a number with one decimal in the largest unit that it reaches; below 1000 it stays whole. */
static size_t scaled_text(char text[CLI_NUMBER_SIZE], uint64_t number, const char *const units[UNITS])
{
    uint64_t unit = 1;
    size_t name = 0;
    uint64_t tenths = number * 10;
    if (number >= 1000) {
        /* Rounded to tenths, 999.95 would be 1000.0, which belongs to the next unit. */
        do {
            unit *= 1000;
            name++;
            tenths = number / unit * 10 + (number % unit * 10 + unit / 2) / unit;
        } while (tenths >= 10000 && name + 1 < UNITS);
    }
    size_t len = cli_number_text(text, tenths / 10, false);
    if (name > 0) {
        text[len++] = '.';
        text[len++] = (char)('0' + tenths % 10);
    }
    const size_t unit_len = strlen(units[name]);
    memcpy(text + len, units[name], unit_len + 1);
    return len + unit_len;
}

size_t cli_bytes_text(char text[CLI_NUMBER_SIZE], uint64_t size)
{
    static const char *const units[UNITS] = { " B", " kB", " MB", " GB", " TB", " PB", " EB" };
    return scaled_text(text, size, units);
}

size_t cli_count_text(char text[CLI_NUMBER_SIZE], uint64_t count)
{
    static const char *const units[UNITS] = { "", " K", " M", " B", " T", " Q", " Qi" };
    return scaled_text(text, count, units);
}

size_t cli_duration_text(char text[CLI_NUMBER_SIZE], double seconds)
{
    const uint64_t whole = seconds > 0 ? (uint64_t)(seconds + 0.5) : 0;
    int len = 0;
    if (seconds < 1) {
        len = snprintf(text, CLI_NUMBER_SIZE, "%.1f ms", seconds > 0 ? seconds * 1000 : 0.0);
    } else if (seconds < 59.95) {
        len = snprintf(text, CLI_NUMBER_SIZE, "%.1f s", seconds);
    } else if (whole < 3600) {
        len = snprintf(text, CLI_NUMBER_SIZE, "%" PRIu64 " min %" PRIu64 " s", whole / 60, whole % 60);
    } else {
        len = snprintf(text, CLI_NUMBER_SIZE, "%" PRIu64 " h %" PRIu64 " min", whole / 3600, whole % 3600 / 60);
    }
    return len > 0 ? (size_t)len : 0;
}

bool cli_read_count(const char *text, size_t *count)
{
    size_t value = 0;
    for (const char *digit = text; *digit != '\0'; digit++) {
        if (*digit < '0' || *digit > '9' || value > (SIZE_MAX - 9) / 10) {
            return false;
        }
        value = value * 10 + (size_t)(*digit - '0');
    }
    *count = value;
    return text[0] != '\0';
}

static bool read_unit(const char *text, double *unit)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {
        { "", 1 },      { "B", 1 },        { "KB", 1e3 },     { "MB", 1e6 },     { "GB", 1e9 },
        { "TB", 1e12 }, { "KiB", 0x1p10 }, { "MiB", 0x1p20 }, { "GiB", 0x1p30 }, { "TiB", 0x1p40 },
    };
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcasecmp(text, units[i].name) == 0) {
            *unit = units[i].bytes;
            return true;
        }
    }
    return false;
}

bool cli_read_size(const char *text, uint64_t *size)
{
    double unit = 0;
    const size_t digits = strspn(text, "0123456789.");
    const char *rest = text + digits + strspn(text + digits, " ");
    char *end = NULL;
    const double number = strtod(text, &end);
    if (digits == 0 || end != text + digits || !read_unit(rest, &unit)) {
        return false;
    }
    const double bytes = number * unit;
    *size = bytes >= 1 && bytes < 9e18 ? (uint64_t)bytes : 0;
    return *size > 0;
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

/* Eight bytes at a time: this is asked of every name several times, and nearly all of them are plain. */
#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

static bool eight_plain(const char *text)
{
    uint64_t bytes = 0;
    memcpy(&bytes, text, sizeof bytes);
    const uint64_t slashes = bytes ^ EACH('\\');
    const uint64_t odd = bytes                                  /* 0x80 and above */
                         | (bytes + EACH(0x01))                 /* 0x7F */
                         | (bytes - EACH(0x20))                 /* below 0x20 */
                         | ((slashes - EACH(0x01)) & ~slashes); /* a backslash */
    return (odd & EACH(0x80)) == 0;
}

bool cli_is_plain(const char *text, size_t text_len)
{
    size_t i = 0;
    while (text_len - i >= 8 && eight_plain(text + i)) {
        i += 8;
    }
    for (; i < text_len; i++) {
        if (text[i] < 0x20 || text[i] > 0x7E || text[i] == '\\') {
            return false;
        }
    }
    return true;
}

bool cli_ends_in(const char *name, const char *ending)
{
    const size_t name_len = strlen(name);
    const size_t len = strlen(ending);
    return name_len > len && memcmp(name + name_len - len, ending, len) == 0;
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

#define DISTANCE_MAX 128 /* longer names are not compared: nobody types them by hand */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t cli_distance(const char *a, size_t a_len, const char *b, size_t b_len, size_t limit)
{
    size_t rows[3][DISTANCE_MAX + 1];
    if (a_len > DISTANCE_MAX || b_len > DISTANCE_MAX || a_len > b_len + limit || b_len > a_len + limit) {
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

bool cli_is_slash(char c)
{
    return c != '\0' && strchr(cli_host_separators, c) != NULL;
}

const char *cli_last_slash(const char *path)
{
    const char *last = NULL;
    for (const char *slash = strpbrk(path, cli_host_separators); slash != NULL;
         slash = strpbrk(slash + 1, cli_host_separators)) {
        last = slash;
    }
    return last;
}

double cli_seconds(void)
{
    struct timespec now = { .tv_sec = 0 };
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}
