# cmake -D PROGRAM=<lockstep> -D RUNS=<folder> -P train.cmake: the README's training run, in a folder of its own.

cmake_minimum_required(VERSION 3.25)

set(number 1)
while(EXISTS "${RUNS}/cnn-${number}")
  math(EXPR number "${number} + 1")
endwhile()
file(MAKE_DIRECTORY "${RUNS}")
execute_process(
  COMMAND "${PROGRAM}" train --model cnn --data fashion-mnist --devices 2 --epochs 5 --run "${RUNS}/cnn-${number}"
  RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "lockstep train ended with ${failed}")
endif()
