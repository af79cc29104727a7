# What is installed and packaged, in install components: runtime (liblockstep and copies of what it needs), one for each
# component's library, tools (the program), development (headers, package files) and aten (ATen's headers).

include(CMakePackageConfigHelpers)

get_property(components GLOBAL PROPERTY lockstep_components)
get_property(modules GLOBAL PROPERTY lockstep_modules)
set(package "${CMAKE_INSTALL_LIBDIR}/cmake/lockstep")

# lockstep_install_exported(<targets> <name of the export set and the file> <install component> <of its link and file>)
function(lockstep_install_exported targets name component development)
  install(TARGETS ${targets} EXPORT ${name}
    RUNTIME COMPONENT ${component}
    LIBRARY COMPONENT ${component} NAMELINK_COMPONENT ${development})
  install(EXPORT ${name} NAMESPACE lockstep:: FILE ${name}-targets.cmake DESTINATION "${package}"
    COMPONENT ${development})
endfunction()

lockstep_install_exported("lockstep;lockstep_of_precompiled" lockstep runtime development)
foreach(component IN LISTS components)
  lockstep_install_exported(lockstep_${component}_library lockstep-${component} ${component} ${component})
endforeach()
if(TARGET lockstep_program)
  lockstep_install_exported(lockstep_program lockstep-tools tools tools)
endif()
if(modules)
  install(TARGETS ${modules} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/lockstep/backends" COMPONENT runtime)
endif()

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/lockstep" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  COMPONENT development)
install(FILES "${PROJECT_SOURCE_DIR}/docs/notices.md" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT runtime)

# Copies of libraries, and ATen's headers for users of <lockstep/aten.h>.
set(aten_include_dir "${LOCKSTEP_TORCH_INCLUDE_DIR}")
set(aten_library_dir "${LOCKSTEP_TORCH_INCLUDE_DIR}/../lib")
set(rpath_link "")
if(LOCKSTEP_BUNDLE)
  # A linker that is given a consumer's objects must find these too, or calls them undefined.
  target_link_options(lockstep INTERFACE
    "$<INSTALL_INTERFACE:LINKER:-rpath-link,$<INSTALL_PREFIX>/${CMAKE_INSTALL_LIBDIR}/lockstep>")
  set(rpath_link "-Wl,-rpath-link,\${libdir}/lockstep")
  set(bundled "")
  foreach(target lockstep ${modules})
    string(APPEND bundled " \"$<TARGET_FILE:${target}>\"")
  endforeach()
  foreach(component IN LISTS components)
    string(APPEND bundled " \"$<TARGET_FILE:lockstep_${component}_library>\"")
  endforeach()
  get_property(loaded GLOBAL PROPERTY lockstep_loaded_libraries)
  list(TRANSFORM loaded REPLACE "(.+)" "\"\\1\"")
  list(JOIN loaded " " loaded)
  string(APPEND bundled " ${loaded}")
  configure_file("${PROJECT_SOURCE_DIR}/.cmake/bundle.cmake.in" bundle.in.cmake @ONLY)
  file(GENERATE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/bundle.cmake" INPUT "${CMAKE_CURRENT_BINARY_DIR}/bundle.in.cmake")
  install(SCRIPT "${CMAKE_CURRENT_BINARY_DIR}/bundle.cmake" COMPONENT runtime)
  set(aten_include_dir "${CMAKE_INSTALL_INCLUDEDIR}/lockstep-torch")
  set(aten_library_dir "${CMAKE_INSTALL_LIBDIR}/lockstep")
  if(LOCKSTEP_TORCH_INCLUDE_DIR)
    foreach(folder ATen c10 torch/headeronly)
      install(DIRECTORY "${LOCKSTEP_TORCH_INCLUDE_DIR}/${folder}/" DESTINATION "${aten_include_dir}/${folder}"
        COMPONENT aten)
    endforeach()
  endif()
  # Copies of libraries take their licences along; some have theirs in the first comment of a header only.
  set(licences "")
  file(GLOB folders "${LOCKSTEP_DEPS_DIR}/torch" "${LOCKSTEP_DEPS_DIR}/onednn" "${LOCKSTEP_DEPS_DIR}/openssl"
    "${LOCKSTEP_DEPS_DIR}/cuda")
  foreach(folder IN LISTS folders)
    file(GLOB found "${folder}/*.dist-info/LICENSE*" "${folder}/*.dist-info/licenses/*"
      "${folder}/usr/share/doc/*/copyright")
    list(APPEND licences ${found})
  endforeach()
  file(GLOB headers "${LOCKSTEP_DEPS_DIR}/fmt-*/include/fmt/format.h" "${LOCKSTEP_DEPS_DIR}/zlib-*/include/zlib.h")
  foreach(header IN LISTS headers)
    file(READ "${header}" text LIMIT 6000)
    string(FIND "${text}" "*/" end)
    string(SUBSTRING "${text}" 0 ${end} text)
    file(RELATIVE_PATH place "${LOCKSTEP_DEPS_DIR}" "${header}")
    string(REGEX REPLACE "/.*" "" place "${place}")
    file(CONFIGURE OUTPUT "licences/${place}-LICENSE" CONTENT "${text}*/\n" @ONLY)
    install(FILES "${CMAKE_CURRENT_BINARY_DIR}/licences/${place}-LICENSE"
      DESTINATION "${CMAKE_INSTALL_DOCDIR}/licences" COMPONENT runtime)
  endforeach()
  foreach(licence IN LISTS licences)
    file(RELATIVE_PATH place "${LOCKSTEP_DEPS_DIR}" "${licence}")
    string(REGEX REPLACE "/(usr/share/doc/)?" "-" place "${place}")
    install(FILES "${licence}" DESTINATION "${CMAKE_INSTALL_DOCDIR}/licences" RENAME "${place}" COMPONENT runtime)
  endforeach()
endif()

# find_package(lockstep)
configure_package_config_file("${PROJECT_SOURCE_DIR}/.cmake/lockstep-config.cmake.in" lockstep-config.cmake
  INSTALL_DESTINATION "${package}" PATH_VARS aten_include_dir aten_library_dir)
write_basic_package_version_file(lockstep-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/lockstep-config.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/lockstep-config-version.cmake" DESTINATION "${package}" COMPONENT development)

# pkg-config lockstep, and lockstep-<component>
file(RELATIVE_PATH pc_prefix "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
# lockstep_install_pkg_config(<name> <library> <install component> <Requires:> <what it is>)
function(lockstep_install_pkg_config name library component requires described)
  if(requires STREQUAL "")
    set(cflags "-I\${includedir}")
  endif()
  configure_file("${PROJECT_SOURCE_DIR}/.cmake/lockstep.pc.in" ${name}.pc @ONLY)
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/${name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig"
    COMPONENT ${component})
endfunction()
lockstep_install_pkg_config(lockstep lockstep development "" "${PROJECT_DESCRIPTION}")
foreach(component IN LISTS components)
  lockstep_install_pkg_config(lockstep-${component} lockstep_${component} ${component}
    "lockstep = ${PROJECT_VERSION}" "${PROJECT_DESCRIPTION}: ${component}")
endforeach()

# cpack -G TGZ packs everything in one archive, cpack -G DEB each install component as a package of its own.
if(PROJECT_IS_TOP_LEVEL)
  set(CPACK_GENERATOR TGZ DEB)
  set(CPACK_PACKAGE_NAME lockstep)
  set(CPACK_PACKAGE_VENDOR Lockstep)
  set(CPACK_PACKAGE_CONTACT "the developers of Lockstep <lockstep@localhost>")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
  set(CPACK_PACKAGE_FILE_NAME "lockstep-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}")
  set(CPACK_PACKAGE_CHECKSUM SHA256)
  set(CPACK_VERBATIM_VARIABLES ON)
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
  # LibTorch is most of it: xz would take minutes.
  set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)
  find_program(dpkg_shlibdeps NAMES dpkg-shlibdeps NO_CACHE)
  # Which packages the system's libraries are of; the copies are found where the build found what they are copies of.
  get_property(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS GLOBAL PROPERTY lockstep_rpath)
  list(APPEND CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}/lib"
    "${LOCKSTEP_DEPS_DIR}/torch/nvidia/cu13/lib")
  list(REMOVE_DUPLICATES CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS)
  foreach(component runtime tools ${components})
    string(TOUPPER "${component}" upper)
    if(dpkg_shlibdeps)
      set(CPACK_DEBIAN_${upper}_PACKAGE_SHLIBDEPS ON)
    endif()
    if(NOT component STREQUAL "runtime")
      set(CPACK_COMPONENT_${upper}_DEPENDS runtime)
    endif()
    string(REPLACE "_" "-" CPACK_DEBIAN_${upper}_PACKAGE_NAME "lockstep-${component}")
  endforeach()
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME lockstep-dev)
  set(CPACK_COMPONENT_TOOLS_DEPENDS runtime vision optim_contrib)
  set(CPACK_COMPONENT_DEVELOPMENT_DEPENDS runtime)
  set(CPACK_COMPONENT_ATEN_DEPENDS development)
  include(CPack)
endif()
