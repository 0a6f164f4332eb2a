#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The names of Python's limited API, as the definition of Windows' python3.dll, from which dlltool makes what extensions are linked with.

    tools/build/limited_api.py [LIBRARY]    with a LIBRARY, such as python311, the names lead to its own, as those of python3.dll do
"""

import sys

import abi3info

print("LIBRARY python3.dll\nEXPORTS")
for kind, entries in {"": abi3info.FUNCTIONS, " DATA": abi3info.DATAS}.items():
    for name in sorted(symbol.name for symbol in entries):
        print(name, *(f"= {library}.{name}" for library in sys.argv[1:]), kind)
