#pragma once

// oneDNN, loaded when the first of its functions is called: its static registrations take 14 MB of a process. The C++
// headers call C functions, of which each name is made one of a pointer here that is looked up then. A function that is
// missing does not link; it takes a line in both lists.

#include <oneapi/dnnl/dnnl.h>

// NOLINTBEGIN: macros, to rename what a third party's header calls
#define LOCKSTEP_DNNL_FUNCTIONS(F)                           \
  F(dnnl_convolution_backward_data_primitive_desc_create)    \
  F(dnnl_convolution_backward_weights_primitive_desc_create) \
  F(dnnl_convolution_forward_primitive_desc_create)          \
  F(dnnl_engine_create)                                      \
  F(dnnl_engine_destroy)                                     \
  F(dnnl_get_effective_cpu_isa)                              \
  F(dnnl_matmul_primitive_desc_create)                       \
  F(dnnl_memory_create_v2)                                   \
  F(dnnl_memory_desc_clone)                                  \
  F(dnnl_memory_desc_create_with_strides)                    \
  F(dnnl_memory_desc_create_with_tag)                        \
  F(dnnl_memory_desc_destroy)                                \
  F(dnnl_memory_desc_equal)                                  \
  F(dnnl_memory_desc_get_size_v2)                            \
  F(dnnl_memory_desc_query)                                  \
  F(dnnl_memory_destroy)                                     \
  F(dnnl_memory_set_data_handle)                             \
  F(dnnl_post_ops_append_sum)                                \
  F(dnnl_post_ops_create)                                    \
  F(dnnl_post_ops_destroy)                                   \
  F(dnnl_primitive_attr_create)                              \
  F(dnnl_primitive_attr_destroy)                             \
  F(dnnl_primitive_attr_set_fpmath_mode)                     \
  F(dnnl_primitive_attr_set_post_ops)                        \
  F(dnnl_primitive_attr_set_scratchpad_mode)                 \
  F(dnnl_primitive_create)                                   \
  F(dnnl_primitive_desc_destroy)                             \
  F(dnnl_primitive_desc_query)                               \
  F(dnnl_primitive_desc_query_md)                            \
  F(dnnl_primitive_destroy)                                  \
  F(dnnl_primitive_execute)                                  \
  F(dnnl_reorder_primitive_desc_create)                      \
  F(dnnl_set_max_cpu_isa)                                    \
  F(dnnl_stream_create)                                      \
  F(dnnl_stream_destroy)                                     \
  F(dnnl_version)

namespace lockstep::backend::onednn {

/// The functions of oneDNN's library.
struct Library {
#define LOCKSTEP_DNNL_POINTER(name) decltype(&::name) name;
  LOCKSTEP_DNNL_FUNCTIONS(LOCKSTEP_DNNL_POINTER)
#undef LOCKSTEP_DNNL_POINTER

  /// Calls use(name, pointer) for each.
  template <class Use>
  void for_each(const Use& use) {
#define LOCKSTEP_DNNL_USE(name) use(#name, name);
    LOCKSTEP_DNNL_FUNCTIONS(LOCKSTEP_DNNL_USE)
#undef LOCKSTEP_DNNL_USE
  }
};
#undef LOCKSTEP_DNNL_FUNCTIONS

/// Loads it with the first call. Throws BackendError naming the file that was looked for where that fails.
const Library& library();

}  // namespace lockstep::backend::onednn

#define dnnl_convolution_backward_data_primitive_desc_create \
  ::lockstep::backend::onednn::library().dnnl_convolution_backward_data_primitive_desc_create
#define dnnl_convolution_backward_weights_primitive_desc_create \
  ::lockstep::backend::onednn::library().dnnl_convolution_backward_weights_primitive_desc_create
#define dnnl_convolution_forward_primitive_desc_create \
  ::lockstep::backend::onednn::library().dnnl_convolution_forward_primitive_desc_create
#define dnnl_engine_create ::lockstep::backend::onednn::library().dnnl_engine_create
#define dnnl_engine_destroy ::lockstep::backend::onednn::library().dnnl_engine_destroy
#define dnnl_get_effective_cpu_isa ::lockstep::backend::onednn::library().dnnl_get_effective_cpu_isa
#define dnnl_matmul_primitive_desc_create ::lockstep::backend::onednn::library().dnnl_matmul_primitive_desc_create
#define dnnl_memory_create_v2 ::lockstep::backend::onednn::library().dnnl_memory_create_v2
#define dnnl_memory_desc_clone ::lockstep::backend::onednn::library().dnnl_memory_desc_clone
#define dnnl_memory_desc_create_with_strides ::lockstep::backend::onednn::library().dnnl_memory_desc_create_with_strides
#define dnnl_memory_desc_create_with_tag ::lockstep::backend::onednn::library().dnnl_memory_desc_create_with_tag
#define dnnl_memory_desc_destroy ::lockstep::backend::onednn::library().dnnl_memory_desc_destroy
#define dnnl_memory_desc_equal ::lockstep::backend::onednn::library().dnnl_memory_desc_equal
#define dnnl_memory_desc_get_size_v2 ::lockstep::backend::onednn::library().dnnl_memory_desc_get_size_v2
#define dnnl_memory_desc_query ::lockstep::backend::onednn::library().dnnl_memory_desc_query
#define dnnl_memory_destroy ::lockstep::backend::onednn::library().dnnl_memory_destroy
#define dnnl_memory_set_data_handle ::lockstep::backend::onednn::library().dnnl_memory_set_data_handle
#define dnnl_post_ops_append_sum ::lockstep::backend::onednn::library().dnnl_post_ops_append_sum
#define dnnl_post_ops_create ::lockstep::backend::onednn::library().dnnl_post_ops_create
#define dnnl_post_ops_destroy ::lockstep::backend::onednn::library().dnnl_post_ops_destroy
#define dnnl_primitive_attr_create ::lockstep::backend::onednn::library().dnnl_primitive_attr_create
#define dnnl_primitive_attr_destroy ::lockstep::backend::onednn::library().dnnl_primitive_attr_destroy
#define dnnl_primitive_attr_set_fpmath_mode ::lockstep::backend::onednn::library().dnnl_primitive_attr_set_fpmath_mode
#define dnnl_primitive_attr_set_post_ops ::lockstep::backend::onednn::library().dnnl_primitive_attr_set_post_ops
#define dnnl_primitive_attr_set_scratchpad_mode \
  ::lockstep::backend::onednn::library().dnnl_primitive_attr_set_scratchpad_mode
#define dnnl_primitive_create ::lockstep::backend::onednn::library().dnnl_primitive_create
#define dnnl_primitive_desc_destroy ::lockstep::backend::onednn::library().dnnl_primitive_desc_destroy
#define dnnl_primitive_desc_query ::lockstep::backend::onednn::library().dnnl_primitive_desc_query
#define dnnl_primitive_desc_query_md ::lockstep::backend::onednn::library().dnnl_primitive_desc_query_md
#define dnnl_primitive_destroy ::lockstep::backend::onednn::library().dnnl_primitive_destroy
#define dnnl_primitive_execute ::lockstep::backend::onednn::library().dnnl_primitive_execute
#define dnnl_reorder_primitive_desc_create ::lockstep::backend::onednn::library().dnnl_reorder_primitive_desc_create
#define dnnl_set_max_cpu_isa ::lockstep::backend::onednn::library().dnnl_set_max_cpu_isa
#define dnnl_stream_create ::lockstep::backend::onednn::library().dnnl_stream_create
#define dnnl_stream_destroy ::lockstep::backend::onednn::library().dnnl_stream_destroy
#define dnnl_version ::lockstep::backend::onednn::library().dnnl_version

#include <oneapi/dnnl/dnnl.hpp>
// NOLINTEND
