// SPDX-License-Identifier: Apache-2.0
/* Whose code is in a bundle, and under which terms: what the page has to say of each package that is part of it. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, sep } from "node:path";

/** @typedef {{ name: string, version: string, licence: string, text: string }} Part */

const TERMS = /^(licen[cs]e|copying|notice)(\.|$)/i;

/**
 * The folder of the package that a module belongs to: undefined when it is one of ours, or made by the build.
 *
 * @param {string} id as the bundler names it
 * @param {readonly string[]} ours folders of this project's sources
 */
function packageFolder(id, ours) {
  const inPackage = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(
    id.replace(/^\0/, "").split("?")[0].replaceAll(sep, "/"),
  );
  if (inPackage !== null) {
    return inPackage[0];
  }
  if (id.startsWith("\0virtual:") || ours.some((folder) => id.startsWith(folder + sep))) {
    return undefined;
  }
  throw new Error(`${JSON.stringify(id)} is in the bundle, and belongs to no known package: its licence is unknown`);
}

/**
 * What a package says of itself. A package that does not carry its licence must not get into the page.
 *
 * @param {string} folder
 * @returns {Part}
 */
function described(folder) {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const files = readdirSync(folder).filter((file) => TERMS.test(file));
  const text = files
    .sort()
    .map((file) => readFileSync(join(folder, file), "utf8").trim())
    .join("\n\n");
  if (typeof license !== "string" || text === "") {
    throw new Error(`${name} is in the bundle, but its package has no licence: ${folder}`);
  }
  return { name, version, licence: license, text };
}

/**
 * The packages that are part of a bundle, each once, in order of their names.
 *
 * @param {Iterable<string>} modules the ids of the modules that the bundler has kept code of
 * @param {readonly string[]} ours folders of this project's sources
 * @returns {Part[]}
 */
export function licences(modules, ours) {
  const folders = new Set([...modules].map((id) => packageFolder(id, ours)));
  folders.delete(undefined);
  const parts = [...folders].map((folder) => described(/** @type {string} */ (folder)));
  return parts.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/**
 * xxHash, which is compiled into the WebAssembly modules where its header was installed. The head of that header is its licence.
 *
 * @param {string} dist the JavaScript package's folder
 * @returns {Part[]}
 */
export function compiledIn(dist) {
  const path = join(dist, "xxhash-license.txt");
  if (!existsSync(path)) {
    return [];
  }
  const text = readFileSync(path, "utf8").replace(/^ ?\/?\*+\/?(?: |$)/gm, "");
  return [{ name: "xxHash", version: "", licence: "BSD-2-Clause", text: text.trim() }];
}

const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = (/** @type {string} */ text) =>
  text.replace(/[&<>"]/g, (mark) => ENTITIES[/** @type {keyof ENTITIES} */ (mark)]);

/**
 * The parts as HTML: a line of each, which opens to its text.
 *
 * @param {readonly Part[]} parts
 */
export function asHtml(parts) {
  return parts
    .map(({ name, version, licence, text }) => {
      const title = [name, version].filter(Boolean).join(" ");
      return `<details><summary>${escaped(`${title}, ${licence}`)}</summary><pre>${escaped(text)}</pre></details>`;
    })
    .join("\n");
}
