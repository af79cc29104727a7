# liblockstep: every built stage but cli, and every built backend, in one shared library; one more for each component;
# and the `lockstep` program. install.cmake says how they are installed.

include(GNUInstallDirs)
option(LOCKSTEP_BUNDLE "Install copies of the libraries that the system does not have, so that the prefix stands alone" ON)

get_property(stages GLOBAL PROPERTY lockstep_built_stages)
list(REMOVE_ITEM stages cli)
list(TRANSFORM stages PREPEND lockstep_ OUTPUT_VARIABLE stage_targets)
get_property(backends GLOBAL PROPERTY lockstep_built_backends)
get_property(communicators GLOBAL PROPERTY lockstep_built_communicators)
set(backend_targets ${backends} ${communicators})
list(TRANSFORM backend_targets PREPEND lockstep_backend_)

# For tests that need more than their own stage: all of it, statically, so that hidden symbols are there too.
get_property(modules GLOBAL PROPERTY lockstep_modules)
if(modules)
  list(APPEND backend_targets lockstep_backend_modules)
endif()
set(core_targets ${stage_targets} ${backend_targets} lockstep_backends)
get_property(components GLOBAL PROPERTY lockstep_components)
list(TRANSFORM components PREPEND lockstep_ OUTPUT_VARIABLE component_targets)
set(static_targets ${core_targets} ${component_targets})
list(JOIN static_targets "," group)
add_library(lockstep_everything INTERFACE)
target_link_libraries(lockstep_everything INTERFACE lockstep_headers "$<LINK_GROUP:RESCAN,${group}>")

if(NOT stages)
  return()
endif()
set(objects "")
foreach(target IN LISTS core_targets)
  list(APPEND objects "$<TARGET_OBJECTS:${target}>")
endforeach()
get_property(libraries GLOBAL PROPERTY lockstep_libraries)
list(REMOVE_DUPLICATES libraries)
# Copies lie in a folder of their own, found from wherever the prefix was moved to; without them, where the build found
# the libraries.
set(rpath "$ORIGIN/lockstep")
set(program_rpath "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/lockstep")
set(module_rpath "$ORIGIN/..")
if(NOT LOCKSTEP_BUNDLE)
  get_property(rpath GLOBAL PROPERTY lockstep_rpath)
  list(REMOVE_DUPLICATES rpath)
  set(program_rpath "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};${rpath}")
  set(module_rpath "${rpath}")
endif()
add_library(lockstep SHARED ${objects})
target_link_libraries(lockstep PRIVATE ${libraries})
target_include_directories(lockstep INTERFACE
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_compile_features(lockstep INTERFACE cxx_std_20)
set_target_properties(lockstep PROPERTIES
  LINKER_LANGUAGE CXX
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  INSTALL_RPATH "${rpath}")
# What is loaded by name in the build tree.
get_property(loaded GLOBAL PROPERTY lockstep_loaded_libraries)
list(TRANSFORM loaded REPLACE "/[^/]*$" "")
set_target_properties(lockstep PROPERTIES BUILD_RPATH "${loaded}")
list(TRANSFORM loaded PREPEND "LINKER:-rpath,")
target_link_options(lockstep_everything INTERFACE ${loaded})
add_library(lockstep::lockstep ALIAS lockstep)
if(modules)
  add_dependencies(lockstep ${modules})
  set_target_properties(${modules} PROPERTIES INSTALL_RPATH "${module_rpath}")
endif()

# lockstep::<component>, liblockstep_<component>.so.
set(component_libraries "")
foreach(component IN LISTS components)
  get_property(libraries GLOBAL PROPERTY lockstep_${component}_libraries)
  set(library lockstep_${component}_library)
  add_library(${library} SHARED $<TARGET_OBJECTS:lockstep_${component}>)
  add_library(lockstep::${component} ALIAS ${library})
  target_link_libraries(${library} PUBLIC lockstep PRIVATE ${libraries})
  set_target_properties(${library} PROPERTIES
    LINKER_LANGUAGE CXX
    EXPORT_NAME ${component}
    OUTPUT_NAME lockstep_${component}
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    INSTALL_RPATH "$ORIGIN;${rpath}")
  # What the core exports for components only is not there for others: an undefined symbol shows here, not at run time.
  target_link_options(${library} PRIVATE LINKER:--no-undefined)
  list(APPEND component_libraries ${library})
endforeach()
set_property(GLOBAL PROPERTY lockstep_component_libraries ${component_libraries})

# lockstep::aten: LibTorch, for users of <lockstep/aten.h>.
if(TARGET lockstep_deps::aten)
  add_library(lockstep_aten INTERFACE)
  target_link_libraries(lockstep_aten INTERFACE lockstep lockstep_deps::aten)
  add_library(lockstep::aten ALIAS lockstep_aten)
endif()

# lockstep::precompiled: lockstep.h, read once for all files of a target that links it.
add_library(lockstep_of_precompiled INTERFACE)
target_link_libraries(lockstep_of_precompiled INTERFACE lockstep)
target_precompile_headers(lockstep_of_precompiled INTERFACE <lockstep/lockstep.h>)
set_target_properties(lockstep_of_precompiled PROPERTIES EXPORT_NAME precompiled)
add_library(lockstep::precompiled ALIAS lockstep_of_precompiled)

# The public headers, read once for the programs of benches and docs, which users' programs are like.
add_library(lockstep_precompiled_public OBJECT "${PROJECT_BINARY_DIR}/precompiled.cpp")
target_link_libraries(lockstep_precompiled_public PRIVATE lockstep)
target_compile_options(lockstep_precompiled_public PRIVATE $<$<CONFIG:Release>:-O1>)
target_precompile_headers(lockstep_precompiled_public PRIVATE <lockstep/lockstep.h>)

# lockstep_add_document_program(<target> <sources>): one that shows something, and need not be quick.
function(lockstep_add_document_program target)
  get_property(component_libraries GLOBAL PROPERTY lockstep_component_libraries)
  add_executable(${target} ${ARGN})
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_link_libraries(${target} PRIVATE lockstep ${component_libraries})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/include")
  target_precompile_headers(${target} REUSE_FROM lockstep_precompiled_public)
endfunction()

if(EXISTS "${PROJECT_SOURCE_DIR}/engine/cli/main.cpp")
  add_executable(lockstep_program engine/cli/main.cpp)
  target_link_libraries(lockstep_program PRIVATE
    lockstep_headers lockstep_cli lockstep lockstep::vision lockstep::optim_contrib lockstep_deps::fmt
    lockstep_deps::cli11)
  target_compile_options(lockstep_program PRIVATE $<$<CONFIG:Release>:-O1>)
  add_executable(lockstep::program ALIAS lockstep_program)
  set_target_properties(lockstep_program PROPERTIES
    EXPORT_NAME program
    OUTPUT_NAME lockstep
    INSTALL_RPATH "${program_rpath}")
  if(PROJECT_IS_TOP_LEVEL)
    add_custom_target(train
      COMMAND ${CMAKE_COMMAND} -D "PROGRAM=$<TARGET_FILE:lockstep_program>" -D "RUNS=${PROJECT_BINARY_DIR}/runs"
              -P "${PROJECT_SOURCE_DIR}/.cmake/train.cmake"
      USES_TERMINAL VERBATIM)
  endif()
endif()
