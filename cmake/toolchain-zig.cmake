# SPDX-License-Identifier: Apache-2.0
#
# Systems that are only compiled for, or whose programs run here by themselves or by Wine, by the clang, the headers and the
# libraries of Zig, which tools/build/setup.sh unpacks in build/zig-venv. COFFER_ZIG_TARGET is Zig's name of the target.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES COFFER_ZIG_TARGET)
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH checkout)
set(zig_tools "${checkout}/build/zig-venv/bin")

if(COFFER_ZIG_TARGET MATCHES "macos")
  set(CMAKE_SYSTEM_NAME Darwin)
  # CMake wants them, and only an install would use them.
  set(CMAKE_INSTALL_NAME_TOOL "${CMAKE_COMMAND}")
  set(CMAKE_OSX_SYSROOT "" CACHE STRING "")
  # Zig does not know the -bundle that CMake gives for what programs load, and would link a program.
  set(CMAKE_MODULE_LINKER_FLAGS_INIT "-shared")
elseif(COFFER_ZIG_TARGET MATCHES "freebsd")
  set(CMAKE_SYSTEM_NAME FreeBSD)
elseif(COFFER_ZIG_TARGET MATCHES "windows")
  set(CMAKE_SYSTEM_NAME Windows)
else()
  set(CMAKE_SYSTEM_NAME Linux)
endif()
string(REGEX REPLACE "-.*" "" CMAKE_SYSTEM_PROCESSOR "${COFFER_ZIG_TARGET}")

set(CMAKE_C_COMPILER "${zig_tools}/zig-cc")
set(CMAKE_C_COMPILER_TARGET "${COFFER_ZIG_TARGET}")
set(CMAKE_AR "${zig_tools}/zig-ar")
set(CMAKE_RANLIB "${zig_tools}/zig-ranlib")
# Zig calls a flag without use an error where warnings are errors; CMake gives all flags at every step.
# xxHash's header, which is for every system, lies where nothing else of this one does.
set(CMAKE_C_FLAGS_INIT "-Wno-unused-command-line-argument -idirafter \"${checkout}/build/port-headers\"")
# Zig's list of musl's symbols has environ and others at one address, which a program that copies them does not survive. One whose
# code is position-independent refers to them.
if(COFFER_ZIG_TARGET MATCHES "musl")
  string(APPEND CMAKE_C_FLAGS_INIT " -fPIC")
endif()
