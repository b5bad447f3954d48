#include <cmath>
#include <memory>

#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/ladders.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/basics/small_launches/small_launches.hpp"
#include "kernels/simt/recording.hpp"

namespace ultra::ladders {
namespace {

std::string refuse_vectors(const Sizes& sizes) {
  if (sizes[1] % 4 != 0) {
    return fmt::format("hidden is {}, expected a multiple of 4: rows are loaded 16 bytes at once",
                       sizes[1]);
  }
  return refuse_long_rows(
      sizes[1], kernels::small_launches::kMostHidden,
      {.unit = "", .name = "a warp's registers", .hint = "give a row to several warps"});
}

std::string refuse_early_kernels(const Sizes& sizes) {
  if (std::string refusal = refuse_vectors(sizes); !refusal.empty()) {
    return refusal;
  }
  return refuse_gpus_before(9, 0, "kernels that begin early");
}

class SmallLaunches {
 public:
  using Problem = kernels::small_launches::Problem;

  SmallLaunches(const Sizes& sizes, std::uint64_t seed)
      : layers_(static_cast<std::size_t>(sizes[0])),
        hidden_(static_cast<std::size_t>(sizes[1])),
        weights_(normal_values(layers_ * hidden_ * hidden_, seed, "weights")),
        x_(normal_values(hidden_, seed, "x")) {
    for (float& weight : weights_) {
      weight /= std::sqrt(static_cast<float>(hidden_));  // a product is then as large as its vector
    }
  }

  Problem problem(ProblemBuffers& buffers) {
    recording_ = std::make_unique<simt::Recording>(buffers.executor());
    return {.layers = static_cast<int>(layers_),
            .hidden = static_cast<int>(hidden_),
            .weights = buffers.input("weights", weights_),
            .x = buffers.input("x", x_),
            .states = buffers.output("states", layers_ * hidden_),
            .recording = recording_.get()};
  }

  static LadderInfo describe() {
    return {.name = "small_launches",
            .title = "a chain of matrix-vector products, each in a kernel of its own, in fp32",
            .dimensions = {{.name = "layers", .emulated = 5, .gpu = 64},
                           {.name = "hidden", .emulated = 100, .gpu = 1024}},
            .limit = Limit::kMemory};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::small_launches;
    using simt::Executor;
    return RungTable<Problem>("basics/small_launches")
        .add("separate", "a launch for each product", refuse_vectors,
             []<Executor executor>(const auto&... a) { rungs_of::separate<executor>(a...); })
        .add("recorded", "the launches are recorded once, and queued as one graph", refuse_vectors,
             []<Executor executor>(const auto&... a) { rungs_of::recorded<executor>(a...); })
        .add("programmatic", "a kernel begins beside the one before and loads its weights",
             refuse_early_kernels,
             []<Executor executor>(const auto&... a) { rungs_of::programmatic<executor>(a...); })
        .add("recorded_programmatic", "a graph of kernels that begin early", refuse_early_kernels,
             []<Executor executor>(const auto&... a) {
               rungs_of::recorded_programmatic<executor>(a...);
             })
        .rungs();
  }

  /// Weights and x read, states written; they are read again, but by the next kernel.
  static Cost cost(const Sizes& sizes) {
    const double layers = sizes[0];
    const double hidden = sizes[1];
    return {.operations = 2.0 * layers * hidden * hidden,
            .least_bytes = 4.0 * (layers * hidden * hidden + hidden + layers * hidden),
            .written_bytes = 4.0 * layers * hidden};
  }

  /// Each layer's product has the error of its vector, multiplied by the weights' magnitudes, and
  /// gamma of hidden + 1 operations on the sum of its terms' magnitudes.
  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const std::vector<float> found = buffers.download(problem.states);
    std::vector<double> x(x_.begin(), x_.end());
    std::vector<double> error(hidden_);
    Verdict verdict;
    for (std::size_t layer = 0; layer < layers_; ++layer) {
      std::vector<double> y(hidden_);
      std::vector<double> y_error(hidden_);
      for (std::size_t row = 0; row < hidden_; ++row) {
        const float* const own = &weights_[(layer * hidden_ + row) * hidden_];
        ExactSum sum;
        double carried = 0.0;
        for (std::size_t k = 0; k < hidden_; ++k) {
          sum.add(double{own[k]} * x[k]);
          carried += std::abs(double{own[k]}) * error[k];
        }
        const double rounding = rounding_of(static_cast<double>(hidden_) + 1.0);
        y[row] = sum.value;
        y_error[row] = carried + rounding * (sum.magnitude + carried);
        verdict.compare("states", layer * hidden_ + row, double{found[layer * hidden_ + row]},
                        y[row], y_error[row]);
      }
      x = std::move(y);
      error = std::move(y_error);
    }
    return verdict;
  }

 private:
  std::size_t layers_;
  std::size_t hidden_;
  std::vector<float> weights_;  // (layers, hidden, hidden)
  std::vector<float> x_;        // (hidden)
  std::unique_ptr<simt::Recording> recording_;
};

}  // namespace

std::unique_ptr<Ladder> small_launches_ladder() {
  return std::make_unique<LadderOf<SmallLaunches>>();
}

}  // namespace ultra::ladders
