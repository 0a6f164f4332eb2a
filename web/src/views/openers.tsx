// SPDX-License-Identifier: Apache-2.0
import { useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useRef } from "preact/hooks";

import { chosenFiles } from "../base/dropped.js";
import { openDropped, openUrl } from "../model/actions.js";

interface PickerProps {
  label: string;
  className: string;
  folder?: boolean;
}

/** A button that lets someone choose files, or a folder. */
function Picker({ label, className, folder = false }: PickerProps): VNode {
  const input = useRef<HTMLInputElement>(null);
  const onChange = ({ currentTarget }: { currentTarget: HTMLInputElement }) => {
    const files = chosenFiles(currentTarget.files);
    // So that choosing the same file again is a change as well.
    currentTarget.value = "";
    void openDropped(files);
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
  return (
    <div class="openers">
      <Picker label={compact ? "Open…" : "Choose files…"} className={compact ? "button" : "button primary"} />
      <Picker label={compact ? "Folder…" : "Choose a folder…"} className="button" folder />
    </div>
  );
}

export function UrlForm({ compact = false }: { compact?: boolean }): VNode {
  const text = useSignal("");
  const onSubmit = (event: Event) => {
    event.preventDefault();
    void openUrl(text.value);
  };
  return (
    <form class={compact ? "url compact" : "url"} onSubmit={onSubmit}>
      <input
        type="text"
        inputMode="url"
        class="field"
        aria-label="URL of a model, or a repository of the Hub"
        placeholder={compact ? "URL or owner/name" : "https://…/model.safetensors, or owner/name on the Hub"}
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
