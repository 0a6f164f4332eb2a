/* SPDX-License-Identifier: Apache-2.0 */
/* Digests in files that the command writes: see cli_recorded.h for the contract. */
#include "cli_recorded.h"

#include "cli_files.h"
#include "cli_options.h"
#include "cli_report.h"

#include <string.h>

coffer_status cli_recorded_try(coffer **model, const char *path, coffer_error *err)
{
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.access = COFFER_READ;
    options.verify = COFFER_VERIFY_RECORDED;
    options.formats = COFFER_FORMATS_OWN;
    return cli_open_with(model, path, &options, err);
}

coffer *cli_recorded_open(cli *app, const char *path, int *code)
{
    coffer *model = NULL;
    coffer_error err;
    const coffer_status status = cli_recorded_try(&model, path, &err);
    *code = status == COFFER_OK ? CLI_EXIT_OK : cli_fail(app, path, &err);
    return model;
}

coffer_algorithm cli_recorded_wanted(const cli_arguments *arguments, const coffer *model)
{
    if (cli_given(arguments, CLI_OPTION_DIGEST)) {
        return cli_which(arguments, CLI_OPTION_DIGEST) == 1 ? COFFER_XXH3_128 : COFFER_SHA256;
    }
    coffer_algorithm found = COFFER_NO_ALGORITHM;
    for (size_t i = 0; model != NULL && i < coffer_shard_count(model) && found == COFFER_NO_ALGORITHM; i++) {
        found = coffer_recorded_algorithm(model, i);
    }
    return found;
}

bool cli_recorded_is_key(const coffer_pair *pair)
{
    static const char *const keys[] = { COFFER_DIGESTS_KEY, COFFER_METADATA_DIGEST_KEY };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (pair->key_len == strlen(keys[i]) && memcmp(pair->key, keys[i], pair->key_len) == 0) {
            return true;
        }
    }
    return false;
}
