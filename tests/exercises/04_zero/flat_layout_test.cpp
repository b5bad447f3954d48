// Contract of exercise 04.1: what must be true of flat arrays and their shards, for any tensors and
// any number of ranks. The layouts whose shards are cut are made here, element by element.
#include "chapters/04_zero/flat_layout.hpp"

#include <fmt/ranges.h>

#include "tests/exercises/04_zero/walked_layout.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace test;

std::string hint_for_layout(const Question& q, const FlatLayout& found) {
  constexpr const char* kOnePadding =
      " Only the array as a whole is padded, at its end: padding of each tensor grows with their "
      "number.";
  const FlatLayout expected = lay_out(q);
  if (found.places.size() != q.counts.size()) {
    return "every tensor has a place, one of 0 elements too.";
  }
  if (found.places != expected.places) {
    return std::string("each tensor begins where the one before it ends.") + kOnePadding;
  }
  if (found.count != expected.count) {
    return std::string("`count` are the elements of all tensors, without padding.") + kOnePadding;
  }
  if (found.shard * as_size(q.ranks) < expected.count) {
    return "the shards do not hold all elements: the count divided by the ranks is rounded up, or "
           "what is left over belongs to nobody.";
  }
  if (found.padded >= expected.count + as_size(q.ranks)) {
    return "less than one element of padding per rank is enough: none, when the ranks divide the "
           "count.";
  }
  return found.padded == expected.count ? "the array is as long as all shards together, so that "
                                          "each rank can have an equal part."
                                        : "padded = shard * ranks.";
}

class FlatLayoutTest : public ultra::test::RandomTest {
 protected:
  Question draw() {
    Question question{.counts = {}, .ranks = static_cast<int>(random.between(1, 7))};
    const std::size_t tensors = random.between(0, 8);
    const std::size_t largest = random.pick<std::size_t>({1, 4, 20, 60});
    for (std::size_t i = 0; i < tensors; ++i) {
      question.counts.push_back(random.between(0, largest));
    }
    return question;
  }

  /// Calls check(question) for random questions, and for the ends, until one fails.
  template <class Check>
  void for_questions(const Check& check) {
    std::vector<Question> questions = {{{}, 1},  {{}, 3},        {{0, 0}, 2},
                                       {{1}, 5}, {{0, 4, 0}, 4}, {{7}, 4}};
    for (int i = 0; i < 300; ++i) questions.push_back(draw());
    for (const Question& question : questions) {
      SCOPED_TRACE(question.str());
      check(question);
      if (HasFailure()) return;
    }
  }
};

TEST_F(FlatLayoutTest, TensorsStandOneAfterTheOtherAndRanksDivideThePaddedArray) {
  for_questions([](const Question& q) {
    const FlatLayout found = flat_layout(q.counts, q.ranks);
    expect_layout(found, lay_out(q), hint_for_layout(q, found));
  });
}

TEST_F(FlatLayoutTest, ShardsOfEqualSizeCoverTheArray) {
  for_questions([](const Question& q) {
    const FlatLayout layout = lay_out(q);
    std::size_t end = 0;
    for (int rank = 0; rank < q.ranks; ++rank) {
      const Range found = shard_range(layout, rank);
      std::string hint = "rank r owns [r * shard, (r + 1) * shard).";
      if (found.end == layout.count && found.end < end + layout.shard) {
        hint =
            "all shards have the same size, the last ones end in padding or hold nothing else: a "
            "reduce-scatter gives every rank an equal part.";
      }
      const Range expected{end, end + layout.shard};
      EXPECT_EQ(found, expected) << "rank " << rank << " owns " << text(found) << ", expected "
                                 << text(expected) << "\nHint: " << hint;
      end += layout.shard;
    }
  });
}

TEST_F(FlatLayoutTest, PiecesAreWhatTensorsAndShardsHaveInCommon) {
  for_questions([](const Question& q) {
    const FlatLayout layout = lay_out(q);
    for (int rank = 0; rank < q.ranks && !HasFailure(); ++rank) {
      const std::vector<Piece> found = pieces_of(layout, rank);
      expect_pieces(rank, found, walk(layout, rank), hint_for_pieces(q, layout, rank, found));
    }
  });
}

TEST_F(FlatLayoutTest, WorkedByHand) {
  const Question q{.counts = {3, 5, 2}, .ranks = 4};
  const FlatLayout found = flat_layout(q.counts, q.ranks);
  const FlatLayout expected{
      .places = {{0, 3}, {3, 8}, {8, 10}}, .count = 10, .padded = 12, .shard = 3};
  expect_layout(found, expected, hint_for_layout(q, found));
  const std::vector<std::vector<Piece>> pieces = {{{0, {0, 3}, {0, 3}}},
                                                  {{1, {0, 3}, {0, 3}}},
                                                  {{1, {3, 5}, {0, 2}}, {2, {0, 1}, {2, 3}}},
                                                  {{2, {1, 2}, {0, 1}}}};
  for (int rank = 0; rank < q.ranks; ++rank) {
    const std::vector<Piece> own = pieces_of(expected, rank);
    expect_pieces(rank, own, pieces[as_size(rank)], hint_for_pieces(q, expected, rank, own));
  }
}

}  // namespace
}  // namespace ultra::zero
