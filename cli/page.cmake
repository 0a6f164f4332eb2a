# SPDX-License-Identifier: Apache-2.0
#
# The page that `coffer report` writes, compiled into the command. COFFER_PAGE says which: a file, OFF, or AUTO, which is
# build/web/index.html where that exists (and page.html in the source distribution of the Python package), else cli/page.html,
# which comes with the sources.
#
#   include(page.cmake)
#   coffer_embed_page(TARGET SOURCE)     TARGET gets a source that defines cli_page and cli_page_size, and SOURCE is
#                                        compiled with COFFER_PAGE defined; without a page neither is done
#
#   cmake -DPAGE=index.html -DOUTPUT=page.c -P page.cmake     writes that source
#
# It is an array of numbers, and neither the assembler's .incbin nor one long string: every compiler takes it as it is.
cmake_minimum_required(VERSION 3.16...3.25)

function(coffer_write_page page output)
  file(READ ${page} bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  set(marker 3c212d2d636f666665722d7265706f72742d2d3e) # <!--coffer-report-->
  string(REGEX REPLACE "(..)" "0x\\1," marker ${marker})
  string(REGEX MATCHALL ${marker} found "${bytes}")
  list(LENGTH found count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "${page} is not Coffer's page: it has the marker <!--coffer-report--> ${count} times, not once")
  endif()
  string(REPEAT "0x..," 32 line)
  string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
  file(
    WRITE ${output}
    "/* Made by cli/page.cmake. */\n#include <stddef.h>\n\n"
    "extern const unsigned char cli_page[];\nextern const size_t cli_page_size;\n\n"
    "const unsigned char cli_page[] = {\n${bytes}\n};\nconst size_t cli_page_size = sizeof cli_page;\n")
endfunction()

set(coffer_page_script ${CMAKE_CURRENT_LIST_FILE}) # this file, inside functions too

# Looked for at every build: the page comes, changes and goes without CMake being told.
function(coffer_embed_page target source)
  if(COFFER_PAGE STREQUAL "AUTO")
    file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/page.html ${PROJECT_SOURCE_DIR}/build/web/index.html)
    file(GLOB prebuilt CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cli/page.html)
    list(APPEND pages ${prebuilt})
    list(POP_FRONT pages page)
  elseif(COFFER_PAGE)
    get_filename_component(page ${COFFER_PAGE} ABSOLUTE BASE_DIR ${CMAKE_SOURCE_DIR})
  endif()
  if(NOT page)
    message(STATUS "Without the page of coffer report, which `make web` builds")
    return()
  endif()
  message(STATUS "With the page of coffer report: ${page}")
  set(made ${CMAKE_CURRENT_BINARY_DIR}/page.c)
  add_custom_command(
    OUTPUT ${made}
    COMMAND ${CMAKE_COMMAND} -DPAGE=${page} -DOUTPUT=${made} -P ${coffer_page_script}
    DEPENDS ${page} ${coffer_page_script}
    VERBATIM)
  target_sources(${target} PRIVATE ${made})
  set_source_files_properties(${source} PROPERTIES COMPILE_DEFINITIONS COFFER_PAGE)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  coffer_write_page(${PAGE} ${OUTPUT})
endif()
