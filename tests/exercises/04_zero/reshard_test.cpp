// Contract of exercise 04.8: each wanted element is looked for in all stored pieces, one by one.
#include "chapters/04_zero/checkpoints/reshard.hpp"

#include <tuple>

#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

/// Pieces that are stored, and what one rank wants; a range is a piece of one row, without a stride.
struct Question {
  std::vector<PieceRows> stored;
  Range wanted;

  [[nodiscard]] bool of_rows() const {
    return std::ranges::any_of(stored, [](const PieceRows& piece) { return piece.stride > 0; });
  }
  [[nodiscard]] std::string str() const {
    std::string all = fmt::format("wanted [{}, {}) of pieces", wanted.begin, wanted.end);
    for (const PieceRows& piece : stored) {
      all += fmt::format(" {} x [{}, {}) + {}", piece.rows, piece.first_row.begin,
                         piece.first_row.end, piece.stride);
    }
    return all;
  }
};

/// Walks over what is wanted; a copy ends with its row.
std::vector<PieceCopy> walk(const Question& q) {
  std::vector<PieceCopy> copies;
  for (std::size_t element = q.wanted.begin; element < q.wanted.end; ++element) {
    for (std::size_t piece = 0; piece < q.stored.size(); ++piece) {
      const auto& [first, rows, stride] = q.stored[piece];
      for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t i = 0; i < first.size(); ++i) {
          if (first.begin + row * stride + i != element) continue;
          if (i == 0 || element == q.wanted.begin) {
            copies.push_back(
                {.piece = piece, .from = row * first.size() + i, .to = element - q.wanted.begin});
          }
          ++copies.back().count;
        }
      }
    }
  }
  return copies;
}

std::string text(const std::vector<PieceCopy>& copies) {
  std::string all;
  for (const PieceCopy& copy : copies) {
    all += fmt::format(" (piece {}, from {}, to {}, {} elements)", copy.piece, copy.from, copy.to,
                       copy.count);
  }
  return all.empty() ? " none" : all;
}

std::vector<PieceCopy> by_place(std::vector<PieceCopy> copies) {
  std::ranges::sort(copies, {}, [](const PieceCopy& c) { return std::tie(c.to, c.piece); });
  return copies;
}

/// What to say when each copy is the expected one but for one typical mistake.
std::string hint_for_changed(const Question& q, const std::vector<PieceCopy>& expected,
                             const std::vector<PieceCopy>& found) {
  struct Mistake {
    std::function<void(PieceCopy&)> change;
    const char* hint;
  };
  for (const auto& [change, hint] : std::initializer_list<Mistake>{
           {[&](PieceCopy& copy) {
              const auto& [first_row, rows, stride] = q.stored[copy.piece];
              copy.from += copy.from / first_row.size() * (stride - first_row.size());
            },
            "the gaps between rows are in the tensor, not in the piece: in it row r begins after r "
            "whole rows."},
           {[&](PieceCopy& copy) { copy.from += q.stored[copy.piece].first_row.begin; },
            "`from` is counted from the beginning of the stored piece, not of the tensor."},
           {[&](PieceCopy& copy) { copy.to += q.wanted.begin; },
            "`to` is counted from the beginning of what is wanted, not of the tensor."},
           {[](PieceCopy& copy) { std::swap(copy.from, copy.to); },
            "`from` and `to` are swapped: it is copied from the stored piece to what is wanted."},
           {[](PieceCopy& copy) { --copy.count; },
            "the last element of each copy is missing: `end` is one past the last, so there are "
            "end - begin."},
           {[&](PieceCopy& copy) {
              copy.count = q.stored[copy.piece].first_row.size() - copy.from;
            },
            "a copy ends where its piece ends or what is wanted, whichever comes first."},
           {[](PieceCopy& copy) { ++copy.count; },
            "each copy takes one element too many: `end` is one past the last, so there are end - "
            "begin."}}) {
    std::vector<PieceCopy> copies = expected;
    for (PieceCopy& copy : copies) change(copy);
    std::erase_if(copies, [](const PieceCopy& copy) { return copy.count == 0; });
    if (by_place(copies) == by_place(found)) return fmt::format("Hint: {}", hint);
  }
  return {};
}

std::string hint_for(const Question& q, const std::vector<PieceCopy>& expected,
                     const std::vector<PieceCopy>& found) {
  for (const PieceCopy& copy : found) {
    if (copy.count == 0) {
      return "Hint: a copy is empty: a piece that has nothing in common with what is wanted has no "
             "copy.";
    }
    if (copy.piece >= q.stored.size()) return "Hint: there is no such piece.";
  }
  if (by_place(found) == expected) {
    return "Hint: the copies are right, their order is not: they come in the order in which the "
           "elements are wanted, the pieces in any order, their rows by turns.";
  }
  if (q.of_rows() && found.size() < expected.size()) {
    return "Hint: rows are missing: the first that may be wanted is the first that does not end "
           "before the wanted elements begin, and none after it is left out.";
  }
  const std::string hint = hint_for_changed(q, expected, found);
  if (!hint.empty()) return hint;
  if (q.of_rows()) {
    return "Hint: a row is a piece of its own for copies_for(): say afterwards whose row it was, "
           "and where it begins in its piece.";
  }
  const auto same_place = [](const PieceCopy& a, const PieceCopy& b) {
    return a.from == b.from && a.to == b.to && a.count == b.count;
  };
  if (std::equal(found.begin(), found.end(), expected.begin(), expected.end(), same_place)) {
    return "Hint: `piece` is the place in `stored` as it was given: sort the copies, not the "
           "pieces.";
  }
  if (found.size() < expected.size()) {
    return "Hint: a piece is missing: what is wanted may reach over many pieces, and each of them "
           "has a copy of its own.";
  }
  if (found.size() > expected.size()) {
    return "Hint: there are too many copies: one for each piece that has something in common with "
           "what is wanted.";
  }
  return "Hint: a copy is what a piece and the wanted elements have in common, from the larger of "
         "the two beginnings to the smaller of the two ends.";
}

void expect_copies(const Question& q) {
  std::vector<Range> ranges;
  for (const PieceRows& piece : q.stored) ranges.push_back(piece.first_row);
  const std::vector<PieceCopy> found =
      q.of_rows() ? copies_from_rows(q.stored, q.wanted) : copies_for(ranges, q.wanted);
  const std::vector<PieceCopy> expected = walk(q);
  EXPECT_TRUE(found == expected) << q.str() << "\nfound:   " << text(found)
                                 << "\nexpected:" << text(expected) << "\n"
                                 << hint_for(q, expected, found);
}

class ReshardTest : public ultra::test::RandomTest {
 protected:
  /// A matrix behind another piece: its columns are cut between ranks, each of which may have cut its
  /// rows in two; some have stored nothing. Any part of the tensor is wanted.
  Question draw(std::size_t rows, std::size_t columns) {
    Question q;
    const std::size_t before = random.between(0, 5);
    if (before > 0) q.stored.push_back({.first_row = {0, before}});
    std::vector<std::size_t> cuts(random.between(2, 12));
    for (std::size_t& cut : cuts) cut = random.between(0, columns);
    std::ranges::sort(cuts);
    for (std::size_t i = 1; i < cuts.size(); ++i) {
      if (random.between(0, 4) == 0 || (rows > 1 && cuts[i] == cuts[i - 1])) continue;
      const std::size_t half = random.between(0, rows);
      for (const Range& some : {Range{0, half}, Range{half, rows}}) {
        if (some.size() == 0) continue;
        const std::size_t offset = before + some.begin * columns;
        q.stored.push_back({.first_row = {offset + cuts[i - 1], offset + cuts[i]},
                            .rows = some.size(),
                            .stride = rows > 1 ? columns : 0});
      }
    }
    random.shuffle(q.stored);
    const std::size_t end = random.between(0, before + rows * columns);
    q.wanted = {random.between(0, end), end};
    return q;
  }
};

TEST_F(ReshardTest, CopiesAreWhatPiecesAndWantedHaveInCommon) {
  expect_copies({.stored = {{{8, 12}}, {{0, 3}}, {{3, 6}}}, .wanted = {2, 10}});
  for (int i = 0; i < 2000 && !HasFailure(); ++i) {
    expect_copies(draw(1, random.pick<std::size_t>({0, 1, 7, 30, 100})));
  }
}

/// The first: a matrix [3, 5], columns 2 to 4 of one rank and 0 to 1 of the other.
TEST_F(ReshardTest, RowsOfAMatrixThatIsCutBetweenColumns) {
  expect_copies({.stored = {{{2, 5}, 3, 5}, {{0, 2}, 3, 5}}, .wanted = {4, 12}});
  for (int i = 0; i < 2000 && !HasFailure(); ++i) {
    expect_copies(draw(random.between(2, 8), random.between(1, 12)));
  }
}

}  // namespace
}  // namespace ultra::zero
