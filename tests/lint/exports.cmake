# What the shared library exports: our own names, and nothing of the libraries inside it. A process may hold a second
# oneDNN; its symbols and ours must not meet. Of a module: the one symbol that is looked up, so that the copies of parts of
# the library inside it meet nobody's, and none of what a process has one of.

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

foreach(module IN LISTS MODULES)
  execute_process(COMMAND "${NM}" -D -C --defined-only "${module}" OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  if(NOT output MATCHES "lockstep_module")
    message(FATAL_ERROR "${module} does not export lockstep_module")
  endif()
  string(REGEX MATCHALL "[^\n]*lockstep::[^\n]*" leaked "${output}")
  if(leaked)
    list(JOIN leaked "\n  " leaked)
    message(FATAL_ERROR "${module} exports copies of what is the library's:\n  ${leaked}")
  endif()
  execute_process(COMMAND "${NM}" -C --defined-only "${module}" OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  set(state "lockstep::(take_block|give_block|backend::(allocate_aligned|release_reusable_memory|on_waiting_threads))\\(")
  if(output MATCHES "[^\n]*${state}[^\n]*")
    message(FATAL_ERROR "${module} has a copy of what a process has one of:\n  ${CMAKE_MATCH_0}")
  endif()
endforeach()
