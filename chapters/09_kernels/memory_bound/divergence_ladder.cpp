#include "chapters/09_kernels/ladders.hpp"

#include <cmath>

#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/basics/divergence/divergence.hpp"

namespace ultra::ladders {
namespace {

class Divergence {
 public:
  using Problem = kernels::divergence::Problem;

  Divergence(const Sizes& sizes, std::uint64_t seed)
      : tokens_(sizes[0]),
        pairs_(sizes[1]),
        seed_(seed),
        in_(normal_values(2 * element_count(sizes), seed, "in")),
        cosines_(element_count(sizes)),
        sines_(element_count(sizes)) {
    // Angles of "RoFormer", section 3.2.2: token x 10000^(-pair / pairs).
    constexpr double kBase = 10000.0;
    std::vector<double> frequencies;
    for (int pair = 0; pair < pairs_; ++pair) {
      frequencies.push_back(std::pow(kBase, -static_cast<double>(pair) / pairs_));
    }
    for (std::size_t i = 0; i < sines_.size(); ++i) {
      const std::size_t token = i / frequencies.size();
      const double angle = static_cast<double>(token) * frequencies[i % frequencies.size()];
      cosines_[i] = static_cast<float>(std::cos(angle));
      sines_[i] = static_cast<float>(std::sin(angle));
    }
  }

  Problem problem(ProblemBuffers& buffers) const {
    return {.tokens = tokens_,
            .pairs = pairs_,
            .in = buffers.input("in", in_),
            .cosines = buffers.input("cosines", cosines_),
            .sines = buffers.input("sines", sines_),
            .out = buffers.output("out", in_.size())};
  }

  static LadderInfo describe() {
    return {.name = "divergence",
            .title = "rotary position embedding in fp32: neighbours do different work",
            .dimensions = {{.name = "tokens", .emulated = 60, .gpu = 1 << 18},
                           {.name = "pairs", .emulated = 64, .gpu = 64}},
            .limit = Limit::kMemory};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::divergence;
    using simt::Executor;
    return RungTable<Problem>("basics/divergence")
        .add("branched", "a thread per element, with a branch between even and odd ones",
             []<Executor executor>(const auto&... a) { rungs_of::branched<executor>(a...); })
        .add("sorted", "warps of even and warps of odd elements: the lanes agree, but lie apart",
             []<Executor executor>(const auto&... a) { rungs_of::sorted<executor>(a...); })
        .add("arithmetic", "one expression for both, with a sign",
             []<Executor executor>(const auto&... a) { rungs_of::arithmetic<executor>(a...); })
        .add("paired", "a thread per two pairs: nothing left to decide, everything read once",
             []<Executor executor>(const auto&... a) { rungs_of::paired<executor>(a...); })
        .rungs();
  }

  /// A product and a multiply-add per element; in, both tables and out once.
  static Cost cost(const Sizes& sizes) {
    const double pairs = static_cast<double>(sizes[0]) * sizes[1];
    return {.operations = 6.0 * pairs,
            .least_bytes = 4.0 * (2.0 + 1.0 + 1.0 + 2.0) * pairs,
            .written_bytes = 4.0 * 2.0 * pairs};
  }

  /// Two products and a sum: at most 2 roundings on each term.
  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const std::vector<float> out = buffers.download(problem.out);
    Verdict verdict;
    for (const std::size_t i : sample(out.size(), kMostElements, seed_)) {
      const double own = double{in_[i]} * double{cosines_[i / 2]};
      const double partner = double{in_[i ^ 1U]} * double{sines_[i / 2]};
      verdict.compare("out", i, double{out[i]}, i % 2 == 0 ? own - partner : own + partner,
                      rounding_of(2) * (std::abs(own) + std::abs(partner)));
    }
    return verdict;
  }

 private:
  static constexpr std::size_t kMostElements = std::size_t{1} << 24;  // of the f64 computation

  int tokens_;
  int pairs_;
  std::uint64_t seed_;
  std::vector<float> in_;       // (tokens, 2 pairs)
  std::vector<float> cosines_;  // (tokens, pairs)
  std::vector<float> sines_;    // (tokens, pairs)
};

}  // namespace

std::unique_ptr<Ladder> divergence_ladder() { return std::make_unique<LadderOf<Divergence>>(); }

}  // namespace ultra::ladders
