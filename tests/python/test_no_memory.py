# SPDX-License-Identifier: Apache-2.0
"""Digests where the cryptographic library has no memory: the command fails, and calls nothing that would crash."""

import os
import subprocess

import pytest
from model_files import floats, make

CLI = os.environ["COFFER_CLI"]
USED = ["EVP_MD_CTX_new", "EVP_MD_CTX_free", "EVP_sha256", "EVP_DigestInit_ex", "EVP_DigestUpdate", "EVP_DigestFinal_ex"]


@pytest.fixture
def without_memory(tmp_path):
    """The environment in which libcrypto is one that could not begin: any other call of it ends the process."""
    source = tmp_path / "crypto.c"
    calls = "".join(f"void *{name}(void) {{ abort(); }}\n" for name in USED)
    source.write_text(f"#include <stdlib.h>\nvoid *OSSL_LIB_CTX_get0_global_default(void) {{ return NULL; }}\n{calls}")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "libcrypto.so.3", source], check=True)
    return {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}


@pytest.mark.parametrize("arguments", [["hash", "m"], ["hash", "--content", "m"], ["hash", "--write", "m"]])
def test_a_library_that_could_not_begin(tmp_path, without_memory, arguments):
    make(tmp_path / "m", {"a": ("F32", [1], floats(1))})
    result = subprocess.run([CLI, *arguments], cwd=tmp_path, env=without_memory, capture_output=True, text=True, check=False)
    assert result.returncode > 0 and "no memory" in result.stderr and "libcrypto" in result.stderr, result
    assert result.stdout == ""
