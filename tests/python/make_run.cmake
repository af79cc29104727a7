# A short training in RUN, by PROGRAM.

file(REMOVE_RECURSE "${RUN}")
execute_process(
  COMMAND "${PROGRAM}" train --model mlp --data synthetic --set data.rows=64 --set data.test_rows=32 --set data.height=4
          --set data.width=4 --batch 16 --shards 2 --steps 6 --log-every 2 --checkpoint-every 3 --run "${RUN}"
  OUTPUT_FILE "${RUN}.log" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${PROGRAM}" predict "${RUN}" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
