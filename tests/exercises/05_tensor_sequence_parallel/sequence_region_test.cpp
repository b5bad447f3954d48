// Contract of exercise 05.4: whole sequences and their parts in closed form, exact sums of whole
// numbers, and what is sent, and when.
#include "chapters/05_tensor_sequence_parallel/sequence_region.hpp"

#include "tests/exercises/05_tensor_sequence_parallel/whole_numbers.hpp"
#include "tests/support/ranks/on_ranks.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::tensor_parallel {
namespace {

using test::as_size;
using test::tensor_of;
using test::Values;
using ultra::test::all_equal;
using ultra::test::leave_garbage;
using ultra::test::on_ranks;

constexpr const char* kPairs =
    "Hint: enter() and leave_backward() are an all-gather, leave() and enter_backward() a "
    "reduce-scatter.";
constexpr const char* kEarly =
    "Hint: the tensor was read, or joined, while it was under way: leave both to Pending, which "
    "does them when the work has ended.";

/// Sequences, and the ranks that share them.
struct Case {
  int ranks = 1;
  std::size_t batch = 1;
  std::size_t local_seq = 1;
  std::size_t hidden = 1;
  DType dtype = DType::kF32;
  std::uint64_t seed = 0;

  [[nodiscard]] Shape whole_shape() const { return {batch, as_size(ranks) * local_seq, hidden}; }
  [[nodiscard]] Shape part_shape() const { return {batch, local_seq, hidden}; }
  [[nodiscard]] std::string str() const {
    return fmt::format("sequences, tokens, numbers {}, {}", whole_shape().str(), to_string(dtype));
  }
  /// All tokens of what `rank` has a whole array of.
  [[nodiscard]] Values of_rank(int rank) const {
    return test::whole_numbers(seed, rank, 0, whole_shape().numel());
  }
  [[nodiscard]] Values sum() const {
    return test::sum_over_ranks(ranks, [&](int rank) { return of_rank(rank); });
  }
  /// The tokens of a rank, of each sequence.
  [[nodiscard]] Values tokens_of(int rank, const Values& whole) const {
    const Range own{as_size(rank) * local_seq, as_size(rank + 1) * local_seq};
    const Tensor all = Tensor::from<double>(Device::cpu(), whole_shape(), whole);
    return all.slice(1, own).clone().to_vector();
  }
};

/// One of the four functions.
struct Border {
  const char* name;
  Pending (Region::*function)(const Tensor&);
  OpKind kind;

  [[nodiscard]] bool gathers() const { return kind == OpKind::kAllGather; }
  /// What a rank gives it: its tokens of one array, or its part of a sum of all tokens.
  [[nodiscard]] Tensor argument(const Case& c, int rank, const Device& device) const {
    return gathers() ? tensor_of(device, c.part_shape(), c.tokens_of(rank, c.of_rank(0)), c.dtype)
                     : tensor_of(device, c.whole_shape(), c.of_rank(rank), c.dtype);
  }
  void expect_found(const Case& c, int rank, const Tensor& found) const {
    const Values whole = gathers() ? c.of_rank(0) : c.sum();
    const Values values = gathers() ? whole : c.tokens_of(rank, whole);
    const Shape shape = gathers() ? c.whole_shape() : c.part_shape();
    const Tensor expected = tensor_of(Device::cpu(), shape, values, c.dtype);
    EXPECT_TRUE(found.defined() ? all_equal(found, expected)
                                : ::testing::AssertionFailure() << "there is none")
        << name << "() on rank " << rank << " does not give "
        << (gathers() ? "all tokens" : "the sum of its tokens") << "\n"
        << (!found.defined() ? kPairs
            : gathers()      ? wrong_gather(c, found, expected)
                             : wrong_sum(c, rank, found));
  }

 private:
  static const char* wrong_gather(const Case& c, const Tensor& found, const Tensor& expected) {
    if (found.shape() == c.part_shape()) {
      return "Hint: these are this rank's tokens only: an all-gather brings those of the others.";
    }
    if (found.shape() != c.whole_shape()) return kPairs;
    if (!all_equal(found, cut_sequences(expected, as_size(c.ranks)).to_vector())) return kEarly;
    return "Hint: the ranks' parts stand one after the other, as they have arrived. With more than "
           "one sequence that is not [batch, seq, hidden]: part r of each sequence comes from rank "
           "r. Join them, when the work has ended.";
  }
  static const char* wrong_sum(const Case& c, int rank, const Tensor& found) {
    if (found.shape() == c.whole_shape()) {
      return "Hint: these are all tokens, as after an all-reduce: outside the region a rank has "
             "its own ones only.";
    }
    if (found.shape() != c.part_shape()) {
      return "Hint: this is an all-gather, where a reduce-scatter belongs: the ranks have parts of "
             "a sum, and each gets the sum for its own tokens.";
    }
    const Values sum = c.sum();
    const auto chunk = sum.begin() + static_cast<std::ptrdiff_t>(found.numel()) * rank;
    if (std::ranges::equal(found.to_vector(), std::span(chunk, found.numel()))) {
      return "Hint: chunk r of the array was added up, not part r of each sequence. With more than "
             "one sequence these are not the same: cut the sequences before the reduce-scatter.";
    }
    if (all_equal(found, c.tokens_of(rank, c.of_rank(rank)))) {
      return "Hint: this is this rank's part of the sum: the reduce-scatter is missing here, in "
             "this direction.";
    }
    Values average = c.tokens_of(rank, sum);
    for (double& value : average) value /= c.ranks;
    if (!ultra::test::all_near(found, average, 1e-4)) return kEarly;
    return "Hint: this is the average, N times too small: the ranks' parts add up to the whole.";
  }
};

constexpr Border kBorders[] = {{"enter", &Region::enter, OpKind::kAllGather},
                               {"leave_backward", &Region::leave_backward, OpKind::kAllGather},
                               {"leave", &Region::leave, OpKind::kReduceScatter},
                               {"enter_backward", &Region::enter_backward, OpKind::kReduceScatter}};

class SequenceRegionTest : public ultra::test::RandomTest {
 protected:
  Case draw(int ranks, DType dtype, std::size_t batch) {
    return {ranks, batch, random.between(1, 4), random.between(1, 6), dtype, seed};
  }
};

TEST_F(SequenceRegionTest, GathersAllTokensAndScattersTheSumOfTheOwn) {
  test::for_ranks({1, 2, 3, 4, 5, 8}, [&](int ranks, DType dtype) {
    for (const std::size_t batch : {std::size_t{1}, random.between(2, 4)}) {
      const Case c = draw(ranks, dtype, batch);
      const auto rank = [&](Communicator& tp) {
        for (const Border& border : kBorders) {
          const Device own = Device::cpu();
          Tensor x = border.argument(c, tp.rank(), own);
          const Tensor before = x.clone();
          leave_garbage(own, c.whole_shape().numel(), c.dtype);
          leave_garbage(own, c.part_shape().numel(), c.dtype);
          SequenceRegion region(tp);
          const CommStats then = tp.stats();
          if (ranks == 3) ultra::test::come_late(tp);
          Pending pending = (region.*border.function)(x);
          if (!border.gathers()) x = Tensor();  // the work keeps what it reads
          border.expect_found(c, tp.rank(), pending.wait());
          const CommStats now = tp.stats();
          const std::size_t bytes = c.part_shape().numel() * as_size(ranks - 1) * size_of(dtype);
          EXPECT_TRUE(!border.gathers() || all_equal(x, before))
              << "Hint: " << border.name << "() writes to its argument.";
          EXPECT_EQ(now.sent_bytes() - then.sent_bytes(), bytes)
              << "bytes that " << border.name
              << "() sends\nHint: (N-1)/N of all elements: half of what an all-reduce sends. A "
                 "rank gets nothing that it does not need.";
          EXPECT_EQ(now[border.kind].sent_bytes - then[border.kind].sent_bytes, bytes)
              << "bytes that " << border.name << "() sends by " << to_string(border.kind) << "\n"
              << kPairs;
        }
      };
      on_ranks(c.ranks, c.str(), rank, {}, kPairs);
    }
  });
}

/// Rank 0 calls all four; the others only begin when it has all four under way.
TEST_F(SequenceRegionTest, TheRankComputesWhileTheOthersAreOnTheirWay) {
  for (const int ranks : {2, 3, 4}) {
    const Case c = draw(ranks, random.pick({DType::kF32, DType::kF64}), 2);
    const auto rank = [&](Communicator& tp) {
      const Device own = Device::cpu();
      const test::Words words(tp);
      SequenceRegion region(tp);
      if (tp.rank() > 0) words.await(0);
      std::vector<Pending> pending;
      for (const Border& border : kBorders) {
        pending.push_back((region.*border.function)(border.argument(c, tp.rank(), own)));
      }
      for (int peer = 1; tp.rank() == 0 && peer < ranks; ++peer) words.say(peer);
      for (std::size_t i = 0; i < pending.size(); ++i) {
        kBorders[i].expect_found(c, tp.rank(), pending[i].wait());
      }
    };
    on_ranks(ranks, c.str(), rank, {},
             "Hint: the function waits for the other ranks itself: it only begins the operation, "
             "and hands its Work to Pending, so that the rank computes meanwhile.");
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace ultra::tensor_parallel
