# How everything of ours is compiled.

# Variables and options that are set here hold for this folder and those below it: a project that Lockstep is a part of
# keeps its own. Its build type is ours, too; without one we are optimised all the same.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
  if(PROJECT_IS_TOP_LEVEL)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug or Release" FORCE)
  endif()
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-g")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_EXPORT_COMPILE_COMMANDS ${PROJECT_IS_TOP_LEVEL})

# No contraction: a fused multiply-add has other bits, and only definitions may write one. Position-independent throughout,
# so that objects and precompiled headers serve library, program and tests alike.
add_compile_options(-Wall -Wextra -ffp-contract=off -fPIC)
get_directory_property(options COMPILE_OPTIONS)
if("${CMAKE_CXX_FLAGS} ${options}" MATCHES "-(O|f)fast")
  # What another project allows its own sums must not change ours.
  add_compile_options(-fno-fast-math)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GNU 12 takes inlined std::string and std::variant for what they are not.
  add_compile_options(-Wno-maybe-uninitialized -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow)
endif()
# Libraries that nothing refers to stay out: a test of the core then starts without LibTorch.
add_link_options(-Wl,--as-needed)

# Dozens of programs are linked, each from all libraries: the quickest linker there is, in a quarter of the usual one's time.
include(CheckLinkerFlag)
foreach(linker mold lld gold)
  check_linker_flag(CXX "-fuse-ld=${linker}" LOCKSTEP_HAS_${linker})
  if(LOCKSTEP_HAS_${linker})
    add_link_options("-fuse-ld=${linker}")
    break()
  endif()
endforeach()

if(LOCKSTEP_SANITIZE)
  # Lines are enough in a report; full debug information doubles the time to link.
  add_compile_options(-Og -g1 -fno-omit-frame-pointer -fsanitize=${LOCKSTEP_SANITIZE})
  # The sanitizer calls dlopen in our place: oneDNN is found where a program's folders count for the calls of all libraries.
  add_link_options(-fsanitize=${LOCKSTEP_SANITIZE} -Wl,--disable-new-dtags)
  if(LOCKSTEP_SANITIZE MATCHES "undefined")
    # Null pointers and what lies outside of an object AddressSanitizer finds as well; with types and alignments checked at
    # each access, programs take nearly twice as long to compile.
    add_compile_options(-fno-sanitize-recover=undefined -fno-sanitize=null,object-size,vptr,alignment)
  endif()
endif()

# ccache where there is one, told that precompiled headers are all right and that the folder's name does not matter.
find_program(LOCKSTEP_CCACHE NAMES ccache)
mark_as_advanced(LOCKSTEP_CCACHE)
if(LOCKSTEP_CCACHE AND NOT DEFINED LOCKSTEP_CCACHE_FAILS)
  # It needs a home it can write to.
  file(TOUCH "${PROJECT_BINARY_DIR}/ccache.cpp")
  execute_process(
    COMMAND "${LOCKSTEP_CCACHE}" "${CMAKE_CXX_COMPILER}" -c "${PROJECT_BINARY_DIR}/ccache.cpp"
            -o "${PROJECT_BINARY_DIR}/ccache.o"
    RESULT_VARIABLE fails OUTPUT_QUIET ERROR_QUIET)
  set(LOCKSTEP_CCACHE_FAILS "${fails}" CACHE INTERNAL "")
endif()
if(LOCKSTEP_CCACHE AND NOT LOCKSTEP_CCACHE_FAILS AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime "${LOCKSTEP_CCACHE}")
  add_compile_options(-fpch-preprocess)
endif()
