# The prefix of the other tests: installed, then moved, so that nothing of it may know where it was.

file(REMOVE_RECURSE "${WORK}" "${PREFIX}")
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}"
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(RENAME "${WORK}" "${PREFIX}")
