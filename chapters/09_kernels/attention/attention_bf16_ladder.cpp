#include "chapters/09_kernels/attention/attention_bf16_ladder.hpp"

#include <fmt/format.h>

#include "chapters/09_kernels/attention/attention_reference.hpp"
#include "chapters/09_kernels/bf16_values.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/attention_bf16/attention_bf16.hpp"
#include "kernels/device/device_info.hpp"
#include "kernels/simt/buffer.hpp"

namespace ultra::ladders {
namespace {

namespace rungs_of = kernels::attention_bf16;
using simt::bf16;

// As for the other rungs, and a GPU that has TMA and wgmma.
std::string refuse_for_hopper(const Sizes& sizes) {
  if (std::string shape_refusal = refuse_attention_bf16(sizes); !shape_refusal.empty()) {
    return shape_refusal;
  }
  const std::vector<kernels::DeviceInfo> devices = kernels::list_devices();
  if (!devices.empty() &&
      (devices[0].compute_capability_major != 9 || devices[0].compute_capability_minor != 0)) {
    return fmt::format(
        "{} has compute capability {}.{}, expected 9.0 (H100, H200): wgmma exists nowhere else. "
        "Hint: rungs 1 to 3 run on any GPU since the A100",
        devices[0].name, devices[0].compute_capability_major, devices[0].compute_capability_minor);
  }
  return {};
}

class AttentionBf16 {
 public:
  using Problem = rungs_of::Problem;

  template <simt::Side side>
  class Buffers {
   public:
    explicit Buffers(const AttentionBf16& work)
        : shape_(work.inputs_.shape),
          q_("q", to_bf16(work.inputs_.q)),
          k_("k", to_bf16(work.inputs_.k)),
          v_("v", to_bf16(work.inputs_.v)),
          o_("o", to_bf16(poison(work.inputs_.q.size()))),
          lse_("lse", poison(shape_.rows())) {}

    Problem problem() {
      return {.shape = shape_,
              .q = q_.data(),
              .k = k_.data(),
              .v = v_.data(),
              .o = o_.data(),
              .lse = lse_.data()};
    }
    [[nodiscard]] std::vector<float> o() const { return to_float(o_.download()); }
    [[nodiscard]] std::vector<float> lse() const { return lse_.download(); }

   private:
    AttentionShape shape_;
    simt::Buffer<bf16, side> q_;
    simt::Buffer<bf16, side> k_;
    simt::Buffer<bf16, side> v_;
    simt::Buffer<bf16, side> o_;
    simt::Buffer<float, side> lse_;
  };

  AttentionBf16(const Sizes& sizes, std::uint64_t seed) : inputs_(draw_attention(sizes, seed)) {
    for (std::vector<float>* const values : {&inputs_.q, &inputs_.k, &inputs_.v}) {
      *values = to_float(to_bf16(*values));
    }
  }

  static LadderInfo describe() {
    return {.name = "attention_bf16",
            .title = "o = softmax(scale q k^T) v in bf16 on tensor cores, causal for odd seeds",
            .dimensions = attention_dimensions({1, 1, 2, 136, 32}),
            .limit = Limit::kBf16};
  }

  static std::vector<Rung<Problem>> rungs() {
    using simt::Side;
    return {{.info = {.number = 1,
                      .name = "tensor_cores",
                      .idea = "flash attention with mma.sync, weights stay in registers",
                      .file = "kernels/attention_bf16/01_tensor_cores.cu"},
             .launchers = everywhere<Problem>(
                 []<Side side>(const auto&... a) { rungs_of::tensor_cores<side>(a...); }),
             .refusal = refuse_attention_bf16},
            {.info = {.number = 2,
                      .name = "swizzled",
                      .idea = "swizzled rows without bank conflicts, ldmatrix",
                      .file = "kernels/attention_bf16/02_swizzled.cu"},
             .launchers = everywhere<Problem>(
                 []<Side side>(const auto&... a) { rungs_of::swizzled<side>(a...); }),
             .refusal = refuse_attention_bf16},
            {.info = {.number = 3,
                      .name = "pipelined",
                      .idea = "the next keys and values are copied while these are multiplied",
                      .file = "kernels/attention_bf16/03_pipelined.cu"},
             .launchers = everywhere<Problem>(
                 []<Side side>(const auto&... a) { rungs_of::pipelined<side>(a...); }),
             .refusal = refuse_attention_bf16},
            {.info = {.number = 4,
                      .name = "warpgroups",
                      .idea = "wgmma on tiles that TMA brings, beside the softmax",
                      .file = "kernels/attention_bf16/hopper/04_warpgroups.cu",
                      .needs = Needs::kHopper},
             .launchers = on_gpu<Problem>(
                 []<Side side>(const auto&... a) { rungs_of::warpgroups<side>(a...); }),
             .refusal = refuse_for_hopper}};
  }

  // Of the causal problem, which seed 1 gives: two products of 2 D operations per pair.
  static Cost cost(const Sizes& sizes) {
    const double rows = double(sizes[0]) * sizes[1] * sizes[2] * sizes[3];
    const double elements = rows * sizes[4];
    return {.operations = 4.0 * causal_pairs(sizes) * sizes[4],
            .least_bytes = 2.0 * (2.0 * elements + 2.0 * elements / sizes[2]) + 4.0 * rows};
  }

  template <simt::Side side>
  Verdict judge(const Buffers<side>& buffers) const {
    return judge_attention(inputs_, buffers.o(), buffers.lse(),
                           {.weights = kBf16Rounding, .output = kBf16Rounding});
  }

 private:
  AttentionInputs inputs_;  // rounded to bf16
};

}  // namespace

std::unique_ptr<Ladder> attention_bf16_ladder() {
  return std::make_unique<LadderOf<AttentionBf16>>();
}

// Rows begin at multiples of 16 bytes.
std::string refuse_attention_bf16(const Sizes& sizes) {
  if (sizes[4] % 8 != 0 || sizes[4] > kernels::attention::kMostHeadDim) {
    return fmt::format("head_dim is {}, expected a multiple of 8, at most {}", sizes[4],
                       kernels::attention::kMostHeadDim);
  }
  return {};
}

}  // namespace ultra::ladders
