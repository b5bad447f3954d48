// The kernels that training takes, of the executor that this source is compiled for.

#include "kernels/table/table.hpp"

namespace ultra::kernels {
namespace {

constexpr simt::Executor kThis = simt::kExecutor;

Table make_table() {
  Table table{
      .fill = generic::fill<kThis>,
      .copy = generic::copy<kThis>,
      .add = generic::add<kThis>,
      .scale = generic::scale<kThis>,
      .swiglu = generic::swiglu<kThis>,
      .swiglu_backward = generic::swiglu_backward<kThis>,
      .adamw = generic::adamw<kThis>,
      .sum_of_squares = generic::sum_of_squares<kThis>,
      .exact_sum_of = generic::exact_sum_of<kThis>,
      .matmul = generic::matmul<kThis>,
      .attention = generic::attention<kThis>,
      .attention_backward = generic::attention_backward<kThis>,
      .merge_attention = generic::merge_attention<kThis>,
      .rms_norm = generic::rms_norm<kThis>,
      .rms_norm_backward = generic::rms_norm_backward<kThis>,
      .rope = generic::rope<kThis>,
      .embedding = generic::embedding<kThis>,
      .embedding_backward = generic::embedding_backward<kThis>,
      .cross_entropy = generic::cross_entropy<kThis>,
      .highest_of_rows = generic::highest_of_rows<kThis>,
      .exponentials_of_rows = generic::exponentials_of_rows<kThis>,
      .partial_cross_entropy = generic::partial_cross_entropy<kThis>,
      .take_rows = generic::take_rows<kThis>,
      .sum_rows = generic::sum_rows<kThis>,
      .dot_rows = generic::dot_rows<kThis>,
      .combine = generic::combine<kThis>,
      .combine_all = generic::combine_all<kThis>,
      .divide = generic::divide<kThis>,
      .amax_of_tiles = generic::amax_of_tiles<kThis>,
      .power_of_two_scales = generic::power_of_two_scales<kThis>,
      .scale_from_history = generic::scale_from_history<kThis>,
      .round_to_grid = generic::round_to_grid<kThis>,
      .pack_fp8 = generic::pack_fp8<kThis>,
      .unpack_fp8 = generic::unpack_fp8<kThis>,
      .pack_factor = generic::pack_factor<kThis>,
      .matmul_f32 = matmul_fp32::large_tile<kThis>,
      .matmul_bf16 = matmul_bf16::wide_warp_tile<kThis>,
      .matmul_turned = matmul_turned::ldmatrix_turns<kThis>,
      .attention_f32 = attention::flash_grouped<kThis>,
      .attention_bf16 = attention_bf16::pipelined<kThis>,
      .attention_f16 = attention_bf16::pipelined_f16<kThis>,
      .attention_backward_f32 = attention_backward::split<kThis>,
      .attention_backward_bf16 = attention_backward_bf16::tensor_cores<kThis>,
      .attention_backward_f16 = attention_backward_bf16::tensor_cores_f16<kThis>,
      .attention_documents = attention_varlen::tiles_of_documents<kThis>,
      .attention_backward_documents = attention_backward_varlen::tiles_of_documents<kThis>,
      .rms_norm_f32 = rms_norm::in_registers<kThis>,
      .rms_norm_bf16 = rms_norm_bf16::in_registers<kThis>,
      .rms_norm_backward_f32 = rms_norm_backward::two_stages<kThis>,
      .rms_norm_backward_bf16 = rms_norm_backward::two_stages_bf16<kThis>,
      .swiglu_f32 = swiglu::vectorised<kThis>,
      .swiglu_bf16 = swiglu_bf16::vectorised<kThis>,
      .swiglu_backward_f32 = swiglu_backward::vectorised<kThis>,
      .swiglu_backward_bf16 = swiglu_backward::vectorised_bf16<kThis>,
      .matmul_hopper = matmul_bf16::cluster_multicast<kThis>,
      .matmul_turned_hopper = matmul_turned::wgmma_turns<kThis>,
      .matmul_fp8_hopper = matmul_fp8::wgmma<kThis>,
      .matmul_fp8_of_gradients_hopper = matmul_fp8::wgmma_of_gradients<kThis>,
      .attention_hopper = attention_bf16::persistent<kThis>,
      .attention_hopper_f16 = attention_bf16::persistent_f16<kThis>,
      .attention_hopper_wide = attention_bf16::ping_pong<kThis>,
      .attention_hopper_wide_f16 = attention_bf16::ping_pong_f16<kThis>,
      .attention_backward_hopper = attention_backward_bf16::one_kernel<kThis>,
      .attention_backward_hopper_f16 = attention_backward_bf16::one_kernel_f16<kThis>,
  };
  if constexpr (kThis == simt::Executor::kGpu) {
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
