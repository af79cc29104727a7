# docs/examples: PROGRAM in two parts, the second of which goes on from the first, ends with the fingerprint of the run
# in one part. STEPS are those of the whole.

file(REMOVE_RECURSE "${FOLDER}")
math(EXPR half "${STEPS} / 2")

# What the program prints last: "fingerprint <hex>".
function(fingerprint_of run steps result)
  execute_process(COMMAND "${PROGRAM}" --run "${FOLDER}/${run}" --steps ${steps} ${ARGN} OUTPUT_VARIABLE output
    COMMAND_ERROR_IS_FATAL ANY)
  if(NOT output MATCHES "\nfingerprint ([0-9a-f]+)\n$")
    message(FATAL_ERROR "the last line is no fingerprint:\n${output}")
  endif()
  set(${result} "${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()

fingerprint_of(whole ${STEPS} whole)
fingerprint_of(parts ${half} first_half)
fingerprint_of(parts ${STEPS} parts --resume)
if(NOT parts STREQUAL whole)
  message(FATAL_ERROR "resumed at step ${half} of ${STEPS} it ended with ${parts}, without interruption with ${whole}")
endif()
if(first_half STREQUAL whole)
  message(FATAL_ERROR "step ${half} has the fingerprint of step ${STEPS}: nothing was trained behind it")
endif()
file(REMOVE_RECURSE "${FOLDER}")
