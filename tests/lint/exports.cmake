# What the shared library exports: our own names, and nothing of the libraries inside it. A process may hold a second
# oneDNN; its symbols and ours must not meet.

cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND "${NM}" -D -C --defined-only "${LIBRARY}" OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]*dnnl[^\n]*" leaked "${output}")
if(leaked)
  list(JOIN leaked "\n  " leaked)
  message(FATAL_ERROR "oneDNN's names are exported:\n  ${leaked}")
endif()
if(NOT output MATCHES "lockstep::")
  message(FATAL_ERROR "${LIBRARY} exports nothing of lockstep")
endif()
