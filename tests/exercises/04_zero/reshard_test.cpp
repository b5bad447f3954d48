// Contract of exercise 04.8: each wanted element is looked for in all stored pieces, one by one.
#include "chapters/04_zero/checkpoints/reshard.hpp"

#include <tuple>

#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

/// Pieces of rows that are stored, and what one rank wants; a range is a piece of one row.
struct Question {
  std::vector<PieceRows> stored;
  Range wanted;

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
      std::size_t stored = 0;  // elements of the piece before this one
      for (std::size_t row = 0; row < q.stored[piece].rows; ++row) {
        const Range& first = q.stored[piece].first_row;
        for (std::size_t i = 0; i < first.size(); ++i, ++stored) {
          if (first.begin + row * q.stored[piece].stride + i != element) continue;
          if (i == 0 || element == q.wanted.begin) {
            copies.push_back(
                {.piece = piece, .from = stored, .to = element - q.wanted.begin, .count = 0});
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
  std::sort(copies.begin(), copies.end(), [](const PieceCopy& a, const PieceCopy& b) {
    return std::tie(a.to, a.piece) < std::tie(b.to, b.piece);
  });
  return copies;
}

/// What typical mistakes would give instead of `expected`.
std::string hint_for_changed(const Question& q, const std::vector<PieceCopy>& expected,
                             const std::vector<PieceCopy>& found) {
  const auto changed = [&](const auto& change) {
    std::vector<PieceCopy> copies = expected;
    for (PieceCopy& copy : copies) change(copy);
    std::erase_if(copies, [](const PieceCopy& copy) { return copy.count == 0; });
    return by_place(copies) == by_place(found);
  };
  struct Mistake {
    std::function<void(PieceCopy&)> change;
    const char* hint;
  };
  for (const auto& [change, hint] : std::initializer_list<Mistake>{
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
    if (changed(change)) return fmt::format("Hint: {}", hint);
  }
  return {};
}

std::string hint_for(const Question& q, const std::vector<PieceCopy>& found) {
  const std::vector<PieceCopy> expected = walk(q);
  for (const PieceCopy& copy : found) {
    if (copy.count == 0) {
      return "Hint: a copy is empty: a piece that has nothing in common with what is wanted has no "
             "copy.";
    }
    if (copy.piece >= q.stored.size()) return "Hint: there is no such piece.";
  }
  if (by_place(found) == expected) {
    return "Hint: the copies are right, their order is not: they come in the order in which the "
           "elements are wanted, the pieces in any order.";
  }
  const std::string hint = hint_for_changed(q, expected, found);
  if (!hint.empty()) return hint;
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

/// What copies of rows look like after a typical mistake.
std::string hint_for_rows(const Question& q, const std::vector<PieceCopy>& found) {
  const std::vector<PieceCopy> expected = walk(q);
  if (by_place(found) == expected) {
    return "Hint: copies of several pieces take turns, row by row: the order is that of the "
           "tensor.";
  }
  std::vector<PieceCopy> gaps = expected;
  for (PieceCopy& copy : gaps) {
    if (copy.piece >= q.stored.size()) continue;
    const PieceRows& piece = q.stored[copy.piece];
    copy.from =
        copy.from / piece.first_row.size() * piece.stride + copy.from % piece.first_row.size();
  }
  if (by_place(found) == gaps) {
    return "Hint: the gaps between rows are in the tensor, not in the piece: in it row r begins "
           "after r whole rows.";
  }
  if (found.size() < expected.size()) {
    return "Hint: rows are missing: the first that may be wanted is the first that does not end "
           "before the wanted elements begin, and none after it is left out.";
  }
  return "Hint: a row is a piece of its own for copies_for(): say afterwards whose row it was, and "
         "where it begins in its piece.";
}

void expect_copies(const Question& q, const std::vector<PieceCopy>& found,
                   const std::vector<PieceCopy>& expected, const std::string& hint) {
  EXPECT_TRUE(found == expected) << q.str() << "\nfound:   " << text(found)
                                 << "\nexpected:" << text(expected) << "\n"
                                 << hint;
}

std::vector<PieceCopy> found_for(const Question& q) {
  std::vector<Range> stored;
  for (const PieceRows& piece : q.stored) stored.push_back(piece.first_row);
  return copies_for(stored, q.wanted);
}

class ReshardTest : public ultra::test::RandomTest {
 protected:
  /// Ranges one after the other that cover [0, count): some may be empty.
  std::vector<Range> cut(std::size_t count, std::size_t pieces) {
    std::vector<std::size_t> ends = {0, count};
    while (ends.size() < pieces + 1) ends.push_back(random.between(0, count));
    std::sort(ends.begin(), ends.end());
    std::vector<Range> ranges;
    for (std::size_t i = 0; i + 1 < ends.size(); ++i) ranges.push_back({ends[i], ends[i + 1]});
    return ranges;
  }

  /// A matrix whose columns are cut between ranks, each of which may have cut its rows in two.
  Question draw_columns() {
    const std::size_t rows = random.between(1, 8);
    const std::size_t columns = random.between(1, 12);
    const std::size_t before = random.between(0, 5);  // another matrix, stored in one piece
    Question question;
    if (before > 0) question.stored.push_back({.first_row = {0, before}});
    for (const Range& part : cut(columns, random.between(1, 4))) {
      if (part.size() == 0 || random.between(0, 5) == 0) continue;
      const std::size_t half = random.between(0, rows);
      for (const Range& some : {Range{0, half}, Range{half, rows}}) {
        const std::size_t offset = before + some.begin * columns;
        if (some.size() == 0) continue;
        question.stored.push_back({.first_row = {offset + part.begin, offset + part.end},
                                   .rows = some.size(),
                                   .stride = columns});
      }
    }
    random.shuffle(question.stored);
    const std::size_t end = random.between(0, before + rows * columns);
    question.wanted = {random.between(0, end), end};
    return question;
  }

  /// Pieces in any order, some of them not stored; any part of the tensor is wanted.
  Question draw() {
    const std::size_t count = random.pick<std::size_t>({0, 1, 7, 30, 100});
    Question question;
    for (const Range& piece : cut(count, random.between(1, 12))) {
      if (random.between(0, 4) > 0) question.stored.push_back({.first_row = piece});
    }
    random.shuffle(question.stored);
    const std::size_t begin = random.between(0, count);
    question.wanted = {begin, random.between(begin, count)};
    return question;
  }
};

TEST_F(ReshardTest, CopiesAreWhatPiecesAndWantedHaveInCommon) {
  for (int i = 0; i < 2000 && !HasFailure(); ++i) {
    const Question q = draw();
    const std::vector<PieceCopy> found = found_for(q);
    expect_copies(q, found, walk(q), hint_for(q, found));
  }
}

TEST_F(ReshardTest, WorkedByHand) {
  const Question q{.stored = {{{8, 12}}, {{0, 3}}, {{3, 6}}}, .wanted = {2, 10}};
  const std::vector<PieceCopy> found = found_for(q);
  expect_copies(q, found, {{1, 2, 0, 1}, {2, 0, 1, 3}, {0, 0, 6, 2}}, hint_for(q, found));
}

TEST_F(ReshardTest, RowsOfAMatrixThatIsCutBetweenColumns) {
  for (int i = 0; i < 2000 && !HasFailure(); ++i) {
    const Question q = draw_columns();
    const std::vector<PieceCopy> found = copies_from_rows(q.stored, q.wanted);
    expect_copies(q, found, walk(q), hint_for_rows(q, found));
  }
}

// A matrix [3, 5] on two ranks: one has columns 0 to 1, the other 2 to 4. A flat shard wants [4, 12).
TEST_F(ReshardTest, RowsWorkedByHand) {
  const Question q{.stored = {{{2, 5}, 3, 5}, {{0, 2}, 3, 5}}, .wanted = {4, 12}};
  const std::vector<PieceCopy> found = copies_from_rows(q.stored, q.wanted);
  expect_copies(q, found, {{0, 2, 0, 1}, {1, 2, 1, 2}, {0, 3, 3, 3}, {1, 4, 6, 2}},
                hint_for_rows(q, found));
}

}  // namespace
}  // namespace ultra::zero
