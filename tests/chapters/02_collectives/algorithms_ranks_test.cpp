// The chapter's algorithms on ranks of this process, through a Communicator: what `--collectives
// ours` does.

#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/support/contracts/rank_trial.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

using collectives::BookAlgorithms;
using collectives::BookOptions;
using collectives::CollectiveRequest;

class AlgorithmsOnRanks : public test::RandomTest {
 protected:
  void expect_holds(OpKind op, const BookOptions& options, int size) {
    const auto algorithms = std::make_shared<BookAlgorithms>(options);
    const int root = static_cast<int>(random.between(0, static_cast<std::size_t>(size - 1)));
    for (const std::size_t count : {std::size_t{0}, random.between(1, 5), random.between(6, 300)}) {
      EXPECT_TRUE(test::holds_on_ranks(op, algorithms, size, count, root))
          << to_string(op) << " of " << count << " elements, root " << root;
    }
  }
};

TEST_F(AlgorithmsOnRanks, EveryOneKeepsItsPromise) {
  for (const OpKind op : collectives::collective_ops()) {
    for (const auto& algorithm : collectives::algorithms(op)) {
      for (const int size : {1, 3, 4}) {
        SCOPED_TRACE(fmt::format("{} by {} on {} ranks", to_string(op), algorithm.name, size));
        const BookOptions options{.names = {{op, std::string(algorithm.name)}},
                                  .tuning = {.ranks_per_node = size == 4 ? 2 : 1, .segments = 3}};
        const auto request =
            CollectiveRequest::of(op, comm::Group::all(0, size), 0, options.tuning);
        if (algorithm.why_not(request).empty()) expect_holds(op, options, size);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(AlgorithmsOnRanks, BySizeTheyKeepItToo) {
  for (const OpKind op : collectives::collective_ops()) {
    for (const int size : {2, 5}) {
      SCOPED_TRACE(fmt::format("{} on {} ranks", to_string(op), size));
      expect_holds(op, {.tuning = {.small_bytes = 512}}, size);
    }
  }
}

TEST_F(AlgorithmsOnRanks, AnUnsuitableChoiceIsAnErrorOnEveryRank) {
  const BookOptions options{.names = {{OpKind::kAllReduce, "halving-doubling"}}};
  const auto result =
      test::holds_on_ranks(OpKind::kAllReduce, std::make_shared<BookAlgorithms>(options), 3, 10);
  EXPECT_FALSE(result);
  EXPECT_NE(std::string(result.message()).find("a power of two of ranks, found 3"),
            std::string::npos)
      << result.message();
}

}  // namespace
}  // namespace ultra
