# SPDX-License-Identifier: Apache-2.0
#
# s390x: 64 bits, big-endian.
# Compiled by Debian's cross compiler and run by qemu. Other libraries, cmocka among them, are those that tools/build/setup.sh
# unpacks in build/cross/s390x.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR s390x)
set(CMAKE_C_COMPILER s390x-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-s390x -L /usr/s390x-linux-gnu)

cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH checkout)
set(CMAKE_C_FLAGS_INIT "-idirafter ${checkout}/build/cross/s390x/usr/include")
set(CMAKE_BUILD_RPATH "${checkout}/build/cross/s390x/usr/lib/s390x-linux-gnu") # where libcrypto is looked for, at run time
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${checkout}/build/cross/s390x")
set(ENV{PKG_CONFIG_LIBDIR} "${checkout}/build/cross/s390x/usr/lib/s390x-linux-gnu/pkgconfig")
# Without these pkg-config takes the folders below for the system's own, and leaves them out.
set(ENV{PKG_CONFIG_ALLOW_SYSTEM_CFLAGS} 1)
set(ENV{PKG_CONFIG_ALLOW_SYSTEM_LIBS} 1)
