// SPDX-License-Identifier: Apache-2.0
/*
 * A list of any number of rows of one height, of which only those in view exist. Browsers limit how high an element can be:
 * a longer list gets an element of MOST_HEIGHT, and scrolling it goes through all rows in larger steps.
 */
import { useSignal } from "@preact/signals";
import type { ComponentChildren, VNode } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

const MOST_HEIGHT = 8_000_000;
/** Rows that are there beyond the edges, so that fast scrolling shows no gaps. */
const OVERSCAN = 6;

export interface VirtualListProps {
  count: number;
  rowHeight: number;
  /** What the rows are of: when it changes, and no row is active, the list goes back to its top. */
  order?: unknown;
  /** The row that has to be in view; it is scrolled to when it changes. */
  active: number | undefined;
  row: (index: number) => VNode;
  /** What stands above the rows and scrolls with them no further than to the top. */
  head?: ComponentChildren;
  headHeight?: number;
  /** Of the element around the rows: a grid has a group there, a tree nothing. */
  rowsRole?: "rowgroup" | "presentation";
  /** Of the element that scrolls. */
  attributes: Record<string, unknown>;
}

export function VirtualList(props: VirtualListProps): VNode {
  const { count, rowHeight, active, row, head, headHeight = 0, rowsRole = "rowgroup", attributes, order } = props;
  const frame = useRef<HTMLDivElement>(null);
  const room = useSignal(600);
  const first = useSignal(0);
  const scrolled = useSignal(0); // only where a pixel is more than a pixel

  const full = count * rowHeight;
  const height = Math.min(full, MOST_HEIGHT);
  /** How far the rows go for each pixel that is scrolled. */
  const step = () => (full > MOST_HEIGHT ? (full - room.peek()) / (MOST_HEIGHT - room.peek()) : 1);
  const look = () => {
    const top = frame.current?.scrollTop ?? 0;
    first.value = Math.max(0, Math.floor((top * step()) / rowHeight) - OVERSCAN);
    scrolled.value = full > MOST_HEIGHT ? top : 0;
  };

  useLayoutEffect(() => {
    const observer = new ResizeObserver(() => {
      room.value = Math.max(0, frame.current!.clientHeight - headHeight);
      look();
    });
    observer.observe(frame.current!);
    return () => observer.disconnect();
  }, [count, rowHeight, headHeight]);

  useLayoutEffect(() => {
    if (active !== undefined && active >= 0) {
      const [place, top] = [active * rowHeight, frame.current!.scrollTop * step()];
      if (place < top) {
        frame.current!.scrollTop = place / step();
      } else if (place + rowHeight > top + room.peek()) {
        frame.current!.scrollTop = (place + rowHeight - room.peek()) / step();
      }
    }
  }, [active]);

  useLayoutEffect(() => {
    if (active === undefined) {
      frame.current!.scrollTop = 0;
    }
    look();
  }, [order]);

  const begin = Math.min(first.value, Math.max(0, count - OVERSCAN));
  const end = Math.min(count, begin + Math.ceil(room.value / rowHeight) + 2 * OVERSCAN);
  const rows: VNode[] = [];
  for (let i = begin; i < end; i++) {
    rows.push(row(i));
  }
  const shift = begin * rowHeight - scrolled.value * (step() - 1);
  return (
    <div {...attributes} ref={frame} onScroll={look}>
      {head}
      <div class="rows-room" role="presentation" style={{ height: `${height}px` }}>
        <div role={rowsRole} class="rows" style={{ transform: `translateY(${shift}px)` }}>
          {rows}
        </div>
      </div>
    </div>
  );
}
