# Every source is as .clang-format has it. Another version formats otherwise, so only 14 counts.

cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND "${CLANG_FORMAT}" --version OUTPUT_VARIABLE version)
if(NOT version MATCHES "version 14\\.")
  message("skipped: ${version} is not clang-format 14")
  return()
endif()
file(GLOB_RECURSE files
  "${SOURCE}/include/*.h" "${SOURCE}/engine/*.h" "${SOURCE}/engine/*.cpp" "${SOURCE}/backends/*.h"
  "${SOURCE}/backends/*.cpp" "${SOURCE}/backends/*.cu" "${SOURCE}/tests/*.h" "${SOURCE}/tests/*.cpp"
  "${SOURCE}/benches/*.h" "${SOURCE}/benches/*.cpp" "${SOURCE}/docs/*.cpp")
execute_process(COMMAND "${CLANG_FORMAT}" --dry-run --Werror -style=file ${files} RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "some sources are not formatted: clang-format -i <file>")
endif()
list(LENGTH files count)
message("${count} files are formatted")
