#pragma once
/// @file
/// Table: the kernels that training takes, as functions of the host, one table for each executor that a
/// device has. A device brings its own: nothing that trains is compiled for one, or linked with a kernel.
///
/// A row has its kernel's name; what it computes stands where that is declared.

#include <string>

#include "kernels/device/vendor_product.hpp"
#include "kernels/generic/attention/attention.hpp"
#include "kernels/generic/elements/adamw.hpp"
#include "kernels/generic/elements/combine.hpp"
#include "kernels/generic/elements/copy.hpp"
#include "kernels/generic/elements/elementwise.hpp"
#include "kernels/generic/elements/fp8_factor.hpp"
#include "kernels/generic/elements/fp8_grid.hpp"
#include "kernels/generic/elements/sums.hpp"
#include "kernels/generic/matmul.hpp"
#include "kernels/generic/partial_softmax.hpp"
#include "kernels/generic/rows/rows.hpp"
#include "kernels/generic/rows/weighted_rows.hpp"
#include "kernels/ladders/attention/attention/attention.hpp"
#include "kernels/ladders/attention/attention_backward/attention_backward.hpp"
#include "kernels/ladders/attention/attention_backward_bf16/attention_backward_bf16.hpp"
#include "kernels/ladders/attention/attention_backward_varlen/attention_backward_varlen.hpp"
#include "kernels/ladders/attention/attention_bf16/attention_bf16.hpp"
#include "kernels/ladders/attention/attention_varlen/attention_varlen.hpp"
#include "kernels/ladders/elements/swiglu/swiglu.hpp"
#include "kernels/ladders/elements/swiglu_backward/swiglu_backward.hpp"
#include "kernels/ladders/elements/swiglu_bf16/swiglu_bf16.hpp"
#include "kernels/ladders/matmul/matmul_bf16/matmul_bf16.hpp"
#include "kernels/ladders/matmul/matmul_fp32/matmul_fp32.hpp"
#include "kernels/ladders/matmul/matmul_fp8/matmul_fp8.hpp"
#include "kernels/ladders/matmul/matmul_turned/matmul_turned.hpp"
#include "kernels/ladders/rows/rms_norm/rms_norm.hpp"
#include "kernels/ladders/rows/rms_norm_backward/rms_norm_backward.hpp"
#include "kernels/ladders/rows/rms_norm_bf16/rms_norm_bf16.hpp"
#include "kernels/simt/executor.hpp"

namespace ultra::kernels {

/// @brief The functions of one executor, each by the name of what it launches.
struct Table {
  /// @brief The executor on which the signatures are read off: all have the same.
  static constexpr simt::Executor kAny = simt::Executor::kFast;

  /// @name Elements, through any strides
  /// @{
  decltype(generic::fill<kAny>)* fill;                        ///< generic::fill
  decltype(generic::copy<kAny>)* copy;                        ///< generic::copy
  decltype(generic::add<kAny>)* add;                          ///< generic::add
  decltype(generic::scale<kAny>)* scale;                      ///< generic::scale
  decltype(generic::swiglu<kAny>)* swiglu;                    ///< generic::swiglu
  decltype(generic::swiglu_backward<kAny>)* swiglu_backward;  ///< generic::swiglu_backward
  decltype(generic::adamw<kAny>)* adamw;                      ///< generic::adamw
  decltype(generic::sum_of_squares<kAny>)* sum_of_squares;    ///< generic::sum_of_squares
  decltype(generic::exact_sum_of<kAny>)* exact_sum_of;        ///< generic::exact_sum_of
  /// @}

  /// @name Products and attention of every shape
  /// @{
  decltype(generic::matmul<kAny>)* matmul;                          ///< generic::matmul
  decltype(generic::attention<kAny>)* attention;                    ///< generic::attention
  decltype(generic::attention_backward<kAny>)* attention_backward;  ///< generic::attention_backward
  decltype(generic::merge_attention<kAny>)* merge_attention;        ///< generic::merge_attention
  /// @}

  /// @name Rows
  /// @{
  decltype(generic::rms_norm<kAny>)* rms_norm;                      ///< generic::rms_norm
  decltype(generic::rms_norm_backward<kAny>)* rms_norm_backward;    ///< generic::rms_norm_backward
  decltype(generic::rope<kAny>)* rope;                              ///< generic::rope
  decltype(generic::embedding<kAny>)* embedding;                    ///< generic::embedding
  decltype(generic::embedding_backward<kAny>)* embedding_backward;  ///< generic::embedding_backward
  decltype(generic::cross_entropy<kAny>)* cross_entropy;            ///< generic::cross_entropy
  decltype(generic::highest_of_rows<kAny>)* highest_of_rows;        ///< generic::highest_of_rows
  decltype(generic::exponentials_of_rows<kAny>)*
      exponentials_of_rows;  ///< generic::exponentials_of_rows
  decltype(generic::partial_cross_entropy<kAny>)*
      partial_cross_entropy;                      ///< generic::partial_cross_entropy
  decltype(generic::take_rows<kAny>)* take_rows;  ///< generic::take_rows
  decltype(generic::sum_rows<kAny>)* sum_rows;    ///< generic::sum_rows
  decltype(generic::dot_rows<kAny>)* dot_rows;    ///< generic::dot_rows
  /// @}

  /// @name Memory of several ranks
  /// @{
  decltype(generic::combine<kAny>)* combine;          ///< generic::combine
  decltype(generic::combine_all<kAny>)* combine_all;  ///< generic::combine_all
  decltype(generic::divide<kAny>)* divide;            ///< generic::divide
  /// @}

  /// @name Grids of fp8
  /// @{
  decltype(generic::amax_of_tiles<kAny>)* amax_of_tiles;  ///< generic::amax_of_tiles
  decltype(generic::power_of_two_scales<kAny>)*
      power_of_two_scales;  ///< generic::power_of_two_scales
  decltype(generic::scale_from_history<kAny>)* scale_from_history;  ///< generic::scale_from_history
  decltype(generic::round_to_grid<kAny>)* round_to_grid;            ///< generic::round_to_grid
  decltype(generic::pack_fp8<kAny>)* pack_fp8;                      ///< generic::pack_fp8
  decltype(generic::unpack_fp8<kAny>)* unpack_fp8;                  ///< generic::unpack_fp8
  decltype(generic::pack_factor<kAny>)* pack_factor;                ///< generic::pack_factor
  /// @}

  /// @name Rungs of the ladders, for the shapes that they fit
  /// @{
  decltype(matmul_fp32::large_tile<kAny>)* matmul_f32;           ///< rung 9 of matmul_fp32
  decltype(matmul_bf16::wide_warp_tile<kAny>)* matmul_bf16;      ///< rung 6 of matmul_bf16
  decltype(matmul_turned::ldmatrix_turns<kAny>)* matmul_turned;  ///< rung 1 of matmul_turned
  decltype(attention::flash_grouped<kAny>)* attention_f32;       ///< rung 6 of attention
  decltype(attention_bf16::pipelined<kAny>)* attention_bf16;     ///< rung 3 of attention_bf16
  decltype(attention_bf16::pipelined_f16<kAny>)* attention_f16;  ///< the same, of half
  decltype(attention_backward::split<kAny>)*
      attention_backward_f32;  ///< rung 2 of attention_backward
  decltype(attention_backward_bf16::tensor_cores<kAny>)*
      attention_backward_bf16;  ///< rung 1 of attention_backward_bf16
  decltype(attention_backward_bf16::tensor_cores_f16<kAny>)*
      attention_backward_f16;  ///< the same, of half
  decltype(attention_varlen::tiles_of_documents<kAny>)*
      attention_documents;  ///< rung 3 of attention_varlen
  decltype(attention_backward_varlen::tiles_of_documents<kAny>)*
      attention_backward_documents;                      ///< rung 1 of attention_backward_varlen
  decltype(rms_norm::in_registers<kAny>)* rms_norm_f32;  ///< rung 4 of rms_norm
  decltype(rms_norm_bf16::in_registers<kAny>)* rms_norm_bf16;  ///< rung 2 of rms_norm_bf16
  decltype(rms_norm_backward::two_stages<kAny>)*
      rms_norm_backward_f32;  ///< rung 3 of rms_norm_backward
  decltype(rms_norm_backward::two_stages_bf16<kAny>)*
      rms_norm_backward_bf16;                                        ///< the same, of bf16
  decltype(swiglu::vectorised<kAny>)* swiglu_f32;                    ///< rung 3 of swiglu
  decltype(swiglu_bf16::vectorised<kAny>)* swiglu_bf16;              ///< rung 2 of swiglu_bf16
  decltype(swiglu_backward::vectorised<kAny>)* swiglu_backward_f32;  ///< rung 3 of swiglu_backward
  decltype(swiglu_backward::vectorised_bf16<kAny>)* swiglu_backward_bf16;  ///< the same, of bf16
  /// @}

  /// @name Rungs for devices of compute capability 9.0
  /// @{
  decltype(matmul_bf16::cluster_multicast<kAny>)* matmul_hopper;     ///< rung 12 of matmul_bf16
  decltype(matmul_turned::wgmma_turns<kAny>)* matmul_turned_hopper;  ///< rung 2 of matmul_turned
  decltype(matmul_fp8::wgmma<kAny>)* matmul_fp8_hopper;              ///< rung 3 of matmul_fp8
  decltype(matmul_fp8::wgmma_of_gradients<kAny>)*
      matmul_fp8_of_gradients_hopper;                            ///< the same, of e5m2
  decltype(attention_bf16::persistent<kAny>)* attention_hopper;  ///< rung 6 of attention_bf16
  decltype(attention_bf16::persistent_f16<kAny>)* attention_hopper_f16;  ///< the same, of half
  decltype(attention_bf16::ping_pong<kAny>)* attention_hopper_wide;  ///< rung 5 of attention_bf16
  decltype(attention_bf16::ping_pong_f16<kAny>)* attention_hopper_wide_f16;  ///< the same, of half
  decltype(attention_backward_bf16::one_kernel<kAny>)*
      attention_backward_hopper;  ///< rung 2 of attention_backward_bf16
  decltype(attention_backward_bf16::one_kernel_f16<kAny>)*
      attention_backward_hopper_f16;  ///< the same, of half
  /// @}

  /// @name A GPU's alone; null elsewhere
  /// @{
  decltype(vendor_product)* vendor = nullptr;  ///< cuBLASLt
  decltype(why_no_vendor_product)* why_no_vendor =
      nullptr;  ///< why that is missing; empty when it is there
  /// @}
};

/// @brief An executor's kernels; defined for kFast and, in a build with CUDA, for kGpu.
template <simt::Executor executor>
[[nodiscard]] const Table& table();

}  // namespace ultra::kernels
