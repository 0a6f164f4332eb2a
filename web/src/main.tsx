// SPDX-License-Identifier: Apache-2.0
import { effect } from "@preact/signals";
import { render } from "preact";

import "./page.css";
import "./views.css";
import { shown } from "./base/text.js";
import { open, openUrl } from "./model/actions.js";
import { model } from "./model/state.js";
import { App } from "./views/app.js";

/** What a link to the page asks for: #url=https://… */
function follow(): void {
  const url = new URLSearchParams(location.hash.slice(1)).get("url");
  if (url !== null) {
    void openUrl(url);
  }
}

render(<App />, document.getElementById("page")!);
effect(() => {
  document.title = model.value === undefined ? "Coffer" : `${shown(model.value.name, 80)} – Coffer`;
});
addEventListener("hashchange", follow);

/** What `coffer report` put into the page. */
const report = document.getElementById("coffer-report");
if (report === null) {
  follow();
} else {
  void open({ kind: "report", text: report.textContent });
}
