# SPDX-License-Identifier: Apache-2.0
"""Coffer where engines load their weights: vLLM, SGLang and torch.distributed.checkpoint. docs/loading.md says how to use them.

`lazy_tensors` gives tensors that know where their bytes are, and read them when they are copied; `access_predictor` knows from what was
taken of one layer what will be taken of the next, and `prefetch` reads that ahead. The others fit them to one engine each. None of
them is imported before it is used.
"""
