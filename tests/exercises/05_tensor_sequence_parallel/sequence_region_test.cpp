// Contract of exercise 05.4: whole sequences and their parts in closed form, exact sums of whole
// numbers, half a block against the dense matrices, and what is sent, and when.
#include "chapters/05_tensor_sequence_parallel/sequence_region.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "common/ops/matmul.hpp"
#include "tests/exercises/05_tensor_sequence_parallel/whole_numbers.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/finite_difference.hpp"
#include "tests/support/on_ranks.hpp"
#include "tests/support/random.hpp"

namespace ultra::tensor_parallel {
namespace {

using test::as_size;
using test::tensor_of;
using test::Values;
using test::whole_numbers;
using ultra::test::all_equal;
using ultra::test::come_late;
using ultra::test::leave_garbage;
using ultra::test::on_ranks;

constexpr const char* kPairs =
    "Hint: enter() and leave_backward() are an all-gather, leave() and enter_backward() a "
    "reduce-scatter.";
constexpr const char* kAllGatherHere =
    "Hint: this is an all-gather, where a reduce-scatter belongs: the ranks have parts of a sum, "
    "and each gets the sum for its own tokens.";
constexpr const char* kOwnTokensOnly =
    "Hint: these are this rank's tokens only: an all-gather brings those of the others.";
constexpr const char* kAllTokens =
    "Hint: these are all tokens, as after an all-reduce: outside the region a rank has its own "
    "ones only.";
constexpr const char* kRankMajorJoin =
    "Hint: the ranks' parts stand one after the other, as they have arrived. With more than one "
    "sequence that is not [batch, seq, hidden]: part r of each sequence comes from rank r. Join "
    "them, when the work has ended.";
constexpr const char* kRankMajorCut =
    "Hint: chunk r of the array was added up, not part r of each sequence. With more than one "
    "sequence these are not the same: cut the sequences before the reduce-scatter.";
constexpr const char* kNotAddedUp =
    "Hint: this is this rank's part of the sum: the reduce-scatter is missing here, in this "
    "direction.";
constexpr const char* kAverage =
    "Hint: this is the average, N times too small: the ranks' parts add up to the whole.";
constexpr const char* kEarly =
    "Hint: the tensor was read, or joined, while it was under way: leave both to Pending, which "
    "does them when the work has ended.";
constexpr const char* kWaits =
    "Hint: the function waits for the other ranks itself: it only begins the operation, and hands "
    "its Work to Pending, so that the rank computes meanwhile.";

/// Sequences, and the ranks that share them.
struct Case {
  int ranks = 1;
  std::size_t batch = 1;
  std::size_t local_seq = 1;
  std::size_t hidden = 1;
  DType dtype = DType::kF32;
  std::uint64_t seed = 0;

  [[nodiscard]] std::size_t seq() const { return as_size(ranks) * local_seq; }
  [[nodiscard]] Shape whole_shape() const { return {batch, seq(), hidden}; }
  [[nodiscard]] Shape part_shape() const { return {batch, local_seq, hidden}; }
  [[nodiscard]] std::string str() const {
    return fmt::format("{} sequences of {} tokens of {} numbers, {}", batch, seq(), hidden,
                       to_string(dtype));
  }
  /// All tokens of what `rank` has a whole array of.
  [[nodiscard]] Values of_rank(int rank) const {
    return whole_numbers(seed, rank, 0, whole_shape().numel());
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
  /// All ranks' tokens, those of rank 0 first.
  [[nodiscard]] Values rank_major(const Values& whole) const {
    Values parts;
    for (int rank = 0; rank < ranks; ++rank) {
      for (const double value : tokens_of(rank, whole)) parts.push_back(value);
    }
    return parts;
  }
  /// Chunk `rank` of an array that is not cut into sequences.
  [[nodiscard]] Values chunk_of(int rank, const Values& whole) const {
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(part_shape().numel()) * rank;
    return {begin, begin + static_cast<std::ptrdiff_t>(part_shape().numel())};
  }
  /// What one of the four functions sends, per rank.
  [[nodiscard]] std::size_t sent_bytes() const {
    return part_shape().numel() * as_size(ranks - 1) * size_of(dtype);
  }
};

/// One of the four functions.
struct Border {
  const char* name;
  Pending (Region::*function)(const Tensor&);
  OpKind kind;  ///< all-gather or reduce-scatter

  [[nodiscard]] bool gathers() const { return kind == OpKind::kAllGather; }
  [[nodiscard]] Tensor of(Region& region, const Tensor& x) const {
    return (region.*function)(x).wait();
  }
  /// What a rank gives it: its tokens of one array, or its part of a sum of all tokens.
  [[nodiscard]] Tensor argument(const Case& c, int rank, const Device& device) const {
    return gathers() ? tensor_of(device, c.part_shape(), c.tokens_of(rank, c.of_rank(0)), c.dtype)
                     : tensor_of(device, c.whole_shape(), c.of_rank(rank), c.dtype);
  }
  void expect_found(const Case& c, int rank, const Tensor& found) const {
    const Shape shape = gathers() ? c.whole_shape() : c.part_shape();
    const Shape other = gathers() ? c.part_shape() : c.whole_shape();
    const std::string who = fmt::format("{}() on rank {} gives {}", name, rank,
                                        found.defined() ? found.shape().str() : "nothing");
    const bool has_others = found.defined() && found.shape() == other;
    ASSERT_TRUE(found.defined() && found.shape() == shape)
        << who << ", expected " << shape.str() << "\n"
        << (gathers() ? (has_others ? kOwnTokensOnly : kPairs)
                      : (has_others ? kAllTokens : kAllGatherHere));
    const Values whole = gathers() ? c.of_rank(0) : c.sum();
    const Values expected = gathers() ? whole : c.tokens_of(rank, whole);
    EXPECT_TRUE(all_equal(found, expected))
        << who << ", which is not " << (gathers() ? "all tokens" : "the sum of its tokens") << "\n"
        << (gathers() ? found.to_vector() == c.rank_major(whole) ? kRankMajorJoin : kEarly
                      : wrong_sum(c, rank, found, expected));
  }

 private:
  static const char* wrong_sum(const Case& c, int rank, const Tensor& found, Values expected) {
    const Values values = found.to_vector();
    if (values == c.chunk_of(rank, c.sum())) return kRankMajorCut;
    if (values == c.tokens_of(rank, c.of_rank(rank))) return kNotAddedUp;
    for (double& value : expected) value /= c.ranks;
    const double size = ultra::test::largest_magnitude(expected);
    const double close = ultra::test::rounding_bound(c.dtype, 4, size);
    return ultra::test::all_near(found, expected, close) ? kAverage : kEarly;
  }
};

constexpr Border kEnter{"enter", &Region::enter, OpKind::kAllGather};
constexpr Border kEnterBackward{"enter_backward", &Region::enter_backward, OpKind::kReduceScatter};
constexpr Border kLeave{"leave", &Region::leave, OpKind::kReduceScatter};
constexpr Border kLeaveBackward{"leave_backward", &Region::leave_backward, OpKind::kAllGather};
constexpr Border kBorders[] = {kEnter, kLeaveBackward, kLeave, kEnterBackward};

void expect_sent(const Case& c, const CommStats& sent, const Border& border) {
  EXPECT_EQ(sent.sent_bytes(), c.sent_bytes())
      << "bytes that " << border.name
      << "() sends\nHint: (N-1)/N of all elements: half of what an all-reduce sends. A rank gets "
         "nothing that it does not need.";
  EXPECT_EQ(sent[border.kind].sent_bytes, c.sent_bytes())
      << "bytes that " << border.name << "() sends by " << to_string(border.kind) << "\n"
      << kPairs;
}

class SequenceRegionTest : public ultra::test::RandomTest {
 protected:
  Case draw(int ranks, DType dtype) {
    return {.ranks = ranks,
            .batch = random.between(1, 4),
            .local_seq = random.between(1, 4),
            .hidden = random.between(1, 6),
            .dtype = dtype,
            .seed = seed};
  }

  /// Calls check(case) for one sequence and for several, on any number of ranks, until one fails.
  template <class Check>
  void for_cases(const Check& check) {
    for (const std::size_t most : {std::size_t{1}, std::size_t{4}}) {
      test::for_ranks({1, 2, 3, 4, 5, 8}, [&](int ranks, DType dtype) {
        Case c = draw(ranks, dtype);
        c.batch = random.between((most + 1) / 2, most);
        check(c);
      });
    }
  }
};

TEST_F(SequenceRegionTest, GathersAllTokensAndScattersTheSumOfTheOwn) {
  for (const Border& border : kBorders) {
    for_cases([&](const Case& c) {
      const auto rank = [&](Communicator& tp) {
        const Device own = Device::cpu();
        leave_garbage(own, c.whole_shape().numel(), c.dtype);
        const Tensor x = border.argument(c, tp.rank(), own);
        const Values before = x.to_vector();
        SequenceRegion region(tp);
        border.expect_found(c, tp.rank(), border.of(region, x));
        EXPECT_TRUE(!border.gathers() || all_equal(x, before))
            << "Hint: " << border.name << "() writes to its argument.";
        expect_sent(c, tp.stats(), border);
      };
      on_ranks(c.ranks, c.str(), rank, {}, kPairs);
    });
  }
}

// <f(x), y> = <x, f'(y)>, summed over the ranks: all products of whole numbers, so exact.
TEST_F(SequenceRegionTest, BackwardIsTheTransposeOfForward) {
  for_cases([&](const Case& c) {
    Values gathered(as_size(c.ranks));
    Values scattered(as_size(c.ranks));
    const Border pairs[][2] = {{kEnter, kEnterBackward}, {kLeaveBackward, kLeave}};
    for (const auto& [gathers, scatters] : pairs) {
      const auto rank = [&](Communicator& tp) {
        const Device own = Device::cpu();
        const Values tokens = c.tokens_of(tp.rank(), c.of_rank(c.ranks));
        const Tensor x = tensor_of(own, c.part_shape(), tokens, c.dtype);
        const Tensor y = scatters.argument(c, tp.rank(), own);
        SequenceRegion region(tp);
        const Tensor whole = gathers.of(region, x);
        const Tensor part = scatters.of(region, y.clone());
        const bool fit = whole.numel() == y.numel() && part.numel() == x.numel();
        gathered[as_size(tp.rank())] = fit ? ultra::test::inner_product(whole, y) : 1;
        scattered[as_size(tp.rank())] = fit ? ultra::test::inner_product(part, x) : 0;
      };
      on_ranks(c.ranks, c.str(), rank, {}, kPairs);
      EXPECT_EQ(std::accumulate(gathered.begin(), gathered.end(), 0.0),
                std::accumulate(scattered.begin(), scattered.end(), 0.0))
          << scatters.name << "() is not the transpose of " << gathers.name << "() for " << c.str()
          << "\n"
          << kPairs;
    }
  });
}

// When --------------------------------------------------------------------------------------------

TEST_F(SequenceRegionTest, NothingIsReadBeforeTheLastRankHasCome) {
  for (const std::size_t batch : {std::size_t{1}, std::size_t{3}}) {
    Case c = draw(3, random.pick({DType::kF32, DType::kF64}));
    c.batch = batch;
    const auto rank = [&](Communicator& tp) {
      const Device own = Device::cpu();
      SequenceRegion region(tp);
      for (const Border& border : kBorders) {
        const Shape result = border.gathers() ? c.whole_shape() : c.part_shape();
        leave_garbage(own, result.numel(), c.dtype);
        come_late(tp);
        // The caller keeps no handle: the work does.
        border.expect_found(c, tp.rank(), border.of(region, border.argument(c, tp.rank(), own)));
      }
    };
    on_ranks(c.ranks, c.str(), rank, {}, kPairs);
    if (HasFailure()) return;
  }
}

/// Rank 0 calls all four; the others only begin when it has all four under way.
TEST_F(SequenceRegionTest, TheRankComputesWhileTheOthersAreOnTheirWay) {
  for (const int ranks : {2, 3, 4}) {
    const Case c = draw(ranks, random.pick({DType::kF32, DType::kF64}));
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
    on_ranks(ranks, c.str(), rank, {}, kWaits);
    if (HasFailure()) return;
  }
}

// Half a block ------------------------------------------------------------------------------------

// Two matrices with the region around them, x -> (x A^T) B^T: A is split by rows, B by columns.
TEST_F(SequenceRegionTest, SplitMatricesInTheRegionGiveWhatWholeOnesDo) {
  using ops::Transpose;
  const auto product = [](const Tensor& x, const Tensor& weight, Transpose transpose) {
    const Tensor y = ops::matmul(ops::as_matrix(x), Transpose::kNo, weight, transpose);
    return y.view({x.size(0), x.size(1), y.size(1)});
  };
  for_cases([&](const Case& c) {
    const std::size_t part = random.between(1, 3);
    const std::size_t inner = as_size(c.ranks) * part;
    const Values weights = whole_numbers(seed, 50, 7, c.hidden * inner);
    const auto a_of = [&](const Device& own, Range rows) {
      return tensor_of(own, {inner, c.hidden}, weights, c.dtype).slice(0, rows).clone();
    };
    const auto b_of = [&](const Device& own, Range columns) {
      const Values reversed(weights.rbegin(), weights.rend());
      return tensor_of(own, {c.hidden, inner}, reversed, c.dtype).slice(1, columns).clone();
    };
    const Values x = c.of_rank(60);
    const Values d_y = c.of_rank(61);
    const Tensor a = a_of(device, {0, inner});
    const Tensor b = b_of(device, {0, inner});
    const Tensor whole_x = tensor_of(device, c.whole_shape(), x, c.dtype);
    const Tensor whole_d = tensor_of(device, c.whole_shape(), d_y, c.dtype);
    const Values y = product(product(whole_x, a, Transpose::kYes), b, Transpose::kYes).to_vector();
    const Values d_x = product(product(whole_d, b, Transpose::kNo), a, Transpose::kNo).to_vector();
    const auto rank = [&](Communicator& tp) {
      const Device own = Device::cpu();
      const int r = tp.rank();
      const Range features{as_size(r) * part, as_size(r + 1) * part};
      const Tensor own_a = a_of(own, features);
      const Tensor own_b = b_of(own, features);
      const Tensor own_x = tensor_of(own, c.part_shape(), c.tokens_of(r, x), c.dtype);
      const Tensor own_d = tensor_of(own, c.part_shape(), c.tokens_of(r, d_y), c.dtype);
      SequenceRegion region(tp);
      const Tensor h = product(kEnter.of(region, own_x), own_a, Transpose::kYes);
      const Tensor found_y = kLeave.of(region, product(h, own_b, Transpose::kYes));
      const Tensor d_h = product(kLeaveBackward.of(region, own_d), own_b, Transpose::kNo);
      const Tensor found_d_x = kEnterBackward.of(region, product(d_h, own_a, Transpose::kNo));
      EXPECT_TRUE(all_equal(found_y, c.tokens_of(r, y))) << "the output's own tokens\n" << kPairs;
      EXPECT_TRUE(all_equal(found_d_x, c.tokens_of(r, d_x)))
          << "the input gradient of this rank's tokens\n"
          << kPairs;
    };
    on_ranks(c.ranks, c.str(), rank, {}, kPairs);
  });
}

}  // namespace
}  // namespace ultra::tensor_parallel
