// SPDX-License-Identifier: Apache-2.0
import type { VNode } from "preact";

import { bytes, plural } from "../base/numbers.js";
import { openChoice } from "../model/actions.js";
import { choices } from "../model/state.js";
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

/** What the page shows before there is a model. */
export function Start(): VNode {
  return (
    <>
      {choices.value.length > 0 && <Choices />}
      <section class="card start" aria-labelledby="start">
        <h1 id="start">See what is in a model</h1>
        <p class="lead">
          Drop a safetensors file, the files of a model, or its folder anywhere on this page. Files can be of any size:
          only the header is read.
        </p>
        <Openers />
        <div class="or" aria-hidden="true">
          or
        </div>
        <UrlForm />
        <p class="quiet private">Nothing is uploaded. The page has no server: what you open stays in this browser.</p>
      </section>
    </>
  );
}
