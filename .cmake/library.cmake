# liblockstep: every built stage but cli, and every built backend, in one shared library; the `lockstep` program on top of
# it; and how both are installed.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
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
set(static_targets ${stage_targets} ${backend_targets} lockstep_backends)
list(JOIN static_targets "," group)
add_library(lockstep_everything INTERFACE)
target_link_libraries(lockstep_everything INTERFACE lockstep_headers "$<LINK_GROUP:RESCAN,${group}>")

if(NOT stages)
  return()
endif()
set(objects "")
foreach(target IN LISTS static_targets)
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
add_library(lockstep::lockstep ALIAS lockstep)

# The public headers, read once for the programs of benches and docs, which users' programs are like.
add_library(lockstep_precompiled_public OBJECT "${CMAKE_BINARY_DIR}/precompiled.cpp")
target_link_libraries(lockstep_precompiled_public PRIVATE lockstep)
target_compile_options(lockstep_precompiled_public PRIVATE $<$<CONFIG:Release>:-O1>)
target_precompile_headers(lockstep_precompiled_public PRIVATE <lockstep/lockstep.h>)

# lockstep_add_document_program(<target> <sources>): one that shows something, and need not be quick.
function(lockstep_add_document_program target)
  add_executable(${target} ${ARGN})
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_link_libraries(${target} PRIVATE lockstep)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/include")
  target_precompile_headers(${target} REUSE_FROM lockstep_precompiled_public)
endfunction()

if(EXISTS "${PROJECT_SOURCE_DIR}/engine/cli/main.cpp")
  add_executable(lockstep_program engine/cli/main.cpp)
  target_link_libraries(lockstep_program PRIVATE
    lockstep_headers lockstep_cli lockstep lockstep_deps::fmt lockstep_deps::cli11)
  target_compile_options(lockstep_program PRIVATE $<$<CONFIG:Release>:-O1>)
  set_target_properties(lockstep_program PROPERTIES
    OUTPUT_NAME lockstep
    INSTALL_RPATH "${program_rpath}")
  install(TARGETS lockstep_program)
  add_custom_target(train
    COMMAND ${CMAKE_COMMAND} -D "PROGRAM=$<TARGET_FILE:lockstep_program>" -D "RUNS=${CMAKE_BINARY_DIR}/runs"
            -P "${PROJECT_SOURCE_DIR}/.cmake/train.cmake"
    USES_TERMINAL VERBATIM)
endif()

install(TARGETS lockstep EXPORT lockstep)
if(modules)
  add_dependencies(lockstep ${modules})
  set_target_properties(${modules} PROPERTIES INSTALL_RPATH "${module_rpath}")
  install(TARGETS ${modules} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/lockstep/backends")
endif()
install(DIRECTORY include/lockstep DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(FILES docs/notices.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
# What the package says of <lockstep/aten.h>: where ATen's headers and libraries are.
set(aten_include_dir "${LOCKSTEP_TORCH_INCLUDE_DIR}")
set(aten_library_dir "${LOCKSTEP_TORCH_INCLUDE_DIR}/../lib")
if(LOCKSTEP_BUNDLE)
  # A linker that is given a consumer's objects must find these too, or calls them undefined.
  target_link_options(lockstep INTERFACE
    "$<INSTALL_INTERFACE:LINKER:-rpath-link,$<INSTALL_PREFIX>/${CMAKE_INSTALL_LIBDIR}/lockstep>")
  list(TRANSFORM modules REPLACE "(.+)" "\"$<TARGET_FILE:\\1>\"" OUTPUT_VARIABLE module_files)
  list(JOIN module_files " " module_files)
  configure_file(.cmake/bundle.cmake.in bundle.in.cmake @ONLY)
  file(GENERATE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/bundle.cmake" INPUT "${CMAKE_CURRENT_BINARY_DIR}/bundle.in.cmake")
  install(SCRIPT "${CMAKE_CURRENT_BINARY_DIR}/bundle.cmake")
  set(aten_include_dir "${CMAKE_INSTALL_INCLUDEDIR}/lockstep-torch")
  set(aten_library_dir "${CMAKE_INSTALL_LIBDIR}/lockstep")
  if(LOCKSTEP_TORCH_INCLUDE_DIR)
    foreach(folder ATen c10 torch/headeronly)
      install(DIRECTORY "${LOCKSTEP_TORCH_INCLUDE_DIR}/${folder}/" DESTINATION "${aten_include_dir}/${folder}")
    endforeach()
  endif()
  # Copies of libraries take their licences along.
  set(licences "")
  foreach(package torch onednn fmt zlib openssl cuda)
    set(folder "${LOCKSTEP_DEPS_DIR}/${package}")
    file(GLOB found "${folder}/*.dist-info/LICENSE*" "${folder}/*.dist-info/licenses/*" "${folder}/usr/share/doc/*/copyright")
    list(APPEND licences ${found})
  endforeach()
  foreach(licence IN LISTS licences)
    file(RELATIVE_PATH place "${LOCKSTEP_DEPS_DIR}" "${licence}")
    string(REGEX REPLACE "/(usr/share/doc/)?" "-" place "${place}")
    install(FILES "${licence}" DESTINATION "${CMAKE_INSTALL_DOCDIR}/licences" RENAME "${place}")
  endforeach()
endif()
set(package "${CMAKE_INSTALL_LIBDIR}/cmake/lockstep")
install(EXPORT lockstep NAMESPACE lockstep:: FILE lockstep-targets.cmake DESTINATION "${package}")
configure_package_config_file(.cmake/lockstep-config.cmake.in lockstep-config.cmake INSTALL_DESTINATION "${package}"
  PATH_VARS aten_include_dir aten_library_dir)
write_basic_package_version_file(lockstep-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/lockstep-config.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/lockstep-config-version.cmake" DESTINATION "${package}")
