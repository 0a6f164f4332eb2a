// SPDX-License-Identifier: Apache-2.0
/* Opening what someone wants to see: files, a URL, or the headers that a report carries. */
import { check, type Model, type Openable, type OpenOptions } from "libcoffer";

import type { Opened, Wanted } from "../model/opened.js";
import type { CallContext } from "./calls.js";
import { hold } from "./models.js";
import { columnsOf } from "./tensor_columns.js";

function describe(model: Model): Omit<Opened, "id" | "columns" | "hasValues" | "traffic" | "took"> {
  return {
    name: model.name,
    files: model.files.map((file) => ({ ...file, metadata: Object.entries(file.metadata) })),
    notes: model.notes.map((note) => ({ ...note })),
    indexMetadata: model.indexMetadata,
  };
}

function openable(wanted: Wanted): Openable {
  if (wanted.kind === "files") {
    return wanted.files.length === 1 ? wanted.files[0]! : wanted.files;
  }
  if (wanted.kind === "url") {
    return new URL(wanted.url);
  }
  throw new Error("reports are not read yet");
}

export async function openWanted(wanted: Wanted, context: CallContext): Promise<Opened> {
  const started = performance.now();
  const options: OpenOptions = { signal: context.signal, progress: (done, total) => context.progress(done, total) };
  const report = await check(openable(wanted), options);
  if (report.error !== undefined || report.model === undefined) {
    throw report.error ?? new Error("there is no model");
  }
  const columns = columnsOf(report.model.tensors);
  const id = hold({ model: report.model, columns });
  return {
    ...describe(report.model),
    id,
    columns,
    hasValues: wanted.kind !== "report",
    traffic: undefined,
    took: performance.now() - started,
  };
}
