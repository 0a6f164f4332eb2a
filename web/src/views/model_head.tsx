// SPDX-License-Identifier: Apache-2.0
/* What is said of a model as a whole: its name, the verdict with notes, and a summary. */
import type { ComponentChildren, VNode } from "preact";

import { dtypeVariable } from "../base/colours.js";
import { bytes, count, exactly, plural } from "../base/numbers.js";
import { shown } from "../base/text.js";
import { setFilter } from "../model/actions.js";
import type { Opened, OddThing, Summary } from "../model/opened.js";
import { DtypeLabel } from "./dtype_label.js";
import { Untrusted } from "./untrusted.js";

function Note({ note }: { note: OddThing }): VNode {
  return (
    <li>
      <span class="note-text">{note.text}</span>{" "}
      <span class="quiet">
        {note.count > 1 && `${exactly(note.count)} times`}
        {note.offset !== undefined && `${note.count > 1 ? ", first" : ""} at byte ${exactly(note.offset)}`}
        {note.file !== undefined && (
          <>
            {" of "}
            <Untrusted text={note.file} longest={60} />
          </>
        )}
      </span>
    </li>
  );
}

/** That the files conform: what does not is never shown as a model. */
function Verdict({ notes }: { notes: readonly OddThing[] }): VNode {
  if (notes.length === 0) {
    return (
      <p class="verdict good">
        <span aria-hidden="true">✓</span> Conforms
      </p>
    );
  }
  return (
    <details class="verdict odd">
      <summary>
        <span aria-hidden="true">✓</span> Conforms, with {plural(notes.length, "note")}
      </summary>
      <ul class="notes" aria-label="Legal, but odd">
        {notes.map((note, i) => (
          <Note key={i} note={note} />
        ))}
      </ul>
    </details>
  );
}

function Fact({
  name,
  title,
  children,
}: {
  name: string;
  title?: string | undefined;
  children: ComponentChildren;
}): VNode {
  return (
    <div class="fact" title={title}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function alignmentText({ alignment }: Summary): string {
  return alignment === undefined || alignment === 1 ? "none" : plural(alignment, "byte");
}

function readText({ traffic, files, took }: Opened): string {
  const header = files.reduce((all, { dataOffset }) => all + dataOffset, 0);
  const read =
    traffic === undefined ? bytes(header) : `${bytes(traffic.bytes)} in ${plural(traffic.requests, "request")}`;
  return `${read}, ${took < 1000 ? `${Math.max(1, Math.round(took))} ms` : `${(took / 1000).toFixed(1)} s`}`;
}

function Facts({ opened }: { opened: Opened }): VNode {
  const { summary, files, columns } = opened;
  const formats = [...new Set(files.map(({ format }) => format))].join(", ");
  const size = files.some((file) => file.size === undefined)
    ? undefined
    : files.reduce((all, file) => all + file.size!, 0);
  return (
    <dl class="facts">
      <Fact name="Format">{formats}</Fact>
      {files.length > 1 && <Fact name="Files">{exactly(files.length)}</Fact>}
      <Fact name="Tensors">{exactly(columns.count)}</Fact>
      <Fact name="Parameters" title={`${exactly(summary.parameters ?? summary.elements)} parameters`}>
        {count(summary.parameters ?? summary.elements)}
      </Fact>
      <Fact name="Size" title={size === undefined ? undefined : `${exactly(size)} bytes`}>
        {size === undefined ? "unknown" : bytes(size)}
      </Fact>
      <Fact name="Alignment" title="Every tensor begins at a multiple of this">
        {alignmentText(summary)}
      </Fact>
      {summary.quantisation !== undefined && (
        <Fact name="Quantisation">
          <Untrusted text={summary.quantisation} longest={60} />
        </Fact>
      )}
      <Fact name="Read" title="What was read to show this">
        {readText(opened)}
      </Fact>
    </dl>
  );
}

/** How the bytes are shared among dtypes; choosing one shows its tensors. */
function Dtypes({ summary }: { summary: Summary }): VNode | null {
  const { dtypes, bytes: all } = summary;
  if (dtypes.length === 0) {
    return null;
  }
  const total = Number(all) || 1;
  return (
    <div class="dtypes">
      <div class="dtype-bar" aria-hidden="true">
        {dtypes
          .filter((share) => share.bytes > 0n)
          .map((share) => (
            <span
              key={share.dtype}
              style={{ flexGrow: Number(share.bytes) / total, background: `var(${dtypeVariable(share.dtype)})` }}
            />
          ))}
      </div>
      <ul class="dtype-legend" aria-label="Dtypes">
        {dtypes.slice(0, 12).map((share) => (
          <li key={share.dtype}>
            <button
              type="button"
              class="legend"
              title={`Show the ${exactly(share.tensors)} tensors of ${shown(share.dtype, 24)}`}
              onClick={() => setFilter(`dtype:${share.dtype}`)}
            >
              <DtypeLabel dtype={share.dtype} />
              <span class="quiet">
                {bytes(share.bytes)}, {plural(share.tensors, "tensor")}
              </span>
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}

export function ModelHead({ opened }: { opened: Opened }): VNode {
  return (
    <section class="model-head" aria-labelledby="model-name">
      <div class="model-title">
        <h1 id="model-name">
          <Untrusted text={opened.name} longest={160} />
        </h1>
        {!opened.hasValues && <p class="badge">Report: headers only</p>}
        <Verdict notes={opened.notes} />
      </div>
      <Facts opened={opened} />
      <Dtypes summary={opened.summary} />
    </section>
  );
}
