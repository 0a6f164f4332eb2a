// SPDX-License-Identifier: Apache-2.0
/*
 * Times @huggingface/hub: the seconds that the metadata of a model take, and how many files it has.
 *
 *   node hub_client.mjs FOLDER HUB REPOSITORY    the package is in FOLDER/node_modules
 */
import { createRequire } from "node:module";

const [folder, hubUrl, repo] = process.argv.slice(2);
const { parseSafetensorsMetadata } = createRequire(`${folder}/package.json`)("@huggingface/hub");

const began = performance.now();
const found = await parseSafetensorsMetadata({ repo, hubUrl, computeParametersCount: true });
console.log((performance.now() - began) / 1000, Object.keys(found.headers).length);
