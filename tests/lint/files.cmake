# Files have names that say something, and an end in sight; so have tests.

cmake_minimum_required(VERSION 3.25)

set(longest 500)
file(GLOB_RECURSE files RELATIVE "${SOURCE}"
  "${SOURCE}/include/*" "${SOURCE}/engine/*" "${SOURCE}/backends/*" "${SOURCE}/tests/*" "${SOURCE}/benches/*"
  "${SOURCE}/docs/*" "${SOURCE}/.cmake/*")
set(broken 0)
foreach(file IN LISTS files)
  if(file MATCHES "(^|[/_-])(util|utils|helper|helpers|common|misc)([/_.-]|$)")
    message("${file}: the name does not say what is inside")
    math(EXPR broken "${broken} + 1")
  endif()
  if(file MATCHES "\\.(h|cpp|cu|cmake|py|def|txt)$" AND NOT file MATCHES "^tests/golden/.*\\.txt$")
    file(READ "${SOURCE}/${file}" text)
    string(REGEX REPLACE "[^\n]" "" newlines "${text}")
    string(LENGTH "${newlines}" lines)
    if(lines GREATER longest)
      message("${file}: ${lines} lines, at most ${longest}")
      math(EXPR broken "${broken} + 1")
    endif()
    # Numbers of docs/acceptance.md stand before a sentence.
    string(REGEX REPLACE "\"T[0-9][0-9](, T[0-9][0-9])*: [^\" ]+ [^\" ]+ [^\" ]+" "\"" text "${text}")
    if(file MATCHES "^tests/.*\\.(h|cpp)$" AND text MATCHES "(\"|// )[A-Z][0-9][0-9]+[:\n ]")
      message("${file}: a test is named by a number (${CMAKE_MATCH_0}); say in a sentence what holds")
      math(EXPR broken "${broken} + 1")
    endif()
    # Streams follow links and wait for FIFOs. What the system itself offers is in one file.
    if(file MATCHES "^engine/.*\\.(h|cpp)$" AND NOT file STREQUAL "engine/api/processes/machine.cpp"
        AND text MATCHES "std::[io]?fstream|[^_a-z]fopen\\(|gzopen\\(")
      message("${file}: opens a file by itself (${CMAKE_MATCH_0}); engine/files/open_file.h does so for all")
      math(EXPR broken "${broken} + 1")
    endif()
    if(file MATCHES "^tests/.*\\.cpp$" AND NOT file MATCHES "_test\\.cpp$" AND text MATCHES "\nTEST_CASE\\(")
      message("${file}: files with test cases are named <what>_test.cpp")
      math(EXPR broken "${broken} + 1")
    endif()
  endif()
endforeach()

# What lies at the top. Dotfiles and the build folder aside, nothing is added without a reason.
file(GLOB top RELATIVE "${SOURCE}" "${SOURCE}/*")
foreach(entry IN LISTS top)
  if(NOT entry MATCHES "^(\\..*|CMakeLists\\.txt|CMakePresets\\.json|CMakeUserPresets\\.json|README\\.md|build|compile_commands\\.json)$"
      AND NOT entry MATCHES "^(include|engine|backends|tests|benches|docs)$")
    message("${entry}: does not belong at the top of the repository")
    math(EXPR broken "${broken} + 1")
  endif()
endforeach()

list(LENGTH files count)
if(count EQUAL 0)
  message(FATAL_ERROR "no file was seen below ${SOURCE}: this test looks in the wrong place")
endif()
if(broken GREATER 0)
  message(FATAL_ERROR "${broken} complaints about ${count} files")
endif()
message("${count} files are in order")
