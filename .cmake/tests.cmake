# lockstep_add_tests(<folder of tests/> LABEL <core, library, components, tools or long> LINK <targets>)
#
# One doctest program, tests_<folder>, of every .cpp below the folder; one entry of ctest. What it is told: where the
# tests' data lie (LOCKSTEP_TESTS_DIR) and, if it reads one, where a data set (LOCKSTEP_FASHION_MNIST_DIR) or the program
# (LOCKSTEP_PROGRAM) is: a definition that nobody reads would only make a compiler's cache miss.

# doctest's main and the shared test code, compiled once.
add_library(lockstep_test_main OBJECT support/main.cpp support/refused_memory.cpp)
target_link_libraries(lockstep_test_main PRIVATE lockstep_deps::doctest)
target_include_directories(lockstep_test_main PRIVATE "${PROJECT_SOURCE_DIR}")
file(GLOB_RECURSE support CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/support/*.cpp")
list(REMOVE_ITEM support "${CMAKE_CURRENT_SOURCE_DIR}/support/main.cpp"
  "${CMAKE_CURRENT_SOURCE_DIR}/support/refused_memory.cpp")
add_library(lockstep_test_support INTERFACE)
if(support)
  add_library(lockstep_test_support_static STATIC ${support})
  target_link_libraries(lockstep_test_support_static
    PRIVATE lockstep_headers lockstep_deps::doctest lockstep_deps::fmt)
  target_link_libraries(lockstep_test_support INTERFACE lockstep_test_support_static)
endif()

# Half of a build is its tests: they are optimised no further than a debugger likes, and read their heaviest headers once,
# those above every stage also the whole of Lockstep's.
function(lockstep_compile_quickly target links)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${target} PRIVATE -Og)
  endif()
  set(kind stage)
  set(headers "")
  if("lockstep_everything" IN_LIST links)
    set(kind everything)
    set(headers <lockstep/lockstep.h>)
  endif()
  # A target of their own: those who read them would wait for all of another's files.
  set(precompiled lockstep_tests_precompiled_${kind})
  if(NOT TARGET ${precompiled})
    add_library(${precompiled} OBJECT "${PROJECT_BINARY_DIR}/precompiled.cpp")
    target_link_libraries(${precompiled} PRIVATE lockstep_headers lockstep_deps::doctest lockstep_deps::fmt)
    if(CMAKE_BUILD_TYPE STREQUAL "Release")
      target_compile_options(${precompiled} PRIVATE -Og)
    endif()
    target_precompile_headers(${precompiled} PRIVATE <doctest/doctest.h> <algorithm> <array> <cmath> <cstdint> <functional>
      <map> <memory> <optional> <random> <span> <string> <string_view> <tuple> <unordered_map> <utility> <vector> ${headers})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${precompiled})
endfunction()

function(lockstep_add_tests folder)
  cmake_parse_arguments(PARSE_ARGV 1 tests "" "LABEL" "LINK")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp")
  if(NOT sources)
    return()
  endif()
  string(REPLACE "/" "_" target "tests_${folder}")
  add_executable(${target} ${sources})
  target_link_libraries(${target} PRIVATE lockstep_test_main lockstep_test_support ${tests_LINK} lockstep_headers
    lockstep_deps::doctest lockstep_deps::fmt Threads::Threads)
  foreach(library json zlib crypto)
    target_link_libraries(${target} PRIVATE lockstep_deps::${library})
  endforeach()
  target_compile_definitions(${target} PRIVATE LOCKSTEP_TESTS_DIR="${PROJECT_SOURCE_DIR}/tests")
  if(folder MATCHES "^(bad_inputs|cli|data|golden|train)$")
    target_compile_definitions(${target} PRIVATE LOCKSTEP_FASHION_MNIST_DIR="${LOCKSTEP_FASHION_MNIST_DIR}")
  endif()
  if(folder MATCHES "^(bad_inputs|cli|fuzz)$")
    target_link_libraries(${target} PRIVATE lockstep_cli)
  endif()
  if(folder MATCHES "^(bad_inputs|cli|start|system_faults)$")
    if(TARGET lockstep_program)
      target_compile_definitions(${target} PRIVATE LOCKSTEP_PROGRAM="$<TARGET_FILE:lockstep_program>")
      add_dependencies(${target} lockstep_program)
    endif()
  endif()

  lockstep_compile_quickly(${target} "${tests_LINK}")
  lockstep_add_entry(${folder} ${tests_LABEL} ${target})
endfunction()

# An entry of ctest that runs the test program `target`, with these arguments.
function(lockstep_add_entry name label target)
  add_test(NAME ${name} COMMAND ${target} ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 1500 SKIP_RETURN_CODE 77)
  lockstep_test_environment(${name})
endfunction()

# An entry that is not made here, so that ctest says so.
function(lockstep_add_skipped name label reason)
  add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "skipped: ${reason}")
  set_tests_properties(${name} PROPERTIES LABELS ${label} SKIP_REGULAR_EXPRESSION "^skipped: ")
endfunction()

# lockstep_add_variant(<folder> <isa> LABEL <label>)
#
# The tests of a folder once more, as the entry <folder>/<isa>: held to a lower set of instructions, avx2 or none. A
# processor that has no higher set than avx2 has that entry already.
function(lockstep_add_variant folder isa)
  cmake_parse_arguments(PARSE_ARGV 2 variant "" "LABEL" "")
  if(isa STREQUAL "avx2" AND EXISTS /proc/cpuinfo)
    file(STRINGS /proc/cpuinfo flags REGEX "^flags.* avx512f" LIMIT_COUNT 1)
    if(NOT flags)
      return()
    endif()
  endif()
  string(REPLACE "/" "_" target "tests_${folder}")
  lockstep_add_entry(${folder}/${isa} ${variant_LABEL} ${target})
  set_property(TEST ${folder}/${isa} APPEND PROPERTY ENVIRONMENT LOCKSTEP_MAX_ISA=${isa})
endfunction()

# Memory that ends at a page that may not be touched, for a test of kernels: what one reads or writes after an array
# crashes, and what it reads before it writes is NaN. Sanitizers have an allocator of their own.
function(lockstep_guard_memory test target)
  if(LOCKSTEP_SANITIZE OR NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
    return()
  endif()
  if(NOT TARGET lockstep_guarded_memory)
    add_library(lockstep_guarded_memory SHARED guarded/guarded_memory.cpp)
  endif()
  add_dependencies(${target} lockstep_guarded_memory)
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT
    "LD_PRELOAD=$<TARGET_FILE:lockstep_guarded_memory>" LOCKSTEP_SYSTEM_ALIGNMENT=1)
endfunction()

function(lockstep_test_environment test)
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT LOCKSTEP_VERIFY=1)  # ir::verify on both sides of every pass
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT LOCKSTEP_CHECK_KEYS=0)  # many draw from one key on purpose
  # OpenMP's threads sleep where they wait: a core that spins is taken from the tests that run at the same time.
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT OMP_WAIT_POLICY=passive)
  lockstep_sanitizer_environment(${test})
endfunction()

# Sanitizers are told about third parties, and about nothing of ours. They end no child of fork that starts threads, do not
# wait for others when the process ends, and refuse memory (support/refused_memory.cpp).
function(lockstep_sanitizer_environment test)
  set(refused "allocator_may_return_null=1:max_allocation_size_mb=65536")
  if(LOCKSTEP_SANITIZE MATCHES "thread")
    set(forks "die_after_fork=0:atexit_sleep_ms=0")
    set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:${forks}:\
${refused}:suppressions=${PROJECT_SOURCE_DIR}/.cmake/tsan.supp")
  elseif(LOCKSTEP_SANITIZE)
    set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT
      "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:${refused}" "UBSAN_OPTIONS=print_stacktrace=1")
  endif()
endfunction()
