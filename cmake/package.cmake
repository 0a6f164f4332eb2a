# SPDX-License-Identifier: Apache-2.0
#
# Debian packages, one for each component of the install, as that system divides libraries: libcoffer0.2 (the shared library),
# libcoffer-dev and coffer (the command). They belong to the build whose prefix is /usr: the preset `debian`.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME coffer)
set(CPACK_PACKAGE_VENDOR "The Coffer authors")
set(CPACK_PACKAGE_CONTACT "The Coffer authors <coffer@example.org>" CACHE STRING "Who answers for the packages")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
                                                WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL runtime development command)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/debian/finish.cmake)
set(CPACK_POST_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/debian/without_scripts.cmake)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(coffer_about
    "Coffer reads, checks, slices, edits and writes files of tensors in the\nsafetensors format, without a copy where the file is mapped. When a file\nis refused, the message says what is wrong, at which byte, and what to do."
)
set(coffer_runtime_package libcoffer${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME ${coffer_runtime_package})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "library for safetensors files\n${coffer_about}\n.\nThis package holds the shared library.")
# What it loads only where a digest or a URL needs it, and where an adapter is extracted.
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "libssl3, libcurl4 | libcurl3-gnutls")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "libopenblas0 | liblapack3")
# What programs that link with it depend on, and that the linker's cache has to know it.
file(WRITE ${PROJECT_BINARY_DIR}/debian/shlibs
     "libcoffer ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} ${coffer_runtime_package} (>= ${PROJECT_VERSION})\n")
file(WRITE ${PROJECT_BINARY_DIR}/debian/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/shlibs ${PROJECT_BINARY_DIR}/debian/triggers)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libcoffer-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "${coffer_runtime_package} (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION
    "library for safetensors files (development)\n${coffer_about}\n.\nThis package holds the static library and what is needed to build with either.")
set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME coffer)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_COMMAND_DESCRIPTION "look into, check and edit safetensors files\n${coffer_about}\n.\nThis package holds the command.")

# What Debian wants in the documentation's folder of each package; finish.cmake compresses it.
string(TIMESTAMP coffer_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(${CMAKE_CURRENT_LIST_DIR}/debian/changelog.in ${PROJECT_BINARY_DIR}/debian/changelog.Debian @ONLY)
foreach(component runtime development command)
  string(TOUPPER ${component} upper)
  set(doc ${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  install(FILES ${CMAKE_CURRENT_LIST_DIR}/debian/copyright ${PROJECT_BINARY_DIR}/debian/changelog.Debian DESTINATION ${doc}
          COMPONENT ${component})
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/CHANGELOG.md RENAME changelog DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/coffer COMPONENT command)

include(CPack)
