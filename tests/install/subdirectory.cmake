# A project that has Lockstep as a part of it, by WAY: it stays as it was, and its program links. The core is built, or
# with WHOLE all that the program needs.

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/run_program.cmake")

file(REMOVE_RECURSE "${WORK}")
file(COPY "${CMAKE_CURRENT_LIST_DIR}/parent/CMakeLists.txt" DESTINATION "${WORK}/parent")
set(options "-DWAY=${WAY}" "-DLOCKSTEP=${LOCKSTEP}" "-DLOCKSTEP_DEPS_DIR=${DEPS}" "-DCONSUMER=${CONSUMER}"
  "-DWHOLE=${WHOLE}" "-DATEN=${HAS_ATEN}" -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=24
  "-DFETCHCONTENT_SOURCE_DIR_LOCKSTEP=${LOCKSTEP}" --no-warn-unused-cli)
set(PREFIX "")
configure_project("${WORK}/parent" ${options})
if(BUILT)
  execute_process(COMMAND "${CMAKE_COMMAND}" --build "${WORK}/build" --target program COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${WORK}/build/program" OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  if(NOT output MATCHES "^[0-9]+\\.[0-9]+\\.[0-9]+\n$")
    message(FATAL_ERROR "expected a version, found: ${output}")
  endif()
endif()

# Nothing of Lockstep's lies in the other project's folders.
file(GLOB sources RELATIVE "${WORK}/parent" "${WORK}/parent/*")
file(GLOB built RELATIVE "${WORK}/build" "${WORK}/build/bin" "${WORK}/build/lib" "${WORK}/build/*.cpp" "${WORK}/build/deps")
if(NOT sources STREQUAL "CMakeLists.txt" OR built)
  message(FATAL_ERROR "Lockstep wrote into the folders of the project that it is a part of: ${sources}, ${built}")
endif()
# It has no tests there and installs nothing.
execute_process(COMMAND "${CMAKE_CTEST_COMMAND}" -N WORKING_DIRECTORY "${WORK}/build" OUTPUT_VARIABLE tests
  COMMAND_ERROR_IS_FATAL ANY)
if(NOT tests MATCHES "Total Tests: 1\n")
  message(FATAL_ERROR "the project has one test, found: ${tests}")
endif()
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${WORK}/build" --prefix "${WORK}/prefix" OUTPUT_QUIET
  COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE installed "${WORK}/prefix/*")
if(installed)
  message(FATAL_ERROR "a project that installs nothing has installed ${installed}")
endif()
