# configure_project(<source folder> <options>...), build_project(<the same>): a project against the installed prefix, in
# WORK/build.
# run_program(<source file> <variable for what it printed>): a consumer of that one file with find_package(lockstep),
# built and run; linked to TARGETS, or lockstep::lockstep. Every step must succeed.

function(configure_project source)
  file(REMOVE_RECURSE "${WORK}/build")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -S "${source}" -B "${WORK}/build" -G "${GENERATOR}"
            "-DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM}" "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_PREFIX_PATH=${PREFIX}"
            ${ARGN}
    COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(build_project source)
  configure_project("${source}" ${ARGN})
  execute_process(COMMAND "${CMAKE_COMMAND}" --build "${WORK}/build" COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(run_program source result)
  build_project("${CONSUMER}" -DCMAKE_BUILD_TYPE=Release "-DPROGRAM=${source}" "-DTARGETS=${TARGETS}")
  execute_process(COMMAND "${WORK}/build/program" WORKING_DIRECTORY "${WORK}"
    OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  message("${output}")
  set(${result} "${output}" PARENT_SCOPE)
endfunction()
