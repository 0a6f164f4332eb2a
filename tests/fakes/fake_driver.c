/* SPDX-License-Identifier: Apache-2.0 */
/* The machine behind the fakes. One lock guards all of it; only the bytes of a copy are moved without it. */
#define _GNU_SOURCE
#include "fake_driver.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEVICES 8

typedef enum command_kind { COMMAND_COPY, COMMAND_FILL, COMMAND_RECORD, COMMAND_WAIT, COMMAND_HOLD } command_kind;

typedef struct block {
    struct block *next;
    int device;
    uintptr_t address; /* of pages that cannot be touched */
    size_t size;
    uint8_t *bytes;
    size_t pending; /* copies that are queued */
} block;

typedef struct pinned {
    struct pinned *next;
    uint8_t *memory;
    size_t size;
    size_t pending;
} pinned;

typedef struct event {
    struct event *next;
    int device;
    size_t users; /* the caller, and queued commands */
    bool gone;    /* the caller destroyed it */
    uint64_t recorded;
    uint64_t reached; /* which recording */
    uint64_t when;    /* in virtual time, it was reached */
} event;

typedef struct command {
    struct command *next;
    command_kind kind;
    fake_box box;
    block *memory;
    pinned *source;
    uint8_t value;
    event *what;
    uint64_t which; /* recording */
    uint64_t issued;
} command;

typedef struct stream {
    struct stream *next;
    int device;
    bool own;  /* one that the driver has of itself */
    bool last; /* its thread ends when the queue is empty */
    bool busy;
    command *first;
    command **end;
    uint64_t when;
    unsigned random;
    pthread_t thread;
} stream;

typedef struct counter {
    struct counter *next;
    char name[64];
    unsigned calls;
} counter;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool started;
    char settings[512];
    block *blocks;
    pinned *pins;
    event *events;
    stream *streams;
    counter *counters;
    unsigned calls;
    unsigned fail_left; /* calls until one fails; 0: none does */
    char fail_name[64];
    int fail_code;
    int lost; /* the code of it; 0: not */
    bool initialised;
    bool held;
    uint8_t *touching;   /* where the next block of those lies that touch each other; NULL: there is none yet */
    unsigned waiting;    /* threads that wait for something of a stream */
    unsigned generation; /* resets so far */
    size_t contexts[DEVICES];
    uint64_t engine[DEVICES]; /* when each has copied what it was given */
    uint64_t reader;
    uint64_t latest;
    uint64_t locked;
    fake_counts counts;
    char mistake[256];
} machine = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static __thread int current_device = -1;
static __thread uint64_t thread_time;

static void lock(void)
{
    pthread_mutex_lock(&machine.lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&machine.lock);
}

/* ---- settings and calls ------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    long long value;
} defaults[] = {
    { "devices", 1 }, { "memory", 1000000000 }, { "version", 0 }, { "init", 0 }, { "attributes", 2 }, { "locked", 0 },
    { "seed", 1 },    { "strict", 0 },          { "lazy", 0 },    { "rate", 0 }, { "touching", 0 },
};

static void start(void)
{
    if (!machine.started) {
        const char *given = getenv("COFFER_FAKE_DRIVER");
        machine.started = true;
        snprintf(machine.settings, sizeof machine.settings, "%s", given == NULL ? "" : given);
    }
}

static long long setting(const char *name)
{
    const size_t length = strlen(name);
    start();
    for (const char *at = machine.settings; (at = strstr(at, name)) != NULL; at += length) {
        if (at[length] == '=' && (at == machine.settings || at[-1] == ' ')) {
            return atoll(at + length + 1);
        }
    }
    for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++) {
        if (strcmp(defaults[i].name, name) == 0) {
            return defaults[i].value;
        }
    }
    return 0;
}

long long fake_setting(const char *name)
{
    lock();
    const long long value = setting(name);
    unlock();
    return value;
}

static void blame(const char *mistake)
{
    if (machine.mistake[0] == '\0') {
        snprintf(machine.mistake, sizeof machine.mistake, "%s", mistake);
    }
}

void fake_blame(const char *mistake)
{
    lock();
    blame(mistake);
    unlock();
}

static counter *counter_of(const char *name)
{
    for (counter *at = machine.counters; at != NULL; at = at->next) {
        if (strcmp(at->name, name) == 0) {
            return at;
        }
    }
    counter *made = calloc(1, sizeof *made);
    snprintf(made->name, sizeof made->name, "%s", name);
    made->next = machine.counters;
    machine.counters = made;
    return made;
}

static bool is_final(int code)
{
    return code >= 700 && code <= 719 && code != 712 && code != 713;
}

/* A driver that is lost copies nothing more: what is queued is dropped, and what is being copied is waited for. */
static void lose(int code)
{
    machine.lost = code;
    pthread_cond_broadcast(&machine.changed);
    for (stream *at = machine.streams; at != NULL; at = at->next) {
        while (at->busy || at->first != NULL) {
            pthread_cond_wait(&machine.changed, &machine.lock);
        }
    }
}

/* Counts a call, with the lock held. */
static int enter(const char *name)
{
    start();
    counter_of(name)->calls++;
    machine.calls++;
    if (machine.lost != 0) {
        machine.counts.calls_after_lost++;
        return machine.lost;
    }
    if (machine.fail_left != 0 && (machine.fail_name[0] == '\0' || strcmp(machine.fail_name, name) == 0) &&
        --machine.fail_left == 0) {
        const int code = machine.fail_code;
        if (is_final(code)) {
            lose(code);
        }
        return code;
    }
    return 0;
}

int fake_enter(const char *name)
{
    lock();
    const int code = enter(name);
    unlock();
    return code;
}

/* The same for what wants a device to be current, and a driver that has started. */
static int enter_current(const char *name)
{
    const int code = enter(name);
    if (code != 0) {
        return code;
    }
    if (!machine.initialised) {
        blame("a call before initialising");
        return FAKE_NOT_STARTED;
    }
    if (current_device < 0) {
        blame("a call without a current device");
        return FAKE_WRONG_CONTEXT;
    }
    return 0;
}

int fake_init(const char *name)
{
    lock();
    int code = enter(name);
    if (code == 0) {
        code = (int)setting("init");
    }
    if (code == 0) {
        machine.initialised = true;
    }
    unlock();
    return code;
}

int fake_version(const char *name, int *version)
{
    lock();
    const int code = enter(name);
    *version = (int)setting("version");
    unlock();
    return code;
}

int fake_count(const char *name, int *count)
{
    lock();
    const int code = enter(name);
    *count = (int)setting("devices");
    unlock();
    return code;
}

int fake_device(const char *name, int number)
{
    lock();
    int code = enter(name);
    if (code == 0 && (number < 0 || number >= setting("devices"))) {
        code = FAKE_WRONG_DEVICE;
    }
    unlock();
    return code;
}

const char *fake_error_name(int code)
{
    static __thread char name[32];
    snprintf(name, sizeof name, "FAKE_ERROR_%d", code);
    return name;
}

/* ---- what is current ---------------------------------------------------------------------------------------------- */

int fake_current(void)
{
    return current_device;
}

unsigned fake_generation(void)
{
    lock();
    const unsigned generation = machine.generation;
    unlock();
    return generation;
}

void fake_set_current(int device)
{
    current_device = device;
}

int fake_retain(const char *name, int device)
{
    lock();
    const int code = enter(name);
    if (code == 0) {
        machine.contexts[device]++;
        machine.counts.contexts++;
    }
    unlock();
    return code;
}

/* What releases does so also where it is made to fail, as real drivers report what went wrong earlier. */
int fake_release_context(const char *name, int device)
{
    lock();
    const int code = enter(name);
    if (machine.contexts[device] == 0) {
        blame("a context that is not retained is released");
    } else {
        machine.contexts[device]--;
        machine.counts.contexts--;
    }
    unlock();
    return code;
}

bool fake_retained(int device)
{
    lock();
    const bool found = device >= 0 && device < DEVICES && machine.contexts[device] != 0;
    unlock();
    return found;
}

/* Waits for a stream to do something; streams that are lazy work meanwhile. */
static void wait_for_streams(void)
{
    machine.waiting++;
    pthread_cond_broadcast(&machine.changed);
    pthread_cond_wait(&machine.changed, &machine.lock);
    machine.waiting--;
}

/* ---- memory ------------------------------------------------------------------------------------------------------- */

static size_t used_of_current(void)
{
    size_t used = 0;
    for (const block *at = machine.blocks; at != NULL; at = at->next) {
        used += at->device == current_device ? at->size : 0;
    }
    return used;
}

int fake_capacity(const char *name, size_t *free, size_t *total)
{
    lock();
    const int code = enter_current(name);
    *total = (size_t)setting("memory");
    *free = *total - used_of_current();
    unlock();
    return code;
}

static void *pages_new(size_t size)
{
    return mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* With the setting "touching" blocks of whole pages follow each other, up to so many bytes. */
static void *block_pages(size_t size)
{
    const size_t most = (size_t)setting("touching");
    if (most == 0) {
        return pages_new(size);
    }
    if (machine.touching == NULL) {
        machine.touching = pages_new(most);
    }
    void *pages = machine.touching;
    machine.touching += size;
    return pages;
}

static int block_make(uintptr_t *address, size_t size)
{
    block *made = calloc(1, sizeof *made);
    void *pages = block_pages(size);
    made->bytes = pages == MAP_FAILED ? NULL : malloc(size);
    if (made->bytes == NULL) {
        free(made);
        return FAKE_MEMORY;
    }
    memset(made->bytes, 0xAA, size);
    made->device = current_device;
    made->address = (uintptr_t)pages;
    made->size = size;
    made->next = machine.blocks;
    machine.blocks = made;
    machine.counts.memory++;
    machine.counts.bytes += size;
    if (machine.counts.bytes > machine.counts.peak) {
        machine.counts.peak = machine.counts.bytes;
    }
    *address = made->address;
    return 0;
}

int fake_allocate(const char *name, uintptr_t *address, size_t size)
{
    lock();
    int code = enter_current(name);
    if (code == 0 && size == 0) {
        code = FAKE_INVALID;
    }
    if (code == 0 && size > (size_t)setting("memory") - used_of_current()) {
        code = FAKE_MEMORY;
    }
    if (code == 0) {
        code = block_make(address, size);
    }
    unlock();
    return code;
}
static void block_free(block *gone)
{
    munmap((void *)gone->address, gone->size);
    free(gone->bytes);
    free(gone);
}

int fake_release(const char *name, uintptr_t address)
{
    lock();
    int code = enter_current(name);
    block **at = &machine.blocks;
    while (*at != NULL && (*at)->address != address) {
        at = &(*at)->next;
    }
    block *gone = *at;
    if (gone == NULL) {
        blame("memory is released that is not held");
        code = FAKE_INVALID;
    } else if (machine.lost == 0) {
        if (gone->pending != 0) {
            blame("device memory is released while copies to it are queued");
            while (gone->pending != 0) {
                wait_for_streams();
            }
        }
        *at = gone->next;
        machine.counts.memory--;
        machine.counts.bytes -= gone->size;
        block_free(gone);
    }
    unlock();
    return code;
}

int fake_range(const char *name, uintptr_t *base, size_t *size, uintptr_t address)
{
    lock();
    int code = enter_current(name);
    const block *at = machine.blocks;
    while (at != NULL && (address < at->address || address - at->address >= at->size)) {
        at = at->next;
    }
    if (code == 0 && at == NULL) {
        blame("the range of an address is asked that is in no memory of the device");
        code = FAKE_INVALID;
    } else if (code == 0) {
        *base = at->address;
        *size = at->size;
    }
    unlock();
    return code;
}

static pinned *pin_over(const uint8_t *memory, size_t size)
{
    for (pinned *at = machine.pins; at != NULL; at = at->next) {
        if (memory < at->memory + at->size && at->memory < memory + size) {
            return at;
        }
    }
    return NULL;
}

int fake_register(const char *name, void *memory, size_t size, unsigned flags)
{
    lock();
    int code = enter_current(name);
    const uint64_t most = (uint64_t)setting("locked");
    if (code == 0 && flags != 1) { /* for all devices */
        code = FAKE_INVALID;
    } else if (code == 0 && (setting("attributes") & 2) == 0) {
        code = 801;
    } else if (code == 0 && pin_over(memory, size) != NULL) {
        code = 712;
    } else if (code == 0 && most != 0 && machine.locked + size > most) {
        code = FAKE_MEMORY;
    }
    if (code == 0) {
        pinned *made = calloc(1, sizeof *made);
        made->memory = memory;
        made->size = size;
        made->next = machine.pins;
        machine.pins = made;
        machine.locked += size;
        machine.counts.registered++;
    }
    unlock();
    return code;
}

int fake_unregister(const char *name, void *memory)
{
    lock();
    int code = enter_current(name);
    pinned **at = &machine.pins;
    while (*at != NULL && (*at)->memory != memory) {
        at = &(*at)->next;
    }
    pinned *gone = *at;
    if (gone == NULL) {
        code = code == 0 ? 713 : code;
        blame("memory of the host is unregistered that was not registered");
    } else if (machine.lost == 0) {
        if (gone->pending != 0) {
            blame("memory of the host is unregistered while copies from it are queued");
        }
        *at = gone->next;
        machine.locked -= gone->size;
        machine.counts.registered--;
        while (gone->pending != 0) {
            wait_for_streams();
        }
        free(gone);
    }
    unlock();
    return code;
}

static block *block_at(uintptr_t address, size_t size)
{
    for (block *at = machine.blocks; at != NULL; at = at->next) {
        if (address >= at->address && address - at->address <= at->size && size <= at->size - (address - at->address)) {
            return at;
        }
    }
    return NULL;
}

/* ---- streams ------------------------------------------------------------------------------------------------------ */

static void event_drop(event *what)
{
    if (--what->users == 0) {
        event **at = &machine.events;
        while (*at != what) {
            at = &(*at)->next;
        }
        *at = what->next;
        free(what);
    }
}

/* A little while, different each time, by the stream's own numbers. */
static void dawdle(stream *self)
{
    self->random = self->random * 1664525u + 1013904223u;
    if ((self->random >> 28) < 3) {
        usleep(self->random >> 24);
    } else if ((self->random >> 28) < 10) {
        sched_yield();
    }
}

static void move_bytes(const command *what)
{
    const fake_box *box = &what->box;
    uint8_t *device = what->memory->bytes + (box->device - what->memory->address);
    for (size_t i = 0; i < box->rows; i++) {
        uint8_t *to = box->to_host ? box->host + i * box->host_step : device + i * box->device_step;
        const uint8_t *from = box->to_host ? device + i * box->device_step : box->host + i * box->host_step;
        memcpy(to, from, box->width);
    }
}

static uint64_t later(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

/* When a copy is done, in virtual time: a device copies one thing after the other. */
static void take_time(stream *self, const command *what)
{
    const uint64_t rate = (uint64_t)setting("rate");
    if (rate == 0) {
        return;
    }
    const uint64_t begin = later(later(self->when, what->issued), machine.engine[self->device]);
    self->when = begin + what->box.width * what->box.rows / rate;
    machine.engine[self->device] = self->when;
    machine.latest = later(machine.latest, self->when);
}

/* Carries out a command, with the lock held before and after. */
static void carry_out(stream *self, command *what)
{
    switch (what->kind) {
    case COMMAND_COPY:
        unlock();
        dawdle(self);
        move_bytes(what);
        lock();
        take_time(self, what);
        break;
    case COMMAND_FILL:
        memset(what->memory->bytes + (what->box.device - what->memory->address), what->value, what->box.width);
        break;
    case COMMAND_RECORD:
        what->what->reached = later(what->what->reached, what->which);
        what->what->when = later(self->when, what->issued);
        break;
    case COMMAND_WAIT:
        while (what->what->reached < what->which && machine.lost == 0) {
            pthread_cond_wait(&machine.changed, &machine.lock);
        }
        self->when = later(self->when, what->what->when);
        break;
    case COMMAND_HOLD:
        while (machine.held && machine.lost == 0) {
            pthread_cond_wait(&machine.changed, &machine.lock);
        }
        break;
    }
}

static void command_free(command *what)
{
    if (what->memory != NULL) {
        what->memory->pending--;
    }
    if (what->source != NULL) {
        what->source->pending--;
    }
    if (what->what != NULL) {
        event_drop(what->what);
    }
    free(what);
}

static void *stream_run(void *arg)
{
    stream *self = arg;
    lock();
    while (!self->last || self->first != NULL) {
        command *what = self->first;
        const bool idle = setting("lazy") != 0 && machine.waiting == 0 && !self->last && machine.lost == 0;
        if (what == NULL || idle) {
            pthread_cond_wait(&machine.changed, &machine.lock);
            continue;
        }
        self->first = what->next;
        self->end = self->first == NULL ? &self->first : self->end;
        self->busy = true;
        if (machine.lost == 0) {
            carry_out(self, what);
        }
        self->busy = false;
        command_free(what);
        pthread_cond_broadcast(&machine.changed);
    }
    unlock();
    return NULL;
}

static stream *stream_make(int device, bool own)
{
    stream *made = calloc(1, sizeof *made);
    made->device = device;
    made->own = own;
    made->end = &made->first;
    made->random = (unsigned)setting("seed") * 7919u + (unsigned)machine.calls;
    made->next = machine.streams;
    machine.streams = made;
    pthread_create(&made->thread, NULL, stream_run, made);
    machine.counts.streams += own ? 0 : 1;
    return made;
}

/* By a handle, or by one of the numbers of the driver's own streams, which are one for each device here. */
static stream *stream_of(const void *handle)
{
    for (stream *at = machine.streams; at != NULL; at = at->next) {
        if ((uintptr_t)handle <= 2 ? at->own && at->device == current_device : at == handle) {
            return at;
        }
    }
    if ((uintptr_t)handle <= 2 && current_device >= 0) {
        return stream_make(current_device, true);
    }
    blame("a stream that is none");
    return NULL;
}

static void queue(stream *on, command given)
{
    command *made = malloc(sizeof *made);
    *made = given;
    made->next = NULL;
    made->issued = thread_time;
    *on->end = made;
    on->end = &made->next;
    pthread_cond_broadcast(&machine.changed);
}

static void stream_empty(const stream *on)
{
    while (on->first != NULL || on->busy) {
        wait_for_streams();
    }
}

static void stream_end(stream *gone)
{
    stream **at = &machine.streams;
    while (*at != gone) {
        at = &(*at)->next;
    }
    *at = gone->next;
    machine.counts.streams -= gone->own ? 0 : 1;
    gone->last = true;
    pthread_cond_broadcast(&machine.changed);
    unlock();
    pthread_join(gone->thread, NULL);
    lock();
    free(gone);
}

int fake_stream_new(const char *name, void **handle, unsigned flags)
{
    lock();
    int code = enter_current(name);
    if (code == 0 && flags > 1) {
        code = FAKE_INVALID;
    }
    if (code == 0) {
        *handle = stream_make(current_device, false);
    }
    unlock();
    return code;
}

/* The stream of a handle, which must be of the current device. */
static int stream_find(const void *handle, stream **found)
{
    *found = stream_of(handle);
    if (*found == NULL) {
        return FAKE_WRONG_HANDLE;
    }
    if ((*found)->device != current_device) {
        blame("a stream of another device than the current one");
        return FAKE_WRONG_HANDLE;
    }
    return 0;
}

int fake_stream_free(const char *name, void *handle)
{
    stream *found = NULL;
    lock();
    int code = enter_current(name);
    if (machine.lost == 0 && stream_find(handle, &found) != 0) {
        code = FAKE_WRONG_HANDLE;
    } else if (machine.lost == 0) {
        if (found->first != NULL || found->busy) {
            blame("a stream is destroyed while copies are queued on it");
        }
        stream_end(found);
    }
    unlock();
    return code;
}

int fake_stream_synchronize(const char *name, void *handle)
{
    stream *found = NULL;
    lock();
    int code = enter_current(name);
    if (code == 0) {
        code = stream_find(handle, &found);
    }
    if (code == 0) {
        stream_empty(found);
        thread_time = later(thread_time, found->when);
        machine.latest = later(machine.latest, thread_time);
        code = machine.lost;
    }
    unlock();
    return code;
}

/* ---- events ------------------------------------------------------------------------------------------------------- */

static event *event_of(const void *handle)
{
    for (event *at = machine.events; at != NULL; at = at->next) {
        if (at == handle && !at->gone) {
            return at;
        }
    }
    blame("an event that is none");
    return NULL;
}

int fake_event_new(const char *name, void **handle, unsigned flags)
{
    lock();
    int code = enter_current(name);
    if (code == 0 && flags > 3) {
        code = FAKE_INVALID;
    }
    if (code == 0) {
        event *made = calloc(1, sizeof *made);
        made->device = current_device;
        made->users = 1;
        made->next = machine.events;
        machine.events = made;
        machine.counts.events++;
        *handle = made;
    }
    unlock();
    return code;
}

int fake_event_free(const char *name, void *handle)
{
    lock();
    int code = enter_current(name);
    event *found = machine.lost == 0 ? event_of(handle) : NULL;
    if (found != NULL) {
        found->gone = true;
        machine.counts.events--;
        event_drop(found);
    } else if (code == 0) {
        code = FAKE_WRONG_HANDLE;
    }
    unlock();
    return code;
}

static int event_and_stream(const char *name, void *event_handle, const void *stream_handle, event **what, stream **on)
{
    const int code = enter_current(name);
    if (code != 0) {
        return code;
    }
    *what = event_of(event_handle);
    if (*what == NULL) {
        return FAKE_WRONG_HANDLE;
    }
    return stream_find(stream_handle, on);
}

int fake_event_record(const char *name, void *handle, void *stream_handle)
{
    event *what = NULL;
    stream *on = NULL;
    lock();
    int code = event_and_stream(name, handle, stream_handle, &what, &on);
    if (code == 0 && what->device != on->device) {
        blame("an event is recorded on a stream of another device");
        code = FAKE_WRONG_HANDLE;
    }
    if (code == 0) {
        what->users++;
        what->recorded++;
        queue(on, (command){ .kind = COMMAND_RECORD, .what = what, .which = what->recorded });
    }
    unlock();
    return code;
}

int fake_stream_wait(const char *name, void *stream_handle, void *handle, unsigned flags)
{
    event *what = NULL;
    stream *on = NULL;
    lock();
    int code = event_and_stream(name, handle, stream_handle, &what, &on);
    if (code == 0 && flags != 0) {
        code = FAKE_INVALID;
    }
    if (code == 0) {
        what->users++;
        queue(on, (command){ .kind = COMMAND_WAIT, .what = what, .which = what->recorded });
    }
    unlock();
    return code;
}

/* In virtual time the answer is that of the thread's clock, however fast the machine was. */
int fake_event_query(const char *name, void *handle)
{
    lock();
    int code = enter_current(name);
    event *what = code == 0 ? event_of(handle) : NULL;
    if (code == 0 && what == NULL) {
        code = FAKE_WRONG_HANDLE;
    }
    if (code == 0 && setting("rate") != 0) {
        while (what->reached < what->recorded && machine.lost == 0) {
            wait_for_streams();
        }
        code = what->when > thread_time ? FAKE_NOT_READY : 0;
    } else if (code == 0) {
        code = what->reached < what->recorded ? FAKE_NOT_READY : 0;
    }
    unlock();
    return code;
}

int fake_event_synchronize(const char *name, void *handle)
{
    lock();
    int code = enter_current(name);
    event *what = code == 0 ? event_of(handle) : NULL;
    if (code == 0 && what == NULL) {
        code = FAKE_WRONG_HANDLE;
    }
    if (code == 0) {
        while (what->reached < what->recorded && machine.lost == 0) {
            wait_for_streams();
        }
        thread_time = later(thread_time, what->when);
        machine.latest = later(machine.latest, thread_time);
        code = machine.lost;
    }
    unlock();
    return code;
}

/* ---- copies ------------------------------------------------------------------------------------------------------- */

static size_t reach(size_t step, size_t width, size_t rows)
{
    return step * (rows - 1) + width;
}

static int copy_check(const fake_box *box, command *made)
{
    if (box->rows == 0 || (box->rows > 1 && (box->device_step < box->width || box->host_step < box->width))) {
        blame("a copy whose rows overlap, or without rows");
        return FAKE_INVALID;
    }
    made->memory = block_at(box->device, reach(box->device_step, box->width, box->rows));
    if (made->memory == NULL || made->memory->device != current_device) {
        blame("a copy outside of a block of the current device");
        return FAKE_INVALID;
    }
    const size_t size = reach(box->host_step, box->width, box->rows);
    made->source = pin_over(box->host, size);
    if (made->source != NULL &&
        (made->source->memory > box->host || made->source->memory + made->source->size < box->host + size)) {
        blame("a copy that begins or ends outside of registered memory");
        return FAKE_INVALID;
    }
    if (made->source == NULL && !box->to_host) {
        machine.counts.pageable++;
        if (setting("strict") != 0) {
            blame("a copy from memory that is not registered");
        }
    }
    return 0;
}

int fake_copy(const char *name, const fake_box *box, void *handle)
{
    command made = { .kind = COMMAND_COPY, .box = *box };
    stream *on = NULL;
    lock();
    int code = enter_current(name);
    if (code == 0) {
        code = stream_find(handle, &on);
    }
    if (code == 0) {
        code = copy_check(box, &made);
    }
    if (code == 0) {
        machine.counts.copies += box->rows == 1 ? 1 : 0;
        machine.counts.boxes += box->rows == 1 ? 0 : 1;
        made.memory->pending++;
        if (made.source != NULL) {
            made.source->pending++;
        }
        queue(on, made);
    }
    unlock();
    return code;
}

/* ---- control ------------------------------------------------------------------------------------------------------ */

static void control_reset(const char *settings)
{
    lock();
    machine.held = false;
    pthread_cond_broadcast(&machine.changed);
    while (machine.streams != NULL) {
        stream_end(machine.streams);
    }
    for (block *at = machine.blocks, *next = NULL; at != NULL; at = next) {
        next = at->next;
        block_free(at);
    }
    for (pinned *at = machine.pins, *next = NULL; at != NULL; at = next) {
        next = at->next;
        free(at);
    }
    for (event *at = machine.events, *next = NULL; at != NULL; at = next) {
        next = at->next;
        free(at);
    }
    for (counter *at = machine.counters, *next = NULL; at != NULL; at = next) {
        next = at->next;
        free(at);
    }
    machine.started = true;
    machine.generation++;
    snprintf(machine.settings, sizeof machine.settings, "%s", settings);
    machine.blocks = NULL;
    machine.touching = NULL;
    machine.pins = NULL;
    machine.events = NULL;
    machine.counters = NULL;
    machine.calls = 0;
    machine.fail_left = 0;
    machine.lost = 0;
    machine.initialised = false;
    memset(machine.contexts, 0, sizeof machine.contexts);
    memset(machine.engine, 0, sizeof machine.engine);
    machine.reader = 0;
    machine.latest = 0;
    machine.locked = 0;
    memset(&machine.counts, 0, sizeof machine.counts);
    machine.mistake[0] = '\0';
    current_device = -1;
    thread_time = 0;
    unlock();
}

static void control_fail(const char *function, unsigned nth, int code)
{
    lock();
    snprintf(machine.fail_name, sizeof machine.fail_name, "%s", function == NULL ? "" : function);
    machine.fail_left = nth;
    machine.fail_code = code;
    unlock();
}

static unsigned control_calls(const char *function)
{
    lock();
    const unsigned calls = function == NULL ? machine.calls : counter_of(function)->calls;
    unlock();
    return calls;
}

static const char *control_mistake(void)
{
    return machine.mistake[0] == '\0' ? NULL : machine.mistake;
}

static fake_counts control_counts(void)
{
    lock();
    const fake_counts counts = machine.counts;
    unlock();
    return counts;
}

/* For the caller's own use of a stream the device is that of the stream, or the first. */
static stream *control_stream(uint64_t number)
{
    const int before = current_device;
    if (current_device < 0) {
        current_device = 0;
    }
    stream *found = stream_of((const void *)(uintptr_t)number);
    current_device = before;
    return found;
}

static void control_hold(uint64_t number)
{
    lock();
    machine.held = true;
    queue(control_stream(number), (command){ .kind = COMMAND_HOLD });
    unlock();
}

static void control_let_go(void)
{
    lock();
    machine.held = false;
    pthread_cond_broadcast(&machine.changed);
    unlock();
}

static void control_fill(uint64_t number, uint64_t address, size_t size, uint8_t value)
{
    lock();
    block *memory = block_at((uintptr_t)address, size);
    if (memory == NULL) {
        blame("the test fills what is not there");
    } else {
        memory->pending++;
        queue(control_stream(number), (command){ .kind = COMMAND_FILL,
                                                 .memory = memory,
                                                 .value = value,
                                                 .box = { .device = (uintptr_t)address, .width = size } });
    }
    unlock();
}

static void control_read_for(uint64_t units)
{
    lock();
    machine.reader = later(machine.reader, thread_time) + units;
    thread_time = machine.reader;
    machine.latest = later(machine.latest, thread_time);
    unlock();
}

static uint64_t control_end(void)
{
    lock();
    const uint64_t end = machine.latest;
    unlock();
    return end;
}

static uint8_t *control_bytes(uint64_t address, size_t size)
{
    lock();
    const block *found = block_at((uintptr_t)address, size);
    uint8_t *bytes = found == NULL ? NULL : found->bytes + ((uintptr_t)address - found->address);
    unlock();
    return bytes;
}

const fake_control_table *fake_machine_control(void)
{
    static const fake_control_table table = { control_reset,    control_fail, control_calls,  control_mistake,
                                              control_counts,   control_hold, control_let_go, control_fill,
                                              control_read_for, control_end,  control_bytes };
    return &table;
}
