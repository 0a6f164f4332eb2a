// SPDX-License-Identifier: Apache-2.0
import { render } from "preact";

import "./page.css";
import "./views.css";
import { open, openUrl } from "./model/actions.js";
import { App } from "./views/app.js";

render(<App />, document.getElementById("page")!);

/** What `coffer report` put into the page. */
const report = document.getElementById("coffer-report");
/** What a link to the page asks for: #url=https://… */
const url = new URLSearchParams(location.hash.slice(1)).get("url");

if (report !== null) {
  void open({ kind: "report", text: report.textContent });
} else if (url !== null) {
  void openUrl(url);
}
