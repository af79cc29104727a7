# One header, one package: what an installed Lockstep asks of its user.

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/run_program.cmake")

run_program("${CONSUMER}/main.cpp" output)
if(NOT output MATCHES "^[0-9]+\\.[0-9]+\\.[0-9]+\n$")
  message(FATAL_ERROR "expected a version, found: ${output}")
endif()
