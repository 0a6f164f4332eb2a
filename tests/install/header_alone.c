/* SPDX-License-Identifier: Apache-2.0 */
/* The public header comes first and alone, as C11 and as C++17, with every initialiser and every type it lends out. */
#include <coffer.h>

coffer_parse_options header_parse_options = COFFER_PARSE_OPTIONS_INIT;
coffer_header_options header_header_options = COFFER_HEADER_OPTIONS_INIT;
coffer_open_options header_open_options = COFFER_OPEN_OPTIONS_INIT;
coffer_read_options header_read_options = COFFER_READ_OPTIONS_INIT;
coffer_digest_options header_digest_options = COFFER_DIGEST_OPTIONS_INIT;
coffer_writer_options header_writer_options = COFFER_WRITER_OPTIONS_INIT;
coffer_model_writer_options header_model_writer_options = COFFER_MODEL_WRITER_OPTIONS_INIT;
coffer_fetch_options header_fetch_options = COFFER_FETCH_OPTIONS_INIT;
coffer_edit_options header_edit_options = COFFER_EDIT_OPTIONS_INIT;
coffer_rewrite_options header_rewrite_options = COFFER_REWRITE_OPTIONS_INIT;
coffer_import_options header_import_options = COFFER_IMPORT_OPTIONS_INIT;
coffer_import_write_options header_import_write_options = COFFER_IMPORT_WRITE_OPTIONS_INIT;
coffer_export_options header_export_options = COFFER_EXPORT_OPTIONS_INIT;
coffer_staging_options header_staging_options = COFFER_STAGING_OPTIONS_INIT;
coffer_load_options header_load_options = COFFER_LOAD_OPTIONS_INIT;
coffer_exchange_options header_exchange_options = COFFER_EXCHANGE_OPTIONS_INIT;
coffer_exchange_run_options header_exchange_run_options = COFFER_EXCHANGE_RUN_OPTIONS_INIT;
coffer_lora_options header_lora_options = COFFER_LORA_OPTIONS_INIT;
coffer_merge_lora_options header_merge_lora_options = COFFER_MERGE_LORA_OPTIONS_INIT;
coffer_extract_lora_options header_extract_lora_options = COFFER_EXTRACT_LORA_OPTIONS_INIT;
coffer_add_lora_options header_add_lora_options = COFFER_ADD_LORA_OPTIONS_INIT;
coffer_average_options header_average_options = COFFER_AVERAGE_OPTIONS_INIT;
coffer_pack_options header_pack_options = COFFER_PACK_OPTIONS_INIT;
coffer_dequantize_options header_dequantize_options = COFFER_DEQUANTIZE_OPTIONS_INIT;
coffer_doctor_options header_doctor_options = COFFER_DOCTOR_OPTIONS_INIT;

coffer_error header_error;
coffer_tensor header_tensor;
coffer_pair header_pair;
coffer_note header_note;
coffer_index header_index;
coffer_source header_source;
coffer_sink header_sink;
coffer_edit header_edit;

int main(void)
{
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    return options.struct_size == sizeof(coffer_open_options) ? 0 : 1;
}
