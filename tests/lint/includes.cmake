# Who may include what (docs/architecture.md). The edges between the stages are those of engine/CMakeLists.txt, read from
# RULES: set(stages ...) and set(may_include_<stage> ...) for each.

cmake_minimum_required(VERSION 3.25)

include("${RULES}")

# Third parties, and the files that may know them.
set(third_parties
  "^(ATen|c10|torch)/" "^(backends|tests/backends)/(aten|cuda)/|^include/lockstep/aten\\.h$|^tests/install/consumer/"
  "^(oneapi/)?dnnl" "^(backends|tests/backends)/onednn/"
  "^xbyak/" "^(backends|tests/backends)/jit/"
  "^mpi\\.h$" "^(backends|tests/backends)/mpi/"
  "^nccl\\.h$" "^(backends|tests/backends)/nccl/"
  "^(cuda|nvrtc|cublas|cudnn)" "^(backends|tests/backends)/(cuda|nccl)/"
  "^fmt/" "\\.cpp$"
  "^nlohmann/" "^engine/files/.*\\.cpp$|^tests/"
  "^openssl/" "^engine/.*\\.cpp$|^tests/"
  "^(zlib|png|jpeglib)\\.h$" "^engine/(data|exchange|vision)/.*\\.cpp$|^tests/"
  "^nanobind/" "^engine/python/"
  "^CLI/" "^engine/cli/"
  "^doctest/" "^tests/")

# Everything a stage may include, directly or through others.
function(reachable stage result)
  set(open ${stage})
  set(seen "")
  while(open)
    list(POP_FRONT open next)
    if(NOT next IN_LIST seen)
      list(APPEND seen ${next})
      list(APPEND open ${may_include_${next}})
    endif()
  endwhile()
  set(${result} "${seen}" PARENT_SCOPE)
endfunction()

# The public headers a backend may know: those meant for it, errors, and what these are made of.
file(GLOB open RELATIVE "${SOURCE}/include/lockstep" "${SOURCE}/include/lockstep/backend/*.h")
list(APPEND open error.h block_pool.h)
set(backend_headers "")
while(open)
  list(POP_FRONT open header)
  if(NOT header IN_LIST backend_headers AND EXISTS "${SOURCE}/include/lockstep/${header}")
    list(APPEND backend_headers ${header})
    file(STRINGS "${SOURCE}/include/lockstep/${header}" lines REGEX "^#include <lockstep/")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^#include <lockstep/([^>]*)>.*" "\\1" found "${line}")
      list(APPEND open "${found}")
    endforeach()
  endif()
endwhile()
list(APPEND backend_headers aten.h)

set(count 0)
set(broken 0)
macro(complain why)
  message("${file}: #include ${target}: ${why}")
  math(EXPR broken "${broken} + 1")
endmacro()

macro(check_third_parties)
  set(rest ${third_parties})
  while(rest)
    list(POP_FRONT rest pattern places)
    if(name MATCHES "${pattern}" AND NOT file MATCHES "${places}")
      complain("only files that match ${places} may know this library")
    endif()
  endwhile()
endmacro()

macro(check_public)
  if(quoted)
    complain("public headers name each other as <lockstep/...>")
  elseif(NOT name MATCHES "^lockstep/" AND NOT name MATCHES "^[a-z0-9_]+$" AND NOT file STREQUAL "include/lockstep/aten.h")
    complain("public headers include the standard library alone")
  endif()
endmacro()

macro(check_engine)
  string(REGEX REPLACE "^engine/([^/]*)/.*" "\\1" stage "${file}")
  if(name MATCHES "^(backends|tests)/")
    complain("the engine knows neither backends nor tests")
  elseif(name MATCHES "^engine/([^/]*)/")
    set(wanted "${CMAKE_MATCH_1}")
    reachable(${stage} allowed)
    if(NOT wanted IN_LIST allowed)
      if("PUBLIC_HEADERS_ONLY" IN_LIST may_include_${stage})
        complain("engine/${stage} is built on the public headers alone")
      else()
        complain("engine/${stage} may include ${allowed}")
      endif()
    endif()
  endif()
endmacro()

macro(check_backend)
  string(REGEX REPLACE "^backends/([^/]*)/.*" "\\1" backend "${file}")
  if(name MATCHES "^(engine|tests)/" OR (name MATCHES "^backends/" AND NOT name MATCHES "^backends/(${backend}|cpu|modules)/"))
    complain("a backend knows its own folder, backends/cpu, backends/modules, backend.h or communicator.h, and its own library")
  elseif(name MATCHES "^lockstep/(.*)")
    if(NOT CMAKE_MATCH_1 IN_LIST backend_headers)
      complain("a backend includes only ${backend_headers}")
    endif()
  endif()
endmacro()

file(GLOB_RECURSE files RELATIVE "${SOURCE}"
  "${SOURCE}/include/*" "${SOURCE}/engine/*.h" "${SOURCE}/engine/*.cpp" "${SOURCE}/backends/*.h"
  "${SOURCE}/backends/*.cpp" "${SOURCE}/backends/*.cu" "${SOURCE}/tests/*.h" "${SOURCE}/tests/*.cpp")
foreach(file IN LISTS files)
  file(STRINGS "${SOURCE}/${file}" lines REGEX "^[ \t]*#[ \t]*include[ \t]*[<\"]")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "[<\"]([^>\"]*)[>\"]" target "${line}")
    set(name "${CMAKE_MATCH_1}")
    string(REGEX MATCH "^\"" quoted "${target}")
    math(EXPR count "${count} + 1")
    check_third_parties()
    if(file MATCHES "^include/")
      check_public()
    elseif(file MATCHES "^engine/")
      check_engine()
    elseif(file MATCHES "^backends/")
      check_backend()
    endif()
    if(quoted AND NOT file MATCHES "^tests/install/" AND NOT EXISTS "${SOURCE}/${name}")
      complain("quoted names start at the repository's root")
    endif()
  endforeach()
endforeach()

if(count EQUAL 0)
  message(FATAL_ERROR "no #include was seen below ${SOURCE}: this test looks in the wrong place")
endif()
if(broken GREATER 0)
  message(FATAL_ERROR "${broken} of ${count} #include lines break the rules")
endif()
message("${count} #include lines keep the rules")
