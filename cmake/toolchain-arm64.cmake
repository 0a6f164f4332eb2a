# SPDX-License-Identifier: Apache-2.0
#
# arm64: 64 bits, little-endian, with weakly ordered memory; its plain char is unsigned.
# Compiled by Debian's cross compiler and run by qemu. Other libraries, cmocka among them, are those that tools/build/setup.sh
# unpacks in build/cross/arm64.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)

cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH checkout)
set(CMAKE_C_FLAGS_INIT "-idirafter ${checkout}/build/cross/arm64/usr/include")
set(CMAKE_BUILD_RPATH "${checkout}/build/cross/arm64/usr/lib/aarch64-linux-gnu") # where libcrypto is looked for, at run time
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${checkout}/build/cross/arm64")
set(ENV{PKG_CONFIG_LIBDIR} "${checkout}/build/cross/arm64/usr/lib/aarch64-linux-gnu/pkgconfig")
# Without these pkg-config takes the folders below for the system's own, and leaves them out.
set(ENV{PKG_CONFIG_ALLOW_SYSTEM_CFLAGS} 1)
set(ENV{PKG_CONFIG_ALLOW_SYSTEM_LIBS} 1)
