# SPDX-License-Identifier: Apache-2.0
#
# What an install holds: both libraries, the headers, a CMake package, a pkg-config file and the command. All of it may be
# moved as a whole: nothing in it names the place where it was installed.
include(CMakePackageConfigHelpers)

set(coffer_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/coffer)

install(TARGETS coffer_shared coffer_static EXPORT coffer_targets)
install(FILES ${PROJECT_SOURCE_DIR}/include/coffer.h ${PROJECT_SOURCE_DIR}/include/coffer.hpp TYPE INCLUDE)
if(TARGET coffer_cli)
  install(TARGETS coffer_cli)
endif()

install(EXPORT coffer_targets NAMESPACE coffer:: FILE coffer-targets.cmake DESTINATION ${coffer_package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/coffer-config.cmake.in ${PROJECT_BINARY_DIR}/coffer-config.cmake
                              INSTALL_DESTINATION ${coffer_package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/coffer-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/coffer-config.cmake ${PROJECT_BINARY_DIR}/coffer-config-version.cmake
        DESTINATION ${coffer_package_dir})

# The file finds the prefix from its own place, unless a directory was given as an absolute path.
file(RELATIVE_PATH coffer_pc_to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
cmake_path(APPEND coffer_pc_libdir "\${prefix}" ${CMAKE_INSTALL_LIBDIR})
cmake_path(APPEND coffer_pc_includedir "\${prefix}" ${CMAKE_INSTALL_INCLUDEDIR})
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  set(coffer_pc_prefix ${CMAKE_INSTALL_PREFIX})
else()
  string(REGEX REPLACE "/$" "" coffer_pc_prefix "\${pcfiledir}/${coffer_pc_to_prefix}")
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/coffer.pc.in ${PROJECT_BINARY_DIR}/coffer.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/coffer.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
