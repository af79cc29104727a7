# cmake -D LOG=<.ninja_log> -D SECONDS=<build_seconds.txt> -D STAMP=<file> -P estimate.cmake: says how long a first build
# takes, from what its first targets took here and the shares that targets have of a build.

cmake_minimum_required(VERSION 3.25)

file(TOUCH "${STAMP}")
file(STRINGS "${LOG}" lines REGEX "^[0-9]")
set(all 0)     # milliseconds of all steps
set(end 0)     # of the last one
foreach(line IN LISTS lines)
  if(line MATCHES "lib/liblockstep\\.so|bin/lockstep\t")
    return()  # it was built before
  endif()
  string(REGEX MATCH "^([0-9]+)\t([0-9]+)\t" times "${line}")
  math(EXPR step "${CMAKE_MATCH_2} - ${CMAKE_MATCH_1}")
  math(EXPR all "${all} + ${step}")
  if(CMAKE_MATCH_2 GREATER end)
    set(end ${CMAKE_MATCH_2})
  endif()
  if(line MATCHES "CMakeFiles/lockstep_([a-z_]+)\\.dir/")
    if(NOT DEFINED took_${CMAKE_MATCH_1})
      set(took_${CMAKE_MATCH_1} 0)
    endif()
    math(EXPR took_${CMAKE_MATCH_1} "${took_${CMAKE_MATCH_1}} + ${step}")
  endif()
endforeach()

# The shares are whole numbers: tenths of a second.
set(total 0)
set(known 0)
set(measured 0)
file(STRINGS "${SECONDS}" rows REGEX "^[a-z]")
foreach(row IN LISTS rows)
  string(REGEX MATCH "^([a-z_]+) ([0-9]+)\\.([0-9])" found "${row}")
  set(target ${CMAKE_MATCH_1})
  set(share "${CMAKE_MATCH_2}${CMAKE_MATCH_3}")
  math(EXPR total "${total} + ${share}")
  if(DEFINED took_${target} AND target MATCHES "^(core|processes|numerics|ir)$")
    math(EXPR known "${known} + ${share}")
    math(EXPR measured "${measured} + ${took_${target}}")
  endif()
endforeach()
if(known EQUAL 0 OR measured EQUAL 0 OR all EQUAL 0)
  return()
endif()
# As many steps run at a time as did until now.
math(EXPR minutes "(${total} * ${measured} / ${known} * ${end} / ${all} + 30000) / 60000")
math(EXPR seconds "${end} / 1000")
if(minutes LESS 2)
  set(minutes "one or two")
endif()
message(STATUS "Lockstep's libraries and its program take about ${minutes} minutes to build here, of which ${seconds} s are over")
