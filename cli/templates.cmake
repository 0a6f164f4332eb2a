# SPDX-License-Identifier: Apache-2.0
#
# The completions' templates, compiled into the command, which `coffer completion` fills in.
#
#   include(templates.cmake)
#   coffer_embed_templates(TARGET)       TARGET gets a source that defines cli_template_bash, _zsh and _fish
#
#   cmake -DOUTPUT=templates.c -P templates.cmake     writes that source
cmake_minimum_required(VERSION 3.16...3.25)

set(coffer_templates_script ${CMAKE_CURRENT_LIST_FILE}) # this file, inside functions too
set(coffer_templates_dir ${CMAKE_CURRENT_LIST_DIR}/commands/completion)
set(coffer_templates bash zsh fish)

function(coffer_write_templates output)
  set(text "/* Made by cli/templates.cmake. */\n#include \"completion.h\"\n\n")
  foreach(shell ${coffer_templates})
    file(READ ${coffer_templates_dir}/coffer.${shell}.in bytes HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(REPEAT "0x..," 20 line)
    string(REGEX REPLACE "(${line})" "\\1\n    " bytes "${bytes}")
    string(APPEND text "const char cli_template_${shell}[] = {\n    ${bytes} 0,\n};\n")
  endforeach()
  file(WRITE ${output} "${text}")
endfunction()

function(coffer_embed_templates target)
  set(made ${CMAKE_CURRENT_BINARY_DIR}/templates.c)
  set(files)
  foreach(shell ${coffer_templates})
    list(APPEND files ${coffer_templates_dir}/coffer.${shell}.in)
  endforeach()
  add_custom_command(
    OUTPUT ${made}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${made} -P ${coffer_templates_script}
    DEPENDS ${files} ${coffer_templates_script}
    VERBATIM)
  target_sources(${target} PRIVATE ${made})
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  coffer_write_templates(${OUTPUT})
endif()
