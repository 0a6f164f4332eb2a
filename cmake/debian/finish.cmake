# SPDX-License-Identifier: Apache-2.0
#
# Run by cpack on what it has staged: compresses what Debian wants compressed, and strips the static library.
file(GLOB_RECURSE pages ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/coffer*.1 ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/changelog*)
foreach(page ${pages})
  execute_process(COMMAND gzip -9n ${page} COMMAND_ERROR_IS_FATAL ANY)
  file(CHMOD ${page}.gz PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
endforeach()
file(GLOB_RECURSE libraries ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/libcoffer.a)
foreach(library ${libraries})
  execute_process(COMMAND strip --strip-debug --remove-section=.comment --remove-section=.note ${library}
                  COMMAND_ERROR_IS_FATAL ANY)
endforeach()
