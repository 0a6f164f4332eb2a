/* SPDX-License-Identifier: Apache-2.0 */
#include "index_file.h"

#include "errno_status.h"
#include "error.h"
#include "paths.h"
#include "sink.h"

#include <errno.h>

coffer_status coffer__index_file_lock(const char *index, int *folder, coffer_error *err)
{
    coffer__path path;
    int os_error = coffer__path_directory(&path, index) ? 0 : ENAMETOOLONG;
    if (os_error == 0) {
        os_error = coffer__os_open_directory(path.text, folder);
    }
    if (os_error != 0) {
        return coffer__errno_status(err, "open the folder of the model", NULL, os_error);
    }
    return coffer__os_lock(*folder) != EWOULDBLOCK
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_LOCKED,
                              "another program is saving a model in this folder: try again when it has finished");
}

/* If writing fails the new file is discarded and the old index stays; publish releases the sink also when it fails. */
coffer_status coffer__index_file_publish(const char *index, const void *bytes, size_t size, const coffer__os_info *old,
                                         coffer_sync sync, const coffer_allocator *allocator, coffer_error *err)
{
    coffer__byte_sink sink;
    const coffer_status status = coffer__sink_path(&sink, allocator, index, sync, false, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (old != NULL) {
        coffer__sink_path_only(&sink, old);
    }
    return coffer__sink_write_whole(&sink, bytes, size, err);
}
