# SPDX-License-Identifier: Apache-2.0
#
# Windows, x86-64. Compiled by Debian's mingw-w64 and run by Wine. The compiler's own libraries are linked statically, so that a
# program is one file and needs only what every Windows has.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc-posix)
set(CMAKE_RC_COMPILER x86_64-w64-mingw32-windres)
set(CMAKE_FIND_ROOT_PATH /usr/x86_64-w64-mingw32)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)

cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH checkout)
set(CMAKE_CROSSCOMPILING_EMULATOR "${checkout}/tools/check/wine.sh")
# printf and its kin as C11 has them: those of the system's own runtime know neither %zu nor %lld.
# xxHash's header, which is for every system, lies where nothing else of this one does.
set(CMAKE_C_FLAGS_INIT "-D__USE_MINGW_ANSI_STDIO=1 -idirafter \"${checkout}/build/port-headers\"")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-static")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-static")
