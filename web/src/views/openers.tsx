// SPDX-License-Identifier: Apache-2.0
import { useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useRef } from "preact/hooks";

import { chosenFiles, type Dropped } from "../base/dropped.js";
import { openDropped, openUrl } from "../model/actions.js";

interface PickerProps {
  label: string;
  className: string;
  onFiles: (files: readonly Dropped[]) => void;
  folder?: boolean;
}

/** A button that lets someone choose files, or a folder. */
export function Picker({ label, className, onFiles, folder = false }: PickerProps): VNode {
  const input = useRef<HTMLInputElement>(null);
  const onChange = ({ currentTarget }: { currentTarget: HTMLInputElement }) => {
    const files = chosenFiles(currentTarget.files);
    // So that choosing the same file again is a change as well.
    currentTarget.value = "";
    onFiles(files);
  };
  return (
    <>
      <button type="button" class={className} onClick={() => input.current?.click()}>
        {label}
      </button>
      <input
        ref={input}
        type="file"
        multiple
        class="hidden"
        tabIndex={-1}
        aria-label={label}
        onChange={onChange}
        {...(folder ? { webkitdirectory: true } : {})}
      />
    </>
  );
}

export function Openers({ compact = false }: { compact?: boolean }): VNode {
  const onFiles = (files: readonly Dropped[]) => void openDropped(files);
  return (
    <div class="openers">
      <Picker
        label={compact ? "Open…" : "Choose files…"}
        className={compact ? "button" : "button primary"}
        onFiles={onFiles}
      />
      <Picker label={compact ? "Folder…" : "Choose a folder…"} className="button" onFiles={onFiles} folder />
    </div>
  );
}

export interface UrlFormProps {
  compact?: boolean;
  label?: string;
  onUrl?: (text: string) => void;
}

export function UrlForm({
  compact = false,
  label = "URL of a model, or a repository of the Hub",
  onUrl = (text) => void openUrl(text),
}: UrlFormProps): VNode {
  const text = useSignal("");
  const onSubmit = (event: Event) => {
    event.preventDefault();
    onUrl(text.value);
  };
  return (
    <form class={compact ? "url compact" : "url"} onSubmit={onSubmit}>
      <input
        type="text"
        inputMode="url"
        class="field"
        aria-label={label}
        placeholder={compact ? "URL or owner/name" : "https://…, or owner/name of the Hub"}
        autocomplete="off"
        spellcheck={false}
        value={text.value}
        onInput={({ currentTarget }) => (text.value = currentTarget.value)}
      />
      <button type="submit" class="button" disabled={text.value.trim() === ""}>
        {compact ? "Go" : "Open the URL"}
      </button>
    </form>
  );
}
