# SPDX-License-Identifier: Apache-2.0
#
# Run by cpack on the packages that it has made: takes out the scripts that it adds to a package with a shared library. They call
# ldconfig, which the package's trigger has the system do by itself. What is left there is read and not run, whatever modes this
# version of cpack gives it.
foreach(package ${CPACK_PACKAGE_FILES})
  set(folder ${package}.unpacked)
  execute_process(COMMAND dpkg-deb --raw-extract ${package} ${folder} COMMAND_ERROR_IS_FATAL ANY)
  file(REMOVE ${folder}/DEBIAN/postinst ${folder}/DEBIAN/postrm)
  file(GLOB controls ${folder}/DEBIAN/*)
  file(CHMOD ${controls} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  execute_process(COMMAND dpkg-deb --root-owner-group --build ${folder} ${package} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  file(REMOVE_RECURSE ${folder})
endforeach()
