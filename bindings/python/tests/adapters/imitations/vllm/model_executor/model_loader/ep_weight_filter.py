# SPDX-License-Identifier: Apache-2.0
"""Which tensors are other processes' experts: here the layers play them."""

import re


def should_skip_weight(name, local_expert_ids):
    found = re.search(r"layers\.(\d+)", name)
    return local_expert_ids is not None and found is not None and int(found[1]) not in local_expert_ids
