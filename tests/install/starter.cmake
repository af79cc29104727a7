# docs/examples/starter, copied elsewhere and built as its README.md says, prints what that says.

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/run_program.cmake")

file(REMOVE_RECURSE "${WORK}")
file(COPY "${STARTER}/" DESTINATION "${WORK}/project")
build_project("${WORK}/project")
execute_process(COMMAND "${WORK}/build/starter" OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
file(READ "${STARTER}/README.md" text)
string(FIND "${text}" "It prints\n\n```text\n${output}```\n" found)
if(output STREQUAL "" OR found EQUAL -1)
  message(FATAL_ERROR "it printed\n${output}\nwhich is not what ${STARTER}/README.md says")
endif()
