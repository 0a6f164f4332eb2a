#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The recipes in packaging/, by the tools that they are for, as far as these run without the network: Meson and Conan; and an
# install by the oldest CMake that is supported, with either library. tools/build/setup.sh made build/packaging-venv.
#
#   tests/install/recipes.sh
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
checkout=$PWD
tools=$checkout/build/packaging-venv/bin
version=$(sed -n 's/^#define COFFER_VERSION_STRING "\(.*\)"$/\1/p' include/coffer/base.h)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

quietly() { # quietly COMMAND...: shows what it said when it fails
    "$@" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
}

# ---- The oldest CMake -------------------------------------------------------------------------------------------------
# Both libraries are made of the same objects, in one folder.

install_by_oldest() { # install_by_oldest SHARED(ON|OFF) LIBRARY NOT_THERE TARGET
    local build=$work/oldest prefix=$work/prefix-$1
    quietly "$tools/cmake" -S . -B "$build" -DBUILD_TESTING=OFF -DBUILD_SHARED_LIBS="$1" \
        -DCOFFER_BUILD_EXAMPLES=OFF -DCOFFER_BUILD_BENCH=OFF -DCOFFER_BUILD_FUZZ=OFF -DCMAKE_INSTALL_PREFIX="$prefix"
    quietly "$tools/cmake" --build "$build" --parallel "${JOBS:-$(nproc)}" --target install
    [ -n "$(find "$prefix" -name "$2")" ] && [ -z "$(find "$prefix" -name "$3")" ] || {
        find "$prefix" >&2
        exit 1
    }
    [ "$("$prefix/bin/coffer" --version | head -n 1)" = "coffer $version" ]
    cat >"$work/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.16)
project(consumer LANGUAGES C)
find_package(coffer ${version%.*} CONFIG REQUIRED)
add_executable(consumer $here/consumer.c)
target_link_libraries(consumer PRIVATE coffer::$4)
END
    quietly "$tools/cmake" -S "$work" -B "$work/use-$1" -DCMAKE_PREFIX_PATH="$prefix"
    quietly "$tools/cmake" --build "$work/use-$1"
    [ "$("$work/use-$1/consumer")" = "coffer $version" ]
    echo "ok: $("$tools/cmake" --version | head -n 1), $2 alone"
}

install_by_oldest OFF libcoffer.a 'libcoffer.so*' static
install_by_oldest ON 'libcoffer.so.*' libcoffer.a coffer

# ---- Meson ------------------------------------------------------------------------------------------------------------

# The archive is there already, as Meson would have fetched it.
mkdir -p "$work/meson/subprojects/packagecache"
archive=$work/meson/subprojects/packagecache/coffer-$version.tar.gz
git ls-files -z --cached --others --exclude-standard |
    tar -czf "$archive" --null -T - --transform "s,^,coffer-$version/," --ignore-failed-read
sed -e "s/@VERSION@/$version/" -e "s,@RELEASES@,file://$work," -e "s/@SHA256@/$(sha256sum "$archive" | cut -d' ' -f1)/" \
    packaging/meson/coffer.wrap >"$work/meson/subprojects/coffer.wrap"
cp "$here/consumer.c" "$work/meson"
cat >"$work/meson/meson.build" <<'END'
project('consumer', 'c', meson_version: '>=1.3.0', default_options: ['c_std=c11'])
coffer = dependency('coffer', fallback: ['coffer', 'coffer_static_dep'])
executable('consumer', 'consumer.c', dependencies: coffer)
END
quietly "$tools/meson" setup "$work/meson/build" "$work/meson"
quietly ninja -C "$work/meson/build" consumer
[ "$("$work/meson/build/consumer")" = "coffer $version" ]
if "$tools/meson" introspect --targets "$work/meson/build" | grep -q coffer_cli; then
    echo 'to Meson Coffer is more than its library' >&2
    exit 1
fi
echo "ok: Meson $("$tools/meson" --version)"

# ---- Conan ------------------------------------------------------------------------------------------------------------
# A debug build, as it is the recipe that is tried.

export CONAN_HOME=$work/conan
quietly "$tools/conan" profile detect
cp -r packaging/conan "$work/recipe"
# The registry's package of xxHash, played: what Coffer wants of it is the header.
mkdir "$work/xxhash"
cp build/port-headers/xxhash.h "$work/xxhash"
cat >"$work/xxhash/conanfile.py" <<'END'
from conan import ConanFile
from conan.tools.files import copy


class XxHash(ConanFile):
    name, version, exports_sources = "xxhash", "0.8.1", "xxhash.h"

    def package(self):
        copy(self, "xxhash.h", self.source_folder, f"{self.package_folder}/include")
END
quietly "$tools/conan" create "$work/xxhash" -s build_type=Debug
for shared in True False; do
    quietly "$tools/conan" create packaging/conan --test-folder "$work/recipe/test_package" -s build_type=Debug -o "coffer/*:shared=$shared"
    grep -q "^coffer $version\$" "$work/log"
    grep -rq --include=CMakeCache.txt "^COFFER_XXHASH_INCLUDE_DIR:PATH=$CONAN_HOME/" "$CONAN_HOME"
    echo "ok: $("$tools/conan" --version), shared=$shared"
done

# ---- vcpkg ------------------------------------------------------------------------------------------------------------

# Its functions, played: what the port passes to CMake has to be what Coffer's own files know.
mkdir "$work/vcpkg"
cat >"$work/vcpkg/port.cmake" <<'END'
function(vcpkg_download_distfile)
endfunction()
macro(vcpkg_extract_source_archive name)
  set(${name} ${CHECKOUT})
endmacro()
function(vcpkg_cmake_configure)
  cmake_parse_arguments(given "" SOURCE_PATH OPTIONS ${ARGN})
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${given_SOURCE_PATH} -B ${CURRENT_PACKAGES_DIR}/build ${given_OPTIONS}
                  COMMAND_ERROR_IS_FATAL ANY)
endfunction()
foreach(name vcpkg_cmake_install vcpkg_cmake_config_fixup vcpkg_fixup_pkgconfig)
  cmake_language(EVAL CODE "function(${name})\nendfunction()")
endforeach()
function(vcpkg_install_copyright)
  cmake_parse_arguments(given "" "" FILE_LIST ${ARGN})
  file(COPY ${given_FILE_LIST} DESTINATION ${CURRENT_PACKAGES_DIR})
endfunction()
include(${PORT}/portfile.cmake)
END
python3 -c 'import json, sys; json.load(open(sys.argv[1]))' packaging/vcpkg/coffer/vcpkg.json
quietly cmake -DCHECKOUT="$checkout" -DPORT="$checkout/packaging/vcpkg/coffer" -DCURRENT_PACKAGES_DIR="$work/vcpkg" -P "$work/vcpkg/port.cmake"
if grep -qi 'not used by the project' "$work/log"; then
    cat "$work/log"
    exit 1
fi
echo 'ok: the port of vcpkg, its functions played'
