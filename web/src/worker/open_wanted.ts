// SPDX-License-Identifier: Apache-2.0
/* Opening what someone wants to see: files, a URL, or the headers that a report carries. */
import { check, type Model, type Openable, type OpenOptions } from "libcoffer";

import type { Columns } from "../model/columns.js";
import type { Opened, Summary, Wanted } from "../model/opened.js";
import type { CallContext } from "./calls.js";
import { excerptFor } from "./excerpt.js";
import { countedFetch, type Traffic } from "./counted_fetch.js";
import { hold } from "./models.js";
import { configOf, quantisationHint, quantisationOf } from "./quantisation.js";
import { reportFiles } from "./report_files.js";
import { summaryOf } from "./summary.js";
import { Unfit } from "./trouble.js";
import { columnsOf } from "./tensor_columns.js";

/** The summary, for which config.json is looked at where it is at hand. */
async function summarised(columns: Columns, wanted: Wanted, ask: typeof fetch): Promise<Summary> {
  const summary = summaryOf(columns);
  const hint = quantisationHint(columns, summary.dtypes);
  return { ...summary, ...quantisationOf(columns, hint, await configOf(wanted, hint, ask)) };
}

/** What is opened, and what it is called. */
async function openable(wanted: Wanted): Promise<{ from: Openable; name: string }> {
  switch (wanted.kind) {
    case "files":
      return { from: wanted.files.length === 1 ? wanted.files[0]! : wanted.files, name: wanted.name };
    case "url":
      return { from: new URL(wanted.url), name: "" };
    case "report": {
      const { name, sources } = await reportFiles(wanted.text);
      return { from: sources, name };
    }
  }
}

/** Options by which the page is told how much came, of URLs, or else how many files are open. */
function optionsOf(wanted: Wanted, ask: typeof fetch, context: CallContext): OpenOptions {
  const lenient = wanted.isLenient === true;
  const options: OpenOptions = { signal: context.signal, unknownDtypes: lenient, hiddenBytes: lenient };
  return wanted.kind === "url"
    ? { ...options, fetch: ask }
    : { ...options, progress: (done, total) => context.progress(done, total) };
}

function describe(model: Model): Pick<Opened, "files" | "notes" | "indexMetadata"> {
  return {
    files: model.files.map((file) => ({ ...file, metadata: Object.entries(file.metadata) })),
    notes: model.notes.map((note) => ({ ...note })),
    indexMetadata: model.indexMetadata,
  };
}

export async function openWanted(wanted: Wanted, context: CallContext): Promise<Opened> {
  const started = performance.now();
  const traffic: Traffic = { requests: 0, bytes: 0 };
  const counted = countedFetch(traffic, () => context.progress(traffic.bytes, undefined));
  const ask: typeof fetch = (input, init) => counted(input, { signal: context.signal, ...init });
  const { from, name } = await openable(wanted);
  const { model, error } = await check(from, optionsOf(wanted, ask, context));
  if (model === undefined) {
    throw new Unfit(error, await excerptFor(error, wanted));
  }
  const columns = columnsOf(model.tensors);
  return {
    ...describe(model),
    id: hold({ model, columns }),
    name: name === "" ? model.name : name,
    columns,
    summary: await summarised(columns, wanted, ask),
    hasValues: wanted.kind !== "report",
    traffic: wanted.kind === "url" ? traffic : undefined,
    took: performance.now() - started,
  };
}
