# SPDX-License-Identifier: Apache-2.0
"""As much of vLLM's interface for loaders as a plug-in sees: which formats and options the default loader takes, what it is asked,
and in which order. The real one, on the CPU, loads models in the same way; docs/loading.md says which version."""
