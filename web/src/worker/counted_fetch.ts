// SPDX-License-Identifier: Apache-2.0

/** What was fetched so far. */
export interface Traffic {
  requests: number;
  bytes: number;
}

/** A fetch that counts, and tells how much came each time something did. */
export function countedFetch(traffic: Traffic, came: () => void): typeof fetch {
  return async (input, init) => {
    traffic.requests++;
    // Whoever sends someone a link to the page does not get to use that person's log-ins.
    const response = await fetch(input, { ...init, credentials: "omit" });
    if (response.body === null) {
      return response;
    }
    const counter = new TransformStream<Uint8Array, Uint8Array>({
      transform: (chunk, controller) => {
        traffic.bytes += chunk.length;
        came();
        controller.enqueue(chunk);
      },
    });
    const { status, statusText, headers } = response;
    return new Response(response.body.pipeThrough(counter), { status, statusText, headers });
  };
}
