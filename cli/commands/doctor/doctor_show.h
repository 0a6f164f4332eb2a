/* SPDX-License-Identifier: Apache-2.0 */
/* What coffer doctor shows of a diagnosis: as text and JSON (doctor_show.c) and as a page of HTML (doctor_html.c). What is
   found is the library's (coffer/doctor.h). */
#ifndef COFFER_DOCTOR_SHOW_H
#define COFFER_DOCTOR_SHOW_H

#include "cli_command.h"
#include "coffer.h"

typedef struct doctor_view {
    cli *app;
    const char *path;
    const char *against; /* the model that it was compared with; NULL: none */
    bool strict;
    const coffer_diagnosis *diagnosis;
    const coffer_doctor_summary *summary;
} doctor_view;

/* The steps of a finding as one line for a shell, to be freed; NULL without any, or without memory. */
char *doctor_command(const coffer_doctor_finding *finding);

void doctor_show_text(const doctor_view *view);
void doctor_show_json(const doctor_view *view);
/* Writes the page. Returns the exit code. */
int doctor_write_html(const doctor_view *view, const char *path);

#endif
