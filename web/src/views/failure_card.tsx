// SPDX-License-Identifier: Apache-2.0
import type { VNode } from "preact";

import { adviceFor, sentence } from "../model/advice.js";
import { exactly } from "../base/numbers.js";
import { escaped, shownMessage } from "../base/text.js";
import { open } from "../model/actions.js";
import type { Excerpt, Wanted } from "../model/opened.js";
import { failure } from "../model/state.js";
import { Prose } from "./prose.js";
import { Untrusted } from "./untrusted.js";

/** The longest message: it may quote the file. */
const LONGEST_MESSAGE = 1200;

function whatOf(wanted: Wanted | undefined): string {
  switch (wanted?.kind) {
    case "files":
      return wanted.name;
    case "url":
      return wanted.url;
    default:
      return "";
  }
}

/** What stands where the trouble is. */
function Bytes({ excerpt }: { excerpt: Excerpt }): VNode {
  return (
    <p class="excerpt" dir="ltr">
      <span class="hidden">The bytes there: </span>
      {escaped(excerpt.before)}
      <mark>{escaped(excerpt.at)}</mark>
      {escaped(excerpt.after)}
    </p>
  );
}

/** What can be looked at although it does not conform. */
const LENIENT: readonly (string | undefined)[] = ["DTYPE", "PADDING"];

/** Why nothing can be shown, where the trouble is, and what to do. */
export function FailureCard(): VNode | null {
  if (failure.value === undefined) {
    return null;
  }
  const { trouble, wanted } = failure.value;
  const { title, cause, step } = adviceFor(trouble);
  const path = trouble.path ?? whatOf(wanted);
  const facts: [string, string][] = [
    ["Code", trouble.code ?? ""],
    ["Byte", trouble.offset === undefined ? "" : exactly(trouble.offset)],
    ["Tensor", trouble.tensor === undefined ? "" : shownMessage(trouble.tensor, LONGEST_MESSAGE)],
    ["Status", trouble.httpStatus === undefined ? "" : String(trouble.httpStatus)],
  ];
  return (
    <section class="card failure" role="alert" aria-labelledby="failure">
      <h1 id="failure">{title}</h1>
      {path !== "" && (
        <p class="failure-path">
          <Untrusted text={path} />
        </p>
      )}
      <p>
        <Prose text={sentence(shownMessage(trouble.message, LONGEST_MESSAGE))} />
      </p>
      {step !== undefined && (
        <p class="step">
          <strong>What to do:</strong> <Prose text={step} />
        </p>
      )}
      {trouble.excerpt !== undefined && <Bytes excerpt={trouble.excerpt} />}
      {cause !== undefined && (
        <p class="quiet">
          Usual cause: <Prose text={cause} />
        </p>
      )}
      <dl class="failure-facts">
        {facts
          .filter(([, value]) => value !== "")
          .map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>
                <code>{value}</code>
              </dd>
            </div>
          ))}
      </dl>
      <div class="failure-actions">
        {wanted !== undefined && LENIENT.includes(trouble.code) && (
          <button type="button" class="button" onClick={() => void open({ ...wanted, isLenient: true })}>
            Show it anyway
          </button>
        )}
        {wanted?.kind === "url" && (
          <button type="button" class="button" onClick={() => void open(wanted)}>
            Try again
          </button>
        )}
      </div>
    </section>
  );
}
