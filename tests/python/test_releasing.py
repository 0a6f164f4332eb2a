# SPDX-License-Identifier: Apache-2.0
"""What a release says of itself: of one version, short, and without links that lead nowhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHANGELOG = """# Changelog

## Unreleased

Compile again: [docs/abi.md](docs/abi.md#what-changed).

### Added

* A command, `coffer x; y. Z`, for files
  of two lines. A second sentence, in [docs/cli.md](docs/cli.md).
* Numbers up to 0.5 are taken [as they are](https://example.org/a.b); the rest are not.

### Fixed

* No stop at the end

## 0.1.0

### Added

* The [first](README.md) one.
"""


def notes(changelog, version, *address):
    command = [sys.executable, ROOT / "tools/release/release_notes.py", changelog, version, *address]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_first_sentence_of_each_entry(tmp_path):
    path = tmp_path / "CHANGELOG.md"
    path.write_text(CHANGELOG)
    assert notes(path, "0.2.0").stdout == """Compile again: docs/abi.md.

### Added

* A command, `coffer x; y. Z`, for files of two lines.
* Numbers up to 0.5 are taken [as they are](https://example.org/a.b).

### Fixed

* No stop at the end

All of it is in CHANGELOG.md, in the sources.
"""
    assert "* The [first](https://example.org/v/README.md) one." in notes(path, "0.1.0", "https://example.org/v/").stdout
    path.write_text("## Unreleased\n\n## 0.1.0\n\n* One.\n")
    done = notes(path, "0.2.0")
    assert done.returncode == 1 and "says nothing of 0.2.0" in done.stderr


@pytest.mark.parametrize("address", [(), ("https://example.org/v",)])
def test_the_next_release(address):
    text = notes(ROOT / "CHANGELOG.md", "0.2.0", *address).stdout
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert bool(links) == bool(address) and all(link.startswith("https://") for link in links)
    for link in links:
        if link.startswith("https://example.org/v/"):
            assert (ROOT / link.removeprefix("https://example.org/v/").partition("#")[0]).exists(), link
    assert 1000 < len(text) < (ROOT / "CHANGELOG.md").stat().st_size
