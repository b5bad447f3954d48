#include "chapters/09_kernels/ladders.hpp"

#include <cmath>

#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/basics/reduction/reduction.hpp"

namespace ultra::ladders {
namespace {

class Reduction {
 public:
  using Problem = kernels::reduction::Problem;

  Reduction(const Sizes& sizes, std::uint64_t seed)
      : values_(normal_values(static_cast<std::size_t>(sizes[0]), seed, "values")) {}

  Problem problem(ProblemBuffers& buffers) const {
    return {.n = static_cast<int>(values_.size()),
            .values = buffers.input("values", values_),
            .total = buffers.scratch<double>("total", 1),
            .partials = buffers.scratch(
                "partials", static_cast<std::size_t>(kernels::reduction::kMostPartials)),
            .norm = buffers.output("norm", 1)};
  }

  static LadderInfo describe() {
    return {.name = "reduction",
            .title = "the norm of all gradients, sqrt(sum of squares), in fp32",
            .dimensions = {{.name = "n", .emulated = 9999, .gpu = 1 << 26}},
            .limit = Limit::kMemory};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::reduction;
    using simt::Executor;
    return RungTable<Problem>("basics/reduction")
        .add("atomics", "every thread adds its square to one number",
             []<Executor executor>(const auto&... a) { rungs_of::atomics<executor>(a...); })
        .add("scattered_tree",
             "a tree in shared memory, one atomic per block; working threads lie apart",
             []<Executor executor>(const auto&... a) { rungs_of::scattered_tree<executor>(a...); })
        .add("dense_tree", "the tree's working threads are neighbours: whole warps work or rest",
             []<Executor executor>(const auto&... a) { rungs_of::dense_tree<executor>(a...); })
        .add_exercise(
            "09.5", "warp_reduction.cu", "warp_shuffles",
            "warps add up by shuffles: one barrier instead of eight",
            []<Executor executor>(const auto&... a) { rungs_of::warp_shuffles<executor>(a...); })
        .add("two_launches",
             "16 bytes per load, few blocks with long loops, a second launch; no atomics",
             []<Executor executor>(const auto&... a) { rungs_of::two_launches<executor>(a...); })
        .rungs();
  }

  static Cost cost(const Sizes& sizes) {
    return {
        .operations = 2.0 * sizes[0], .least_bytes = 4.0 * (sizes[0] + 1.0), .written_bytes = 4.0};
  }

  /// Squares are positive, so the sum's relative error is at most gamma of the roundings on an
  /// element's way into it, which the ladder's header limits (Higham 2002, section 4.2). The root
  /// halves it and adds one of its own.
  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    double sum = 0.0;
    for (const float value : values_) {
      sum += double{value} * double{value};
    }
    const double expected = std::sqrt(sum);
    const double roundings = std::ceil(static_cast<double>(values_.size()) * 0x1p-20) + 64.0;
    Verdict verdict;
    verdict.compare("norm", 0, double{buffers.download(problem.norm).front()}, expected,
                    rounding_of(roundings) * expected);
    return verdict;
  }

 private:
  std::vector<float> values_;
};

}  // namespace

std::unique_ptr<Ladder> reduction_ladder() { return std::make_unique<LadderOf<Reduction>>(); }

}  // namespace ultra::ladders
