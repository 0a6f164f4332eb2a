# SPDX-License-Identifier: Apache-2.0
vcpkg_download_distfile(
  archive
  URLS "@RELEASES@/coffer-@VERSION@.tar.gz"
  FILENAME "coffer-@VERSION@.tar.gz"
  SHA512 @SHA512@)
vcpkg_extract_source_archive(source ARCHIVE "${archive}")

vcpkg_cmake_configure(
  SOURCE_PATH "${source}"
  OPTIONS -DBUILD_TESTING=OFF -DCOFFER_BUILD_CLI=OFF -DCOFFER_BUILD_BENCH=OFF -DCOFFER_BUILD_EXAMPLES=OFF
          -DCOFFER_BUILD_FUZZ=OFF -DCOFFER_PAGE=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/coffer)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${source}/LICENSE" "${source}/THIRD_PARTY.txt")
