#include "chapters/09_kernels/memory_bound/reduction_ladder.hpp"

#include <cmath>

#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/reduction/reduction.hpp"
#include "kernels/simt/buffer.hpp"

namespace ultra::ladders {
namespace {

namespace rungs_of = kernels::reduction;

class Reduction {
 public:
  using Problem = rungs_of::Problem;

  template <simt::Side side>
  class Buffers {
   public:
    explicit Buffers(const Reduction& work)
        : values_("values", work.values_),
          total_("total", 1),
          partials_("partials", static_cast<std::size_t>(rungs_of::kMostPartials)),
          norm_("norm", poison(1)) {}

    Problem problem() {
      return {.n = static_cast<int>(values_.size()),
              .values = values_.data(),
              .total = total_.data(),
              .partials = partials_.data(),
              .norm = norm_.data()};
    }
    [[nodiscard]] float norm() const { return norm_.download().front(); }

   private:
    simt::Buffer<float, side> values_;
    simt::Buffer<double, side> total_;
    simt::Buffer<float, side> partials_;
    simt::Buffer<float, side> norm_;
  };

  Reduction(const Sizes& sizes, std::uint64_t seed)
      : values_(normal_values(static_cast<std::size_t>(sizes[0]), seed, "values")) {}

  static LadderInfo describe() {
    return {.name = "reduction",
            .title = "the norm of all gradients, sqrt(sum of squares), in fp32",
            .dimensions = {{.name = "n", .emulated = 9999, .gpu = 1 << 26}},
            .limit = Limit::kMemory};
  }

  static std::vector<Rung<Problem>> rungs() {
    using simt::Side;
    return {
        {.info = {.number = 1,
                  .name = "atomics",
                  .idea = "every thread adds its square to one number",
                  .file = "kernels/reduction/01_atomics.cu"},
         .launchers = everywhere<Problem>(
             []<Side side>(const auto&... a) { rungs_of::atomics<side>(a...); })},
        {.info = {.number = 2,
                  .name = "scattered_tree",
                  .idea =
                      "a tree in shared memory, one atomic per block; working threads lie apart",
                  .file = "kernels/reduction/02_scattered_tree.cu"},
         .launchers = everywhere<Problem>(
             []<Side side>(const auto&... a) { rungs_of::scattered_tree<side>(a...); })},
        {.info = {.number = 3,
                  .name = "dense_tree",
                  .idea = "the tree's working threads are neighbours: whole warps work or rest",
                  .file = "kernels/reduction/03_dense_tree.cu"},
         .launchers = everywhere<Problem>(
             []<Side side>(const auto&... a) { rungs_of::dense_tree<side>(a...); })},
        {.info = {.number = 4,
                  .name = "warp_shuffles",
                  .idea = "warps add up by shuffles: one barrier instead of eight",
                  .file = "solutions/09_kernels/warp_reduction.cu",
                  .exercise = "09.5"},
         .launchers = everywhere<Problem>(
             []<Side side>(const auto&... a) { rungs_of::warp_shuffles<side>(a...); })},
        {.info = {.number = 5,
                  .name = "two_launches",
                  .idea =
                      "16 bytes per load, few blocks with long loops, a second launch; no atomics",
                  .file = "kernels/reduction/05_two_launches.cu"},
         .launchers = everywhere<Problem>(
             []<Side side>(const auto&... a) { rungs_of::two_launches<side>(a...); })}};
  }

  static Cost cost(const Sizes& sizes) {
    return {.operations = 2.0 * sizes[0], .least_bytes = 4.0 * (sizes[0] + 1.0)};
  }

  /// Squares are positive, so the sum's relative error is at most gamma of the roundings on an
  /// element's way into it, which the ladder's header limits (Higham 2002, section 4.2). The root
  /// halves it and adds one of its own.
  template <simt::Side side>
  Verdict judge(const Buffers<side>& buffers) const {
    double sum = 0.0;
    for (const float value : values_) {
      sum += double{value} * double{value};
    }
    const double expected = std::sqrt(sum);
    const double roundings = std::ceil(static_cast<double>(values_.size()) * 0x1p-20) + 64.0;
    Verdict verdict;
    verdict.compare("norm", 0, double{buffers.norm()}, expected, rounding_of(roundings) * expected);
    return verdict;
  }

 private:
  std::vector<float> values_;
};

}  // namespace

std::unique_ptr<Ladder> reduction_ladder() { return std::make_unique<LadderOf<Reduction>>(); }

}  // namespace ultra::ladders
