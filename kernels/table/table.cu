// The kernels that training takes, of the side that this source is compiled for.

#include "kernels/table/table.hpp"

namespace ultra::kernels {
namespace {

constexpr simt::Side kThis = simt::kSide;

Table make_table() {
  Table table{
      .fill = plain::fill<kThis>,
      .copy = plain::copy<kThis>,
      .add = plain::add<kThis>,
      .scale = plain::scale<kThis>,
      .swiglu = plain::swiglu<kThis>,
      .swiglu_backward = plain::swiglu_backward<kThis>,
      .adamw = plain::adamw<kThis>,
      .sum_of_squares = plain::sum_of_squares<kThis>,
      .matmul = plain::matmul<kThis>,
      .attention = plain::attention<kThis>,
      .attention_backward = plain::attention_backward<kThis>,
      .merge_attention = plain::merge_attention<kThis>,
      .rms_norm = plain::rms_norm<kThis>,
      .rms_norm_backward = plain::rms_norm_backward<kThis>,
      .rope = plain::rope<kThis>,
      .embedding = plain::embedding<kThis>,
      .embedding_backward = plain::embedding_backward<kThis>,
      .cross_entropy = plain::cross_entropy<kThis>,
      .highest_of_rows = plain::highest_of_rows<kThis>,
      .exponentials_of_rows = plain::exponentials_of_rows<kThis>,
      .partial_cross_entropy = plain::partial_cross_entropy<kThis>,
      .take_rows = plain::take_rows<kThis>,
      .sum_rows = plain::sum_rows<kThis>,
      .dot_rows = plain::dot_rows<kThis>,
      .combine = plain::combine<kThis>,
      .combine_all = plain::combine_all<kThis>,
      .divide = plain::divide<kThis>,
      .amax_of_tiles = plain::amax_of_tiles<kThis>,
      .power_of_two_scales = plain::power_of_two_scales<kThis>,
      .scale_from_history = plain::scale_from_history<kThis>,
      .round_to_grid = plain::round_to_grid<kThis>,
      .pack_fp8 = plain::pack_fp8<kThis>,
      .unpack_fp8 = plain::unpack_fp8<kThis>,
      .matmul_f32 = matmul_fp32::large_tile<kThis>,
      .matmul_bf16 = matmul_bf16::wide_warp_tile<kThis>,
      .attention_f32 = attention::flash_grouped<kThis>,
      .attention_bf16 = attention_bf16::pipelined<kThis>,
      .attention_backward_f32 = attention_backward::split<kThis>,
      .attention_backward_bf16 = attention_backward_bf16::tensor_cores<kThis>,
      .rms_norm_backward_f32 = rms_norm_backward::two_stages<kThis>,
      .swiglu_f32 = swiglu::vectorised<kThis>,
      .swiglu_bf16 = swiglu_bf16::vectorised<kThis>,
      .swiglu_backward_f32 = swiglu_backward::vectorised<kThis>,
  };
  if constexpr (kThis == simt::Side::kGpu) {
    table.matmul_hopper = matmul_bf16::cluster_multicast<kThis>;
    table.attention_hopper = attention_bf16::ping_pong<kThis>;
    table.vendor = vendor_product;
    table.why_no_vendor = why_no_vendor_product;
  }
  return table;
}

}  // namespace

template <>
const Table& table<kThis>() {
  static const Table made = make_table();
  return made;
}

}  // namespace ultra::kernels
