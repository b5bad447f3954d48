#include "chapters/09_kernels/memory_bound/divergence_ladder.hpp"

#include <cmath>

#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/divergence/divergence.hpp"
#include "kernels/simt/buffer.hpp"

namespace ultra::ladders {
namespace {

namespace rungs_of = kernels::divergence;

class Divergence {
 public:
  using Problem = rungs_of::Problem;

  template <simt::Side side>
  class Buffers {
   public:
    explicit Buffers(const Divergence& work)
        : work_(work),
          in_("in", work.in_),
          cosines_("cosines", work.cosines_),
          sines_("sines", work.sines_),
          out_("out", poison(work.in_.size())) {}

    Problem problem() {
      return {.tokens = work_.tokens_,
              .pairs = work_.pairs_,
              .in = in_.data(),
              .cosines = cosines_.data(),
              .sines = sines_.data(),
              .out = out_.data()};
    }
    [[nodiscard]] std::vector<float> out() const { return out_.download(); }

   private:
    const Divergence& work_;
    simt::Buffer<float, side> in_;
    simt::Buffer<float, side> cosines_;
    simt::Buffer<float, side> sines_;
    simt::Buffer<float, side> out_;
  };

  Divergence(const Sizes& sizes, std::uint64_t seed)
      : tokens_(sizes[0]),
        pairs_(sizes[1]),
        seed_(seed),
        in_(normal_values(2 * all_pairs(), seed, "in")),
        cosines_(all_pairs()),
        sines_(all_pairs()) {
    // Angles of "RoFormer", section 3.2.2: token x 10000^(-pair / pairs).
    constexpr double kBase = 10000.0;
    std::vector<double> frequencies;
    for (int pair = 0; pair < pairs_; ++pair) {
      frequencies.push_back(std::pow(kBase, -static_cast<double>(pair) / pairs_));
    }
    for (std::size_t i = 0; i < all_pairs(); ++i) {
      const std::size_t token = i / frequencies.size();
      const double angle = static_cast<double>(token) * frequencies[i % frequencies.size()];
      cosines_[i] = static_cast<float>(std::cos(angle));
      sines_[i] = static_cast<float>(std::sin(angle));
    }
  }

  static LadderInfo describe() {
    return {.name = "divergence",
            .title = "rotary position embedding in fp32: neighbours do different work",
            .dimensions = {{.name = "tokens", .emulated = 60, .gpu = 1 << 18},
                           {.name = "pairs", .emulated = 64, .gpu = 64}},
            .limit = Limit::kMemory};
  }

  static std::vector<Rung<Problem>> rungs() {
    using simt::Side;
    return {
        {.info = {.number = 1,
                  .name = "branched",
                  .idea = "a thread per element, with a branch between even and odd ones",
                  .file = "kernels/divergence/01_branched.cu"},
         .launchers = everywhere<Problem>(
             []<Side side>(const auto&... a) { rungs_of::branched<side>(a...); })},
        {.info = {.number = 2,
                  .name = "sorted",
                  .idea = "warps of even and warps of odd elements: the lanes agree, but lie apart",
                  .file = "kernels/divergence/02_sorted.cu"},
         .launchers = everywhere<Problem>(
             []<Side side>(const auto&... a) { rungs_of::sorted<side>(a...); })},
        {.info = {.number = 3,
                  .name = "arithmetic",
                  .idea = "one expression for both, with a sign",
                  .file = "kernels/divergence/03_arithmetic.cu"},
         .launchers = everywhere<Problem>(
             []<Side side>(const auto&... a) { rungs_of::arithmetic<side>(a...); })},
        {.info = {.number = 4,
                  .name = "paired",
                  .idea = "a thread per two pairs: nothing left to decide, everything read once",
                  .file = "kernels/divergence/04_paired.cu"},
         .launchers = everywhere<Problem>(
             []<Side side>(const auto&... a) { rungs_of::paired<side>(a...); })}};
  }

  /// A product and a multiply-add per element; in, both tables and out once.
  static Cost cost(const Sizes& sizes) {
    const double pairs = static_cast<double>(sizes[0]) * sizes[1];
    return {.operations = 6.0 * pairs, .least_bytes = 4.0 * (2.0 + 1.0 + 1.0 + 2.0) * pairs};
  }

  /// Two products and a sum: at most 2 roundings on each term.
  template <simt::Side side>
  Verdict judge(const Buffers<side>& buffers) const {
    const std::vector<float> out = buffers.out();
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

  [[nodiscard]] std::size_t all_pairs() const {
    return static_cast<std::size_t>(tokens_) * static_cast<std::size_t>(pairs_);
  }

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
