// SPDX-License-Identifier: Apache-2.0
import type { VNode } from "preact";

import { bytes, plural } from "../base/numbers.js";
import { openChoice } from "../model/actions.js";
import { choices, failure } from "../model/state.js";
import { Mark } from "./mark.js";
import { Openers, UrlForm } from "./openers.js";
import { Untrusted } from "./untrusted.js";

/** Where someone has dropped several models. */
function Choices(): VNode {
  return (
    <section class="card" aria-labelledby="choices">
      <h2 id="choices">Which of these models?</h2>
      <ul class="choices">
        {choices.value.map((choice) => (
          <li key={choice.name}>
            <button type="button" class="choice" onClick={() => void openChoice(choice)}>
              <Untrusted text={choice.name} longest={120} />
              <span class="quiet">
                {plural(choice.files.filter(({ name }) => name !== "config.json").length, "file")},{" "}
                {bytes(choice.files.reduce((all, { size }) => all + size, 0))}
              </span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

const PROMISES: readonly [string, string][] = [
  ["Any size", "Of 500 GB too, only the header is read; values only where you look at them."],
  ["Nothing is uploaded", "There is no server. What you open stays in this browser."],
  ["Strict", "Every byte of the header is checked, as the coffer command does."],
];

/** What the page shows before there is a model. */
export function Start(): VNode {
  const isAgain = failure.value !== undefined || choices.value.length > 0;
  return (
    <>
      {choices.value.length > 0 && <Choices />}
      <section class="card start" aria-labelledby="start">
        <div class="zone">
          {!isAgain && <Mark className="zone-mark" />}
          {isAgain ? <h2 id="start">Open another model</h2> : <h1 id="start">See what is in a model</h1>}
          <p class="lead">Drop a safetensors file, the files of a model, or its folder anywhere on this page.</p>
          <Openers />
        </div>
        <div class="or" aria-hidden="true">
          or
        </div>
        <UrlForm />
        {!isAgain && (
          <ul class="promises">
            {PROMISES.map(([what, why]) => (
              <li key={what}>
                <strong>{what}</strong>
                <span class="quiet">{why}</span>
              </li>
            ))}
          </ul>
        )}
      </section>
    </>
  );
}
