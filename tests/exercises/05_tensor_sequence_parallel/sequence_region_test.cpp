// Contract of exercise 05.4: whole sequences and their parts in closed form, exact sums of whole
// numbers, half a block against the dense matrices, and what is sent, and when.
#include "chapters/05_tensor_sequence_parallel/sequence_region.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/ops/matmul.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/finite_difference.hpp"
#include "tests/support/on_ranks.hpp"
#include "tests/support/random.hpp"

namespace ultra::tensor_parallel {
namespace {

using test::all_equal;
using test::kFloatDTypes;
using ultra::test::come_late;
using ultra::test::leave_garbage;
using ultra::test::on_ranks;
using ultra::test::whole_number;
using Values = std::vector<double>;

constexpr const char* kPairs =
    "Hint: enter() and leave_backward() are an all-gather, leave() and enter_backward() a "
    "reduce-scatter.";
constexpr const char* kAllGatherHere =
    "Hint: this is an all-gather, where a reduce-scatter belongs: the ranks have parts of a sum, "
    "and "
    "each gets the sum for its own tokens.";
constexpr const char* kOwnTokensOnly =
    "Hint: these are this rank's tokens only: an all-gather brings those of the others.";
constexpr const char* kAllTokens =
    "Hint: these are all tokens, as after an all-reduce: outside the region a rank has its own "
    "ones "
    "only.";
constexpr const char* kRankMajorJoin =
    "Hint: the ranks' parts stand one after the other, as they have arrived. With more than one "
    "sequence that is not [batch, seq, hidden]: part r of each sequence comes from rank r. Join "
    "them, "
    "when the work has ended.";
constexpr const char* kRankMajorCut =
    "Hint: chunk r of the array was added up, not part r of each sequence. With more than one "
    "sequence "
    "these are not the same: cut the sequences before the reduce-scatter.";
constexpr const char* kNotAddedUp =
    "Hint: this is this rank's part of the sum: the reduce-scatter is missing here, in this "
    "direction.";
constexpr const char* kAverage =
    "Hint: this is the average, N times too small: the ranks' parts add up to the whole.";
constexpr const char* kEarly =
    "Hint: the tensor was read, or joined, while it was under way: leave both to Pending, which "
    "does "
    "them when the work has ended.";
constexpr const char* kWaits =
    "Hint: the function waits for the other ranks itself: it only begins the operation, and hands "
    "its "
    "Work to Pending, so that the rank computes meanwhile.";

/// One of the four functions.
struct Border {
  const char* name;
  Pending (Region::*function)(const Tensor&);

  [[nodiscard]] Tensor of(Region& region, const Tensor& x) const {
    return (region.*function)(x).wait();
  }
};

constexpr Border kEnter{.name = "enter", .function = &Region::enter};
constexpr Border kEnterBackward{.name = "enter_backward", .function = &Region::enter_backward};
constexpr Border kLeave{.name = "leave", .function = &Region::leave};
constexpr Border kLeaveBackward{.name = "leave_backward", .function = &Region::leave_backward};
constexpr Border kGathers[] = {kEnter, kLeaveBackward};
constexpr Border kScatters[] = {kLeave, kEnterBackward};

std::size_t as_size(int number) { return static_cast<std::size_t>(number); }

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
    Values values;
    for (std::size_t i = 0; i < whole_shape().numel(); ++i) {
      values.push_back(whole_number(seed, rank, 0, i));
    }
    return values;
  }
  [[nodiscard]] Values sum() const {
    Values sums(whole_shape().numel(), 0.0);
    for (int rank = 0; rank < ranks; ++rank) {
      const Values part = of_rank(rank);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += part[i];
    }
    return sums;
  }
  /// The tokens of a rank, of each sequence.
  [[nodiscard]] Values tokens_of(int rank, const Values& whole) const {
    Values part;
    for (std::size_t b = 0; b < batch; ++b) {
      for (std::size_t t = as_size(rank) * local_seq; t < as_size(rank + 1) * local_seq; ++t) {
        for (std::size_t h = 0; h < hidden; ++h)
          part.push_back(whole[(b * seq() + t) * hidden + h]);
      }
    }
    return part;
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
    const std::size_t size = part_shape().numel();
    Values chunk;
    for (std::size_t i = 0; i < size; ++i) chunk.push_back(whole[as_size(rank) * size + i]);
    return chunk;
  }
  /// What one of the four functions sends, per rank.
  [[nodiscard]] std::size_t sent_bytes() const {
    return part_shape().numel() * as_size(ranks - 1) * size_of(dtype);
  }
};

Tensor tensor_of(const Device& device, const Shape& shape, const Values& values, DType dtype) {
  return Tensor::from<double>(device, shape, values).to(dtype);
}

void expect_sent(const Case& c, const CommStats& sent, OpKind kind, const char* function) {
  EXPECT_EQ(sent.sent_bytes(), c.sent_bytes())
      << "bytes that " << function
      << "() sends\nHint: (N-1)/N of all elements: half of what an all-reduce sends. A rank gets "
         "nothing that it does not need.";
  EXPECT_EQ(sent[kind].sent_bytes, c.sent_bytes())
      << "bytes that " << function << "() sends by " << to_string(kind) << "\n"
      << kPairs;
}

void expect_gathered(const Case& c, int rank, const Border& border, const Tensor& found,
                     const char* hint = nullptr) {
  const std::string who = fmt::format("{}() on rank {} gives {}", border.name, rank,
                                      found.defined() ? found.shape().str() : "nothing");
  ASSERT_TRUE(found.defined() && found.shape() == c.whole_shape())
      << who << ", expected " << c.whole_shape().str() << "\n"
      << (found.defined() && found.shape() == c.part_shape() ? kOwnTokensOnly : kPairs);
  const Values whole = c.of_rank(0);
  const bool rank_major = found.to_vector() == c.rank_major(whole);
  EXPECT_TRUE(all_equal(found, whole)) << who << "\n"
                                       << (rank_major        ? kRankMajorJoin
                                           : hint != nullptr ? hint
                                                             : kEarly);
}

void expect_scattered(const Case& c, int rank, const Border& border, const Tensor& found,
                      const char* hint = nullptr) {
  const std::string who = fmt::format("{}() on rank {} gives {}", border.name, rank,
                                      found.defined() ? found.shape().str() : "nothing");
  ASSERT_TRUE(found.defined() && found.shape() == c.part_shape())
      << who << ", expected " << c.part_shape().str() << "\n"
      << (found.defined() && found.shape() == c.whole_shape() ? kAllTokens : kAllGatherHere);
  const Values sum = c.sum();
  const Values expected = c.tokens_of(rank, sum);
  const Values values = found.to_vector();
  Values average = expected;
  for (double& value : average) value /= c.ranks;
  const double close = test::rounding_bound(c.dtype, 4, test::largest_magnitude(average));
  const auto diagnosis = [&] {
    if (values == c.chunk_of(rank, sum)) return kRankMajorCut;
    if (values == c.tokens_of(rank, c.of_rank(rank))) return kNotAddedUp;
    if (test::all_near(found, average, close)) return kAverage;
    return hint != nullptr ? hint : kEarly;
  };
  EXPECT_TRUE(values == expected) << who << ", which is not the sum of its tokens\n" << diagnosis();
}

class SequenceRegionTest : public test::RandomTest {
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
    for (const int ranks : {1, 2, 3, 4, 5, 8}) {
      for (const DType dtype : kFloatDTypes) {
        for (const std::size_t batch : {std::size_t{1}, random.between(2, 4)}) {
          Case c = draw(ranks, dtype);
          c.batch = batch;
          if (!HasFailure()) check(c);
        }
      }
    }
  }
};

TEST_F(SequenceRegionTest, GatheringGivesAllTokensOfEachSequence) {
  for (const Border& border : kGathers) {
    for_cases([&](const Case& c) {
      const auto rank = [&](Communicator& tp) {
        const Device own = Device::cpu();
        leave_garbage(own, c.whole_shape().numel(), c.dtype);
        const Values tokens = c.tokens_of(tp.rank(), c.of_rank(0));
        const Tensor x = tensor_of(own, c.part_shape(), tokens, c.dtype);
        SequenceRegion region(tp);
        const Tensor found = border.of(region, x);
        expect_gathered(c, tp.rank(), border, found);
        EXPECT_TRUE(all_equal(x, tokens))
            << "Hint: " << border.name << "() writes to its argument.";
        expect_sent(c, tp.stats(), OpKind::kAllGather, border.name);
      };
      on_ranks(c.ranks, c.str(), rank, {}, kPairs);
    });
  }
}

TEST_F(SequenceRegionTest, ScatteringGivesTheSumOfTheOwnTokens) {
  for (const Border& border : kScatters) {
    for_cases([&](const Case& c) {
      const auto rank = [&](Communicator& tp) {
        const Device own = Device::cpu();
        leave_garbage(own, c.whole_shape().numel(), c.dtype);
        SequenceRegion region(tp);
        const Tensor found =
            border.of(region, tensor_of(own, c.whole_shape(), c.of_rank(tp.rank()), c.dtype));
        expect_scattered(c, tp.rank(), border, found);
        expect_sent(c, tp.stats(), OpKind::kReduceScatter, border.name);
      };
      on_ranks(c.ranks, c.str(), rank, {}, kPairs);
    });
  }
}

// <f(x), y> = <x, f'(y)>, summed over the ranks: all products of whole numbers, so exact.
TEST_F(SequenceRegionTest, BackwardIsTheTransposeOfForward) {
  for_cases([&](const Case& c) {
    std::vector<double> gathered(as_size(c.ranks));
    std::vector<double> scattered(as_size(c.ranks));
    const Border pairs[][2] = {{kEnter, kEnterBackward}, {kLeaveBackward, kLeave}};
    for (const auto& [gathers, scatters] : pairs) {
      const auto rank = [&](Communicator& tp) {
        const Device own = Device::cpu();
        const Values tokens = c.tokens_of(tp.rank(), c.of_rank(c.ranks));
        const Tensor x = tensor_of(own, c.part_shape(), tokens, c.dtype);
        const Tensor y = tensor_of(own, c.whole_shape(), c.of_rank(tp.rank()), c.dtype);
        SequenceRegion region(tp);
        const Tensor whole = gathers.of(region, x);
        const Tensor part = scatters.of(region, y.clone());
        const bool fit = whole.numel() == y.numel() && part.numel() == x.numel();
        gathered[as_size(tp.rank())] = fit ? test::inner_product(whole, y) : 1;
        scattered[as_size(tp.rank())] = fit ? test::inner_product(part, x) : 0;
      };
      on_ranks(c.ranks, c.str(), rank, {}, kPairs);
      double forward = 0;
      double backward = 0;
      for (int r = 0; r < c.ranks; ++r) {
        forward += gathered[as_size(r)];
        backward += scattered[as_size(r)];
      }
      EXPECT_EQ(forward, backward) << scatters.name << "() is not the transpose of " << gathers.name
                                   << "() for " << c.str() << "\n"
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
      for (const Border& border : kGathers) {
        leave_garbage(own, c.whole_shape().numel(), c.dtype);
        come_late(tp);
        // The caller keeps no handle: the work does.
        const Tensor found = border.of(
            region, tensor_of(own, c.part_shape(), c.tokens_of(tp.rank(), c.of_rank(0)), c.dtype));
        expect_gathered(c, tp.rank(), border, found, kEarly);
      }
      for (const Border& border : kScatters) {
        leave_garbage(own, c.part_shape().numel(), c.dtype);
        come_late(tp);
        const Tensor found =
            border.of(region, tensor_of(own, c.whole_shape(), c.of_rank(tp.rank()), c.dtype));
        expect_scattered(c, tp.rank(), border, found, kEarly);
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
      const Tensor word = Tensor::zeros(own, {1}, DType::kF32);
      const Communicator words = tp.split(0, tp.rank(), "words");
      SequenceRegion region(tp);
      if (tp.rank() > 0) words.recv(word, 0);
      std::vector<Pending> pending;
      for (const Border& border : kGathers) {
        const Values tokens = c.tokens_of(tp.rank(), c.of_rank(0));
        const Tensor x = tensor_of(own, c.part_shape(), tokens, c.dtype);
        pending.push_back((region.*border.function)(x));
      }
      for (const Border& border : kScatters) {
        const Tensor y = tensor_of(own, c.whole_shape(), c.of_rank(tp.rank()), c.dtype);
        pending.push_back((region.*border.function)(y));
      }
      if (tp.rank() == 0) {
        for (int peer = 1; peer < ranks; ++peer) words.send(word, peer);
      }
      for (std::size_t i = 0; i < 2; ++i) {
        expect_gathered(c, tp.rank(), kGathers[i], pending[i].wait());
      }
      for (std::size_t i = 0; i < 2; ++i) {
        expect_scattered(c, tp.rank(), kScatters[i], pending[2 + i].wait());
      }
    };
    on_ranks(ranks, c.str(), rank, {}, kWaits);
    if (HasFailure()) return;
  }
}

// Half a block ------------------------------------------------------------------------------------

/// Two matrices with the region around them, x -> (x A^T) B^T: A is split by rows, B by columns.
struct Matrices {
  std::size_t hidden = 1;
  std::size_t inner = 1;
  Tensor a;  ///< [inner, hidden]
  Tensor b;  ///< [hidden, inner]

  Matrices(const Device& device, const Case& c, std::size_t inner_features, int which)
      : hidden(c.hidden), inner(inner_features) {
    Values values;
    for (std::size_t i = 0; i < hidden * inner; ++i) {
      values.push_back(whole_number(c.seed, which, 7, i));
    }
    a = tensor_of(device, {inner, hidden}, values, c.dtype);
    b = tensor_of(device, {hidden, inner}, {values.rbegin(), values.rend()}, c.dtype);
  }

  [[nodiscard]] Tensor after_a(const Tensor& x, Range features) const {
    return product(x, a.slice(0, features).clone(), ops::Transpose::kYes);
  }
  [[nodiscard]] Tensor after_b(const Tensor& h, Range features) const {
    return product(h, b.slice(1, features).clone(), ops::Transpose::kYes);
  }
  [[nodiscard]] Tensor before_b(const Tensor& d_y, Range features) const {
    return product(d_y, b.slice(1, features).clone(), ops::Transpose::kNo);
  }
  [[nodiscard]] Tensor before_a(const Tensor& d_h, Range features) const {
    return product(d_h, a.slice(0, features).clone(), ops::Transpose::kNo);
  }

 private:
  static Tensor product(const Tensor& x, const Tensor& weight, ops::Transpose transpose) {
    const Tensor y = ops::matmul(ops::as_matrix(x), ops::Transpose::kNo, weight, transpose);
    return y.view({x.size(0), x.size(1), y.size(1)});
  }
};

TEST_F(SequenceRegionTest, SplitMatricesInTheRegionGiveWhatWholeOnesDo) {
  for_cases([&](const Case& c) {
    const std::size_t part = random.between(1, 3);
    const std::size_t inner = as_size(c.ranks) * part;
    const Matrices dense(device, c, inner, 50);
    const Range all{0, inner};
    const Values x = c.of_rank(60);
    const Values d_y = c.of_rank(61);
    const Tensor whole_x = tensor_of(device, c.whole_shape(), x, c.dtype);
    const Tensor whole_d = tensor_of(device, c.whole_shape(), d_y, c.dtype);
    const Values y = dense.after_b(dense.after_a(whole_x, all), all).to_vector();
    const Values d_x = dense.before_a(dense.before_b(whole_d, all), all).to_vector();
    const auto rank = [&](Communicator& tp) {
      const Device own = Device::cpu();
      const int r = tp.rank();
      const Matrices weights(own, c, inner, 50);
      const Range features{as_size(r) * part, as_size(r + 1) * part};
      const Tensor own_x = tensor_of(own, c.part_shape(), c.tokens_of(r, x), c.dtype);
      const Tensor own_d = tensor_of(own, c.part_shape(), c.tokens_of(r, d_y), c.dtype);
      SequenceRegion region(tp);
      const Tensor h = weights.after_a(kEnter.of(region, own_x), features);
      const Tensor found_y = kLeave.of(region, weights.after_b(h, features));
      const Tensor d_h = weights.before_b(kLeaveBackward.of(region, own_d), features);
      const Tensor found_d_x = kEnterBackward.of(region, weights.before_a(d_h, features));
      EXPECT_TRUE(all_equal(found_y, c.tokens_of(r, y))) << "the output's own tokens\n" << kPairs;
      EXPECT_TRUE(all_equal(found_d_x, c.tokens_of(r, d_x)))
          << "the input gradient of the own tokens\n"
          << kPairs;
    };
    on_ranks(c.ranks, c.str(), rank, {}, kPairs);
  });
}

}  // namespace
}  // namespace ultra::tensor_parallel
