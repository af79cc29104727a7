# A program that one command compiles, with what pkg-config says of the core and of each component.

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/run_program.cmake")

string(REPLACE "," ";" COMPONENTS "${COMPONENTS}")
file(GLOB_RECURSE found "${PREFIX}/lib*/lockstep.pc")
get_filename_component(folder "${found}" DIRECTORY)
get_filename_component(libraries "${folder}" DIRECTORY)

# pkg_config(<variable> <arguments>...): what it prints, as a list.
function(pkg_config result)
  execute_process(COMMAND "${CMAKE_COMMAND}" -E env "PKG_CONFIG_PATH=${folder}" "${PKG_CONFIG}" ${ARGN}
    OUTPUT_VARIABLE output OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(output UNIX_COMMAND "${output}")
  set(${result} "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")
pkg_config(flags --cflags --libs lockstep)
execute_process(
  COMMAND "${COMPILER}" -std=c++20 "${CMAKE_CURRENT_LIST_DIR}/consumer/sum.cpp" -o "${WORK}/program" ${flags}
          "-Wl,-rpath,${libraries}"
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${WORK}/program" OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
if(NOT output STREQUAL "6\n")
  message(FATAL_ERROR "expected 6, found: ${output}")
endif()

pkg_config(version --modversion lockstep)
foreach(component IN LISTS COMPONENTS)
  pkg_config(flags --cflags --libs lockstep-${component})
  pkg_config(component_version --modversion lockstep-${component})
  if(NOT "-llockstep_${component}" IN_LIST flags OR NOT "-llockstep" IN_LIST flags OR
     NOT component_version STREQUAL version)
    message(FATAL_ERROR "lockstep-${component} ${component_version} beside ${version}: ${flags}")
  endif()
endforeach()
