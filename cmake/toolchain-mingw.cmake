# SPDX-License-Identifier: Apache-2.0
#
# Windows, 64 bits: compiled by Debian's mingw-w64 and run by Wine.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc-posix)
set(CMAKE_RC_COMPILER x86_64-w64-mingw32-windres)
set(CMAKE_CROSSCOMPILING_EMULATOR wine)

# xxHash's header, which is for every system, lies where nothing else of this one does.
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH checkout)
set(CMAKE_C_FLAGS_INIT "-idirafter ${checkout}/build/port-headers")
