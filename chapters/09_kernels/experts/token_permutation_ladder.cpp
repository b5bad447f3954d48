#include "chapters/09_kernels/bf16_values.hpp"
#include "chapters/09_kernels/experts/routing.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/ladders.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/tokens/token_permutation/token_permutation.hpp"

namespace ultra::ladders {
namespace {

using simt::bf16;

std::string refuse_experts(const Sizes& sizes) {
  if (sizes[2] > kernels::token_permutation::kMostExperts || sizes[3] > sizes[2]) {
    return fmt::format("there are {} experts for {} of each token, expected {} to {}", sizes[2],
                       sizes[3], sizes[3], kernels::token_permutation::kMostExperts);
  }
  return {};
}

class TokenPermutation {
 public:
  using Problem = kernels::token_permutation::Problem;

  TokenPermutation(const Sizes& sizes, std::uint64_t seed)
      : tokens_(sizes[0]),
        hidden_(sizes[1]),
        experts_(sizes[2]),
        top_k_(sizes[3]),
        seed_(seed),
        experts_of_(draw_experts({tokens_, top_k_, experts_}, seed)),
        x_(to_bf16(normal_values(element_count({tokens_, hidden_}), seed, "x"))) {}

  Problem problem(ProblemBuffers& buffers) const {
    const std::size_t slots = experts_of_.size();
    return {.tokens = tokens_,
            .hidden = hidden_,
            .experts = experts_,
            .top_k = top_k_,
            .experts_of = buffers.input("experts_of", experts_of_),
            .x = buffers.input("x", x_),
            .begins = buffers.input("begins", std::vector<int>(begins().size(), -1)),
            .place = buffers.input("place", std::vector<int>(slots, -1)),
            .permuted = buffers.output<bf16>("permuted", slots * static_cast<std::size_t>(hidden_)),
            .scratch =
                buffers.scratch<int>("scratch", std::max(kernels::token_permutation::scratch_size(
                                                             static_cast<int>(slots), experts_),
                                                         static_cast<std::size_t>(experts_)))};
  }

  static LadderInfo describe() {
    return {.name = "token_permutation",
            .title = "tokens in the order of the experts that the router chose, in bf16",
            .dimensions = {{.name = "tokens", .emulated = 150, .gpu = 16384},
                           {.name = "hidden", .emulated = 48, .gpu = 2048},
                           {.name = "experts", .emulated = 12, .gpu = 64},
                           {.name = "top_k", .emulated = 3, .gpu = 8}},
            .limit = Limit::kMemory};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::token_permutation;
    using simt::Executor;
    return RungTable<Problem>("tokens/token_permutation")
        .add("atomics", "slots draw their places by atomic additions", refuse_experts,
             []<Executor executor>(const auto&... a) { rungs_of::atomics<executor>(a...); })
        .add("stable", "places by counting: the same in every run", refuse_experts,
             []<Executor executor>(const auto&... a) { rungs_of::stable<executor>(a...); })
        .add("read_once", "a token is read once, 16 bytes a lane", refuse_experts,
             []<Executor executor>(const auto&... a) { rungs_of::read_once<executor>(a...); })
        .rungs();
  }

  /// Each token and each decision read once, each row, place and begin written once.
  static Cost cost(const Sizes& sizes) {
    const double row = 2.0 * sizes[1];
    const double tokens = sizes[0];
    const double slots = tokens * sizes[3];
    const double written = slots * row + 4.0 * slots + 4.0 * (sizes[2] + 1.0);
    return {.operations = 0.0,
            .least_bytes = tokens * row + 4.0 * slots + written,
            .written_bytes = written};
  }

  /// All of it exactly. The order within an expert is a rung's own, but for the stable ones, which
  /// their test looks at: every place must be one of the slot's expert, and be taken once.
  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const std::vector<int> found_begins = buffers.download(problem.begins);
    const std::vector<int> places = buffers.download(problem.place);
    const std::vector<bf16> permuted = buffers.download(problem.permuted);
    const std::vector<int> expected_begins = begins();
    const auto hidden = static_cast<std::size_t>(hidden_);
    Verdict verdict;
    for (std::size_t expert = 0; expert < expected_begins.size(); ++expert) {
      verdict.compare("begins", expert, found_begins[expert], expected_begins[expert], 0.0);
    }
    std::vector<bool> is_taken(places.size(), false);
    for (std::size_t slot = 0; slot < places.size(); ++slot) {
      const auto expert = static_cast<std::size_t>(experts_of_[slot]);
      const int place = places[slot];
      const bool is_own = place >= expected_begins[expert] && place < expected_begins[expert + 1];
      const bool is_free = is_own && !is_taken[static_cast<std::size_t>(place)];
      verdict.compare("place", slot, is_free ? 0.0 : 1.0, 0.0, 0.0);
      if (is_free) {
        is_taken[static_cast<std::size_t>(place)] = true;
      }
    }
    for (const std::size_t i : sample(places.size() * hidden, kMostElements, seed_)) {
      const std::size_t slot = i / hidden;
      const std::size_t place = static_cast<std::size_t>(std::max(places[slot], 0));
      const std::size_t token = slot / static_cast<std::size_t>(top_k_);
      const std::size_t at = std::min(place * hidden + i % hidden, permuted.size() - 1);
      verdict.compare("permuted", at, value_of(permuted[at]),
                      value_of(x_[token * hidden + i % hidden]), 0.0);
    }
    return verdict;
  }

 private:
  static constexpr std::size_t kMostElements = std::size_t{1} << 22;

  [[nodiscard]] std::vector<int> begins() const { return begins_of(experts_of_, experts_); }

  int tokens_;
  int hidden_;
  int experts_;
  int top_k_;
  std::uint64_t seed_;
  std::vector<int> experts_of_;  // (tokens, top_k)
  std::vector<bf16> x_;          // (tokens, hidden)
};

}  // namespace

std::unique_ptr<Ladder> token_permutation_ladder() {
  return std::make_unique<LadderOf<TokenPermutation>>();
}

}  // namespace ultra::ladders
