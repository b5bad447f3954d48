#include "chapters/09_kernels/ladders.hpp"

#include <cmath>

#include "chapters/09_kernels/bf16_values.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/elements/swiglu_bf16/swiglu_bf16.hpp"

namespace ultra::ladders {
namespace {

using simt::bf16;

class SwigluBf16 {
 public:
  using Problem = kernels::swiglu_bf16::Problem;

  SwigluBf16(const Sizes& sizes, std::uint64_t seed)
      : tokens_(sizes[0]),
        ffn_(sizes[1]),
        seed_(seed),
        gate_(to_bf16(normal_values(element_count(sizes), seed, "gate"))),
        up_(to_bf16(normal_values(element_count(sizes), seed, "up"))) {}

  Problem problem(ProblemBuffers& buffers) const {
    return {.tokens = tokens_,
            .ffn = ffn_,
            .gate = buffers.input("gate", gate_),
            .up = buffers.input("up", up_),
            .product = buffers.output<bf16>("product", gate_.size())};
  }

  static LadderInfo describe() {
    return {.name = "swiglu_bf16",
            .title = "silu(gate) up, in bf16",
            .dimensions = {{.name = "tokens", .emulated = 12, .gpu = 8192},
                           {.name = "ffn", .emulated = 352, .gpu = 11008}},
            .limit = Limit::kMemory};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::swiglu_bf16;
    using simt::Executor;
    return RungTable<Problem>("elements/swiglu_bf16")
        .add("element_each", "an element per thread: half of each request is unused",
             []<Executor executor>(const auto&... a) { rungs_of::element_each<executor>(a...); })
        .add("vectorised", "accesses of 16 bytes, which are eight elements",
             []<Executor executor>(const auto&... a) { rungs_of::vectorised<executor>(a...); })
        .rungs();
  }

  /// Per element: sign, exponential, addition, division, product.
  static Cost cost(const Sizes& sizes) {
    const double count = double(sizes[0]) * double(sizes[1]);
    return {
        .operations = 5.0 * count, .least_bytes = 2.0 * 3.0 * count, .written_bytes = 2.0 * count};
  }

  /// In fp32 as for the ladder swiglu; then one rounding to bf16.
  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const std::vector<bf16> product = buffers.download(problem.product);
    Verdict verdict;
    for (const std::size_t i : sample(product.size(), kMostElements, seed_)) {
      const double gate = value_of(gate_[i]);
      const double expected = gate / (1.0 + std::exp(-gate)) * value_of(up_[i]);
      verdict.compare("product", i, value_of(product[i]), expected,
                      bf16_error(expected, rounding_of(7) * std::abs(expected)));
    }
    return verdict;
  }

 private:
  static constexpr std::size_t kMostElements = std::size_t{1} << 22;  // of the f64 computation

  int tokens_;
  int ffn_;
  std::uint64_t seed_;
  std::vector<bf16> gate_;  // (tokens, ffn)
  std::vector<bf16> up_;    // (tokens, ffn)
};

}  // namespace

std::unique_ptr<Ladder> swiglu_bf16_ladder() { return std::make_unique<LadderOf<SwigluBf16>>(); }

}  // namespace ultra::ladders
