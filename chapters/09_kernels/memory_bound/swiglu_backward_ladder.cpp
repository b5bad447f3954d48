#include "chapters/09_kernels/ladders.hpp"

#include <cmath>

#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/elements/swiglu_backward/swiglu_backward.hpp"

namespace ultra::ladders {
namespace {

class SwigluBackward {
 public:
  using Problem = kernels::swiglu_backward::Problem;

  SwigluBackward(const Sizes& sizes, std::uint64_t seed)
      : tokens_(sizes[0]),
        ffn_(sizes[1]),
        seed_(seed),
        d_product_(normal_values(element_count(sizes), seed, "d_product")),
        gate_(normal_values(element_count(sizes), seed, "gate")),
        up_(normal_values(element_count(sizes), seed, "up")) {}

  Problem problem(ProblemBuffers& buffers) const {
    return {.tokens = tokens_,
            .ffn = ffn_,
            .d_product = buffers.input("d_product", d_product_),
            .gate = buffers.input("gate", gate_),
            .up = buffers.input("up", up_),
            .d_gate = buffers.output("d_gate", gate_.size()),
            .d_up = buffers.output("d_up", gate_.size())};
  }

  static LadderInfo describe() {
    return {.name = "swiglu_backward",
            .title = "gradients of silu(gate) up, in fp32",
            .dimensions = {{.name = "tokens", .emulated = 12, .gpu = 4096},
                           {.name = "ffn", .emulated = 352, .gpu = 11008}},
            .limit = Limit::kMemory};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::swiglu_backward;
    using simt::Executor;
    return RungTable<Problem>("elements/swiglu_backward")
        .add("two_kernels", "a kernel for each gradient",
             []<Executor executor>(const auto&... a) { rungs_of::two_kernels<executor>(a...); })
        .add("fused", "one kernel for both: shared inputs are read once",
             []<Executor executor>(const auto&... a) { rungs_of::fused<executor>(a...); })
        .add("vectorised", "accesses of 16 bytes",
             []<Executor executor>(const auto&... a) { rungs_of::vectorised<executor>(a...); })
        .rungs();
  }

  /// Per element: the sigmoid 4, d_up 2, d_gate 6.
  static Cost cost(const Sizes& sizes) {
    const double count = double(sizes[0]) * double(sizes[1]);
    return {.operations = 12.0 * count,
            .least_bytes = 4.0 * 5.0 * count,
            .written_bytes = 4.0 * 2.0 * count};
  }

  /// The sigmoid s is off by 6 u: 4 of expf (2 ulp, CUDA C++ Programming Guide, mathematical
  /// functions), one each of the addition and the division. d_up has two products more. In d_gate,
  /// 1 - s is off by 7 u of 1 at most, and 1 + gate (1 - s) so by 9 u of 1 + |gate|; the other
  /// factors add 6 + 3.
  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const std::vector<float> d_gate = buffers.download(problem.d_gate);
    const std::vector<float> d_up = buffers.download(problem.d_up);
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
