#include <cmath>

#include "chapters/09_kernels/bf16_values.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/ladders.hpp"
#include "chapters/09_kernels/memory_bound/adamw_ladder.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/elements/adamw_bf16/adamw_bf16.hpp"

namespace ultra::ladders {
namespace {

using simt::bf16;

class AdamWBf16 {
 public:
  using Problem = kernels::adamw_bf16::Problem;

  AdamWBf16(const Sizes& sizes, std::uint64_t seed)
      : seed_(seed),
        gradient_(to_bf16(normal_values(element_count(sizes), seed, "gradient"))),
        before_(random_parameters(element_count(sizes), seed)) {}

  Problem problem(ProblemBuffers& buffers) const {
    return {.n = static_cast<int>(gradient_.size()),
            .parameter = buffers.output<bf16>("parameter", gradient_.size()),
            .gradient = buffers.input("gradient", gradient_),
            .master = buffers.input("master", before_.value),
            .first_moment = buffers.input("first moment", before_.first_moment),
            .second_moment = buffers.input("second moment", before_.second_moment),
            .constants = constants_of_step()};
  }

  static LadderInfo describe() {
    return {.name = "adamw_bf16",
            .title = "one AdamW step of bf16 parameters with a master copy in fp32",
            .dimensions = {{.name = "parameters", .emulated = 5000, .gpu = 1 << 25}},
            .limit = Limit::kMemory};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::adamw_bf16;
    using simt::Executor;
    return RungTable<Problem>("elements/adamw_bf16")
        .add("two_kernels", "the update in fp32, then a kernel that rounds",
             []<Executor executor>(const auto&... a) { rungs_of::two_kernels<executor>(a...); })
        .add("fused", "one kernel, four parameters per thread",
             []<Executor executor>(const auto&... a) { rungs_of::fused<executor>(a...); })
        .rungs();
  }

  /// Operations as for the ladder adamw; read: a gradient and three floats, written: three floats
  /// and a parameter.
  static Cost cost(const Sizes& sizes) {
    const double parameters = sizes[0];
    return {.operations = 15.0 * parameters,
            .least_bytes = 2.0 * 14.0 * parameters,
            .written_bytes = 14.0 * parameters};
  }

  /// The fp32 state as for the ladder adamw; the parameter is the master copy that was written,
  /// rounded: exactly.
  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const AdamWParameters after{.value = buffers.download(problem.master),
                                .first_moment = buffers.download(problem.first_moment),
                                .second_moment = buffers.download(problem.second_moment)};
    const std::vector<bf16> parameter = buffers.download(problem.parameter);
    Verdict verdict;
    for (const std::size_t i : sample(parameter.size(), kMostParameters, seed_)) {
      compare_parameter(before_, value_of(gradient_[i]), after, i, verdict);
      verdict.compare("parameter", i, value_of(parameter[i]), value_of(bf16(after.value[i])), 0.0);
    }
    return verdict;
  }

 private:
  static constexpr std::size_t kMostParameters = std::size_t{1} << 22;  // of the f64 computation

  std::uint64_t seed_;
  std::vector<bf16> gradient_;
  AdamWParameters before_;
};

}  // namespace

std::unique_ptr<Ladder> adamw_bf16_ladder() { return std::make_unique<LadderOf<AdamWBf16>>(); }

}  // namespace ultra::ladders
