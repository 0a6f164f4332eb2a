#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs a build, then builds and runs a program against it in every way that is offered.
#
#   tests/install/run.sh BUILD
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
checkout=$(cd "$here/../.." && pwd)
build=$(cd "$1" && pwd)
version=$(sed -n 's/^#define COFFER_VERSION_STRING "\(.*\)"$/\1/p' "$checkout/include/coffer/base.h")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

expect_version() { # expect_version WHAT COMMAND...: the command prints "coffer VERSION"
    local what=$1 said
    shift
    said=$("$@")
    if [ "$said" != "coffer $version" ]; then
        echo "$what: printed '$said', not 'coffer $version'" >&2
        exit 1
    fi
    echo "ok: $what"
}

expect_needed() { # expect_needed PROGRAM yes|no: whether it loads the shared library
    local needs=no
    if readelf -d "$1" | grep -q "NEEDED.*libcoffer\.so\.${version%.*}\]"; then
        needs=yes
    fi
    if [ "$needs" != "$2" ]; then
        echo "$1: needs libcoffer.so: $needs, wanted: $2" >&2
        exit 1
    fi
}

# ---- The install itself -----------------------------------------------------------------------------------------------

cmake --install "$build" --prefix "$prefix" >"$work/log"
libdir=$(dirname "$(find "$prefix" -name libcoffer.a)")

(cd "$prefix" && find . -type f -o -type l | sort) >"$work/installed"
DESTDIR=$work/stage cmake --install "$build" --prefix /opt/coffer >"$work/log"
(cd "$work/stage/opt/coffer" && find . -type f -o -type l | sort) >"$work/staged"
cmp "$work/installed" "$work/staged"
if grep -rIlF -e "$prefix" -e "$checkout" -e "$work" "$prefix" "$work/stage"; then
    echo 'the files above name the place where they were built or installed' >&2
    exit 1
fi
for file in bin/coffer include/coffer.h include/coffer/base.h include/coffer.hpp share/man/man1/coffer.1 \
    share/doc/coffer/LICENSE share/doc/coffer/THIRD_PARTY.txt share/doc/coffer/schemas/info.schema.json share/zsh/site-functions/_coffer share/bash-completion/completions/coffer share/fish/vendor_completions.d/coffer.fish; do
    [ -f "$prefix/$file" ] || { echo "not installed: $file" >&2; exit 1; }
done
[ "$(readlink "$libdir/libcoffer.so.${version%.*}")" = "libcoffer.so.$version" ]
echo 'ok: install, and the same with DESTDIR'

# A plain build needs no more than a compiler: what is missing for the tests is left out, not asked for.
PKG_CONFIG_LIBDIR=/nonexistent cmake -S "$checkout" -B "$work/plain" >"$work/log"
grep -q 'Without the unit tests' "$work/log"
echo 'ok: cmake -S . -B build without cmocka'

# "coffer VERSION" may be followed by more lines.
expect_version 'the installed command' sh -c '"$1" --version | head -n 1' sh "$prefix/bin/coffer"

# ---- CMake ------------------------------------------------------------------------------------------------------------

# Not optimised, as what is tried is how the parts find each other.
consume_by_cmake() { # consume_by_cmake WAY TARGET SHARED(yes|no) [COMPONENTS]
    local folder=$work/$1-${2//:/-}${4:+-${4/;/-}}
    cmake --no-warn-unused-cli -G Ninja -S "$here" -B "$folder" -DCMAKE_BUILD_TYPE=Debug -DCOFFER_WAY="$1" -DCOFFER_TARGET="$2" \
        -DCOFFER_CHECKOUT="$checkout" -DCOFFER_COMPONENTS="${4:-}" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" || { cat "$work/log"; exit 1; }
    cmake --build "$folder" --target consumer >"$work/log" || { cat "$work/log"; exit 1; }
    expect_version "$1, $2${4:+, components $4}" "$folder/consumer"
    expect_needed "$folder/consumer" "$3"
}

consume_by_cmake package coffer::coffer yes
consume_by_cmake package coffer::static no
[ "$(head -n 1 "$work/package-coffer--static/from-cli.txt")" = "coffer $version" ]
consume_by_cmake package coffer::coffer yes shared
consume_by_cmake package coffer::static no static
consume_by_cmake package coffer::static no 'static;cli'
[ "$(head -n 1 "$work/package-coffer--static-static-cli/from-cli.txt")" = "coffer $version" ]

refuses_component() { # refuses_component COMPONENT: clearly
    if cmake -G Ninja -S "$here" -B "$work/refused-$1" -DCOFFER_WAY=package -DCOFFER_TARGET=coffer::static \
        -DCOFFER_COMPONENTS="static;$1" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1; then
        echo "the package claims to have a component $1" >&2
        exit 1
    fi
    tr -s ' \n' ' ' <"$work/log" | grep -qF "There is no component \"$1\" here; installed are: $2." || { cat "$work/log"; exit 1; }
    echo "ok: package, no component $1"
}

refuses_component python 'shared, static, cli'
# As where the command is a package of its own.
mv "$prefix/bin/coffer" "$work/command"
refuses_component cli 'shared, static'
consume_by_cmake package coffer::static no 'static'
mv "$work/command" "$prefix/bin/coffer"

consume_by_cmake subdirectory coffer::coffer yes
consume_by_cmake subdirectory coffer::static no
consume_by_cmake fetch coffer::static no

# ---- pkg-config -------------------------------------------------------------------------------------------------------

export PKG_CONFIG_PATH=$libdir/pkgconfig
[ "$(pkg-config --modversion coffer)" = "$version" ]
# The words that pkg-config prints are options of the compiler, one each.
cc -std=c11 "$here/consumer.c" -o "$work/by-pkg-config" $(pkg-config --cflags --libs coffer)
expect_version 'pkg-config' env LD_LIBRARY_PATH="$libdir" "$work/by-pkg-config"
expect_needed "$work/by-pkg-config" yes
cc -std=c11 -static "$here/consumer.c" -o "$work/by-pkg-config-static" $(pkg-config --static --cflags --libs coffer)
expect_version 'pkg-config --static' "$work/by-pkg-config-static"

# ---- The headers, each alone ------------------------------------------------------------------------------------------

strict=(-pedantic -Wall -Wextra -Wconversion -Wshadow -Werror -I"$prefix/include")
grep -rho 'COFFER_[A-Z_]*_OPTIONS_INIT' "$prefix/include/coffer" | sort -u >"$work/initialisers"
while read -r initialiser; do
    grep -q "= $initialiser;" "$here/header_alone.c" || { echo "header_alone.c does not use $initialiser" >&2; exit 1; }
done <"$work/initialisers"
for compiler in gcc clang; do
    "$compiler" -x c -std=c11 "${strict[@]}" "$here/header_alone.c" -o "$work/header-c"
    "$work/header-c"
    "$compiler" -x c++ -std=c++17 "${strict[@]}" "$here/header_alone.c" -o "$work/header-c++"
    "$work/header-c++"
    (cd "$prefix/include" && ls coffer/*.h) >"$work/topics"
    while read -r topic; do
        echo "#include <$topic>" >"$work/topic.c"
        "$compiler" -x c -std=c11 "${strict[@]}" -fsyntax-only "$work/topic.c"
        "$compiler" -x c++ -std=c++17 "${strict[@]}" -fsyntax-only "$work/topic.c"
    done <"$work/topics"
    echo "ok: coffer.h and each of its $(wc -l <"$work/topics") topics alone, $compiler, as C11 and as C++17"
done
