#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what a release consists of, as SPDX 2.3 in JSON.

    tools/release/sbom.py VERSION FOLDER    of the files in FOLDER, with their digests, and of what is compiled into them
"""

import hashlib
import json
import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What the web page of `coffer report` is bundled from; the versions are those of its lock file.
PAGE = {"preact": "MIT", "@preact/signals": "MIT", "@preact/signals-core": "MIT", "d3-hierarchy": "ISC"}


def package(name: str, version: str, licence: str) -> dict[str, object]:
    return {
        "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "licenseConcluded": licence,
        "licenseDeclared": licence,
        "copyrightText": "NOASSERTION",
        "filesAnalyzed": False,
    }


def xxhash_version() -> str:
    text = Path("/usr/include/xxhash.h").read_text(encoding="utf-8")
    return ".".join(re.findall(rf"#define XXH_VERSION_{part} +(\d+)", text)[0] for part in ("MAJOR", "MINOR", "RELEASE"))


def page_versions() -> dict[str, str]:
    packages = json.loads((ROOT / "web/package-lock.json").read_text())["packages"]
    return {name: packages[f"node_modules/{name}"]["version"] for name in PAGE}


def file(path: Path, number: int) -> dict[str, object]:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {
        "SPDXID": f"SPDXRef-File-{number}",
        "fileName": f"./{path.name}",
        "checksums": [
            {"algorithm": "SHA1", "checksumValue": hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()},
            {"algorithm": "SHA256", "checksumValue": digest},
        ],
        "licenseConcluded": "NOASSERTION",
        "copyrightText": "NOASSERTION",
    }


def main() -> None:
    version, folder = sys.argv[1], Path(sys.argv[2])
    files = [file(path, number) for number, path in enumerate(sorted(folder.iterdir()), 1) if not path.name.endswith(".spdx.json")]
    # The tables of ggml are numbers of the format, the same in every version of it.
    parts = [package("xxHash", xxhash_version(), "BSD-2-Clause"), package("ggml", "NOASSERTION", "MIT")]
    parts += [package(name, of, PAGE[name]) for name, of in page_versions().items()]
    coffer = package("coffer", version, "Apache-2.0")
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", coffer["SPDXID"])]
    relations += [(coffer["SPDXID"], "CONTAINS", part["SPDXID"]) for part in parts]
    relations += [(entry["SPDXID"], "GENERATED_FROM", coffer["SPDXID"]) for entry in files]
    made = hashlib.sha256(json.dumps(files).encode()).hexdigest()
    created = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"coffer-{version}",
        "documentNamespace": f"urn:sha256:{made}",
        "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: coffer-tools-sbom.py"]},
        "packages": [coffer, *parts],
        "files": files,
        "relationships": [
            {"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b} for a, kind, b in relations
        ],
    }
    json.dump(document, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
