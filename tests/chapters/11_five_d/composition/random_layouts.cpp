#include "tests/chapters/11_five_d/composition/random_layouts.hpp"

#include <cctype>

#include "common/comm/run_ranks.hpp"
#include "tests/chapters/11_five_d/composition/draw.hpp"
#include "tests/chapters/11_five_d/composition/explained.hpp"
#include "tests/chapters/11_five_d/composition/trial.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::five_d::test {
namespace {

/// Of how many draws the one that covers most is trained.
constexpr std::size_t kCandidates = 20;
/// How many draws look for a combination that nothing covers, and for one of the last few, which are rare.
constexpr std::size_t kSearches = 300;
constexpr std::size_t kLongSearches = 10000;
constexpr std::size_t kLast = 6;

std::string without_numbers(const std::string& message) {
  std::string text;
  for (const char c : message) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) text += c;
  }
  return text;
}

/// Draws configurations, and counts what the program refuses.
class Drawing {
 public:
  Drawing(ultra::test::Random& random, std::size_t most_ranks, Outcomes& outcomes)
      : random_(random), most_ranks_(most_ranks), outcomes_(outcomes) {}

  /// A legal one, which has what nothing covers if that can be found.
  Configuration next() {
    if (auto found = with_missing()) return *std::move(found);
    return with_most_gain();
  }

 private:
  Configuration draw() {
    // Most meshes are small ones, for the sake of time.
    const std::size_t small = std::min<std::size_t>(most_ranks_, 8);
    Configuration one =
        draw_configuration(random_, random_.between(1, 4) == 1 ? most_ranks_ : small);
    // Processes have no folder in common.
    if (launched_world_size()) one.goes_on = GoesOn::kNowhere;
    return one;
  }

  bool is_legal(const Configuration& configuration) {
    const std::string refusal = refusal_of(configuration);
    if (!refusal.empty()) ++outcomes_.refused[without_numbers(refusal)];
    return refusal.empty();
  }

  std::optional<Configuration> with_missing() {
    std::vector<std::vector<Feature>> missing;
    for (const std::vector<Feature>& some : outcomes_.coverage.missing()) {
      if (!excluded(table_, some)) missing.push_back(some);
    }
    constexpr std::size_t kFew = 60;  // more are covered without a search
    if (missing.empty() || missing.size() > kFew) return {};
    const std::vector<Feature>& wanted = missing[random_.between(0, missing.size() - 1)];
    const std::size_t searches = missing.size() <= kLast ? kLongSearches : kSearches;
    for (std::size_t i = 0; i < searches; ++i) {
      Configuration one = draw();
      if (std::ranges::includes(features_of(one), wanted) && is_legal(one)) return one;
    }
    return {};
  }

  Configuration with_most_gain() {
    while (true) {
      std::vector<std::pair<std::size_t, Configuration>> drawn;
      for (std::size_t i = 0; i < kCandidates; ++i) {
        Configuration one = draw();
        drawn.emplace_back(outcomes_.coverage.gain(features_of(one)), std::move(one));
      }
      std::ranges::stable_sort(drawn, std::greater<>(), [](const auto& one) { return one.first; });
      for (auto& [gain, configuration] : drawn) {
        if (is_legal(configuration)) return std::move(configuration);
      }
    }
  }

  ultra::test::Random& random_;
  std::size_t most_ranks_;
  Outcomes& outcomes_;
  std::vector<train::Conflict> table_ = table_of_combinations();
};

void report(const Configuration& configuration, const std::string& difference) {
  if (launched_world_size()) {
    ADD_FAILURE() << configuration.line() << "\n" << difference;
    return;
  }
  const auto [least, still] = shrunk(configuration, difference);
  ADD_FAILURE() << configuration.line() << "\n"
                << difference << "\nThe smallest that differs:\n"
                << least.line() << "\n"
                << still;
}

}  // namespace

Outcomes train_random_layouts(ultra::test::Random& random, std::size_t count,
                              std::size_t most_ranks) {
  constexpr int kMostFailures = 4;
  Outcomes outcomes;
  Drawing drawing(random, most_ranks, outcomes);
  int failures = 0;
  while (outcomes.trained < count && failures < kMostFailures) {
    const Configuration configuration = drawing.next();
    const std::string difference = difference_from_one_rank(configuration);
    ++outcomes.trained;
    outcomes.coverage.add(features_of(configuration));
    if (difference.empty()) continue;
    ++failures;
    report(configuration, difference);
  }
  return outcomes;
}

}  // namespace ultra::five_d::test
