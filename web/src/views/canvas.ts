// SPDX-License-Identifier: Apache-2.0
/* What pictures on canvases share. */
import { useSignal, type ReadonlySignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useLayoutEffect } from "preact/hooks";

/** The width of an element in CSS pixels, as it is now; 0 until it is known. */
export function useWidth(element: RefObject<HTMLElement | null>): ReadonlySignal<number> {
  const width = useSignal(0);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(() => (width.value = Math.floor(element.current!.clientWidth)));
    observer.observe(element.current!);
    width.value = Math.floor(element.current!.clientWidth);
    return () => observer.disconnect();
  }, []);
  return width;
}

/** A canvas of a size in CSS pixels, empty, to be drawn on in CSS pixels and as sharp as the screen is. */
export function sharpContext(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = Math.min(devicePixelRatio, 2);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d")!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/** Where the pointer is on an element, in CSS pixels. */
export function placeOn(element: HTMLElement, event: MouseEvent): { x: number; y: number } {
  const box = element.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}
