# docs/examples/serve: what SERVE prints of the file that TRAIN writes is what the README says.

execute_process(COMMAND "${TRAIN}" "${FILE}" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${SERVE}" "${FILE}" OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
file(READ "${README}" text)
string(FIND "${text}" "```text\n${output}```\n" found)
if(output STREQUAL "" OR found EQUAL -1)
  message(FATAL_ERROR "it printed\n${output}\nwhich is not what ${README} says")
endif()
