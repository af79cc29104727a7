# The Python module `lockstep`, from engine/python: nanobind's own sources and ours, on top of liblockstep.

find_package(Python 3.9 REQUIRED COMPONENTS Interpreter Development.Module)
find_package(nanobind 2 CONFIG QUIET)
if(nanobind_FOUND)
  set(nanobind "${NB_DIR}/include")
else()
  lockstep_fetch(nanobind folder)
  find_path(nanobind NAMES nanobind/nanobind.h PATHS "${folder}/nanobind/include" NO_CACHE NO_DEFAULT_PATH)
endif()
# What its tests import.
lockstep_fetch(numpy folder)
if(NOT nanobind)
  message(FATAL_ERROR "nanobind was not found. Configure with -DLOCKSTEP_FETCH=ON to have it fetched into "
    "${LOCKSTEP_DEPS_DIR}, or leave LOCKSTEP_PYTHON off.")
endif()
lockstep_found(nanobind "${nanobind}")
lockstep_found(python "${Python_EXECUTABLE} ${Python_VERSION}")

get_filename_component(nanobind_dir "${nanobind}" DIRECTORY)
add_library(lockstep_nanobind STATIC "${nanobind_dir}/src/nb_combined.cpp")
target_include_directories(lockstep_nanobind SYSTEM
  PUBLIC "${nanobind}" ${Python_INCLUDE_DIRS} PRIVATE "${nanobind_dir}/ext/robin_map/include")
target_compile_features(lockstep_nanobind PUBLIC cxx_std_20)
# As nanobind asks of whoever compiles it: it breaks C++'s rules on aliases, as Python's own headers do.
target_compile_options(lockstep_nanobind PRIVATE -fno-strict-aliasing -w -Os)
target_compile_definitions(lockstep_nanobind PRIVATE NB_COMPACT_ASSERTIONS)
set_target_properties(lockstep_nanobind PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)

file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/engine/python/*.cpp")
add_library(lockstep_python MODULE ${sources})
target_link_libraries(lockstep_python PRIVATE
  lockstep_headers lockstep_cli lockstep lockstep::vision lockstep::optim_contrib lockstep::exchange lockstep_nanobind lockstep_deps::fmt lockstep_deps::cli11)
target_compile_options(lockstep_python PRIVATE $<$<CONFIG:Release>:-O1>)
set_target_properties(lockstep_python PROPERTIES
  OUTPUT_NAME lockstep PREFIX "" SUFFIX ".${Python_SOABI}.so"
  LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/python"
  CXX_VISIBILITY_PRESET hidden
  INSTALL_RPATH "$ORIGIN/../..;$ORIGIN/../../lockstep")
install(TARGETS lockstep_python
  DESTINATION "${CMAKE_INSTALL_LIBDIR}/python${Python_VERSION_MAJOR}.${Python_VERSION_MINOR}/site-packages")
