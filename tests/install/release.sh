#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A release, as tools/release/release.sh makes it of the commit that is checked out: every part is made, and made a second time elsewhere and
# compared, but the signature; and what can run here is used.
#
#   tests/install/release.sh BUILD
set -euo pipefail

build=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
checkout=$PWD
version=$(sed -n 's/^#define COFFER_VERSION_STRING "\(.*\)"$/\1/p' include/coffer/base.h)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "$*" >&2
    exit 1
}

# A clone, so that what is not committed yet does not hinder: it is committed there.
make_clone() { # make_clone FOLDER
    git clone -q "$checkout" "$1"
    git diff --binary HEAD | git -C "$1" apply --allow-empty
    git ls-files -z --others --exclude-standard | tar -cf - --null -T - | tar -C "$1" -xf -
    (
        cd "$1"
        export GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z'
        git add -A
        git -c user.name=test -c user.email=test@example.org commit -q --allow-empty -m 'To be released'
        mkdir build
        ln -s "$checkout"/build/{python-venv,zig-venv,zig-cache,port-headers} build
        ln -sfn "$checkout/bindings/js/node_modules" bindings/js/node_modules
        mkdir build/release
        ln -s "$build/coffer" build/release/coffer
    )
}

make_clone "$work/one"
make_clone "$work/a longer path/two"
openssl ecparam -name prime256v1 -genkey -noout -out "$work/key.pem"
openssl ec -in "$work/key.pem" -pubout -out "$work/key.pub" 2>/dev/null

COFFER_SIGN_KEY=$work/key.pem "$work/one/tools/release/release.sh"
dist=$work/one/dist
"$work/a longer path/two/tools/release/release.sh"
for file in "$work/a longer path/two/dist"/*; do
    cmp "$file" "$dist/$(basename "$file")"
done
echo 'ok: the same bytes, made elsewhere'

# ---- The set ----------------------------------------------------------------------------------------------------------

(cd "$dist" && sha256sum --quiet -c SHA256SUMS)
"$build/coffer" verify "$dist" --manifest "$dist/coffer.sig" --key "$work/key.pub"
python3 - "$dist" <<'END'
import hashlib, json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
document = json.loads(next(folder.glob("*.spdx.json")).read_text())
told = {file["fileName"][2:]: file["checksums"][1]["checksumValue"] for file in document["files"]}
there = {path.name for path in folder.iterdir()} - {"SHA256SUMS", "coffer.sig"} - {path.name for path in folder.glob("*.spdx.json")}
assert set(told) == there, set(told) ^ there
assert all(hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest for name, digest in told.items())
END
grep -q '^### Added' "$dist/RELEASE_NOTES.md"
! grep -E '\]\([^)]*\)' "$dist/RELEASE_NOTES.md" | grep -v '](https*://' || fail 'release notes that link to what is not there'
echo 'ok: digests, signature, contents and notes'

# ---- Using it ---------------------------------------------------------------------------------------------------------

# Neither a compiler nor CMake is looked for, and there is no index.
python3 -m venv "$work/venv"
env PATH="$work/venv/bin" PIP_NO_INDEX=1 "$work/venv/bin/pip" install --quiet "$dist"/*manylinux_2_17_x86_64.whl
"$work/venv/bin/coffer" check "$checkout"/tests/vectors/ok_*.safetensors >/dev/null
[ "$("$work/venv/bin/python" -c 'import coffer; print(coffer.__version__)')" = "$version" ]
build/python-venv/bin/python -m pip install --quiet --no-deps --target "$work/installed" "$dist"/*manylinux_2_17_x86_64.whl
(
    cd bindings/python/tests
    COFFER_SOURCE_DIR=$checkout COFFER_VECTORS=$checkout/tests/vectors PYTHONPATH=$work/installed \
        "$checkout/build/python-venv/bin/python" -m pytest -p no:cacheprovider -c ../pyproject.toml --rootdir .. -q test_*.py
)
echo 'ok: the wheel, installed without a compiler'

for machine in x86_64 aarch64; do
    tar -C "$work" -xf "$dist/coffer-$version-$machine-linux.tar.gz"
    command=$work/coffer-$version-$machine-linux/coffer
    ! readelf -d "$command" | grep -q NEEDED || fail "$command needs shared libraries"
    run=()
    [ "$machine" = "$(uname -m)" ] || run=("qemu-$machine")
    [ "$("${run[@]}" "$command" --version | head -n 1)" = "coffer $version" ]
    "${run[@]}" "$command" check "$checkout"/tests/vectors/ok_*.safetensors >/dev/null
    "${run[@]}" "$command" hash "$checkout/LICENSE" | sha256sum --quiet -c - || fail "$command computes another SHA-256"
    grep -q '^musl' "$(dirname "$command")/THIRD_PARTY.txt" || fail 'the notice of musl is missing'
    echo "ok: the command for $machine"
done

python3 -m zipfile -e "$dist/coffer-$version-x86_64-windows.zip" "$work"
command=$work/coffer-$version-x86_64-windows/coffer.exe
[ "$(tools/check/wine.sh "$command" --version </dev/null)" = "coffer $version" ]
tools/check/wine.sh "$command" check tests/vectors/ok_*.safetensors </dev/null >/dev/null
grep -q '^mingw-w64' "$(dirname "$command")/THIRD_PARTY.txt" || fail 'the notice of mingw-w64 is missing'
echo 'ok: the command for Windows, by Wine'
tests/install/wheel_arm64.sh "$dist"/*manylinux*_aarch64.whl
echo 'ok: the wheel for arm64, by qemu'
tests/install/wheel_chroot.sh bullseye "$dist"/*manylinux*_x86_64.whl
echo 'ok: the wheel, with an old glibc'
tests/install/wheel_chroot.sh musl "$dist"/*musllinux*_x86_64.whl
echo 'ok: the wheel for musl'
tests/install/wheel_windows.sh "$dist"/*-win_amd64.whl
echo 'ok: the wheel for Windows, by Wine'

tar -C "$work" -xf "$dist/coffer-packaging-$version.tar.gz"
! grep -rn '@[A-Z0-9]*@' "$work/packaging" || fail 'recipes with places that were not filled'
echo 'ok: the recipes are filled'
