# All facts of an op stand in its definition: a file outside engine/ops that spells an op's name knows one of them twice.
# Only kernel tables of backends do (a line for each op that they have a kernel of), and the stages on the public headers,
# where such a word is a user's: a layer's or a data set's name.

cmake_minimum_required(VERSION 3.25)

# Words that happen to be an op's name, each with the file where it is something else.
set(other_words
  "engine/ir/exchange.cpp:split"              # an attribute of all_to_all
  "engine/ir/control_flow.cpp:cond"           # an attribute of while_loop: its sub-function
  "engine/ir/control_flow.cpp:reverse"        # an attribute of scan
  "engine/executable/control_kernels.cpp:cond"   # while_loop's sub-function in a profile
  "engine/core/backend/element_loop.cpp:reduce_sum"   # a label: what a loop that ends in a sum is called for people
  "engine/core/backend/isa.cpp:fma"                   # a set of instructions
  "engine/transform/transpose.cpp:transpose"  # the transform
  "engine/exchange/stablehlo/parser.cpp:cond"           # StableHLO's word for a loop's condition, and of its attributes
  "engine/exchange/stablehlo/product_ops.cpp:reverse"
  "engine/exchange/stablehlo/product_ops.cpp:pad"
  "engine/exchange/stablehlo/control_flow_rules.cpp:reverse"   # of linear_recurrence
  "engine/exchange/stablehlo/reduction_ops.cpp:reverse"    # an attribute of cumsum
  "engine/exchange/stablehlo/reduction_rules.cpp:reverse"
  "engine/api/nn/convolution.cpp:full"           # a mode of convolve, numpy's word
  "include/lockstep/convolution.h:full"
  "engine/scientific/signal.cpp:full"            # likewise, of fftconvolve
  "engine/exchange/torch_pickle.cpp:conj"        # of PyTorch's tensors
  "engine/exchange/torch_pickle.cpp:neg"
  "include/lockstep/scientific/signal.h:full"
  "include/lockstep/processes.h:all_gather"      # between processes
  "include/lockstep/processes.h:all_to_all")

file(READ "${SOURCE}/include/lockstep/ops.def" text)
string(REGEX MATCHALL "\nLOCKSTEP_OP\\([a-z0-9_]+," ops "${text}")
list(TRANSFORM ops REPLACE "\nLOCKSTEP_OP\\(" "")
list(TRANSFORM ops REPLACE "," "")
list(LENGTH ops count)
if(count LESS 100)
  message(FATAL_ERROR "${count} ops found in include/lockstep/ops.def")
endif()

file(GLOB_RECURSE files RELATIVE "${SOURCE}" "${SOURCE}/engine/*.cpp" "${SOURCE}/engine/*.h" "${SOURCE}/include/*.h"
  "${SOURCE}/backends/*.cpp" "${SOURCE}/backends/*.h")
list(FILTER files EXCLUDE REGEX "^engine/(ops|nn|optim|data|checkpoint|train|models|vision|cli)/")
list(FILTER files EXCLUDE REGEX "^backends/(aten|cpu|cuda|jit|onednn)/")

set(failures "")
set(used "")
foreach(file IN LISTS files)
  file(READ "${SOURCE}/${file}" text)
  string(REGEX REPLACE "//[^\n]*" "" text "${text}")
  string(REGEX MATCHALL "\"[a-z0-9_]+\"" words "${text}")
  list(REMOVE_DUPLICATES words)
  foreach(word IN LISTS words)
    string(REPLACE "\"" "" word "${word}")
    if(NOT word IN_LIST ops)
      continue()
    elseif("${file}:${word}" IN_LIST other_words)
      list(APPEND used "${file}:${word}")
    else()
      string(APPEND failures "${file} spells the op ${word}. Say in its definition (engine/ops) what is asked here and "
        "ask that, or refer to ops::primitives::${word}()\n")
    endif()
  endforeach()
endforeach()
foreach(word IN LISTS other_words)
  if(NOT word IN_LIST used AND EXISTS "${SOURCE}/engine/ops")
    string(APPEND failures "${word} is allowed for in tests/lint/op_names.cmake, but is not there\n")
  endif()
endforeach()
if(failures)
  message("${failures}")
  message(FATAL_ERROR "names of ops outside of their definitions")
endif()
message(STATUS "${count} ops")
