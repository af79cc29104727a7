# PROGRAM prints what the file EXPECTED says.
execute_process(COMMAND "${PROGRAM}" OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
file(READ "${EXPECTED}" expected)
if(NOT printed STREQUAL expected)
  message(FATAL_ERROR "expected\n${expected}\nbut it printed\n${printed}")
endif()
