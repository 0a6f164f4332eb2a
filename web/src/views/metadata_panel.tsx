// SPDX-License-Identifier: Apache-2.0
import { useSignal } from "@preact/signals";
import type { ComponentChildren, VNode } from "preact";
import { useMemo } from "preact/hooks";

import { copyText } from "../base/clipboard.js";
import { isBranch, jsonIn, membersOf, WrittenNumber, type Json } from "../base/nested_json.js";
import { exactly, plural } from "../base/numbers.js";
import { escaped, shown, shownLines } from "../base/text.js";
import type { Opened, OpenedFile } from "../model/opened.js";
import { model } from "../model/state.js";
import { Untrusted } from "./untrusted.js";

/** What the files say of themselves. */
export function MetadataPanel(): VNode {
  const opened = model.value!;
  return <Metadata key={opened.id} opened={opened} />;
}

/** Files whose metadata are the same, as of most models' shards, are shown once. */
function groupsOf(files: readonly OpenedFile[]): OpenedFile[][] {
  const groups = new Map<string, OpenedFile[]>();
  for (const file of files) {
    const key = JSON.stringify([file.hasMetadata, file.metadata]);
    groups.set(key, [...(groups.get(key) ?? []), file]);
  }
  return [...groups.values()];
}

function Metadata({ opened }: { opened: Opened }): VNode {
  const groups = useMemo(() => groupsOf(opened.files), [opened]);
  const index = opened.indexMetadata === undefined ? [] : Object.entries(opened.indexMetadata);
  return (
    <div class="metadata">
      {groups.map((files) => (
        <section key={files[0]!.name}>
          {(groups.length > 1 || opened.indexMetadata !== undefined) && <Title files={files} all={opened.files} />}
          <Pairs file={files[0]!} />
        </section>
      ))}
      {opened.indexMetadata !== undefined && (
        <section>
          <h2>The index</h2>
          {index.length === 0 && <p class="quiet">It has metadata without entries.</p>}
          <ul class="pairs">
            {index.map(([key, value]) => (
              <Pair key={key} name={key}>
                <Value value={value as Json} depth={0} />
              </Pair>
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}

function Title({ files, all }: { files: readonly OpenedFile[]; all: readonly OpenedFile[] }): VNode {
  if (files.length === all.length && files.length > 1) {
    return <h2>All {exactly(files.length)} files</h2>;
  }
  return (
    <h2>
      <Untrusted text={files[0]!.name} longest={80} />
      {files.length > 1 && ` and ${plural(files.length - 1, "other")}`}
    </h2>
  );
}

function Pairs({ file }: { file: OpenedFile }): VNode {
  if (file.metadata.length === 0) {
    return (
      <p class="quiet">
        {file.hasMetadata ? "There are metadata without entries." : "There are no metadata in this header."}
      </p>
    );
  }
  return (
    <Members count={file.metadata.length}>
      {(i) => {
        const [key, value] = file.metadata[i]!;
        return (
          <Pair key={key} name={key}>
            <Text text={value} depth={0} />
          </Pair>
        );
      }}
    </Members>
  );
}

function Pair({ name, children }: { name: string; children: ComponentChildren }): VNode {
  return (
    <li class="pair">
      <span class="pair-name">
        <Untrusted text={name} />
      </span>
      <div class="pair-value">{children}</div>
    </li>
  );
}

/** Members that are shown at once; the rest when it is asked for. */
const AT_ONCE = 100;

function Members({ count, children }: { count: number; children: (i: number) => VNode }): VNode {
  const shownCount = useSignal(AT_ONCE);
  const now = Math.min(count, shownCount.value);
  return (
    <>
      <ul class="pairs">{Array.from({ length: now }, (_, i) => children(i))}</ul>
      {now < count && (
        <button type="button" class="button" onClick={() => (shownCount.value *= 2)}>
          Show {exactly(Math.min(now, count - now))} more of {exactly(count - now)}
        </button>
      )}
    </>
  );
}

// ---- Values -------------------------------------------------------------------------------------------------------------

function Value({ value, depth }: { value: Json; depth: number }): VNode {
  if (typeof value === "string") {
    return <Text text={value} depth={depth} />;
  }
  if (isBranch(value)) {
    return <Branch value={value} depth={depth} note="" />;
  }
  return <span class="literal">{value instanceof WrittenNumber ? escaped(value.text) : String(value)}</span>;
}

/** Longer texts are decoded when someone asks for it, since that takes time. */
const MOST_DECODED = 1 << 20;

/** A text, as what is in it when that is JSON, or as it is. */
function Text({ text, depth }: { text: string; depth: number }): VNode {
  const isRaw = useSignal(false);
  const isWanted = useSignal(text.length <= MOST_DECODED);
  const value = useMemo(() => (isWanted.value ? jsonIn(text) : undefined), [text, isWanted.value]);
  if (value === undefined) {
    return (
      <>
        <Plain text={text} />
        {!isWanted.value && (
          <button type="button" class="link" onClick={() => (isWanted.value = true)}>
            Decode it, if it is JSON
          </button>
        )}
      </>
    );
  }
  return (
    <>
      {isRaw.value ? (
        <Plain text={text} />
      ) : typeof value === "string" ? (
        <Text text={value} depth={depth + 1} />
      ) : (
        <Branch value={value} depth={depth} note="JSON in a text: " />
      )}
      <button type="button" class="link small" aria-pressed={isRaw.value} onClick={() => (isRaw.value = !isRaw.value)}>
        {isRaw.value ? "Decoded" : "As it is"}
      </button>
    </>
  );
}

/** The characters that are shown of a long text, and at most when all of it is asked for. */
const FIRST = 400;
const MOST_SHOWN = 200_000;

/** Escapes for what misleads, and backslashes, of which JSON has many, as they are. */
function asItIs(text: string, length: number): string {
  return shownLines(text, length).replaceAll("\\\\", "\\");
}

function Plain({ text }: { text: string }): VNode {
  const isAll = useSignal(false);
  const length = isAll.value ? MOST_SHOWN : FIRST;
  return (
    <>
      <bdi class="plain">
        {text === "" ? <span class="quiet">(empty)</span> : asItIs(text, length)}
        {text.length > length && "…"}
      </bdi>
      {text.length > FIRST && (
        <span class="plain-actions">
          <button
            type="button"
            class="link small"
            aria-expanded={isAll.value}
            onClick={() => (isAll.value = !isAll.value)}
          >
            {isAll.value
              ? "Show less"
              : `Show ${text.length > MOST_SHOWN ? `${exactly(MOST_SHOWN)} of` : "all"} ${exactly(text.length)} characters`}
          </button>
          <button type="button" class="link small" onClick={() => void copyText(text)}>
            Copy all
          </button>
        </span>
      )}
    </>
  );
}

/** Levels that are open at first. */
const OPEN_LEVELS = 1;
/** Small values say all in one line. */
const SHORT = 72;

function Branch({ value, depth, note }: { value: Json; depth: number; note: string }): VNode {
  const members = useMemo(() => membersOf(value), [value]);
  const isOpen = useSignal(depth < OPEN_LEVELS && members.length <= 20);
  const isList = Array.isArray(value);
  if (members.length <= 24 && members.every(([, member]) => !isBranch(member) && typeof member !== "string")) {
    const line = lineOf(members, isList);
    if (line.length <= SHORT) {
      return <span class="literal">{line}</span>;
    }
  }
  return (
    <details class="branch" open={isOpen.value} onToggle={({ currentTarget }) => (isOpen.value = currentTarget.open)}>
      <summary>
        {note}
        {isList ? plural(members.length, "element") : plural(members.length, "key")}
      </summary>
      {isOpen.value && (
        <Members count={members.length}>
          {(i) => {
            const [label, member] = members[i]!;
            return (
              <Pair key={label} name={label}>
                <Value value={member} depth={depth + 1} />
              </Pair>
            );
          }}
        </Members>
      )}
    </details>
  );
}

/** [1, 2, 3], {"a": 1} */
function lineOf(members: readonly (readonly [label: string, value: Json])[], isList: boolean): string {
  const text = (value: Json) => (value instanceof WrittenNumber ? value.text : JSON.stringify(value));
  const parts = members.map(([label, value]) => (isList ? text(value) : `${shown(label, SHORT)}: ${text(value)}`));
  return isList ? `[${parts.join(", ")}]` : `{${parts.join(", ")}}`;
}
