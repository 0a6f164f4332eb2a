// SPDX-License-Identifier: Apache-2.0
import { render } from "preact";

import "./page.css";
import { App } from "./views/app.js";

render(<App />, document.getElementById("page")!);
