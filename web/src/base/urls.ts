// SPDX-License-Identifier: Apache-2.0
/* What people paste → the URL of a file, or of a folder, which ends with a slash. */

const HUB = "https://huggingface.co";

/** A repository of the Hub, and what is named in it. */
function hubUrl(repository: string, rest: string): string {
  const [kind = "", revision = "main", ...path] = rest.split("/").filter(Boolean);
  if (kind === "") {
    return `${HUB}/${repository}/resolve/main/`;
  }
  if (!["blob", "tree", "resolve"].includes(kind)) {
    return `${HUB}/${repository}/resolve/main/${[kind, revision, ...path].join("/")}`;
  }
  const folder = kind === "tree" || path.length === 0 ? "/" : "";
  return `${HUB}/${[repository, "resolve", revision, ...path].join("/")}${folder}`;
}

/** Throws an error that says what is expected. */
export function modelUrl(text: string): string {
  const wanted = text.trim();
  const scheme = /^hf:\/\/([^/]+\/[^/]+)\/?(.*)$/.exec(wanted);
  if (scheme !== null) {
    return hubUrl(scheme[1]!, scheme[2] === "" ? "" : `resolve/main/${scheme[2]!}`);
  }
  const page =
    /^https:\/\/(?:huggingface\.co|hf\.co)\/([^/?#]+\/[^/?#]+)(?:\/((?:blob|tree)\/[^?#]*))?\/?(?:[?#].*)?$/.exec(
      wanted,
    );
  if (page !== null) {
    return hubUrl(page[1]!, page[2] ?? "");
  }
  if (/^[\w-][\w.-]*\/[\w.-]+$/.test(wanted) && !/\.(safetensors|bt|json)$/.test(wanted)) {
    return hubUrl(wanted, "");
  }
  const url = URL.canParse(wanted) ? new URL(wanted) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw new Error("Give the URL of a file, https://…, or a repository of the Hub, owner/name.");
  }
  return url.href;
}
