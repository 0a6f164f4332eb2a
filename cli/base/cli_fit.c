/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a model fits into the memory of a device: see cli_fit.h for the contract. */
#include "cli_fit.h"

#include "cli_text.h"

#include <string.h>

#define MIB(count) (UINT64_C(count) << 20)

/* The memory that drivers report, which is less than what is on the box. */
static const cli_fit DEVICES[] = {
    { "T4", MIB(15360) },           { "V100-16GB", MIB(16160) }, { "V100-32GB", MIB(32510) },
    { "A10", MIB(23028) },          { "A10G", MIB(23028) },      { "L4", MIB(23034) },
    { "L40S", MIB(46068) },         { "A40", MIB(46068) },       { "A6000", MIB(49140) },
    { "RTX 6000 Ada", MIB(49140) }, { "A100-40GB", MIB(40960) }, { "A100-80GB", MIB(81920) },
    { "H100", MIB(81559) },         { "H200", MIB(143771) },     { "B200", MIB(183359) },
    { "MI250X", MIB(65520) },       { "MI300X", MIB(196592) },   { "RTX 3060", MIB(12288) },
    { "RTX 3090", MIB(24576) },     { "RTX 4060", MIB(8188) },   { "RTX 4070", MIB(12282) },
    { "RTX 4080", MIB(16376) },     { "RTX 4090", MIB(24564) },  { "RTX 5070", MIB(12227) },
    { "RTX 5080", MIB(16303) },     { "RTX 5090", MIB(32607) },
};

static char lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static const char *past_gaps(const char *text)
{
    return text + strspn(text, " -_");
}

/* Whether two names are the same but for case, spaces and hyphens. */
static bool same_device(const char *a, const char *b)
{
    a = past_gaps(a);
    b = past_gaps(b);
    while (*a != '\0' && lower(*a) == lower(*b)) {
        a = past_gaps(a + 1);
        b = past_gaps(b + 1);
    }
    return *a == '\0' && *b == '\0';
}

const char *cli_fit_device(size_t i)
{
    return i < sizeof DEVICES / sizeof DEVICES[0] ? DEVICES[i].name : NULL;
}

bool cli_fit_read(cli_fit *fit, const char *text)
{
    static const char rtx[] = "RTX ";
    *fit = (cli_fit){ .name = NULL };
    for (size_t i = 0; cli_fit_device(i) != NULL; i++) {
        const char *name = DEVICES[i].name;
        const char *bare = strncmp(name, rtx, sizeof rtx - 1) == 0 ? name + sizeof rtx - 1 : name;
        if (same_device(text, name) || same_device(text, bare)) {
            *fit = DEVICES[i];
            return true;
        }
    }
    return cli_read_size(text, &fit->size);
}

/* As many tokens as have a cache of at most `space` bytes, up to what the model can. */
static uint64_t most_tokens(const cli_memory *memory, uint64_t space)
{
    uint64_t low = 0;
    uint64_t high = memory->most_context > memory->context ? memory->most_context : memory->context;
    while (low < high) {
        const uint64_t middle = low + (high - low + 1) / 2;
        uint64_t cache = 0;
        if (cli_memory_cache(memory, middle, &cache) && cache <= space) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

static uint64_t add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

cli_fitting cli_fit_judge(const cli_fit *fit, uint64_t weights, const cli_memory *memory)
{
    cli_fitting fitting = { .overhead = CLI_FIT_CONTEXT + weights / CLI_FIT_SHARE };
    const uint64_t fixed = add(weights, fitting.overhead);
    fitting.total = add(fixed, memory != NULL ? memory->cache : 0);
    fitting.fits = fitting.total <= fit->size;
    fitting.most_context = memory != NULL && fixed <= fit->size ? most_tokens(memory, fit->size - fixed) : 0;
    return fitting;
}
