# Each component alone: a program that finds it by find_package(lockstep COMPONENTS <name>) builds, links and runs.

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/run_program.cmake")

build_project("${CMAKE_CURRENT_LIST_DIR}/components" "-DCOMPONENTS=${COMPONENTS}")
set(vision "0.5")
set(text "0")
set(audio "DataError")
set(scientific "9")
set(optim_contrib "1")
set(exchange "0")
string(REPLACE "," ";" COMPONENTS "${COMPONENTS}")
foreach(component IN LISTS COMPONENTS)
  execute_process(COMMAND "${WORK}/build/uses_${component}" OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  if(NOT output STREQUAL "${component} ${${component}}\n")
    message(FATAL_ERROR "expected ${component} ${${component}}, found: ${output}")
  endif()
endforeach()
