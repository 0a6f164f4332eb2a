// SPDX-License-Identifier: Apache-2.0
import type { VNode } from "preact";

import { shown } from "../base/text.js";
import { nameAt } from "../model/columns.js";
import { open } from "../model/actions.js";
import { failure, model, rows, selected } from "../model/state.js";
import { Inspector } from "./inspector.js";

/** The whole page. */
export function App(): VNode {
  const opened = model.value;
  return (
    <main>
      <input
        type="file"
        multiple
        aria-label="Files"
        onChange={({ currentTarget: { files } }) => void open({ kind: "files", files: [...(files ?? [])], name: "" })}
      />
      {failure.value !== undefined && <p role="alert">{shown(failure.value.trouble.message)}</p>}
      {opened !== undefined && (
        <>
          <h1>{shown(opened.name)}</h1>
          <ul>
            {[...rows.value.subarray(0, 100)].map((i) => (
              <li key={i}>
                <button type="button" onClick={() => (selected.value = i)}>
                  {shown(nameAt(opened.columns, i))}
                </button>
              </li>
            ))}
          </ul>
          <Inspector />
        </>
      )}
    </main>
  );
}
