# One header, one package: what an installed Lockstep asks of its user. And the bridge to ATen, with one target more.

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/run_program.cmake")

run_program("${CONSUMER}/main.cpp" output)
if(NOT output MATCHES "^[0-9]+\\.[0-9]+\\.[0-9]+\n$")
  message(FATAL_ERROR "expected a version, found: ${output}")
endif()

# By one compiler: LibTorch's headers take several seconds.
if(HAS_ATEN AND NOT WORK MATCHES "clang")
  set(TARGETS lockstep::aten)
  run_program("${CONSUMER}/tensors.cpp" output)
  if(NOT output STREQUAL "6 6\n")
    message(FATAL_ERROR "expected 6 6, found: ${output}")
  endif()
endif()
