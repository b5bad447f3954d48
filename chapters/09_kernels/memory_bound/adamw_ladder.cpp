#include "chapters/09_kernels/memory_bound/adamw_ladder.hpp"

#include <algorithm>
#include <cmath>

#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/ladders.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/elements/adamw/adamw.hpp"

namespace ultra::ladders {
namespace {

// One tensor's values on the host.
struct Values {
  AdamWParameters parameters;
  std::vector<float> gradient;
};

class AdamW {
 public:
  using Problem = kernels::adamw::Problem;

  AdamW(const Sizes& sizes, std::uint64_t seed) : seed_(seed) {
    for (int index = 0; index < sizes[0]; ++index) {
      const auto n = static_cast<std::size_t>(length_of(index, sizes));
      const std::uint64_t own_seed = seed + static_cast<std::uint64_t>(index);
      before_.push_back({.parameters = random_parameters(n, own_seed),
                         .gradient = normal_values(n, own_seed, "gradient")});
    }
  }

  Problem problem(ProblemBuffers& buffers) {
    for (const auto& [parameters, gradient] : before_) {
      tensors_.push_back({.value = buffers.input("value", parameters.value),
                          .gradient = buffers.input("gradient", gradient),
                          .first_moment = buffers.input("first moment", parameters.first_moment),
                          .second_moment = buffers.input("second moment", parameters.second_moment),
                          .n = static_cast<int>(gradient.size())});
    }
    return {.count = static_cast<int>(tensors_.size()),
            .tensors = tensors_.data(),
            .constants = constants_of_step(),
            .scratch = buffers.scratch("scratch", largest())};
  }

  static LadderInfo describe() {
    return {.name = "adamw",
            .title = "one AdamW step of a model's tensors in fp32, in place",
            .dimensions = {{.name = "tensors", .emulated = 6, .gpu = 64},
                           {.name = "parameters of a tensor", .emulated = 900, .gpu = 1 << 18}},
            .limit = Limit::kMemory};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::adamw;
    using simt::Executor;
    return RungTable<Problem>("elements/adamw")
        .add("unfused", "one kernel per operation of the formula",
             []<Executor executor>(const auto&... a) { rungs_of::unfused<executor>(a...); })
        .add("fused", "one kernel: every array is read once and written once",
             []<Executor executor>(const auto&... a) { rungs_of::fused<executor>(a...); })
        .add("vectorised", "16 bytes per lane and access",
             []<Executor executor>(const auto&... a) { rungs_of::vectorised<executor>(a...); })
        .add("multi_tensor", "one launch for many tensors",
             []<Executor executor>(const auto&... a) { rungs_of::multi_tensor<executor>(a...); })
        .rungs();
  }

  /// Operations of the fused update, roots and quotients counted as one; four arrays read, three
  /// written.
  static Cost cost(const Sizes& sizes) {
    const double parameters = static_cast<double>(sizes[0]) * sizes[1];
    return {.operations = 15.0 * parameters,
            .least_bytes = 7.0 * 4.0 * parameters,
            .written_bytes = 3.0 * 4.0 * parameters};
  }

  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    Verdict verdict;
    for (std::size_t tensor = 0; tensor < before_.size(); ++tensor) {
      const kernels::adamw::Tensor& updated = problem.tensors[tensor];
      const AdamWParameters after{.value = buffers.download(updated.value),
                                  .first_moment = buffers.download(updated.first_moment),
                                  .second_moment = buffers.download(updated.second_moment)};
      const std::size_t n = after.value.size();
      for (const std::size_t i : sample(n, kMostParameters / before_.size() + 1, seed_)) {
        const auto& [parameters, gradient] = before_[tensor];
        compare_parameter(parameters, double{gradient[i]}, after, i, verdict);
      }
    }
    return verdict;
  }

 private:
  static constexpr std::size_t kMostParameters = std::size_t{1} << 24;  // of the f64 computation

  // Pairs of tensors are longer and shorter than the average by the same number.
  static int length_of(int index, const Sizes& sizes) {
    const int average = sizes[1];
    if (index == sizes[0] - 1 && index % 2 == 0) {
      return average;
    }
    const int difference = (index / 2 * 37 + 11) % average;
    return index % 2 == 0 ? average + difference : average - difference;
  }

  [[nodiscard]] std::size_t largest() const {
    std::size_t most = 0;
    for (const Values& values : before_) {
      most = std::max(most, values.gradient.size());
    }
    return most;
  }

  std::uint64_t seed_;
  std::vector<Values> before_;
  std::vector<kernels::adamw::Tensor> tensors_;  // what the rung updates
};

}  // namespace

kernels::adamw::Constants kernel_constants(const ops::AdamWStep& step) {
  return {
      .beta1 = static_cast<float>(step.beta1),
      .keep1 = static_cast<float>(1.0 - step.beta1),
      .beta2 = static_cast<float>(step.beta2),
      .keep2 = static_cast<float>(1.0 - step.beta2),
      .gradient_scale = static_cast<float>(step.gradient_scale),
      .decay = static_cast<float>(1.0 - step.learning_rate * step.weight_decay),
      .step_size = static_cast<float>(step.learning_rate / (1.0 - std::pow(step.beta1, step.step))),
      .root_scale = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(step.beta2, step.step))),
      .epsilon = static_cast<float>(step.epsilon)};
}

kernels::adamw::Constants constants_of_step() {
  return kernel_constants({.learning_rate = 1e-3,
                           .beta1 = 0.9,
                           .beta2 = 0.95,
                           .epsilon = 1e-8,
                           .weight_decay = 0.1,
                           .gradient_scale = 0.7,
                           .step = 3});
}

AdamWParameters random_parameters(std::size_t n, std::uint64_t seed) {
  AdamWParameters values{.value = normal_values(n, seed, "value"),
                         .first_moment = normal_values(n, seed, "first moment"),
                         .second_moment = normal_values(n, seed, "second moment")};
  for (float& square : values.second_moment) {
    square *= square;
  }
  return values;
}

// Roundings on the longest way of an operand through the formula as it stands. m: 3 (scale,
// product, sum). v: 5 (the scale twice, two products, the sum). The denominator: half of v's,
// for the root halves them, and 3. Its quotient with the step, m's and a product: 10.5; the
// difference: 11.5. Where terms may cancel, the bound is on the sum of their magnitudes.
void compare_parameter(const AdamWParameters& before, double gradient, const AdamWParameters& after,
                       std::size_t i, Verdict& verdict) {
  constexpr double kRoundings = 12;
  const kernels::adamw::Constants c = constants_of_step();
  const double g = gradient * double{c.gradient_scale};
  const double kept_m = double{c.beta1} * double{before.first_moment[i]};
  const double new_m = double{c.keep1} * g;
  const double m = kept_m + new_m;
  const double m_magnitude = std::abs(kept_m) + std::abs(new_m);
  const double v = double{c.beta2} * double{before.second_moment[i]} + double{c.keep2} * g * g;
  const double denominator = std::sqrt(v) * double{c.root_scale} + double{c.epsilon};
  const double factor = double{c.step_size} / denominator;
  const double kept_value = double{c.decay} * double{before.value[i]};
  const double unit = rounding_of(kRoundings);
  verdict.compare("first moment", i, double{after.first_moment[i]}, m, unit * m_magnitude);
  verdict.compare("second moment", i, double{after.second_moment[i]}, v, unit * v);
  verdict.compare("value", i, double{after.value[i]}, kept_value - factor * m,
                  unit * (std::abs(kept_value) + factor * m_magnitude));
}

std::unique_ptr<Ladder> adamw_ladder() { return std::make_unique<LadderOf<AdamW>>(); }

}  // namespace ultra::ladders
