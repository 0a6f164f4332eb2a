// SPDX-License-Identifier: Apache-2.0
import type { ComponentChildren, VNode } from "preact";

import { percent } from "../base/figures.js";
import { bytes, exactly } from "../base/numbers.js";
import { approximate, dtypeAt, nameAt, shapeAt } from "../model/columns.js";
import type { Opened } from "../model/opened.js";
import { model, selected } from "../model/state.js";
import { DtypeLabel } from "./dtype_label.js";
import { HeatMapView } from "./heat_map_view.js";
import { StatisticsView } from "./statistics_view.js";
import { Untrusted } from "./untrusted.js";

/** The tensor that was chosen. */
export function TensorPanel(): VNode {
  const [opened, tensor] = [model.value, selected.value];
  if (opened === undefined || tensor === undefined) {
    return <p class="quiet">Choose a tensor in the list, in the treemap or in the byte map.</p>;
  }
  // Another tensor is another view: jobs of this one end.
  return <TensorView key={`${opened.id}/${tensor}`} opened={opened} tensor={tensor} />;
}

export interface TensorViewProps {
  opened: Opened;
  tensor: number;
}

function TensorView({ opened, tensor }: TensorViewProps): VNode {
  return (
    <article class="tensor">
      <Facts opened={opened} tensor={tensor} />
      {opened.hasValues ? (
        <Values opened={opened} tensor={tensor} />
      ) : (
        <p class="quiet">A report has the header only. Open the model itself to see its values.</p>
      )}
    </article>
  );
}

function Values({ opened, tensor }: TensorViewProps): VNode {
  const { columns } = opened;
  if (columns.sizes[tensor] === 0n) {
    return <p class="quiet">This tensor has no values: one of its dimensions is 0.</p>;
  }
  if (bitsOf(opened, tensor) === undefined) {
    return <p class="quiet">Values of this dtype are not known here.</p>;
  }
  return (
    <>
      <StatisticsView opened={opened} tensor={tensor} />
      <HeatMapView opened={opened} tensor={tensor} />
    </>
  );
}

const DTYPES = /^(BOOL|F4|F6_E[23]M[23]|F8_E\w+|[IU](8|16|32|64)|B?F16|F32|F64|C64)$/;

/** Bits of an element; undefined of a dtype whose values nobody knows. */
export function bitsOf({ columns }: Opened, tensor: number): number | undefined {
  const bits = Number((columns.sizes[tensor]! * 8n) / (columns.elements[tensor]! || 1n));
  return DTYPES.test(dtypeAt(columns, tensor)) ? bits : undefined;
}

function Facts({ opened, tensor }: TensorViewProps): VNode {
  const { columns } = opened;
  const [offset, size] = [columns.offsets[tensor]!, columns.sizes[tensor]!];
  const shape = [...shapeAt(columns, tensor)].map(exactly);
  const file = opened.files[columns.files[tensor]!];
  const share = approximate(columns.sizes)[tensor]! / (Number(opened.summary.bytes) || 1);
  return (
    <dl class="facts">
      <Fact name="Name" isWide>
        <Untrusted text={nameAt(columns, tensor)} longest={2000} />
      </Fact>
      <Fact name="Dtype">
        <DtypeLabel dtype={dtypeAt(columns, tensor)} />
      </Fact>
      <Fact name="Shape">{shape.length === 0 ? "scalar" : shape.join(" × ")}</Fact>
      <Fact name="Parameters">{exactly(columns.elements[tensor]!)}</Fact>
      <Fact name="Size" isWide>
        {size < 1000n ? bytes(size) : `${bytes(size)} (${exactly(size)} bytes)`}, {percent(share, 1)} of all
      </Fact>
      <Fact name="Bytes" isWide>
        {size === 0n ? "none" : `${exactly(offset)} to ${exactly(offset + size - 1n)}`}
        {opened.files.length > 1 && file !== undefined && (
          <>
            {" of "}
            <Untrusted text={file.name} />
          </>
        )}
      </Fact>
    </dl>
  );
}

function Fact({
  name,
  isWide = false,
  children,
}: {
  name: string;
  isWide?: boolean;
  children: ComponentChildren;
}): VNode {
  return (
    <div class={isWide ? "fact wide" : "fact"}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
