#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds all that a release consists of, from the commit that is checked out, into dist/ (packaging/README.md). Nothing of it depends
# on where or when it is built: the same commit and the same tools give the same bytes.
#
#   tools/release/release.sh [PART...]    PART: source amalgamation sdist wheels commands debian npm; all when none is given
#
#   COFFER_RELEASES   where the archives will be found, for the recipes of package managers
#   COFFER_SOURCES    where the sources of this version can be read, for the links of the release notes; without it they have none
#   COFFER_SIGN_KEY   a private key in PEM; with it the whole set is signed
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

root=$PWD
dist=$root/dist
version=$(sed -n 's/^#define COFFER_VERSION_STRING "\(.*\)"$/\1/p' include/coffer/base.h)
releases=${COFFER_RELEASES:-https://example.org/coffer/$version}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The commit's own time is that of every file in every archive.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC ZIG_GLOBAL_CACHE_DIR=$root/build/zig-cache
export PATH=$root/build/python-venv/bin:$PATH PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER

# What is built: Zig's name of the target, and how Python calls the platform.
wheel_targets=(
    'x86_64-linux-gnu.2.17 manylinux_2_17_x86_64'
    'aarch64-linux-gnu.2.17 manylinux_2_17_aarch64'
    'x86_64-linux-musl musllinux_1_2_x86_64'
    'aarch64-linux-musl musllinux_1_2_aarch64'
    'aarch64-macos.11.0 macosx_11_0_arm64'
    'x86_64-macos.11.0 macosx_11_0_x86_64'
    'x86_64-windows-gnu win_amd64'
)
command_targets=(x86_64-linux-musl aarch64-linux-musl)

archive() { # archive FILE FOLDER NAME: FOLDER/NAME as a .tar.gz that does not depend on who made it
    tar -C "$2" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -cf - "$3" |
        gzip -9n >"$1"
}

zip_archive() { # zip_archive FILE FOLDER NAME: likewise, as a .zip
    python3 - "$@" <<'END'
import os, pathlib, sys, time, zipfile
out, folder, name = sys.argv[1:]
when = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
with zipfile.ZipFile(out, "w") as archive:
    for path in sorted(pathlib.Path(folder, name).iterdir()):
        entry = zipfile.ZipInfo(f"{name}/{path.name}", when)
        entry.external_attr = (0o755 if path.suffix == ".exe" else 0o644) << 16
        archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED, 9)
END
}

# Python's headers. The system's own folder would bring those of its libc.
borrow_headers() {
    mkdir -p "$work/python"
    local folder
    folder=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')
    cp -r "$folder/." "$work/python"
    # Debian keeps the numbers of each machine apart. Those of all that is built here are the same: 64 bits, little-endian.
    local numbers
    numbers=/usr/include/$(gcc -print-multiarch)/$(basename "$folder")/pyconfig.h
    [ ! -f "$numbers" ] || cp "$numbers" "$work/python/pyconfig.h"
}

# Those for Windows, where the numbers are others, and what extensions are linked with there.
borrow_windows() {
    cp -r "$work/python" "$work/python-windows"
    printf '#define %s\n' MS_WINDOWS MS_WIN32 MS_WIN64 HAVE_DECLSPEC_DLL Py_ENABLE_SHARED 'SIZEOF_SHORT 2' 'SIZEOF_INT 4' \
        'SIZEOF_LONG 4' 'SIZEOF_LONG_LONG 8' 'SIZEOF_VOID_P 8' 'SIZEOF_SIZE_T 8' 'SIZEOF_TIME_T 8' 'SIZEOF_WCHAR_T 2' \
        >"$work/python-windows/pyconfig.h"
    python tools/build/limited_api.py >"$work/python3.def"
    build/zig-venv/bin/zig-dlltool -m i386:x86-64 -d "$work/python3.def" -l "$work/python3.lib"
}

# Quoted, as a folder may have a space in its name: the shell of the build reads it.
cross_flags="-fno-sanitize=all '-ffile-prefix-map=$root=.' '-ffile-prefix-map=$work=.'"

# What is compiled by Zig has parts of what Zig brings: THIRD_PARTY.txt with their notices, for a target of Zig's.
third_party() { # third_party TARGET
    local zig=$root/build/zig-venv/lib/python3.*/site-packages/ziglang
    zig=$(echo $zig)
    cat THIRD_PARTY.txt
    case $1 in
    *-musl)
        notice 'musl, https://musl.libc.org (the C library)' "$zig/lib/libc/musl/COPYRIGHT"
        ;;
    *-windows-*)
        notice 'mingw-w64, https://www.mingw-w64.org (what a program of Windows begins with, and parts of the C library)' \
            "$zig/lib/libc/mingw/COPYING"
        sed -n '2,/^\*\*\*/p' "$zig/lib/libc/mingw/gdtoa/gdtoa.h" | sed '$d' >"$work/gdtoa"
        notice 'gdtoa, in mingw-w64 (numbers as text)' "$work/gdtoa"
        ;;
    esac
    notice 'Zig, https://ziglang.org (what the processor cannot do in one instruction: compiler-rt)' "$zig/LICENSE"
}

notice() { # notice TITLE FILE
    [ -s "$2" ] || { echo "release: no notice of ${1%%,*}: $2" >&2; exit 1; }
    printf '\n\n%s\n%s\n\n' "$1" "$(printf '%s' "$1" | tr -c '\n' - | tr '\n' -)"
    cat "$2"
}

# ---- The parts --------------------------------------------------------------------------------------------------------

part_source() {
    git archive --format=tar --prefix="coffer-$version/" HEAD | gzip -9n >"$dist/coffer-$version.tar.gz"
}

part_amalgamation() {
    local folder=$work/coffer-amalgamation-$version
    tools/build/amalgamate.py "$folder" >/dev/null
    cp LICENSE THIRD_PARTY.txt "$folder"
    archive "$dist/coffer-amalgamation-$version.tar.gz" "$work" "coffer-amalgamation-$version"
}

part_sdist() {
    python -m build --sdist --no-isolation --outdir "$dist" bindings/python >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
}

# From the sdist, as users would: so it is known to be complete.
part_wheels() {
    local target zig platform python wheel
    [ -f "$dist/libcoffer-$version.tar.gz" ] || part_sdist
    tar -C "$work" -xf "$dist/libcoffer-$version.tar.gz"
    for target in "${wheel_targets[@]}"; do
        read -r zig platform <<<"$target"
        python=(-Ccmake.define.Python_INCLUDE_DIR="$work/python")
        [ "$platform" != win_amd64 ] || python=(-Ccmake.define.Python_INCLUDE_DIR="$work/python-windows"
            -Ccmake.define.Python_SABI_LIBRARY="$work/python3.lib")
        # Zig links commands for musl without shared libraries unless it is told otherwise, and such a one can load none.
        [[ $zig != *-musl ]] || python+=(-Ccmake.define.CMAKE_EXE_LINKER_FLAGS='-s -dynamic')
        _PYTHON_HOST_PLATFORM=$platform CMAKE_TOOLCHAIN_FILE=$root/cmake/toolchain-zig.cmake CFLAGS=$cross_flags LDFLAGS=-s \
            python -m build --wheel --no-isolation --outdir "$dist" -Cinstall.strip=false \
            -Ccmake.define.COFFER_ZIG_TARGET="$zig" "${python[@]}" "$work/libcoffer-$version" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    done
    abi3audit --strict --summary "$dist"/*.whl
    # auditwheel knows the symbols of each glibc, of this machine's processor.
    for wheel in "$dist"/*manylinux*_x86_64.whl; do
        auditwheel show "$wheel" | tee "$work/log"
        grep -q '"manylinux_2_17_x86_64"' "$work/log"
    done
    # delvewheel knows what is Windows' own or Python's: nothing else is needed.
    delvewheel show "$dist"/*-win_amd64.whl | tee "$work/log"
    grep -A 1 'will be copied into the wheel' "$work/log" | grep -qx ' *None'
}

# What a program without shared libraries is lies in $work/build-TARGET.
build_command() { # build_command TARGET LINKER-FLAGS [OPTION...]
    local target=$1 flags=$2
    shift 2
    CFLAGS=$cross_flags LDFLAGS=$flags cmake -S . -B "$work/build-$target" -G Ninja -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_TOOLCHAIN_FILE="$root/cmake/toolchain-zig.cmake" -DCOFFER_ZIG_TARGET="$target" "$@" \
        -DBUILD_TESTING=OFF -DCOFFER_BUILD_BENCH=OFF -DCOFFER_BUILD_EXAMPLES=OFF -DCOFFER_BUILD_FUZZ=OFF >"$work/log" 2>&1 &&
        cmake --build "$work/build-$target" --target coffer_cli >>"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
}

# For Linux without shared libraries, so also without what is opened while the program runs: no URLs, no devices. For Windows with those
# that are part of it.
part_commands() {
    local target name
    for target in "${command_targets[@]}"; do
        name=coffer-$version-${target%-musl}
        build_command "$target" '-s -static' -DCOFFER_DLOPEN=OFF
        mkdir "$work/$name"
        cp "$work/build-$target/coffer" LICENSE "$work/$name"
        third_party "$target" >"$work/$name/THIRD_PARTY.txt"
        archive "$dist/$name.tar.gz" "$work" "$name"
    done
    name=coffer-$version-x86_64-windows
    build_command x86_64-windows-gnu -s
    mkdir "$work/$name"
    cp "$work/build-x86_64-windows-gnu/coffer.exe" LICENSE "$work/$name"
    third_party x86_64-windows-gnu >"$work/$name/THIRD_PARTY.txt"
    zip_archive "$dist/$name.zip" "$work" "$name"
}

part_debian() {
    tools/build/build.sh debian >"$work/log" 2>&1 && (cd build/debian && rm -rf packages && cpack) >>"$work/log" 2>&1 ||
        { cat "$work/log"; exit 1; }
    cp build/debian/packages/*.deb "$dist"
}

part_npm() {
    PATH=$(tools/build/setup.sh node):$PATH
    tools/build/js.sh build >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    (cd bindings/js && npm pack --silent --ignore-scripts --pack-destination "$dist" >/dev/null)
}

# ---- About all of them ------------------------------------------------------------------------------------------------

# The recipes, with what they could not know.
write_recipes() {
    local archive=$dist/coffer-$version.tar.gz
    [ -f "$archive" ] || return 0
    cp -r packaging "$work/packaging"
    rm -rf "$work/packaging/conan/test_package/build" "$work/packaging/oldest.txt"
    cat >"$work/packaging/conan/conandata.yml" <<END
sources:
  "$version":
    url: "$releases/coffer-$version.tar.gz"
    sha256: "$(sha256sum "$archive" | cut -d' ' -f1)"
END
    find "$work/packaging" -type f -exec sed -i -e "s,@RELEASES@,$releases,g" -e "s/@VERSION@/$version/g" \
        -e "s/@SHA256@/$(sha256sum "$archive" | cut -d' ' -f1)/g" -e "s/@SHA512@/$(sha512sum "$archive" | cut -d' ' -f1)/g" {} +
    archive "$dist/coffer-packaging-$version.tar.gz" "$work" packaging
}

write_notes() {
    tools/release/release_notes.py CHANGELOG.md "$version" ${COFFER_SOURCES:+"$COFFER_SOURCES"} >"$dist/RELEASE_NOTES.md"
}

write_sums() {
    (
        cd "$dist"
        find . -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs -d '\n' sha256sum >SHA256SUMS
    )
    if [ -n "${COFFER_SIGN_KEY:-}" ]; then
        build/release/coffer hash "$dist" --sign "$COFFER_SIGN_KEY" -o "$dist/coffer.sig"
    fi
}

if ! git diff --quiet HEAD; then
    echo 'release: the files differ from the commit that is checked out: commit them first' >&2
    exit 1
fi
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(source amalgamation sdist wheels commands debian npm)
# The page is part of the source distribution and of every command. It is built where what makes it is installed.
tools/build/page.sh
if [ ! -f build/web/index.html ]; then
    echo 'release: without the page of `coffer report`, which `make web` builds: the commands take one by --page FILE alone' >&2
fi
rm -rf "$dist"
mkdir "$dist"
borrow_headers
borrow_windows
for part in "${parts[@]}"; do
    started=$SECONDS
    "part_$part"
    printf '%-14s %4d s\n' "$part" $((SECONDS - started))
done
write_recipes
write_notes
tools/release/sbom.py "$version" "$dist" >"$dist/coffer-$version.spdx.json"
write_sums
ls -l "$dist"
