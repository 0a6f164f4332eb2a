# SPDX-License-Identifier: Apache-2.0
#
# armel: 32 bits, little-endian; its plain char is unsigned, as it is on s390x.
# Compiled by Debian's cross compiler and run by qemu. Other libraries, cmocka among them, are those that tools/build/setup.sh
# unpacks in build/cross/armel.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_C_COMPILER arm-linux-gnueabi-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-arm -L /usr/arm-linux-gnueabi)

cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH checkout)
set(CMAKE_C_FLAGS_INIT "-idirafter ${checkout}/build/cross/armel/usr/include")
set(CMAKE_BUILD_RPATH "${checkout}/build/cross/armel/usr/lib/arm-linux-gnueabi") # where libcrypto is looked for, at run time
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${checkout}/build/cross/armel")
set(ENV{PKG_CONFIG_LIBDIR} "${checkout}/build/cross/armel/usr/lib/arm-linux-gnueabi/pkgconfig")
# Without these pkg-config takes the folders below for the system's own, and leaves them out.
set(ENV{PKG_CONFIG_ALLOW_SYSTEM_CFLAGS} 1)
set(ENV{PKG_CONFIG_ALLOW_SYSTEM_LIBS} 1)
