# One header, one package: what an installed Lockstep asks of its user. And the bridge to ATen, with one target more; ATen's
# kernels without it, from the moved prefix, and from a copy of the library that has no modules beside it.

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/run_program.cmake")

run_program("${CONSUMER}/main.cpp" output)
if(NOT output MATCHES "^[0-9]+\\.[0-9]+\\.[0-9]+\n$")
  message(FATAL_ERROR "expected a version, found: ${output}")
endif()

set(TARGETS lockstep::precompiled)
run_program("${CONSUMER}/main.cpp" output)
file(GLOB_RECURSE precompiled "${WORK}/build/cmake_pch.hxx*")
if(NOT precompiled)
  message(FATAL_ERROR "lockstep::precompiled has precompiled nothing")
endif()
set(TARGETS "")

# By one compiler: LibTorch's headers take several seconds.
if(HAS_ATEN AND NOT WORK MATCHES "clang")
  run_program("${CONSUMER}/module.cpp" output)
  if(NOT output STREQUAL "13\n5\n")
    message(FATAL_ERROR "expected 13 and 5, found: ${output}")
  endif()
  file(GLOB library "${PREFIX}/lib*/liblockstep.so*")
  file(GLOB others "${PREFIX}/lib*/lockstep")
  file(REMOVE_RECURSE "${WORK}/lib")
  file(COPY ${library} DESTINATION "${WORK}/lib")
  execute_process(COMMAND "${CMAKE_COMMAND}" -E env "LD_LIBRARY_PATH=${WORK}/lib:${others}" "${WORK}/build/program"
    OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  set(expected "13\nsvd: its kernel is in the module of the aten backend, ${WORK}/lib/lockstep/backends/aten.so, which does "
    "not load: .*No such file.* \\(at module.cpp:11\\)\n$")
  list(JOIN expected "" expected)
  if(NOT output MATCHES "^${expected}")
    message(FATAL_ERROR "expected ${expected}, found: ${output}")
  endif()

  set(TARGETS lockstep::aten)
  run_program("${CONSUMER}/tensors.cpp" output)
  if(NOT output STREQUAL "6 6\n")
    message(FATAL_ERROR "expected 6 6, found: ${output}")
  endif()
endif()
