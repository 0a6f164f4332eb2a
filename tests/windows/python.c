/* SPDX-License-Identifier: Apache-2.0 */
/* A python.exe, for tests/install/wheel_windows.sh: what the interpreter's library has for it. */
#include <wchar.h>

int Py_Main(int argc, wchar_t **argv);

int wmain(int argc, wchar_t **argv)
{
    return Py_Main(argc, argv);
}
