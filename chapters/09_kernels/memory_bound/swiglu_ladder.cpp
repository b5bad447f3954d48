#include "chapters/09_kernels/ladders.hpp"

#include <cmath>

#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/elements/swiglu/swiglu.hpp"

namespace ultra::ladders {
namespace {

class Swiglu {
 public:
  using Problem = kernels::swiglu::Problem;

  Swiglu(const Sizes& sizes, std::uint64_t seed)
      : tokens_(sizes[0]),
        ffn_(sizes[1]),
        seed_(seed),
        gate_(normal_values(element_count(sizes), seed, "gate")),
        up_(normal_values(element_count(sizes), seed, "up")) {}

  Problem problem(ProblemBuffers& buffers) const {
    return {.tokens = tokens_,
            .ffn = ffn_,
            .gate = buffers.input("gate", gate_),
            .up = buffers.input("up", up_),
            .product = buffers.output("product", gate_.size()),
            .activated = buffers.scratch("activated", gate_.size())};
  }

  static LadderInfo describe() {
    return {.name = "swiglu",
            .title = "silu(gate) up, in fp32",
            .dimensions = {{.name = "tokens", .emulated = 12, .gpu = 4096},
                           {.name = "ffn", .emulated = 352, .gpu = 11008}},
            .limit = Limit::kMemory};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::swiglu;
    using simt::Executor;
    return RungTable<Problem>("elements/swiglu")
        .add("two_kernels", "a kernel for silu, another one for the product",
             []<Executor executor>(const auto&... a) { rungs_of::two_kernels<executor>(a...); })
        .add("fused", "one kernel: silu(gate) stays in a register",
             []<Executor executor>(const auto&... a) { rungs_of::fused<executor>(a...); })
        .add("vectorised", "accesses of 16 bytes",
             []<Executor executor>(const auto&... a) { rungs_of::vectorised<executor>(a...); })
        .rungs();
  }

  /// Per element: sign, exponential, addition, division, product.
  static Cost cost(const Sizes& sizes) {
    const double count = double(sizes[0]) * double(sizes[1]);
    return {
        .operations = 5.0 * count, .least_bytes = 4.0 * 3.0 * count, .written_bytes = 4.0 * count};
  }

  /// expf is off by at most 2 ulp, 4 u (CUDA C++ Programming Guide, mathematical functions), the
  /// three operations behind it by u each.
  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const std::vector<float> product = buffers.download(problem.product);
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

  int tokens_;
  int ffn_;
  std::uint64_t seed_;
  std::vector<float> gate_;  // (tokens, ffn)
  std::vector<float> up_;    // (tokens, ffn)
};

}  // namespace

std::unique_ptr<Ladder> swiglu_ladder() { return std::make_unique<LadderOf<Swiglu>>(); }

}  // namespace ultra::ladders
