# SPDX-License-Identifier: Apache-2.0
"""What docs/python.md says of coming from safetensors is true: its examples run, and it lists the deviations that the tests here name, all of them."""

import pathlib
import re
import subprocess
import sys

from document_parts import text_of

TEXT = text_of("docs/python.md#Coming from safetensors")


def test_examples(tmp_path):
    """One after the other, in one process."""
    examples = re.findall(r"^```python\n(.*?)^```$", TEXT, re.M | re.S)
    assert len(examples) >= 3
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(examples)], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


def test_deviations():
    listed = set(re.findall(r"^\| ([A-Z]\d) \|", TEXT, re.M))
    tests = "".join(path.read_text() for path in pathlib.Path(__file__).parent.glob("*.py"))
    tested = set(re.findall(r"\b([ENSTWF][1-9])\b", tests)) - {"E4", "F4", "F6", "F8"}
    # Without a test of their own: texts of TypeErrors, and devices that the tests' machines do not have.
    assert tested == listed - {"E4", "V1"}
