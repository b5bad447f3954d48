#pragma once
/// @file
/// Table: the kernels that training takes, as functions of the host, one table for each side that a device
/// runs. A device brings its own: nothing that trains is compiled for a side, or linked with a kernel.
///
/// A row has its kernel's name; what it computes stands where that is declared.

#include <string>

#include "kernels/device/vendor_product.hpp"
#include "kernels/generic/attention.hpp"
#include "kernels/generic/combine.hpp"
#include "kernels/generic/copy.hpp"
#include "kernels/generic/elementwise.hpp"
#include "kernels/generic/fp8_grid.hpp"
#include "kernels/generic/matmul.hpp"
#include "kernels/generic/partial_softmax.hpp"
#include "kernels/generic/rows.hpp"
#include "kernels/generic/sums.hpp"
#include "kernels/generic/weighted_rows.hpp"
#include "kernels/ladders/attention/attention/attention.hpp"
#include "kernels/ladders/attention/attention_backward/attention_backward.hpp"
#include "kernels/ladders/attention/attention_backward_bf16/attention_backward_bf16.hpp"
#include "kernels/ladders/attention/attention_bf16/attention_bf16.hpp"
#include "kernels/ladders/elements/swiglu/swiglu.hpp"
#include "kernels/ladders/elements/swiglu_backward/swiglu_backward.hpp"
#include "kernels/ladders/elements/swiglu_bf16/swiglu_bf16.hpp"
#include "kernels/ladders/matmul/matmul_bf16/matmul_bf16.hpp"
#include "kernels/ladders/matmul/matmul_fp32/matmul_fp32.hpp"
#include "kernels/ladders/rows/rms_norm_backward/rms_norm_backward.hpp"
#include "kernels/simt/side.hpp"

namespace ultra::kernels {

/// @brief The functions of one side, each by the name of what it launches.
struct Table {
  /// @brief The side on which the signatures are read off: all have the same.
  static constexpr simt::Side kAny = simt::Side::kBare;

  /// @name Elements, through any strides
  /// @{
  decltype(plain::fill<kAny>)* fill;                        ///< plain::fill
  decltype(plain::copy<kAny>)* copy;                        ///< plain::copy
  decltype(plain::add<kAny>)* add;                          ///< plain::add
  decltype(plain::scale<kAny>)* scale;                      ///< plain::scale
  decltype(plain::swiglu<kAny>)* swiglu;                    ///< plain::swiglu
  decltype(plain::swiglu_backward<kAny>)* swiglu_backward;  ///< plain::swiglu_backward
  decltype(plain::adamw<kAny>)* adamw;                      ///< plain::adamw
  decltype(plain::sum_of_squares<kAny>)* sum_of_squares;    ///< plain::sum_of_squares
  /// @}

  /// @name Products and attention of every shape
  /// @{
  decltype(plain::matmul<kAny>)* matmul;                          ///< plain::matmul
  decltype(plain::attention<kAny>)* attention;                    ///< plain::attention
  decltype(plain::attention_backward<kAny>)* attention_backward;  ///< plain::attention_backward
  decltype(plain::merge_attention<kAny>)* merge_attention;        ///< plain::merge_attention
  /// @}

  /// @name Rows
  /// @{
  decltype(plain::rms_norm<kAny>)* rms_norm;                      ///< plain::rms_norm
  decltype(plain::rms_norm_backward<kAny>)* rms_norm_backward;    ///< plain::rms_norm_backward
  decltype(plain::rope<kAny>)* rope;                              ///< plain::rope
  decltype(plain::embedding<kAny>)* embedding;                    ///< plain::embedding
  decltype(plain::embedding_backward<kAny>)* embedding_backward;  ///< plain::embedding_backward
  decltype(plain::cross_entropy<kAny>)* cross_entropy;            ///< plain::cross_entropy
  decltype(plain::highest_of_rows<kAny>)* highest_of_rows;        ///< plain::highest_of_rows
  decltype(plain::exponentials_of_rows<kAny>)*
      exponentials_of_rows;  ///< plain::exponentials_of_rows
  decltype(plain::partial_cross_entropy<kAny>)*
      partial_cross_entropy;                    ///< plain::partial_cross_entropy
  decltype(plain::take_rows<kAny>)* take_rows;  ///< plain::take_rows
  decltype(plain::sum_rows<kAny>)* sum_rows;    ///< plain::sum_rows
  decltype(plain::dot_rows<kAny>)* dot_rows;    ///< plain::dot_rows
  /// @}

  /// @name Memory of several ranks
  /// @{
  decltype(plain::combine<kAny>)* combine;          ///< plain::combine
  decltype(plain::combine_all<kAny>)* combine_all;  ///< plain::combine_all
  decltype(plain::divide<kAny>)* divide;            ///< plain::divide
  /// @}

  /// @name Grids of fp8
  /// @{
  decltype(plain::amax_of_tiles<kAny>)* amax_of_tiles;              ///< plain::amax_of_tiles
  decltype(plain::power_of_two_scales<kAny>)* power_of_two_scales;  ///< plain::power_of_two_scales
  decltype(plain::scale_from_history<kAny>)* scale_from_history;    ///< plain::scale_from_history
  decltype(plain::round_to_grid<kAny>)* round_to_grid;              ///< plain::round_to_grid
  decltype(plain::pack_fp8<kAny>)* pack_fp8;                        ///< plain::pack_fp8
  decltype(plain::unpack_fp8<kAny>)* unpack_fp8;                    ///< plain::unpack_fp8
  /// @}

  /// @name Rungs of the ladders, for the shapes that they fit
  /// @{
  decltype(matmul_fp32::large_tile<kAny>)* matmul_f32;        ///< rung 9 of matmul_fp32
  decltype(matmul_bf16::wide_warp_tile<kAny>)* matmul_bf16;   ///< rung 6 of matmul_bf16
  decltype(attention::flash_grouped<kAny>)* attention_f32;    ///< rung 6 of attention
  decltype(attention_bf16::pipelined<kAny>)* attention_bf16;  ///< rung 3 of attention_bf16
  decltype(attention_backward::split<kAny>)*
      attention_backward_f32;  ///< rung 2 of attention_backward
  decltype(attention_backward_bf16::tensor_cores<kAny>)*
      attention_backward_bf16;  ///< rung 1 of attention_backward_bf16
  decltype(rms_norm_backward::two_stages<kAny>)*
      rms_norm_backward_f32;                             ///< rung 3 of rms_norm_backward
  decltype(swiglu::vectorised<kAny>)* swiglu_f32;        ///< rung 3 of swiglu
  decltype(swiglu_bf16::vectorised<kAny>)* swiglu_bf16;  ///< rung 2 of swiglu_bf16
  decltype(swiglu_backward::vectorised<kAny>)* swiglu_backward_f32;  ///< rung 3 of swiglu_backward
  /// @}

  /// @name A GPU's alone; null elsewhere
  /// @{
  decltype(matmul_bf16::cluster_multicast<kAny>)* matmul_hopper =
      nullptr;  ///< rung 12 of matmul_bf16
  decltype(attention_bf16::ping_pong<kAny>)* attention_hopper =
      nullptr;                                 ///< rung 5 of attention_bf16
  decltype(vendor_product)* vendor = nullptr;  ///< cuBLASLt
  decltype(why_no_vendor_product)* why_no_vendor =
      nullptr;  ///< why that is missing; empty when it is there
  /// @}
};

/// @brief A side's kernels; defined for kBare and, in a build with CUDA, for kGpu.
template <simt::Side side>
[[nodiscard]] const Table& table();

}  // namespace ultra::kernels
