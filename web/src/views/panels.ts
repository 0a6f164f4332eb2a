// SPDX-License-Identifier: Apache-2.0
/* What can be looked at beside the list of tensors: each a component of its own, which reads the page's state. */
import type { FunctionComponent } from "preact";

import { ByteMapPanel } from "./byte_map_panel.js";
import { DiffPanel } from "./diff_panel.js";
import { MetadataPanel } from "./metadata_panel.js";
import { TensorPanel } from "./tensor_panel.js";
import { TreemapPanel } from "./treemap_panel.js";

export interface Panel {
  id: string;
  label: string;
  component: FunctionComponent;
}

export const PANELS: readonly Panel[] = [
  { id: "tensor", label: "Tensor", component: TensorPanel },
  { id: "treemap", label: "Treemap", component: TreemapPanel },
  { id: "bytes", label: "Byte map", component: ByteMapPanel },
  { id: "metadata", label: "Metadata", component: MetadataPanel },
  { id: "diff", label: "Compare", component: DiffPanel },
];
