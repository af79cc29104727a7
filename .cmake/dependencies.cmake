# Imported targets lockstep_deps::<name>, written by hand: installed first, else what .cmake/fetch.cmake brought. A
# target that is not there was not found.

function(lockstep_found name what)
  message(STATUS "  ${name}: ${what}")
endfunction()

# Where a Lockstep that is installed without copies of its libraries finds those that the system does not have.
function(lockstep_needs_rpath library)
  get_filename_component(folder "${library}" DIRECTORY)
  string(FIND "${folder}" "${LOCKSTEP_DEPS_DIR}" fetched)
  if(fetched EQUAL 0 OR ARGN)
    set_property(GLOBAL APPEND PROPERTY lockstep_rpath "${folder}")
  endif()
endfunction()

# lockstep_dependency(<name> <package> HEADER <h> [LIBRARY <l>] [DEFINITIONS ...]): one header folder, perhaps one library.
function(lockstep_dependency name package)
  cmake_parse_arguments(PARSE_ARGV 2 dependency "" "HEADER;LIBRARY" "DEFINITIONS")
  set(roots "${LOCKSTEP_DEPS_DIR}/${package}/usr" "${LOCKSTEP_DEPS_DIR}/${package}")
  # A caller's variable of that name would be taken for the answer.
  unset(include)
  unset(library)
  find_path(include NAMES ${dependency_HEADER} PATHS ${roots} PATH_SUFFIXES include include/x86_64-linux-gnu/mpi NO_CACHE)
  if(NOT include)
    lockstep_found(${name} "not found")
    return()
  endif()
  string(REGEX REPLACE "/$" "" include "${include}")
  set(folders "${include}")
  if(EXISTS "${include}/x86_64-linux-gnu" AND NOT include STREQUAL "/usr/include")
    list(APPEND folders "${include}/x86_64-linux-gnu")
  endif()
  if(dependency_LIBRARY)
    find_library(library NAMES ${dependency_LIBRARY} PATHS ${roots} PATH_SUFFIXES lib/x86_64-linux-gnu lib NO_CACHE)
    if(NOT library)
      lockstep_found(${name} "library not found")
      return()
    endif()
    add_library(lockstep_deps::${name} UNKNOWN IMPORTED)
    set_target_properties(lockstep_deps::${name} PROPERTIES IMPORTED_LOCATION "${library}")
    lockstep_needs_rpath("${library}")
  else()
    add_library(lockstep_deps::${name} INTERFACE IMPORTED)
  endif()
  # The compiler's own folders must not be named again, nor before others.
  list(REMOVE_ITEM folders /usr/include)
  set_target_properties(lockstep_deps::${name} PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${folders}"
    INTERFACE_COMPILE_DEFINITIONS "${dependency_DEFINITIONS}")
  lockstep_found(${name} "${include}")
endfunction()

message(STATUS "Dependencies")
# As a library: header-only it costs each file that uses it 2.4 s.
lockstep_dependency(fmt fmt HEADER fmt/format.h LIBRARY fmt DEFINITIONS FMT_SHARED)
lockstep_dependency(doctest doctest HEADER doctest/doctest.h)
lockstep_dependency(cli11 cli11 HEADER CLI/CLI.hpp)
lockstep_dependency(tomlplusplus tomlplusplus HEADER toml++/toml.h)
lockstep_dependency(json json HEADER nlohmann/json.hpp)
lockstep_dependency(xbyak xbyak HEADER xbyak/xbyak.h)
lockstep_dependency(zlib zlib HEADER zlib.h LIBRARY z libz.so.1.2.13)
lockstep_dependency(crypto openssl HEADER openssl/evp.h LIBRARY crypto)

find_package(Threads REQUIRED)

# Images, where they are installed: nothing is fetched for them.
foreach(package PNG JPEG)
  find_package(${package} QUIET)
  string(TOLOWER "${package}" name)
  if(${package}_FOUND)
    add_library(lockstep_deps::${name} INTERFACE IMPORTED)
    set_target_properties(lockstep_deps::${name} PROPERTIES INTERFACE_LINK_LIBRARIES ${package}::${package})
    lockstep_found(${name} "${${package}_INCLUDE_DIRS}")
  else()
    lockstep_found(${name} "not found")
  endif()
endforeach()

# oneDNN 3, by its own package file: its headers. The shared library is loaded by name when the first of its functions is
# called (backends/onednn/library.cpp), so it is found where the run path says.
find_package(dnnl 3 CONFIG QUIET PATHS "${LOCKSTEP_DEPS_DIR}/onednn")
set(type "")
if(dnnl_FOUND)
  get_target_property(type DNNL::dnnl TYPE)
endif()
if(type STREQUAL "SHARED_LIBRARY")
  get_target_property(library DNNL::dnnl LOCATION)
  get_target_property(includes DNNL::dnnl INTERFACE_INCLUDE_DIRECTORIES)
  get_filename_component(folder "${library}" DIRECTORY)
  set(name "libdnnl.so.${dnnl_VERSION_MAJOR}")
  add_library(lockstep_deps::dnnl INTERFACE IMPORTED)
  set_target_properties(lockstep_deps::dnnl PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${includes}"
    INTERFACE_COMPILE_DEFINITIONS "LOCKSTEP_DNNL_FILE=\"${name}\""
    INTERFACE_LINK_LIBRARIES "${CMAKE_DL_LIBS}")
  set_property(GLOBAL APPEND PROPERTY lockstep_loaded_libraries "${folder}/${name}")
  lockstep_needs_rpath("${library}")
  lockstep_found(dnnl "${dnnl_DIR}")
else()
  lockstep_found(dnnl "not found")
endif()

# LibTorch: two libraries of it and its OpenMP. Its own package file would ask for a CUDA toolkit.
lockstep_find_torch(torch)
if(torch AND EXISTS "${torch}/torch/lib/libtorch_cpu.so")
  foreach(library torch_cpu c10)
    add_library(lockstep_deps::${library} SHARED IMPORTED)
    set_target_properties(lockstep_deps::${library} PROPERTIES
      IMPORTED_LOCATION "${torch}/torch/lib/lib${library}.so" IMPORTED_SONAME lib${library}.so)
  endforeach()
  add_library(lockstep_deps::aten INTERFACE IMPORTED)
  set_target_properties(lockstep_deps::aten PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${torch}/torch/include"
    INTERFACE_LINK_LIBRARIES "lockstep_deps::torch_cpu;lockstep_deps::c10;Threads::Threads")
  lockstep_needs_rpath("${torch}/torch/lib/libtorch_cpu.so" ALWAYS)
  set(LOCKSTEP_TORCH_INCLUDE_DIR "${torch}/torch/include")
  file(READ "${torch}/torch/include/torch/headeronly/version.h" text)
  string(REGEX MATCH "define TORCH_VERSION [^\"]*\"([^\"]*)\"" text "${text}")
  set(LOCKSTEP_TORCH_VERSION "${CMAKE_MATCH_1}")
  lockstep_found(aten "${torch}/torch")
else()
  lockstep_found(aten "not found")
endif()

# The one OpenMP run-time of the process: LibTorch's copy if there is one (same soname as the compiler's).
if(TARGET lockstep_deps::aten AND EXISTS "${torch}/torch/lib/libgomp.so.1")
  add_library(lockstep_deps::gomp UNKNOWN IMPORTED)
  set_target_properties(lockstep_deps::gomp PROPERTIES IMPORTED_LOCATION "${torch}/torch/lib/libgomp.so.1")
else()
  find_package(OpenMP QUIET COMPONENTS CXX)
  if(OpenMP_CXX_FOUND)
    add_library(lockstep_deps::gomp INTERFACE IMPORTED)
    set_target_properties(lockstep_deps::gomp PROPERTIES INTERFACE_LINK_LIBRARIES OpenMP::OpenMP_CXX)
  endif()
endif()

# MPI: what its compiler wrapper says; without one that answers (it warns where there is no network), Debian's places.
set(MPI_CXX_SKIP_MPICXX TRUE)
find_package(MPI QUIET COMPONENTS CXX)
if(MPI_CXX_FOUND)
  add_library(lockstep_deps::mpi INTERFACE IMPORTED)
  set_target_properties(lockstep_deps::mpi PROPERTIES INTERFACE_LINK_LIBRARIES MPI::MPI_CXX)
  lockstep_found(mpi "${MPI_CXX_COMPILER}")
else()
  lockstep_dependency(mpi openmpi HEADER mpi.h LIBRARY mpi DEFINITIONS OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
endif()

# CUDA: host code against the toolkit, or against the nvidia-* wheels.
if(LOCKSTEP_CUDA)
  set(roots "$ENV{CUDA_HOME}" /usr/local/cuda "${LOCKSTEP_DEPS_DIR}/cuda/nvidia/cu13" "${LOCKSTEP_DEPS_DIR}/cuda/nvidia/nccl")
  foreach(entry "cudart|cuda_runtime_api.h|cudart libcudart.so.13" "nvrtc|nvrtc.h|nvrtc libnvrtc.so.13"
                "nccl|nccl.h|nccl libnccl.so.2")
    string(REPLACE "|" ";" entry "${entry}")
    list(POP_FRONT entry name header names)
    string(REPLACE " " ";" names "${names}")
    find_path(include NAMES ${header} PATHS ${roots} PATH_SUFFIXES include include/x86_64-linux-gnu/mpi NO_CACHE)
    find_library(library NAMES ${names} PATHS ${roots} PATH_SUFFIXES lib64 lib NO_CACHE)
    if(include AND library)
      add_library(lockstep_deps::${name} UNKNOWN IMPORTED)
      set_target_properties(lockstep_deps::${name} PROPERTIES
        IMPORTED_LOCATION "${library}" INTERFACE_INCLUDE_DIRECTORIES "${include}")
      lockstep_needs_rpath("${library}")
      lockstep_found(${name} "${library}")
    else()
      lockstep_found(${name} "not found")
    endif()
    unset(include)
    unset(library)
  endforeach()
  if(TARGET lockstep_deps::nccl AND TARGET lockstep_deps::cudart)
    set_property(TARGET lockstep_deps::nccl PROPERTY INTERFACE_LINK_LIBRARIES lockstep_deps::cudart)
  endif()
endif()

if(NOT EXISTS "${LOCKSTEP_FASHION_MNIST_DIR}/train-images-idx3-ubyte.gz")
  set(LOCKSTEP_FASHION_MNIST_DIR "${LOCKSTEP_DEPS_DIR}/fashion-mnist/usr/share/datasets/fashion-mnist")
endif()
if(EXISTS "${LOCKSTEP_FASHION_MNIST_DIR}/train-images-idx3-ubyte.gz")
  lockstep_found(fashion-mnist "${LOCKSTEP_FASHION_MNIST_DIR}")
else()
  lockstep_found(fashion-mnist "not found: name a folder when training")
endif()

foreach(name fmt json cli11 tomlplusplus zlib crypto)
  if(NOT TARGET lockstep_deps::${name})
    message(FATAL_ERROR "${name} was not found. Configure with -DLOCKSTEP_FETCH=ON to have it fetched into "
      "${LOCKSTEP_DEPS_DIR}, or install it (Debian: libfmt-dev nlohmann-json3-dev libcli11-dev libtomlplusplus-dev zlib1g-dev libssl-dev).")
  endif()
endforeach()
