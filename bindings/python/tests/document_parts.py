# SPDX-License-Identifier: Apache-2.0
"""The pages of the documentation, and the parts of them whose examples need something else than the rest of the page.

"docs/python.md" is the page without its parts, "docs/python.md#Coming from safetensors" one part: what is below that heading of
the second level. Shared with typed_examples.py, which runs outside of pytest.
"""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3]
APART = {
    "docs/python.md": ["Models on the Hugging Face Hub", "Coming from safetensors"],
    "docs/loading.md": ["Engines and frameworks"],
}


def text_of(part: str) -> str:
    """The text of a page or of a part of one."""
    document, _, heading = part.partition("#")
    text = (SOURCE / document).read_text(encoding="utf-8")
    pieces = re.split(r"^## (.*)$", text, flags=re.M)
    sections = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    apart = APART.get(document, [])
    assert set(apart) <= set(sections), f"{document} has other headings"
    if heading:
        return sections[heading]
    return pieces[0] + "".join(body for title, body in sections.items() if title not in apart)
