// Contract of exercise 04.13: tensors cut by their rows, held against rows that are dealt out one at a time,
// and against torch.chunk().
#include "chapters/04_zero/rows/row_layout.hpp"

#include "tests/exercises/04_zero/walked_layout.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace test;

/// Tensors as rows, and the ranks that share them.
struct RowQuestion {
  std::vector<TensorRows> tensors;
  int ranks = 1;

  [[nodiscard]] std::string str() const {
    std::string all;
    for (const auto& [rows, width] : tensors) all += fmt::format(" {} x {}", rows, width);
    return fmt::format("tensors of{}, {} ranks", all, ranks);
  }
  /// Rows of a tensor, one more at a time until the ranks divide them.
  [[nodiscard]] std::size_t padded_rows(std::size_t tensor) const {
    std::size_t rows = tensors[tensor].rows;
    while (rows % as_size(ranks) != 0) ++rows;
    return rows;
  }
};

FlatLayout expected_layout(const RowQuestion& q) {
  FlatLayout layout;
  for (std::size_t i = 0; i < q.tensors.size(); ++i) {
    const auto& [rows, width] = q.tensors[i];
    layout.places.push_back({layout.padded, layout.padded + rows * width});
    layout.count += rows * width;
    layout.padded += q.padded_rows(i) * width;
  }
  layout.shard = layout.padded / as_size(q.ranks);
  return layout;
}

/// Goes through the rows of a rank's shard, and leaves out those that no tensor has.
std::vector<Piece> expected_pieces(const RowQuestion& q, int rank) {
  std::vector<Piece> pieces;
  std::size_t place = 0;
  for (std::size_t i = 0; i < q.tensors.size(); ++i) {
    const auto& [rows, width] = q.tensors[i];
    bool begun = false;
    for (std::size_t row = 0; row < q.padded_rows(i); ++row) {
      if (row / (q.padded_rows(i) / as_size(q.ranks)) != as_size(rank)) continue;
      if (row < rows && width > 0) {
        if (!begun) pieces.push_back({i, {row * width, row * width}, {place, place}});
        begun = true;
        pieces.back().elements.end += width;
        pieces.back().place.end += width;
      }
      place += width;
    }
  }
  return pieces;
}

std::string hint_for_layout(const RowQuestion& q, const FlatLayout& found) {
  const FlatLayout expected = expected_layout(q);
  if (found.padded < expected.count) {
    return "the shards do not hold all rows: rows divided by ranks are rounded up.";
  }
  if (found.padded < expected.padded) {
    return "whole rows are padded: a tensor of 5 rows has 8 on 4 ranks, however long they are.";
  }
  if (found.padded == expected.padded && found.places != expected.places) {
    return "a tensor stands behind the padding of the one before it: each is padded for itself.";
  }
  return "each tensor has the fewest rows more that make the ranks divide it: none, when they do.";
}

std::string hint_for_rows(const RowQuestion& q, int rank, const std::vector<Piece>& found) {
  const std::vector<Piece> expected = expected_pieces(q, rank);
  const auto some = [&](const auto& is) { return std::ranges::any_of(found, is); };
  if (some([](const Piece& p) { return p.elements.size() == 0; })) {
    return "a piece is empty: of a tensor whose rows have run out a rank has no piece.";
  }
  if (some([&](const Piece& p) {
        return p.tensor < q.tensors.size() &&
               p.elements.end > q.tensors[p.tensor].rows * q.tensors[p.tensor].width;
      })) {
    return "a piece reaches into the padding: it ends where the tensor ends.";
  }
  std::vector<Piece> same = found;
  for (std::size_t i = 0; i < std::min(same.size(), expected.size()); ++i) {
    same[i].place = expected[i].place;
  }
  if (same == expected) {
    return "in a shard, too, a tensor's rows stand behind the padding of the tensor before it: "
           "otherwise ranks would have them in different places.";
  }
  return "the first ranks have equally many rows, ceil(rows / ranks) of them; what is missing is "
         "missing at the end.";
}

class RowLayoutTest : public ultra::test::RandomTest {
 protected:
  RowQuestion draw() {
    RowQuestion question{.tensors = {}, .ranks = static_cast<int>(random.between(1, 9))};
    question.tensors.resize(random.between(0, 5));
    for (auto& [rows, width] : question.tensors) {
      rows = random.between(0, 20);
      width = random.pick<std::size_t>({1, 1, 3, 8});
    }
    return question;
  }

  /// Calls check(question) for random questions, until one fails.
  template <class Check>
  void for_questions(const Check& check) {
    for (int i = 0; i < 300 && !HasFailure(); ++i) {
      const RowQuestion question = draw();
      SCOPED_TRACE(question.str());
      check(question);
    }
  }
};

TEST_F(RowLayoutTest, EachTensorIsPaddedForItself) {
  for_questions([](const RowQuestion& q) {
    const FlatLayout found = row_layout(q.tensors, q.ranks);
    expect_layout(found, expected_layout(q), hint_for_layout(q, found));
  });
}

TEST_F(RowLayoutTest, PiecesAreWholeRowsAndEachIsOwnedOnce) {
  for_questions([](const RowQuestion& q) {
    for (int rank = 0; rank < q.ranks && !HasFailure(); ++rank) {
      const std::vector<Piece> found = row_pieces(q.tensors, q.ranks, rank);
      expect_pieces(rank, found, expected_pieces(q, rank), hint_for_rows(q, rank, found));
    }
  });
}

/// The three examples of PyTorch's documentation of torch.chunk(), by which FSDP2 cuts.
TEST_F(RowLayoutTest, RowsFallToRanksAsTorchChunkSays) {
  using Sizes = std::vector<std::size_t>;
  for (const auto& [rows, expected] : {std::pair{11, Sizes{2, 2, 2, 2, 2, 1}},
                                       {12, Sizes{2, 2, 2, 2, 2, 2}},
                                       {13, Sizes{3, 3, 3, 3, 1}}}) {
    const RowQuestion q{.tensors = {{.rows = as_size(rows), .width = 1}}, .ranks = 6};
    Sizes sizes;
    for (int rank = 0; rank < q.ranks; ++rank) {
      for (const Piece& piece : row_pieces(q.tensors, q.ranks, rank)) {
        sizes.push_back(piece.elements.size());
      }
    }
    EXPECT_EQ(sizes, expected) << rows << " rows on 6 ranks\nHint: " << hint_for_rows(q, 0, {});
  }
}

TEST_F(RowLayoutTest, WorkedByHand) {
  const RowQuestion q{.tensors = {{.rows = 5, .width = 4}, {.rows = 6, .width = 3}}, .ranks = 4};
  const FlatLayout layout = row_layout(q.tensors, q.ranks);
  const FlatLayout expected{.places = {{0, 20}, {32, 50}}, .count = 38, .padded = 56, .shard = 14};
  expect_layout(layout, expected, hint_for_layout(q, layout));
  const std::vector<std::vector<Piece>> pieces = {{{0, {0, 8}, {0, 8}}, {1, {0, 6}, {8, 14}}},
                                                  {{0, {8, 16}, {0, 8}}, {1, {6, 12}, {8, 14}}},
                                                  {{0, {16, 20}, {0, 4}}, {1, {12, 18}, {8, 14}}},
                                                  {}};
  for (int rank = 0; rank < 4; ++rank) {
    const std::vector<Piece> found = row_pieces(q.tensors, q.ranks, rank);
    expect_pieces(rank, found, pieces[as_size(rank)], hint_for_rows(q, rank, found));
  }
}

}  // namespace
}  // namespace ultra::zero
