# One target a folder.

# lockstep_add_stage(<folder of engine/> [DEPENDS <stages whose headers it may include>] [LIBRARIES <lockstep_deps::...>]
#                    [DEFINITIONS <NAME=value>] [PUBLIC_HEADERS_ONLY] [COMPONENT])
#
# A static library lockstep_<folder> of every .cpp below the folder, or an interface library while there is none. The
# edges are also what tests/lint checks #include lines against.
function(lockstep_add_stage name)
  cmake_parse_arguments(PARSE_ARGV 1 stage "PUBLIC_HEADERS_ONLY;COMPONENT" "" "DEPENDS;LIBRARIES;DEFINITIONS")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp")
  list(REMOVE_ITEM sources "${CMAKE_CURRENT_SOURCE_DIR}/cli/main.cpp")
  list(TRANSFORM stage_DEPENDS PREPEND lockstep_ OUTPUT_VARIABLE targets)
  if(sources)
    add_library(lockstep_${name} STATIC ${sources})
    target_link_libraries(lockstep_${name} PUBLIC lockstep_headers ${targets} PRIVATE ${stage_LIBRARIES})
    # ATen's operators are called in backends/aten alone.
    target_compile_definitions(lockstep_${name} PRIVATE TORCH_ASSERT_NO_OPERATORS ${stage_DEFINITIONS})
    target_precompile_headers(lockstep_${name} REUSE_FROM lockstep_precompiled)
    if(stage_COMPONENT)
      set_property(GLOBAL APPEND PROPERTY lockstep_components ${name})
      set_property(GLOBAL PROPERTY lockstep_${name}_libraries ${stage_LIBRARIES})
    else()
      set_property(GLOBAL APPEND PROPERTY lockstep_built_stages ${name})
      set_property(GLOBAL APPEND PROPERTY lockstep_libraries ${stage_LIBRARIES})
    endif()
  else()
    add_library(lockstep_${name} INTERFACE)
    target_link_libraries(lockstep_${name} INTERFACE lockstep_headers ${targets})
  endif()
  set_property(GLOBAL APPEND PROPERTY lockstep_stages ${name})
  if(stage_PUBLIC_HEADERS_ONLY)
    list(PREPEND stage_DEPENDS PUBLIC_HEADERS_ONLY)
  endif()
  set_property(GLOBAL APPEND_STRING PROPERTY lockstep_include_rules "set(may_include_${name} ${stage_DEPENDS})\n")
endfunction()

# lockstep_add_component(<as lockstep_add_stage>): a stage that is not in liblockstep; .cmake/library.cmake makes a shared
# library liblockstep_<folder> of it, on top of liblockstep.
function(lockstep_add_component name)
  lockstep_add_stage(${name} ${ARGN} COMPONENT)
endfunction()

# lockstep_add_backend(<folder of backends/> KIND backend|communicator [LIBRARIES <lockstep_deps::...>]
#                      [PRECOMPILE <headers>] [MODULE VERSION <version>])
#
# Built where the folder has sources and every library was found. It defines, in namespace lockstep::backend,
# make_<folder>_backend() or make_<folder>_communicator(). With MODULE the folder's sources become a shared object of their
# own, lockstep_module_<folder>, which is loaded when the first of its kernels is made; the static library then knows its
# version and what its kernels.def says.
function(lockstep_add_backend name)
  cmake_parse_arguments(PARSE_ARGV 1 backend "MODULE" "KIND;VERSION" "LIBRARIES;PRECOMPILE")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp")
  set(missing "")
  foreach(library IN LISTS backend_LIBRARIES)
    if(NOT TARGET ${library})
      list(APPEND missing ${library})
    endif()
  endforeach()
  if(NOT sources OR missing)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY lockstep_built_${backend_KIND}s ${name})
  set(target lockstep_backend_${name})
  if(backend_MODULE)
    set(target lockstep_module_${name})
    add_library(${target} MODULE ${sources})
    lockstep_add_module_backend(${name} "${backend_VERSION}")
  else()
    add_library(${target} STATIC ${sources})
    set_property(GLOBAL APPEND PROPERTY lockstep_libraries ${backend_LIBRARIES})
  endif()
  target_link_libraries(${target}
    PUBLIC lockstep_headers PRIVATE lockstep_deps::fmt ${backend_LIBRARIES} Threads::Threads)
  if(backend_PRECOMPILE AND NOT CMAKE_UNITY_BUILD)
    target_precompile_headers(${target} PRIVATE ${backend_PRECOMPILE})
  endif()
endfunction()

# What all modules share, made with the first one: lockstep_backend_modules, by which the library loads them, and
# lockstep_module_parts, what they are linked from beside their own sources. These are copies of parts of the library, the
# same functions in both; what a process has one of (blocks that are kept, threads, layers) must not be called there, and
# is given to modules by a table (backends/modules/module.h).
function(lockstep_prepare_modules)
  if(TARGET lockstep_module_parts)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/backends/modules/*.cpp")
  add_library(lockstep_backend_modules STATIC ${sources})
  target_link_libraries(lockstep_backend_modules PUBLIC lockstep_headers PRIVATE lockstep_deps::gomp ${CMAKE_DL_LIBS})
  set_property(GLOBAL APPEND PROPERTY lockstep_libraries lockstep_deps::gomp ${CMAKE_DL_LIBS})
  set(parts backends/cpu/cut_kernel backends/cpu/function_kernel backends/cpu/moves/moves
    backends/cpu/products/matrix_product engine/core/attrs engine/core/backend/array_view engine/core/backend/isa
    engine/core/current_layer engine/core/error engine/core/quoting engine/core/types/dtype engine/core/types/shape_type)
  list(TRANSFORM parts PREPEND "${PROJECT_SOURCE_DIR}/")
  list(TRANSFORM parts APPEND ".cpp")
  add_library(lockstep_module_parts STATIC ${parts})
  target_link_libraries(lockstep_module_parts PUBLIC lockstep_headers PRIVATE lockstep_deps::fmt)
  target_precompile_headers(lockstep_module_parts REUSE_FROM lockstep_precompiled)
  # A module and the library that loads it must be of one build.
  set(build "${PROJECT_VERSION}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
  foreach(target lockstep_backend_modules lockstep_module_parts)
    target_compile_definitions(${target} PUBLIC "LOCKSTEP_MODULE_BUILD=\"${build}\"")
  endforeach()
endfunction()

# The static library of a backend whose kernels are in the target lockstep_module_<name>.
function(lockstep_add_module_backend name version)
  lockstep_prepare_modules()
  set(file "${name}${CMAKE_SHARED_MODULE_SUFFIX}")
  configure_file("${PROJECT_SOURCE_DIR}/.cmake/module_backend.cpp.in" module_${name}.cpp @ONLY)
  add_library(lockstep_backend_${name} STATIC "${CMAKE_CURRENT_BINARY_DIR}/module_${name}.cpp")
  target_link_libraries(lockstep_backend_${name} PUBLIC lockstep_headers PRIVATE lockstep_backend_modules)
  add_dependencies(lockstep_backend_${name} lockstep_module_${name})
  target_link_libraries(lockstep_module_${name} PRIVATE lockstep_module_parts)
  target_link_options(lockstep_module_${name} PRIVATE LINKER:--exclude-libs,ALL LINKER:-z,defs)
  set_target_properties(lockstep_module_${name} PROPERTIES
    PREFIX "" OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/lockstep/backends")
  set_property(GLOBAL APPEND PROPERTY lockstep_modules lockstep_module_${name})
endfunction()

# What every source of ours sees: the public headers, and the repository's root for its own.
add_library(lockstep_headers INTERFACE)
target_include_directories(lockstep_headers INTERFACE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}")

# A first build says how long it takes, once its first libraries are there.
if(PROJECT_IS_TOP_LEVEL AND CMAKE_GENERATOR STREQUAL "Ninja")
  set(stamp "${PROJECT_BINARY_DIR}/estimate.stamp")
  add_custom_command(OUTPUT "${stamp}"
    COMMAND ${CMAKE_COMMAND} -D "LOG=${PROJECT_BINARY_DIR}/.ninja_log" -D "STAMP=${stamp}"
            -D "SECONDS=${PROJECT_SOURCE_DIR}/.cmake/build_seconds.txt" -P "${PROJECT_SOURCE_DIR}/.cmake/estimate.cmake"
    DEPENDS lockstep_core lockstep_processes lockstep_numerics lockstep_ir
    COMMENT "Foretelling how long this build takes" VERBATIM)
  add_custom_target(lockstep_build_estimate DEPENDS "${stamp}")
endif()

# Reading the standard library and fmt is a third of what a file of the engine takes; one target does it for all. It has
# no definitions: a file that lacks one of them could not use what was precompiled.
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/precompiled.cpp" CONTENT "")
add_library(lockstep_precompiled OBJECT "${PROJECT_BINARY_DIR}/precompiled.cpp")
target_link_libraries(lockstep_precompiled PRIVATE lockstep_deps::fmt)
target_precompile_headers(lockstep_precompiled PRIVATE
  <algorithm> <array> <cmath> <cstdint> <functional> <map> <memory> <numeric> <optional> <set> <span> <string>
  <string_view> <unordered_map> <utility> <variant> <vector> <fmt/format.h>)
