# docs/examples: PROGRAM, killed KILLS times at random moments and gone on with, ends with the fingerprint of the run
# that nothing stopped. STEPS are those of both.

file(REMOVE_RECURSE "${FOLDER}")

# What the program prints last: "fingerprint <hex>".
function(fingerprint_in output result)
  if(NOT output MATCHES "\nfingerprint ([0-9a-f]+)\n$")
    message(FATAL_ERROR "the last line is no fingerprint:\n${output}")
  endif()
  set(${result} "${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()

string(TIMESTAMP begin "%s%f")
execute_process(COMMAND "${PROGRAM}" --run "${FOLDER}/whole" --steps ${STEPS} OUTPUT_VARIABLE output
  COMMAND_ERROR_IS_FATAL ANY)
string(TIMESTAMP end "%s%f")
fingerprint_in("${output}" whole)
math(EXPR milliseconds "(${end} - ${begin}) / 1000")

# A run that ends before its moment comes is compared too, and another one begins, with earlier moments: the first run may
# have been slow because others ran beside it.
set(killed 0)
set(moments "")
foreach(attempt RANGE 1 200)
  string(RANDOM LENGTH 3 ALPHABET 0123456789 share)
  math(EXPR moment "${milliseconds} / 4 + ${milliseconds} * (1${share} - 1000) / 1000")
  math(EXPR thousandths "1000 + ${moment} % 1000")
  math(EXPR seconds "${moment} / 1000")
  string(SUBSTRING ${thousandths} 1 3 thousandths)
  set(limit TIMEOUT ${seconds}.${thousandths})
  if(killed EQUAL KILLS)
    set(limit "")
  endif()
  execute_process(COMMAND "${PROGRAM}" --run "${FOLDER}/killed" --steps ${STEPS} --resume ${limit}
    OUTPUT_VARIABLE output ERROR_VARIABLE error RESULT_VARIABLE result)
  if(result MATCHES "timeout")
    math(EXPR killed "${killed} + 1")
    list(APPEND moments ${moment})
    continue()
  endif()
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "killed after ${moments} ms, then: ${result}\n${error}")
  endif()
  fingerprint_in("${output}" fingerprint)
  if(NOT fingerprint STREQUAL whole)
    message(FATAL_ERROR "killed after ${moments} ms it ended with ${fingerprint}, without that with ${whole}")
  endif()
  if(killed EQUAL KILLS)
    break()
  endif()
  file(REMOVE_RECURSE "${FOLDER}/killed")
  list(APPEND moments ended)
  math(EXPR milliseconds "${milliseconds} * 3 / 4 + 1")
endforeach()
if(NOT killed EQUAL KILLS)
  message(FATAL_ERROR "killed ${killed} times of ${KILLS}: it ends too early to be killed")
endif()
file(REMOVE_RECURSE "${FOLDER}")
