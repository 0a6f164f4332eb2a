#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The Debian packages: built by cpack, looked over by lintian, installed by dpkg into a folder that plays the system's root, and
# used from there.
#
#   tests/install/debian.sh
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
version=$(sed -n 's/^#define COFFER_VERSION_STRING "\(.*\)"$/\1/p' include/coffer/base.h)
build=$PWD/build/debian
packages=$build/packages
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "$*" >&2
    exit 1
}

# ---- Building and looking over ----------------------------------------------------------------------------------------

tools/build/build.sh debian
rm -rf "$packages"
(cd "$build" && cpack) >"$work/log" || { cat "$work/log"; exit 1; }
for name in "libcoffer${version%.*}" libcoffer-dev coffer; do
    file=$(echo "$packages/${name}_$version-1_"*.deb)
    [ -f "$file" ] || fail "no package $name"
    dpkg-deb --field "$file" Depends | grep -q 'libc6\|libcoffer' || fail "$name depends on nothing"
done
dpkg-deb --info "$packages/libcoffer${version%.*}"_*.deb shlibs | grep -qx "libcoffer ${version%.*} libcoffer${version%.*} (>= $version)" ||
    fail 'no shlibs for those who link with the library'
echo 'ok: cpack makes the packages'

# cpack of CMake 4.4 makes `triggers` a program, which lintian refuses; that of other versions does not.
mkdir -p "$work/modes/DEBIAN"
printf 'Package: modes\nVersion: 1\nArchitecture: all\nMaintainer: a <a@example.org>\nDescription: a\n' >"$work/modes/DEBIAN/control"
printf 'activate-noawait ldconfig\n' >"$work/modes/DEBIAN/triggers"
printf '#!/bin/sh\n' >"$work/modes/DEBIAN/postinst"
chmod 755 "$work/modes/DEBIAN/triggers" "$work/modes/DEBIAN/postinst"
dpkg-deb --root-owner-group --build "$work/modes" "$work/modes.deb" >"$work/log"
cmake -DCPACK_PACKAGE_FILES="$work/modes.deb" -P cmake/debian/without_scripts.cmake
for file in "$work/modes.deb" "$packages"/*.deb; do
    ! dpkg-deb --ctrl-tarfile "$file" | tar -tv | grep -- '^-..x' || fail "$file: a control file is a program"
done
echo 'ok: no control file is a program, whatever cpack makes of it'

# Left out: there is no bug to close by a first upload to Debian.
lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs "$packages"/*.deb
echo 'ok: lintian has no complaint'

# ---- Installing and using ---------------------------------------------------------------------------------------------

root=$work/root
mkdir -p "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/info"
touch "$root/var/lib/dpkg/status" "$root/var/lib/dpkg/available"
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(fakeroot)
# Of the root there is nothing but these packages, so libc6, which they depend on, is not there either.
"${as_root[@]}" dpkg --root="$root" --force-depends --log=/dev/null --install "$packages"/*.deb \
    >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
[ "$("$root/usr/bin/coffer" --version | head -n 1)" = "coffer $version" ] || fail 'the command does not run'
for file in share/man/man1/coffer.1.gz share/bash-completion/completions/coffer share/zsh/vendor-completions/_coffer \
    share/fish/vendor_completions.d/coffer.fish share/doc/coffer/copyright share/doc/libcoffer-dev/changelog.Debian.gz; do
    [ -s "$root/usr/$file" ] || fail "not in the packages: $file"
done
libdir=$root/usr/lib/$(gcc -print-multiarch)
[ -f "$libdir/libcoffer.so.$version" ] || fail 'the library is not where this machine has its libraries'

export PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$libdir/pkgconfig
# The words that pkg-config prints are options of the compiler, one each.
gcc tests/install/consumer.c -o "$work/consumer" $(pkg-config --cflags --libs coffer)
[ "$(LD_LIBRARY_PATH=$libdir "$work/consumer")" = "coffer $version" ] || fail 'a program with the shared library does not run'
cmake -G Ninja -S tests/install -B "$work/cmake" -DCOFFER_WAY=package -DCOFFER_TARGET=coffer::static \
    '-DCOFFER_COMPONENTS=static;cli' -DCMAKE_PREFIX_PATH="$root/usr" >"$work/log" || { cat "$work/log"; exit 1; }
cmake --build "$work/cmake" >"$work/log" || { cat "$work/log"; exit 1; }
[ "$("$work/cmake/consumer")" = "coffer $version" ] || fail 'a program with the static library does not run'
echo 'ok: the packages install, run, and can be built with'

"${as_root[@]}" dpkg --root="$root" --log=/dev/null --purge coffer libcoffer-dev "libcoffer${version%.*}" \
    >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
[ ! -e "$root/usr" ] || fail "left behind: $(find "$root/usr")"
echo 'ok: the packages go without a trace'
