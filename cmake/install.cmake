# SPDX-License-Identifier: Apache-2.0
#
# What an install holds, in three components, of which a system's packages are made (cmake/package.cmake):
#
#   runtime      the shared library
#   development  the static one, the headers, a CMake package and a pkg-config file
#   command      the command, its manual page, and completions for bash, zsh and fish
#
# All of it may be moved as a whole: nothing in it names the place where it was installed.
include(CMakePackageConfigHelpers)

set(COFFER_ZSH_DIR share/zsh/site-functions CACHE STRING "Where zsh looks for completions, below the prefix")
set(coffer_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/coffer)

# ---- The components ---------------------------------------------------------------------------------------------------

# Both libraries, unless BUILD_SHARED_LIBS says which, as package managers do.
set(coffer_parts)
if(BUILD_SHARED_LIBS OR NOT DEFINED BUILD_SHARED_LIBS)
  install(TARGETS coffer_shared EXPORT coffer_shared LIBRARY COMPONENT runtime NAMELINK_COMPONENT development)
  list(APPEND coffer_parts shared)
endif()
if(NOT BUILD_SHARED_LIBS)
  install(TARGETS coffer_static EXPORT coffer_static ARCHIVE COMPONENT development)
  list(APPEND coffer_parts static)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ TYPE INCLUDE COMPONENT development)
# The notices of what is compiled in have to go with it. A Debian package has them in its copyright file.
if(NOT COFFER_DEBIAN)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/THIRD_PARTY.txt DESTINATION ${CMAKE_INSTALL_DOCDIR}
          COMPONENT runtime)
endif()
if(TARGET coffer_cli)
  install(TARGETS coffer_cli EXPORT coffer_cli RUNTIME COMPONENT command)
  # What --json and --tsv write.
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/schemas DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/coffer COMPONENT command)
  list(APPEND coffer_parts cli)
endif()
if(TARGET coffer_manual)
  install(DIRECTORY ${coffer_manual_dir}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT command FILES_MATCHING PATTERN "*.1")
  install(FILES ${coffer_manual_dir}/coffer.bash RENAME coffer DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
          COMPONENT command)
  install(FILES ${coffer_manual_dir}/coffer.zsh RENAME _coffer DESTINATION ${COFFER_ZSH_DIR} COMPONENT command)
  install(FILES ${coffer_manual_dir}/coffer.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
          COMPONENT command)
endif()

# ---- The CMake package ------------------------------------------------------------------------------------------------

foreach(part ${coffer_parts})
  install(EXPORT coffer_${part} NAMESPACE coffer:: FILE coffer-${part}.cmake DESTINATION ${coffer_package_dir}
          COMPONENT development)
endforeach()
configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/coffer-config.cmake.in ${PROJECT_BINARY_DIR}/package/coffer-config.cmake
  INSTALL_DESTINATION ${coffer_package_dir} PATH_VARS CMAKE_INSTALL_BINDIR NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/coffer-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/coffer-config.cmake ${PROJECT_BINARY_DIR}/package/coffer-config-version.cmake
        DESTINATION ${coffer_package_dir} COMPONENT development)

# ---- The pkg-config file ----------------------------------------------------------------------------------------------
# It finds the prefix from its own place, unless a directory was given as an absolute path.

file(RELATIVE_PATH coffer_pc_to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
foreach(dir libdir includedir)
  string(TOUPPER CMAKE_INSTALL_${dir} given)
  if(IS_ABSOLUTE ${${given}})
    set(coffer_pc_${dir} ${${given}})
  else()
    set(coffer_pc_${dir} "\${prefix}/${${given}}")
  endif()
endforeach()
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  set(coffer_pc_prefix ${CMAKE_INSTALL_PREFIX})
else()
  string(REGEX REPLACE "/$" "" coffer_pc_prefix "\${pcfiledir}/${coffer_pc_to_prefix}")
endif()
list(TRANSFORM CMAKE_DL_LIBS PREPEND " -l" OUTPUT_VARIABLE coffer_pc_libs)
configure_file(${CMAKE_CURRENT_LIST_DIR}/coffer.pc.in ${PROJECT_BINARY_DIR}/coffer.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/coffer.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
