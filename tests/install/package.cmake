# What cpack packs, unpacked elsewhere: it is what is installed, and a program finds it and runs.

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/run_program.cmake")

# Files of a folder and their links, by name.
function(files_below folder result)
  file(GLOB_RECURSE files RELATIVE "${folder}" "${folder}/*")
  set(${result} "${files}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")
# zstd, since gzip takes half a minute for LibTorch.
execute_process(COMMAND "${CPACK}" --config "${BUILD}/CPackConfig.cmake" -G TZST -B "${WORK}/packed"
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(GLOB archive "${WORK}/packed/*.tar.zst")
file(ARCHIVE_EXTRACT INPUT "${archive}" DESTINATION "${WORK}/unpacked")
file(GLOB unpacked "${WORK}/unpacked/*")
file(REMOVE_RECURSE "${WORK}/packed")

files_below("${PREFIX}" installed)
files_below("${unpacked}" packed)
if(NOT packed STREQUAL installed)
  list(REMOVE_ITEM packed ${installed})
  message(FATAL_ERROR "the package has other files than what is installed, among them: ${packed}")
endif()
set(PREFIX "${unpacked}")
string(REPLACE "," ";" COMPILERS "${COMPILERS}")
foreach(COMPILER IN LISTS COMPILERS)
  run_program("${CONSUMER}/sum.cpp" output)
  if(NOT output STREQUAL "6\n")
    message(FATAL_ERROR "expected 6, found: ${output}")
  endif()
endforeach()
file(REMOVE_RECURSE "${WORK}/unpacked")
