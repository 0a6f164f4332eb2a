// SPDX-License-Identifier: Apache-2.0
/* How much memory instances of the module have in the end: each that is made during a job is seen. */
import { setTimeout } from "node:timers/promises";

/** Bytes of the largest memory among the instances that `job` takes: it takes new ones. */
export async function instances(job) {
  const memories = [];
  const real = WebAssembly.instantiate;
  // Instances that are idle are taken first: use them up.
  WebAssembly.instantiate = async (...args) => {
    const made = await real(...args);
    memories.push((made.instance ?? made).exports.memory);
    return made;
  };
  const { readTable } = await import("libcoffer");
  const held = [];
  try {
    let release;
    const gate = new Promise((done) => (release = done));
    // Each says that its header is longer than what is here, and waits for the rest with its instance.
    const head = new Uint8Array(16);
    head[0] = 255;
    head[8] = "{".charCodeAt(0);
    const waiting = {
      name: "held",
      size: undefined,
      head: async () => head,
      read: (_, size) => gate.then(() => new Uint8Array(size)),
    };
    for (let i = 0; i < 16; i++) {
      held.push(readTable(waiting).catch(() => undefined));
    }
    await setTimeout(10);
    memories.length = 0;
    await job();
    release();
    await Promise.all(held);
    return Math.max(0, ...memories.map(({ buffer }) => buffer.byteLength));
  } finally {
    WebAssembly.instantiate = real;
  }
}
