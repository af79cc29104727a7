# run_program(<source file> <variable for what it printed>): installs the build into a fresh prefix, builds a consumer of
# that one file with find_package(lockstep), and runs it. Every step must succeed.

function(run_program source result)
  file(REMOVE_RECURSE "${WORK}/prefix" "${WORK}/build")
  execute_process(COMMAND "${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/prefix"
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -S "${CONSUMER}" -B "${WORK}/build" -G "${GENERATOR}"
            "-DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM}" "-DCMAKE_CXX_COMPILER=${COMPILER}" -DCMAKE_BUILD_TYPE=Release
            "-DCMAKE_PREFIX_PATH=${WORK}/prefix" "-DPROGRAM=${source}"
    COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${CMAKE_COMMAND}" --build "${WORK}/build" COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${WORK}/build/program" WORKING_DIRECTORY "${WORK}"
    OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  message("${output}")
  set(${result} "${output}" PARENT_SCOPE)
endfunction()
