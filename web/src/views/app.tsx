// SPDX-License-Identifier: Apache-2.0
import { useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";

import { droppedFiles } from "../base/dropped.js";
import { failDrop, openDropped } from "../model/actions.js";
import { announcement, failure, model, selected } from "../model/state.js";
import { BusyBar } from "./busy_bar.js";
import { FailureCard } from "./failure_card.js";
import { Inspector } from "./inspector.js";
import { ModelHead } from "./model_head.js";
import { Start } from "./start.js";
import { TensorList } from "./tensor_list.js";
import { TopBar } from "./top_bar.js";

/** Files that are dragged over any part of the page, and dropped. */
function useDrop(over: { value: boolean }): void {
  useEffect(() => {
    // Elements report that they are left when their children are entered, so what counts is whether more drags follow.
    let leaving: ReturnType<typeof setTimeout> | undefined;
    const onDrag = (event: DragEvent) => {
      if (event.dataTransfer?.types.includes("Files")) {
        event.preventDefault();
        clearTimeout(leaving);
        over.value = true;
      }
    };
    const onLeave = () => {
      clearTimeout(leaving);
      leaving = setTimeout(() => (over.value = false), 80);
    };
    const onDrop = (event: DragEvent) => {
      over.value = false;
      if (event.dataTransfer !== null && event.dataTransfer.files.length > 0) {
        event.preventDefault();
        droppedFiles(event.dataTransfer).then(openDropped, failDrop);
      }
    };
    const listeners = { dragenter: onDrag, dragover: onDrag, dragleave: onLeave, drop: onDrop };
    for (const [type, listener] of Object.entries(listeners)) {
      document.addEventListener(type, listener as EventListener);
    }
    return () => {
      for (const [type, listener] of Object.entries(listeners)) {
        document.removeEventListener(type, listener as EventListener);
      }
    };
  }, []);
}

/** "/" goes to the filter, Escape lets go of the tensor that was chosen. */
function useKeys(): void {
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test((event.target as Element).tagName);
      if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        document.getElementById("filter")?.focus();
      } else if (event.key === "Escape" && !isTyping) {
        selected.value = undefined;
      }
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, []);
}

/** The whole page. */
export function App(): VNode {
  const over = useSignal(false);
  useDrop(over);
  useKeys();
  const opened = model.value;
  return (
    <div class={opened === undefined ? "page" : "page with-model"}>
      <TopBar />
      <BusyBar />
      <main class="main">
        {opened === undefined ? (
          <div class="beginning">
            <FailureCard />
            <Start />
          </div>
        ) : (
          <>
            <ModelHead opened={opened} />
            <div class="work">
              <TensorList />
              <Inspector />
            </div>
          </>
        )}
      </main>
      {over.value && (
        <div class="drop" aria-hidden="true">
          <span>Drop it anywhere</span>
        </div>
      )}
      <div class="hidden" role="status">
        {failure.value === undefined ? announcement.value : ""}
      </div>
    </div>
  );
}
