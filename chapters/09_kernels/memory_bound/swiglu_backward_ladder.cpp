#include "chapters/09_kernels/memory_bound/swiglu_backward_ladder.hpp"

#include <cmath>

#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/simt/buffer.hpp"
#include "kernels/swiglu_backward/swiglu_backward.hpp"

namespace ultra::ladders {
namespace {

namespace rungs_of = kernels::swiglu_backward;

class SwigluBackward {
 public:
  using Problem = rungs_of::Problem;

  template <simt::Side side>
  class Buffers {
   public:
    explicit Buffers(const SwigluBackward& work)
        : work_(work),
          d_product_("d_product", work.d_product_),
          gate_("gate", work.gate_),
          up_("up", work.up_),
          d_gate_("d_gate", poison(work.gate_.size())),
          d_up_("d_up", poison(work.gate_.size())) {}

    Problem problem() {
      return {.tokens = work_.tokens_,
              .ffn = work_.ffn_,
              .d_product = d_product_.data(),
              .gate = gate_.data(),
              .up = up_.data(),
              .d_gate = d_gate_.data(),
              .d_up = d_up_.data()};
    }
    [[nodiscard]] std::vector<float> d_gate() const { return d_gate_.download(); }
    [[nodiscard]] std::vector<float> d_up() const { return d_up_.download(); }

   private:
    const SwigluBackward& work_;
    simt::Buffer<float, side> d_product_;
    simt::Buffer<float, side> gate_;
    simt::Buffer<float, side> up_;
    simt::Buffer<float, side> d_gate_;
    simt::Buffer<float, side> d_up_;
  };

  SwigluBackward(const Sizes& sizes, std::uint64_t seed)
      : tokens_(sizes[0]),
        ffn_(sizes[1]),
        seed_(seed),
        d_product_(normal_values(count(), seed, "d_product")),
        gate_(normal_values(count(), seed, "gate")),
        up_(normal_values(count(), seed, "up")) {}

  static LadderInfo describe() {
    return {.name = "swiglu_backward",
            .title = "gradients of silu(gate) up, in fp32",
            .dimensions = {{.name = "tokens", .emulated = 12, .gpu = 4096},
                           {.name = "ffn", .emulated = 352, .gpu = 11008}},
            .limit = Limit::kMemory};
  }

  static std::vector<Rung<Problem>> rungs() {
    using simt::Side;
    return {{.info = {.number = 1,
                      .name = "two_kernels",
                      .idea = "a kernel for each gradient",
                      .file = "kernels/swiglu_backward/01_two_kernels.cu"},
             .launchers = everywhere<Problem>(
                 []<Side side>(const auto&... a) { rungs_of::two_kernels<side>(a...); })},
            {.info = {.number = 2,
                      .name = "fused",
                      .idea = "one kernel for both: shared inputs are read once",
                      .file = "kernels/swiglu_backward/02_fused.cu"},
             .launchers = everywhere<Problem>(
                 []<Side side>(const auto&... a) { rungs_of::fused<side>(a...); })},
            {.info = {.number = 3,
                      .name = "vectorised",
                      .idea = "accesses of 16 bytes",
                      .file = "kernels/swiglu_backward/03_vectorised.cu"},
             .launchers = everywhere<Problem>(
                 []<Side side>(const auto&... a) { rungs_of::vectorised<side>(a...); })}};
  }

  /// Per element: the sigmoid 4, d_up 2, d_gate 6.
  static Cost cost(const Sizes& sizes) {
    const double count = double(sizes[0]) * double(sizes[1]);
    return {.operations = 12.0 * count, .least_bytes = 4.0 * 5.0 * count};
  }

  /// The sigmoid s is off by 6 u: 4 of expf (2 ulp, CUDA C++ Programming Guide, mathematical
  /// functions), one each of the addition and the division. d_up has two products more. In d_gate,
  /// 1 - s is off by 7 u of 1 at most, and 1 + gate (1 - s) so by 9 u of 1 + |gate|; the other
  /// factors add 6 + 3.
  template <simt::Side side>
  Verdict judge(const Buffers<side>& buffers) const {
    const std::vector<float> d_gate = buffers.d_gate();
    const std::vector<float> d_up = buffers.d_up();
    Verdict verdict;
    for (const std::size_t i : sample(d_up.size(), kMostElements, seed_)) {
      const double gate = gate_[i];
      const double s = 1.0 / (1.0 + std::exp(-gate));
      const double of_up = double{d_product_[i]} * gate * s;
      const double factor = double{d_product_[i]} * double{up_[i]} * s;
      verdict.compare("d_up", i, double{d_up[i]}, of_up, rounding_of(8) * std::abs(of_up));
      verdict.compare("d_gate", i, double{d_gate[i]}, factor * (1.0 + gate * (1.0 - s)),
                      rounding_of(18) * std::abs(factor) * (1.0 + std::abs(gate)));
    }
    return verdict;
  }

 private:
  static constexpr std::size_t kMostElements = std::size_t{1} << 22;  // of the f64 computation

  [[nodiscard]] std::size_t count() const {
    return static_cast<std::size_t>(tokens_) * static_cast<std::size_t>(ffn_);
  }

  int tokens_;
  int ffn_;
  std::uint64_t seed_;
  std::vector<float> d_product_;  // (tokens, ffn)
  std::vector<float> gate_;       // (tokens, ffn)
  std::vector<float> up_;         // (tokens, ffn)
};

}  // namespace

std::unique_ptr<Ladder> swiglu_backward_ladder() {
  return std::make_unique<LadderOf<SwigluBackward>>();
}

}  // namespace ultra::ladders
