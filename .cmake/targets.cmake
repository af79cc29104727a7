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
    # at::Tensor may own storage, but ATen's operators are called in backends/aten alone.
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
#                      [PRECOMPILE <headers>])
#
# Built where the folder has sources and every library was found. It defines, in namespace lockstep::backend,
# make_<folder>_backend() or make_<folder>_communicator().
function(lockstep_add_backend name)
  cmake_parse_arguments(PARSE_ARGV 1 backend "" "KIND" "LIBRARIES;PRECOMPILE")
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
  add_library(lockstep_backend_${name} STATIC ${sources})
  target_link_libraries(lockstep_backend_${name}
    PUBLIC lockstep_headers PRIVATE lockstep_deps::fmt ${backend_LIBRARIES} Threads::Threads)
  if(backend_PRECOMPILE)
    target_precompile_headers(lockstep_backend_${name} PRIVATE ${backend_PRECOMPILE})
  endif()
  set_property(GLOBAL APPEND PROPERTY lockstep_built_${backend_KIND}s ${name})
  set_property(GLOBAL APPEND PROPERTY lockstep_libraries ${backend_LIBRARIES})
endfunction()

# What every source of ours sees: the public headers, and the repository's root for its own.
add_library(lockstep_headers INTERFACE)
target_include_directories(lockstep_headers INTERFACE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}")

# Reading the standard library and fmt is a third of what a file of the engine takes; one target does it for all. It has
# no definitions: a file that lacks one of them could not use what was precompiled.
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/precompiled.cpp" CONTENT "")
add_library(lockstep_precompiled OBJECT "${PROJECT_BINARY_DIR}/precompiled.cpp")
target_link_libraries(lockstep_precompiled PRIVATE lockstep_deps::fmt)
target_precompile_headers(lockstep_precompiled PRIVATE
  <algorithm> <array> <cmath> <cstdint> <functional> <map> <memory> <numeric> <optional> <set> <span> <string>
  <string_view> <unordered_map> <utility> <variant> <vector> <fmt/format.h>)
