// Contract of exercise 04.1: what must be true of flat arrays and their shards, for any tensors and
// any number of ranks. The layouts whose shards are cut are made here, element by element.
#include "chapters/04_zero/flat_layout.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/random.hpp"

namespace ultra::zero {
namespace {

std::size_t as_size(int number) { return static_cast<std::size_t>(number); }

constexpr const char* kOnePadding =
    "Only the array as a whole is padded, at its end: padding of each tensor grows with their "
    "number.";

std::string text(const Range& range) { return fmt::format("[{}, {})", range.begin, range.end); }

std::string text(const std::vector<Range>& ranges) {
  std::string all;
  for (const Range& range : ranges) all += " " + text(range);
  return all;
}

/// Elements of the tensors, and how many ranks share the array.
struct Question {
  std::vector<std::size_t> counts;
  int ranks = 1;

  [[nodiscard]] std::string str() const {
    return fmt::format("tensors of [{}] elements, {} ranks", fmt::join(counts, ", "), ranks);
  }
};

/// The layout that the header describes.
FlatLayout lay_out(const Question& question) {
  FlatLayout layout;
  for (const std::size_t count : question.counts) {
    const std::size_t begin = layout.count;
    for (std::size_t i = 0; i < count; ++i) ++layout.count;
    layout.places.push_back({begin, layout.count});
  }
  layout.padded = layout.count;
  while (layout.padded % as_size(question.ranks) != 0) ++layout.padded;
  layout.shard = layout.padded / as_size(question.ranks);
  return layout;
}

/// Goes through the array, and begins a piece where a shard or a tensor begins.
std::vector<Piece> walk(const FlatLayout& layout, int rank) {
  std::vector<Piece> pieces;
  for (std::size_t tensor = 0; tensor < layout.places.size(); ++tensor) {
    const Range& whole = layout.places[tensor];
    bool begun = false;
    for (std::size_t at = whole.begin; at < whole.end; ++at) {
      if (at / layout.shard != as_size(rank)) continue;
      const std::size_t element = at - whole.begin;
      const std::size_t place = at % layout.shard;
      if (!begun) pieces.push_back({tensor, {element, element}, {place, place}});
      begun = true;
      ++pieces.back().elements.end;
      ++pieces.back().place.end;
    }
  }
  return pieces;
}

std::string text(const std::vector<Piece>& pieces) {
  std::string all;
  for (const Piece& piece : pieces) {
    all += fmt::format(" (tensor {}, elements {}, place {})", piece.tensor, text(piece.elements),
                       text(piece.place));
  }
  return all.empty() ? " none" : all;
}

std::string hint_for_pieces(const Question& question, const FlatLayout& layout, int rank,
                            const std::vector<Piece>& found) {
  const std::vector<Piece> expected = walk(layout, rank);
  for (const Piece& piece : found) {
    if (piece.elements.begin >= piece.elements.end || piece.place.begin >= piece.place.end) {
      return "Hint: a piece is empty: a tensor that has nothing in common with the shard has no "
             "piece in it.";
    }
  }
  const auto changed = [&](const auto& change) {
    std::vector<Piece> pieces = expected;
    for (Piece& piece : pieces) change(piece);
    return pieces == found;
  };
  if (changed([](Piece& piece) { std::swap(piece.elements, piece.place); })) {
    return "Hint: `elements` and `place` are swapped: the elements are counted from the beginning "
           "of the tensor, the place from that of the shard.";
  }
  if (changed([&](Piece& piece) {
        const std::size_t begin = layout.places[piece.tensor].begin;
        piece.elements = {piece.elements.begin + begin, piece.elements.end + begin};
      })) {
    return "Hint: `elements` are counted from the beginning of the tensor, not of the array.";
  }
  if (changed([&](Piece& piece) {
        const std::size_t begin = as_size(rank) * layout.shard;
        piece.place = {piece.place.begin + begin, piece.place.end + begin};
      })) {
    return "Hint: `place` is counted from the beginning of the shard, not of the array.";
  }
  for (const Piece& piece : found) {
    if (piece.tensor >= question.counts.size()) return "Hint: there is no such tensor.";
    if (piece.elements.end > question.counts[piece.tensor]) {
      return "Hint: a piece reaches into the padding, or into the tensor behind it: it ends where "
             "the tensor ends or the shard, whichever comes first.";
    }
  }
  if (found.size() < expected.size()) {
    return "Hint: a piece is missing: a tensor may begin or end in the middle of a shard, and may "
           "reach over several.";
  }
  return "Hint: a piece is what a tensor and the shard have in common, from the larger of the two "
         "beginnings to the smaller of the two ends.";
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

TEST_F(FlatLayoutTest, TensorsStandOneAfterTheOther) {
  for_questions(
      [](const Question& q) {
        const FlatLayout found = flat_layout(q.counts, q.ranks);
        ASSERT_EQ(found.places.size(), q.counts.size())
            << "Hint: every tensor has a place, one of 0 "
            << "elements too.";
        std::size_t end = 0;
        for (std::size_t tensor = 0; tensor < q.counts.size(); ++tensor) {
          const Range place = found.places[tensor];
          EXPECT_EQ(place.begin, end)
              << "tensor " << tensor << " stands at " << text(place)
              << "\nHint: each tensor begins where the one before it ends. " << kOnePadding;
          end += q.counts[tensor];
          EXPECT_EQ(place.end, end) << "tensor " << tensor << " stands at " << text(place)
                                    << ", but has " << q.counts[tensor] << " elements";
        }
        EXPECT_EQ(found.count, end)
            << "Hint: `count` are the elements of all tensors, without padding. " << kOnePadding;
      });
}

TEST_F(FlatLayoutTest, RanksDivideThePaddedArray) {
  for_questions([](const Question& q) {
    const FlatLayout found = flat_layout(q.counts, q.ranks);
    const FlatLayout expected = lay_out(q);
    std::string hint = "padded = shard * ranks.";
    if (found.shard * as_size(q.ranks) < expected.count) {
      hint =
          "the shards do not hold all elements: the count divided by the ranks is rounded up, or "
          "what is left over belongs to nobody.";
    } else if (found.padded >= expected.count + as_size(q.ranks)) {
      hint =
          "less than one element of padding per rank is enough: none, when the ranks divide the "
          "count.";
    } else if (found.padded == expected.count) {
      hint =
          "the array is as long as all shards together, so that each rank can have an equal part.";
    }
    EXPECT_EQ(found.shard, expected.shard) << "elements of a shard\nHint: " << hint;
    EXPECT_EQ(found.padded, expected.padded) << "elements of the array\nHint: " << hint;
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
      const std::vector<Piece> expected = walk(layout, rank);
      EXPECT_TRUE(found == expected)
          << "rank " << rank << " of an array with tensors at" << text(layout.places)
          << " and shards of " << layout.shard << "\nfound:   " << text(found)
          << "\nexpected:" << text(expected) << "\n"
          << hint_for_pieces(q, layout, rank, found);
    }
  });
}

/// All of it together: what is cut into shards piece by piece is put together again.
TEST_F(FlatLayoutTest, EveryElementIsInOnePiece) {
  for_questions([](const Question& q) {
    const FlatLayout layout = flat_layout(q.counts, q.ranks);
    std::vector<std::vector<int>> seen;
    for (const std::size_t count : q.counts) seen.emplace_back(count, 0);
    for (int rank = 0; rank < q.ranks; ++rank) {
      std::size_t end = 0;
      for (const Piece& piece : pieces_of(layout, rank)) {
        ASSERT_LT(piece.tensor, q.counts.size());
        ASSERT_LE(piece.elements.end, q.counts[piece.tensor]);
        ASSERT_LE(piece.place.end, layout.shard);
        EXPECT_EQ(piece.elements.size(), piece.place.size());
        EXPECT_EQ(piece.place.begin, end) << "Hint: the pieces of a shard follow each other.";
        end = piece.place.end;
        for (std::size_t e = piece.elements.begin; e < piece.elements.end; ++e) {
          ++seen[piece.tensor][e];
        }
      }
    }
    for (std::size_t tensor = 0; tensor < seen.size(); ++tensor) {
      EXPECT_EQ(std::count(seen[tensor].begin(), seen[tensor].end(), 1),
                static_cast<std::ptrdiff_t>(seen[tensor].size()))
          << "elements of tensor " << tensor << " that are in one piece";
    }
  });
}

TEST_F(FlatLayoutTest, WorkedByHand) {
  const FlatLayout layout = flat_layout(std::vector<std::size_t>{3, 5, 2}, 4);
  const FlatLayout expected{
      .places = {{0, 3}, {3, 8}, {8, 10}}, .count = 10, .padded = 12, .shard = 3};
  EXPECT_TRUE(layout == expected) << "3, 5 and 2 elements for 4 ranks: found a count of "
                                  << layout.count << ", padded to " << layout.padded
                                  << ", shards of " << layout.shard;
  const std::vector<std::vector<Piece>> pieces = {{{0, {0, 3}, {0, 3}}},
                                                  {{1, {0, 3}, {0, 3}}},
                                                  {{1, {3, 5}, {0, 2}}, {2, {0, 1}, {2, 3}}},
                                                  {{2, {1, 2}, {0, 1}}}};
  for (int rank = 0; rank < 4; ++rank) {
    const std::vector<Piece> found = pieces_of(expected, rank);
    EXPECT_TRUE(found == pieces[as_size(rank)]) << "rank " << rank << "\nfound:   " << text(found)
                                                << "\nexpected:" << text(pieces[as_size(rank)]);
  }
}

}  // namespace
}  // namespace ultra::zero
