#include "chapters/09_kernels/memory_bound/swiglu_ladder.hpp"

#include <cmath>

#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/simt/buffer.hpp"
#include "kernels/swiglu/swiglu.hpp"

namespace ultra::ladders {
namespace {

namespace rungs_of = kernels::swiglu;

class Swiglu {
 public:
  using Problem = rungs_of::Problem;

  template <simt::Side side>
  class Buffers {
   public:
    explicit Buffers(const Swiglu& work)
        : work_(work),
          gate_("gate", work.gate_),
          up_("up", work.up_),
          product_("product", poison(work.gate_.size())),
          activated_("activated", work.gate_.size()) {}

    Problem problem() {
      return {.tokens = work_.tokens_,
              .ffn = work_.ffn_,
              .gate = gate_.data(),
              .up = up_.data(),
              .product = product_.data(),
              .activated = activated_.data()};
    }
    [[nodiscard]] std::vector<float> product() const { return product_.download(); }

   private:
    const Swiglu& work_;
    simt::Buffer<float, side> gate_;
    simt::Buffer<float, side> up_;
    simt::Buffer<float, side> product_;
    simt::Buffer<float, side> activated_;
  };

  Swiglu(const Sizes& sizes, std::uint64_t seed)
      : tokens_(sizes[0]),
        ffn_(sizes[1]),
        seed_(seed),
        gate_(normal_values(count(), seed, "gate")),
        up_(normal_values(count(), seed, "up")) {}

  static LadderInfo describe() {
    return {.name = "swiglu",
            .title = "silu(gate) up, in fp32",
            .dimensions = {{.name = "tokens", .emulated = 12, .gpu = 4096},
                           {.name = "ffn", .emulated = 352, .gpu = 11008}},
            .limit = Limit::kMemory};
  }

  static std::vector<Rung<Problem>> rungs() {
    using simt::Side;
    return {{.info = {.number = 1,
                      .name = "two_kernels",
                      .idea = "a kernel for silu, another one for the product",
                      .file = "kernels/swiglu/01_two_kernels.cu"},
             .launchers = everywhere<Problem>(
                 []<Side side>(const auto&... a) { rungs_of::two_kernels<side>(a...); })},
            {.info = {.number = 2,
                      .name = "fused",
                      .idea = "one kernel: silu(gate) stays in a register",
                      .file = "kernels/swiglu/02_fused.cu"},
             .launchers = everywhere<Problem>(
                 []<Side side>(const auto&... a) { rungs_of::fused<side>(a...); })},
            {.info = {.number = 3,
                      .name = "vectorised",
                      .idea = "accesses of 16 bytes",
                      .file = "kernels/swiglu/03_vectorised.cu"},
             .launchers = everywhere<Problem>(
                 []<Side side>(const auto&... a) { rungs_of::vectorised<side>(a...); })}};
  }

  /// Per element: sign, exponential, addition, division, product.
  static Cost cost(const Sizes& sizes) {
    const double count = double(sizes[0]) * double(sizes[1]);
    return {.operations = 5.0 * count, .least_bytes = 4.0 * 3.0 * count};
  }

  /// expf is off by at most 2 ulp, 4 u (CUDA C++ Programming Guide, mathematical functions), the
  /// three operations behind it by u each.
  template <simt::Side side>
  Verdict judge(const Buffers<side>& buffers) const {
    const std::vector<float> product = buffers.product();
    Verdict verdict;
    for (const std::size_t i : sample(product.size(), kMostElements, seed_)) {
      const double gate = gate_[i];
      const double expected = gate / (1.0 + std::exp(-gate)) * double{up_[i]};
      verdict.compare("product", i, double{product[i]}, expected,
                      rounding_of(7) * std::abs(expected));
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
  std::vector<float> gate_;  // (tokens, ffn)
  std::vector<float> up_;    // (tokens, ffn)
};

}  // namespace

std::unique_ptr<Ladder> swiglu_ladder() { return std::make_unique<LadderOf<Swiglu>>(); }

}  // namespace ultra::ladders
