/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer/load.h - loading: many tensors, or parts of them, into host or device memory as fast as disk, network and bus
 * allow. The conventions of coffer/base.h hold.
 *
 *   coffer_plan     what is wanted of a model, and where it goes. No I/O.
 *   coffer_staging  what bytes pass through on their way: memory of a fixed size, threads, registrations with devices.
 *                   It may serve any number of loads, one after the other, so that pinning is paid for once.
 *   coffer_load     one plan that is carried out in the background. Tensors are handed out as they become ready.
 *   coffer_exchange who reads what where several hosts load one model, and who sends what to whom.
 *
 * docs/loading.md says how a load chooses its engine, and what every option does. All of it is since 0.2.
 */
#ifndef COFFER_LOAD_H
#define COFFER_LOAD_H

#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Devices ----------------------------------------------------------------------------------------------------- */

/* A memory space: host memory, or that of one accelerator. Any number of threads may use it at once. */
typedef struct coffer_device coffer_device;

/* Whose driver a device is used by. */
typedef enum coffer_device_kind {
    COFFER_DEVICE_HOST = 0,
    COFFER_DEVICE_CUDA = 1, /* by the driver's libcuda */
    COFFER_DEVICE_HIP = 2   /* by libamdhip64 */
} coffer_device_kind;

/* What a device says of itself. */
typedef struct coffer_device_info {
    size_t struct_size; /* set before the call */
    coffer_device_kind kind;
    int32_t number;  /* among those of its kind that this process sees; 0 for host memory */
    char name[128];  /* as the driver calls it */
    uint64_t total;  /* bytes of memory */
    uint64_t free;   /* of them now free */
    bool integrated; /* its memory is the host's, so what is in flight takes from what tensors need */
    bool registers;  /* host memory can be registered for faster copies */
} coffer_device_info;

/*
 * Opens "cpu", "cuda", "cuda:N" or "hip:N" ("cuda" alone is number 0). The driver is loaded now; nothing is done to any
 * other device. The device's primary context is used, as frameworks do, and retained until coffer_device_close.
 * COFFER_ERR_NO_DEVICE says what is missing: no driver, a stub of it, one that is too old, no device of that number, no
 * permission.
 */
COFFER_API coffer_status coffer_device_open(coffer_device **device, const char *name, const coffer_allocator *allocator,
                                            coffer_error *err);
/* Staging buffers that were used for it, and memory that loads handed out, keep it open until they are freed
   themselves; plans, running loads and memory of coffer_device_allocate do not. NULL is ignored. */
COFFER_API void coffer_device_close(coffer_device *device);
/* COFFER_ERR_DEVICE when the driver fails. */
COFFER_API coffer_status coffer_device_describe(coffer_device *device, coffer_device_info *info, coffer_error *err);
/* Memory of the device, `size` bytes of at least 1, aligned to 256 bytes. *address is a pointer's value in host
   memory, else an address that only the device understands. COFFER_ERR_DEVICE_MEMORY carries what was asked for as
   err->expected and what is free as err->actual. For engines without an allocator of the device's memory. */
COFFER_API coffer_status coffer_device_allocate(coffer_device *device, uint64_t size, uint64_t *address,
                                                coffer_error *err);
/* Releases it, with the size that was asked for; address 0 is ignored. What runs on the device must no longer need
   it. For engines, as coffer_device_allocate. */
COFFER_API void coffer_device_memory_free(coffer_device *device, uint64_t address, uint64_t size);
/* Copies `size` bytes of the device's memory to `buffer`, and waits for that. */
COFFER_API coffer_status coffer_device_read(coffer_device *device, uint64_t address, void *buffer, uint64_t size,
                                            coffer_error *err);

/* One thing that loading may use: a device, or a facility of the system. Texts are borrowed for the call. */
typedef struct coffer_facility {
    const char *name; /* "cpu", "cuda:0", "io_uring", "direct reading", "huge pages", "locked memory", … */
    bool usable;
    const char *detail; /* what it is, or why it cannot be used */
    const char *advice; /* what to change so that it can be; "" if nothing is known */
} coffer_facility;
/* Called for each; a non-zero answer ends the list. */
typedef int (*coffer_facility_visitor)(void *ctx, const coffer_facility *facility);
/* Names what there is and what there is not. `path` is a file or folder whose file system is asked, too; NULL: none. */
COFFER_API coffer_status coffer_list_facilities(const char *path, const coffer_allocator *allocator,
                                                coffer_facility_visitor visit, void *ctx, coffer_error *err);

/* ---- Plans ------------------------------------------------------------------------------------------------------- */

/* What is wanted of one model. It belongs to one thread at a time; the model must outlive it. */
typedef struct coffer_plan coffer_plan;

/* Where the result of one item goes. */
typedef struct coffer_destination {
    coffer_device *device;  /* NULL: host memory */
    uint64_t address;       /* of the first element: a pointer's value, or an address of the device */
    uint64_t size;          /* bytes from there on that may be written */
    const int64_t *strides; /* bytes from one element to the next along each dimension of the result, none negative, and
                               0 only for dimensions of one; copied. NULL: row-major, without gaps, as it has to be
                               for F4 and F6, whose elements are no whole bytes */
    /* Of the device, as its driver numbers it: what is queued there when the load gets to the item comes first. 0: the
       default stream; 2, each thread's own, is refused. Without meaning in host memory. What was handed out is in place
       for every stream. */
    uint64_t stream;
} coffer_destination;

/* One item of a plan. Pointers are borrowed from the plan. */
typedef struct coffer_plan_item {
    const coffer_tensor *tensor;
    const uint64_t *shape; /* of the result, `rank` dimensions */
    size_t rank;
    uint64_t size;         /* of the result, in bytes */
    bool whole;            /* all of the tensor, in its order: its digest can be checked */
    coffer_device *device; /* NULL: host memory */
} coffer_plan_item;

/* What a plan costs, of one shard or of all. Nothing is read to know that. */
typedef struct coffer_plan_cost {
    size_t struct_size; /* set before the call */
    uint64_t items;
    uint64_t needed;   /* bytes of the results */
    uint64_t read;     /* bytes that are read for them: gaps that cost less than another request are read, too */
    uint64_t requests; /* reads */
} coffer_plan_cost;

/* Makes an empty plan. Its allocator is also that of its loads, whose threads call it one at a time, but while the
   program's threads run: so it must be safe in threads. NULL: coffer_libc_allocator(). */
COFFER_API coffer_status coffer_plan_new(coffer_plan **plan, const coffer *model, const coffer_allocator *allocator,
                                         coffer_error *err);
/* Releases a plan, whose loads have been freed; NULL is ignored. */
COFFER_API void coffer_plan_free(coffer_plan *plan);
/*
 * Adds a tensor, or the slice of it that `count` indices name, with the rules of coffer_read_slice. `destination` NULL:
 * the load allocates host memory, and hands it out. *item becomes the item's number; they count from 0, in the order in
 * which they are added. The same bytes may be wanted several times. COFFER_ERR_DESTINATION when the destination is too
 * small or its strides let elements overlap.
 */
COFFER_API coffer_status coffer_plan_add(coffer_plan *plan, const coffer_tensor *tensor, const coffer_index *indices,
                                         size_t count, const coffer_destination *destination, size_t *item,
                                         coffer_error *err);
/* The same for memory that the load allocates on a device. */
COFFER_API coffer_status coffer_plan_add_on(coffer_plan *plan, const coffer_tensor *tensor, const coffer_index *indices,
                                            size_t count, coffer_device *device, size_t *item, coffer_error *err);
/*
 * Adds what rank `rank` of `world` takes of a tensor that is split along dimension `dim`. A fused tensor has several
 * parts along it, such as the queries, keys and values of an attention: `parts` are their sizes, in elements, whose sum
 * is that of the dimension; each is split by itself, and what the rank takes of them is put together in that order.
 * With part_count 0 the whole dimension is one part. COFFER_ERR_INDEX for a part that cannot be split evenly. `device`
 * is used where `destination` is NULL.
 */
COFFER_API coffer_status coffer_plan_add_rank(coffer_plan *plan, const coffer_tensor *tensor, size_t dim,
                                              const uint64_t *parts, size_t part_count, uint32_t rank, uint32_t world,
                                              const coffer_destination *destination, coffer_device *device,
                                              size_t *item, coffer_error *err);

/* A rule of how tensors are split among ranks: the first whose pattern (coffer_match) fits a tensor's name holds. */
typedef struct coffer_split_rule {
    const char *pattern;
    int32_t dim; /* which dimension is split; -1: every rank takes the whole */
} coffer_split_rule;
/* Adds every tensor of the model as rank `rank` of `world` takes it. `rules` NULL: those of the usual transformers, by
   the names of their weights, which docs/loading.md lists. A tensor that no rule fits, or that cannot be split evenly,
   is taken whole. `device` NULL: host memory. */
COFFER_API coffer_status coffer_plan_add_all(coffer_plan *plan, const coffer_split_rule *rules, size_t rule_count,
                                             uint32_t rank, uint32_t world, coffer_device *device, coffer_error *err);

/* How many items a plan has. */
COFFER_API size_t coffer_plan_count(const coffer_plan *plan);
/* Describes an item. False when `item` is not below the count. */
COFFER_API bool coffer_plan_at(const coffer_plan *plan, size_t item, coffer_plan_item *out);
/* What shard `shard` costs; SIZE_MAX: all of them together. */
COFFER_API coffer_status coffer_plan_cost_of(const coffer_plan *plan, size_t shard, coffer_plan_cost *cost,
                                             coffer_error *err);
/* How a load that began now, in a staging buffer without an engine by name, would read shard `shard`; SIZE_MAX: all of
   them. *engines becomes a set of bits, 1 << coffer_engine for each; 0 where nothing is wanted. The files are opened,
   and the system is asked about them, but at most a block of each is read. What it says may change with the page
   cache. */
COFFER_API coffer_status coffer_plan_engines_of(const coffer_plan *plan, size_t shard, uint32_t *engines,
                                                coffer_error *err);

/* ---- Staging buffers --------------------------------------------------------------------------------------------- */

/* How bytes of a file are read. One that is asked for by name is used or fails with COFFER_ERR_ENGINE, which says what
   is missing and what to do; no model cache server is asked then. */
typedef enum coffer_engine {
    COFFER_ENGINE_AUTO = 0,     /* by what the system says of each file, and by what is measured */
    COFFER_ENGINE_BUFFERED = 1, /* through the page cache, by threads */
    COFFER_ENGINE_DIRECT = 2,   /* past the page cache, by threads */
    COFFER_ENGINE_RING = 3,     /* past the page cache, by io_uring */
    COFFER_ENGINE_CUFILE = 4,   /* from the disk into the device, by cuFile */
    COFFER_ENGINE_MAPPED = 5    /* not copied: what is handed out is part of a private map of the file */
} coffer_engine;

/* What bytes pass through, from load to load. */
typedef struct coffer_staging coffer_staging;

/* How a staging buffer is made. The default is good for most uses. */
typedef struct coffer_staging_options {
    size_t struct_size;
    const coffer_allocator *allocator;
    uint64_t memory;      /* bytes in flight, at most; 0: 64 MiB, more where a device has much memory of its own */
    uint32_t threads;     /* 0: by engine and processors */
    coffer_engine engine; /* for all files of its loads */
    const char *group;    /* with `ranks` above 1: processes of this user on this host that name the same group and
                             load the same model read each byte once, together; NULL: any that loads the model */
    uint32_t ranks;       /* how many processes that are; 0 and 1: this one alone */
    uint32_t rank;        /* which of them this is, below `ranks` */
} coffer_staging_options;
#define COFFER_STAGING_OPTIONS_INIT                                                                                    \
    {                                                                                                                  \
        sizeof(coffer_staging_options), NULL, 0, 0, COFFER_ENGINE_AUTO, NULL, 0, 0                                     \
    }

/* Makes a staging buffer. Its memory comes when the first load needs it. One load reads through it at a time, while
   others that were started wait for it. */
COFFER_API coffer_status coffer_staging_new(coffer_staging **staging, const coffer_staging_options *options,
                                            coffer_error *err);
/* No load may use it afterwards. */
COFFER_API void coffer_staging_free(coffer_staging *staging);

/* ---- Loads ------------------------------------------------------------------------------------------------------- */

/* One plan that is being carried out. Any number of threads may call its functions at once, but coffer_load_free. */
typedef struct coffer_load coffer_load;
/* Memory that a load handed out. It lives until coffer_memory_free, regardless of what becomes of the load. With the
   engine "mapped" it is part of a private map: changes stay in memory, and what another program does to the file in
   place shows, as with COFFER_MAP_PRIVATE. */
typedef struct coffer_memory coffer_memory;

/* In which order a load reads. */
typedef enum coffer_load_order {
    COFFER_ORDER_FILE = 0, /* as the bytes lie in the files: the fastest */
    COFFER_ORDER_PLAN = 1  /* as the items were added */
} coffer_load_order;

/* How a load is carried out. */
typedef struct coffer_load_options {
    size_t struct_size;
    uint64_t host_budget;     /* bytes of host memory that are allocated and not yet taken; 0: no limit */
    uint64_t device_budget;   /* the same of each device */
    coffer_load_order order;  /* in which items are read */
    bool unverified;          /* digests that the files record are not checked, unless the model was opened to verify */
    bool uncached;            /* leave nothing in the page cache, also where it would serve others */
    coffer_progress progress; /* called by a thread of the load's own, in bytes of the results; NULL: none */
    void *progress_ctx;
} coffer_load_options;
#define COFFER_LOAD_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(coffer_load_options), 0, 0, COFFER_ORDER_FILE, false, false, NULL, NULL                                 \
    }

/* An item that is ready. */
typedef struct coffer_loaded {
    size_t item; /* SIZE_MAX: there is none left */
    const coffer_tensor *tensor;
    coffer_device *device; /* NULL: host memory */
    uint64_t address;      /* of the first element */
    uint64_t size;         /* of the result, in bytes */
    coffer_memory *memory; /* the caller's to free; NULL where the plan gave the destination */
    bool verified;         /* its digest was recorded, and is that of its bytes */
} coffer_loaded;

/* What a load has done so far. */
typedef struct coffer_load_stats {
    size_t struct_size;     /* set before the call */
    uint64_t wanted;        /* bytes of the results, all in all */
    uint64_t done;          /* of them, in place */
    uint64_t read;          /* bytes read, from wherever */
    uint64_t cached;        /* of them, known to have been in the page cache; little is read without looking */
    uint64_t direct;        /* of them, read past it */
    uint64_t requests;      /* reads */
    uint64_t nanoseconds;   /* since coffer_load_start, until the end */
    uint64_t first;         /* until the first item was ready; 0: none was */
    uint64_t waited_source; /* thread time that was spent waiting for bytes */
    uint64_t waited_device; /* thread time that was spent waiting for the device */
    uint64_t waited_caller; /* thread time that was spent waiting for the caller to take what fills a budget */
    uint32_t engines;       /* bit 1 << coffer_engine for each that was used */
    uint32_t threads;       /* that worked at once, at most */
} coffer_load_stats;

/*
 * Starts carrying out a plan, and returns. Everything that can be refused is refused here, before anything is read:
 * COFFER_ERR_DESTINATION for destinations of two items that overlap, COFFER_ERR_BUDGET for an item that is larger than
 * its budget, COFFER_ERR_ENGINE, COFFER_ERR_DIGESTS and COFFER_ERR_METADATA_DIGEST for records that are damaged. A plan
 * of little is carried out before this returns, and so is any that fits its budgets where the system gives no thread.
 * The plan and its model must stay until coffer_load_free, and the plan is not changed meanwhile. `staging` NULL: one
 * of the load's own. `options` are copied.
 */
COFFER_API coffer_status coffer_load_start(coffer_load **load, const coffer_plan *plan, coffer_staging *staging,
                                           const coffer_load_options *options, coffer_error *err);
/*
 * Waits for the next item that is ready and was not taken, at most `milliseconds` (UINT64_MAX: as long as it takes),
 * and hands it out. COFFER_NEED_MORE when the time is over. Items of given destinations are handed out in the same way,
 * so that their use can begin. After the last one loaded->item is SIZE_MAX. A load that has failed hands out nothing
 * more: every call returns that failure, COFFER_ERR_CHANGED for a file that was changed meanwhile,
 * COFFER_ERR_TENSOR_DIGEST, COFFER_ERR_DEVICE, COFFER_ERR_PEER for one of another rank.
 */
COFFER_API coffer_status coffer_load_next(coffer_load *load, uint64_t milliseconds, coffer_loaded *loaded,
                                          coffer_error *err);
/* The same for one item, which is read next if it was not read yet. COFFER_ERR_TAKEN when it was handed out before. */
COFFER_API coffer_status coffer_load_take(coffer_load *load, size_t item, uint64_t milliseconds, coffer_loaded *loaded,
                                          coffer_error *err);
/* Waits until everything is in place, without handing anything out. COFFER_ERR_BUDGET when that cannot be, since what
   a budget has space for was not taken. */
COFFER_API coffer_status coffer_load_wait(coffer_load *load, uint64_t milliseconds, coffer_error *err);
/* Ends a load soon: its calls fail with COFFER_ERR_CANCELLED. From any thread. */
COFFER_API void coffer_load_cancel(coffer_load *load);
/* From any thread. */
COFFER_API void coffer_load_stats_of(coffer_load *load, coffer_load_stats *stats);
/* Cancels what is not done, waits for it, and releases what was not taken. */
COFFER_API void coffer_load_free(coffer_load *load);
/* Releases memory that was handed out. From any thread. */
COFFER_API void coffer_memory_free(coffer_memory *memory);

/* ---- Several hosts ----------------------------------------------------------------------------------------------- */

/*
 * Hosts that have no disk in common, or one that is slower than the network between them, load a model together: each
 * byte that any of them wants is read by one of them, and goes from there to all that want it. Which host reads what,
 * and who sends what to whom, is a schedule, which each host computes by itself from the plans of all. How bytes get
 * from host to host is up to the caller: MPI, NCCL, UCX, sockets.
 *
 * The files are cut into chunks of at most 2 MiB, smaller ones where the model or the memory of a round is small for so
 * many hosts. Rounds follow each other: in each, a host reads some chunks, and all hosts exchange what they have read,
 * while what comes next is read already.
 */

/* Who reads what, and who sends what to whom. It never changes, and any number of threads may use it at once. */
typedef struct coffer_exchange coffer_exchange;

/* How the schedule is made. The same on all hosts. */
typedef struct coffer_exchange_options {
    size_t struct_size;
    const coffer_allocator *allocator; /* of the schedule; NULL: coffer_libc_allocator() */
    uint64_t memory; /* bytes that all hosts together read in a round; 0: 256 MiB. A host reads one chunk at least. A
                        host that wants everything has twice this for messages and twice its part of it for reading */
} coffer_exchange_options;
#define COFFER_EXCHANGE_OPTIONS_INIT                                                                                   \
    {                                                                                                                  \
        sizeof(coffer_exchange_options), NULL, 0                                                                       \
    }

/* One chunk: bytes of a file that one host reads. */
typedef struct coffer_exchange_chunk {
    uint32_t host;  /* that reads it */
    uint64_t round; /* in which it does */
    size_t shard;
    uint64_t begin; /* bytes of the shard's file; long gaps between what is wanted are not read */
    uint64_t end;
    uint64_t read; /* how many bytes are read */
} coffer_exchange_chunk;

/*
 * Makes the schedule for `world` hosts, of which host i wants plans[i]. Each host calls this with the plans of all,
 * in the same order, for its own handle of the same model; destinations matter only in its own plan. The plans must
 * outlive the exchange, and must no longer change. Nothing is read. For engines on several hosts: examples/mpi_load.c
 * is one.
 */
COFFER_API coffer_status coffer_exchange_new(coffer_exchange **exchange, const coffer_plan *const *plans,
                                             uint32_t world, const coffer_exchange_options *options, coffer_error *err);
/* For engines on several hosts. NULL is ignored. */
COFFER_API void coffer_exchange_free(coffer_exchange *exchange);
/* How many rounds it takes. For engines on several hosts, to say how far they are. */
COFFER_API uint64_t coffer_exchange_rounds(const coffer_exchange *exchange);
/* How many chunks are read. For engines on several hosts, as coffer_exchange_at. */
COFFER_API size_t coffer_exchange_count(const coffer_exchange *exchange);
/* Describes a chunk: they are in the order of rounds, in a round in that of the hosts, and of a host in that of the
   files. False when `chunk` is not below the count. For engines on several hosts, to show or check a schedule. */
COFFER_API bool coffer_exchange_at(const coffer_exchange *exchange, size_t chunk, coffer_exchange_chunk *out);
/* Bytes of the model that host `from` sends to host `to` in a round; to itself: what it has read of its own plan. 0
   for a round or host that there is not. What is wanted by several items of a plan is sent for each. For transports
   that want memory or messages of the right size beforehand. */
COFFER_API uint64_t coffer_exchange_size(const coffer_exchange *exchange, uint64_t round, uint32_t from, uint32_t to);

/* What a host sends and receives at one time: for and from each host i sizes[i] bytes at `offsets[i]`, one after the
   other without gaps. For and from itself: none. */
typedef struct coffer_parcels {
    const void *send;
    const uint64_t *send_sizes;
    const uint64_t *send_offsets;
    void *receive;
    const uint64_t *receive_sizes;
    const uint64_t *receive_offsets;
} coffer_parcels;

/* The way between hosts. The struct is only read. */
typedef struct coffer_transport {
    /*
     * Sends and receives all of `parcels`, which are borrowed for the call, and returns COFFER_OK; or fails with a
     * status of its choice, and may fill *err (never NULL), else the library does. All hosts call it equally often, and
     * in the same order, with sizes that fit each other, as an "all to all" of MPI wants. The thread that called
     * coffer_exchange_run calls it. A host that no longer answers must make it fail in bounded time; that is
     * what bounds the time in which all hosts get to know of it.
     */
    coffer_status (*carry)(void *ctx, const coffer_parcels *parcels, coffer_error *err);
    void *ctx;
    uint32_t host;  /* which this is, below `world` */
    uint32_t world; /* how many there are */
} coffer_transport;

/* How an exchange is carried out. */
typedef struct coffer_exchange_run_options {
    size_t struct_size;
    coffer_staging *staging;  /* what this host reads through, without ranks; NULL: one of its own */
    coffer_progress progress; /* called by the calling thread, in bytes of the host's results; NULL: none. A non-zero
                                 answer ends the exchange with COFFER_ERR_CANCELLED, on the other hosts, too */
    void *progress_ctx;
} coffer_exchange_run_options;
#define COFFER_EXCHANGE_RUN_OPTIONS_INIT                                                                               \
    {                                                                                                                  \
        sizeof(coffer_exchange_run_options), NULL, NULL, NULL                                                          \
    }

/*
 * Loads this host's plan together with the others, all of which call this at about the same time, and returns when
 * everything is in place. loaded[i] becomes item i of the host's plan, of which there is space for coffer_plan_count:
 * memory that the plan gave no destination for is the caller's. All destinations are in host memory;
 * COFFER_ERR_UNSUPPORTED for a device. Digests are not checked: the bytes of a tensor come from several hosts;
 * coffer_verify does that.
 *
 * First the hosts compare their schedules, and each message says whether its sender has failed. So when one fails, it
 * returns its failure and all others COFFER_ERR_PEER with the number of that host and what it said, in the same
 * round. The same for hosts whose models or plans differ. After a failure `loaded` is all zeros, and what the
 * destinations have is undefined. For engines on several hosts.
 */
COFFER_API coffer_status coffer_exchange_run(const coffer_exchange *exchange, const coffer_transport *transport,
                                             const coffer_exchange_run_options *options, coffer_loaded *loaded,
                                             coffer_error *err);
/* For a host that cannot take part, as it could not open its model or make its exchange: tells the others, whose
   coffer_exchange_run fails with COFFER_ERR_PEER, and what `why` says. In place of coffer_exchange_run. For engines
   on several hosts. */
COFFER_API coffer_status coffer_exchange_refuse(const coffer_transport *transport, const coffer_error *why,
                                                coffer_error *err);

/* ---- Model cache server ------------------------------------------------------------------------------------------ */

/* A model whose files are held in memory that nobody can change, for processes of this user that load it later. */
typedef struct coffer_cache_server coffer_cache_server;

/* Reads the files of a model at a path into sealed memory, and answers processes that open a load of it, until
   coffer_cache_server_free. Loads find it by themselves, as long as the files are not changed, but those in a staging
   buffer whose engine is named, which read the files; digests that they record are checked first. Memory that a load
   has attached to stays for that load. COFFER_ERR_UNSUPPORTED where the system has no sealed memory, and for models
   that are not in files; COFFER_ERR_LOCKED when another process keeps one of the files. */
COFFER_API coffer_status coffer_cache_server_new(coffer_cache_server **server, const char *path,
                                                 const coffer_allocator *allocator, coffer_progress progress,
                                                 void *progress_ctx, coffer_error *err);
/* What it holds, in bytes, and how many loads have attached to it so far. From any thread. */
COFFER_API void coffer_cache_server_state(coffer_cache_server *server, uint64_t *bytes, uint64_t *attached);
/* Ends it: what others have attached to stays theirs. NULL is ignored. */
COFFER_API void coffer_cache_server_free(coffer_cache_server *server);

#ifdef __cplusplus
}
#endif

#endif
