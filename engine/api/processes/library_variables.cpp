// The table of variables that change bits, and of those that do not.
#include "engine/api/processes/library_variables.h"

namespace lockstep {

std::span<const std::string_view> bit_changing_variables() {
  static constexpr std::string_view names[] = {
      "ATEN_CPU_CAPABILITY",
      // oneDNN knows each of its variables by two names.
      "DNNL_CPU_ISA_HINTS",
      "DNNL_DEFAULT_FPMATH_MODE",
      "DNNL_EXPERIMENTAL_BNORM_STATS_ONE_PASS",
      "DNNL_MAX_CPU_ISA",
      // The C library's: which of its functions a processor gets, exp and log among them.
      "GLIBC_TUNABLES",
      "INTEL_ISA_DISABLE",
      "LOCKSTEP_MAX_ISA",
      "MKL_CBWR",
      "MKL_DEBUG_CPU_TYPE",
      "MKL_DOMAIN_NUM_THREADS",
      "MKL_DYNAMIC",
      "MKL_ENABLE_INSTRUCTIONS",
      "MKL_INTERFACE_LAYER",
      "MKL_MPI_PPN",
      "MKL_NUM_STRIPES",
      "MKL_NUM_THREADS",
      "MKL_THREADING_LAYER",
      "MKL_VML_DEBUG_CPU_TYPE",
      "MKL_VML_MODE",
      "OMP_DYNAMIC",
      "OMP_MAX_ACTIVE_LEVELS",
      "OMP_NESTED",
      "OMP_NUM_THREADS",
      "OMP_SCHEDULE",
      "OMP_THREAD_LIMIT",
      "ONEDNN_CPU_ISA_HINTS",
      "ONEDNN_DEFAULT_FPMATH_MODE",
      "ONEDNN_EXPERIMENTAL_BNORM_STATS_ONE_PASS",
      "ONEDNN_MAX_CPU_ISA",
      "TORCH_LINEAR_FLATTEN_3D",
      "TORCH_MKLDNN_MATMUL_MIN_DIM",
      "TORCH_MKLDNN_MATMUL_MIN_SIZE",
  };
  return names;
}

std::span<const HarmlessVariable> harmless_variables() {
  static constexpr std::string_view no_kernel = "says what is printed, traced or written for people";
  static constexpr std::string_view not_called = "is read for what Lockstep does not call";
  static constexpr std::string_view places = "says where threads run and how they wait";
  static constexpr std::string_view memory = "says how much memory is kept, and where";
  static constexpr std::string_view function_name =
      "is the name of a function, a constant or a header, and no variable";
  static constexpr HarmlessVariable variables[] = {
      {"ACC_*", not_called},
      {"CAFFE2_*", not_called},
      {"DNNL_GRAPH_*", not_called},
      {"DNNL_JIT_DUMP", no_kernel},
      {"DNNL_JIT_PROFILE", no_kernel},
      {"DNNL_PRIMITIVE_CACHE_CAPACITY", "says how many kernels are kept, not which are made"},
      {"DNNL_VERBOSE*", no_kernel},
      {"FBGEMM_*", not_called},
      {"GOMP_CPU_AFFINITY", places},
      {"GOMP_DEBUG", no_kernel},
      {"GOMP_OPENACC_DIM", not_called},
      {"GOMP_RTEMS_THREAD_POOLS", places},
      {"GOMP_SPINCOUNT", places},
      {"GOMP_STACKSIZE", memory},
      {"INTEL_ITTNOTIFY_GROUPS", no_kernel},
      {"INTEL_JIT_PROFILER*", no_kernel},
      {"INTEL_LIBITTNOTIFY*", no_kernel},
      {"KINETO_*", no_kernel},
      {"KMP_FOR_*", no_kernel},
      {"MKLDNN_*", function_name},
      {"MKL_DFTI_*", function_name},
      {"MKL_DISABLE_FAST_MM", memory},
      {"MKL_DOMA*", function_name},
      {"MKL_FAST_MEMORY_LIMIT", memory},
      {"MKL_GET_*", function_name},
      {"MKL_PROGRESS*", function_name},
      {"MKL_SET_*", function_name},
      {"MKL_SOMA*", function_name},
      {"MKL_SPARSE_*", function_name},
      {"MKL_VERBOSE*", no_kernel},
      {"MKL_VML_*", function_name},
      {"OMP_AFFINITY_FORMAT", no_kernel},
      {"OMP_ALLOCATOR", memory},
      {"OMP_CANCELLATION", not_called},
      {"OMP_DEFAULT_DEVICE", not_called},
      {"OMP_DISPLAY_*", no_kernel},
      {"OMP_MAX_TASK_PRIORITY", not_called},
      {"OMP_NUM_TEAMS", not_called},
      {"OMP_PLACES", places},
      {"OMP_PROC_BIND", places},
      {"OMP_STACKSIZE", memory},
      {"OMP_TARGET_OFFLOAD", not_called},
      {"OMP_TEAMS_THREAD_LIMIT", not_called},
      {"OMP_TOOL*", no_kernel},
      {"OMP_WAIT_POLICY", places},
      {"ONEDNN_CACHE_CONTEXT_UNSAFE", not_called},
      {"ONEDNN_GRAPH_*", not_called},
      {"ONEDNN_JIT_DUMP", no_kernel},
      {"ONEDNN_JIT_PROFILE", no_kernel},
      {"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "says how many kernels are kept, not which are made"},
      {"ONEDNN_VERBOSE*", no_kernel},
      {"PYTORCH_*", "is read by LibTorch's own programs, loaders of code and allocators"},
      {"TORCH_*", "is read for other devices than the CPU, and for what LibTorch prints"},
  };
  return variables;
}

}  // namespace lockstep
