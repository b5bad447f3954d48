// Contract of exercise 04.8: each wanted element is looked for in all stored pieces, one by one;
// and arrays that some ranks wrote are read by others, element by element.
#include "chapters/04_zero/checkpoints/reshard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

/// Pieces that are stored, and what one rank wants.
struct Question {
  std::vector<Range> stored;
  Range wanted;

  [[nodiscard]] std::string str() const {
    std::string all = fmt::format("wanted [{}, {}) of pieces", wanted.begin, wanted.end);
    for (const Range& piece : stored) all += fmt::format(" [{}, {})", piece.begin, piece.end);
    return all;
  }
};

/// Walks over what is wanted, and begins a copy where a piece begins.
std::vector<PieceCopy> walk(const Question& q) {
  std::vector<PieceCopy> copies;
  for (std::size_t element = q.wanted.begin; element < q.wanted.end; ++element) {
    for (std::size_t piece = 0; piece < q.stored.size(); ++piece) {
      const Range& range = q.stored[piece];
      if (element < range.begin || element >= range.end) continue;
      if (copies.empty() || copies.back().piece != piece) {
        copies.push_back({.piece = piece,
                          .from = element - range.begin,
                          .to = element - q.wanted.begin,
                          .count = 0});
      }
      ++copies.back().count;
    }
  }
  return copies;
}

/// Pieces of rows that are stored, and what one rank wants.
struct RowQuestion {
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
std::vector<PieceCopy> walk(const RowQuestion& q) {
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
  if (changed([&](PieceCopy& copy) { copy.from += q.stored[copy.piece].begin; })) {
    return "Hint: `from` is counted from the beginning of the stored piece, not of the tensor.";
  }
  if (changed([&](PieceCopy& copy) { copy.to += q.wanted.begin; })) {
    return "Hint: `to` is counted from the beginning of what is wanted, not of the tensor.";
  }
  if (changed([](PieceCopy& copy) { std::swap(copy.from, copy.to); })) {
    return "Hint: `from` and `to` are swapped: it is copied from the stored piece to what is "
           "wanted.";
  }
  if (changed([](PieceCopy& copy) { --copy.count; })) {
    return "Hint: the last element of each copy is missing: `end` is one past the last, so there "
           "are end - begin.";
  }
  if (changed([&](PieceCopy& copy) { copy.count = q.stored[copy.piece].size() - copy.from; })) {
    return "Hint: a copy ends where its piece ends or what is wanted, whichever comes first.";
  }
  if (changed([](PieceCopy& copy) { ++copy.count; })) {
    return "Hint: each copy takes one element too many: `end` is one past the last, so there are "
           "end - begin.";
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
std::string hint_for(const RowQuestion& q, const std::vector<PieceCopy>& found) {
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

void expect_copies(const Question& q) {
  const std::vector<PieceCopy> found = copies_for(q.stored, q.wanted);
  const std::vector<PieceCopy> expected = walk(q);
  EXPECT_TRUE(found == expected) << q.str() << "\nfound:   " << text(found)
                                 << "\nexpected:" << text(expected) << "\n"
                                 << hint_for(q, found);
}

void expect_copies(const RowQuestion& q) {
  const std::vector<PieceCopy> found = copies_from_rows(q.stored, q.wanted);
  const std::vector<PieceCopy> expected = walk(q);
  EXPECT_TRUE(found == expected) << q.str() << "\nfound:   " << text(found)
                                 << "\nexpected:" << text(expected) << "\n"
                                 << hint_for(q, found);
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

  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1], values[random.between(0, i - 1)]);
    }
  }

  /// A matrix whose columns are cut between ranks, each of which may have cut its rows in two.
  RowQuestion draw_columns() {
    const std::size_t rows = random.between(1, 8);
    const std::size_t columns = random.between(1, 12);
    const std::size_t before = random.between(0, 5);  // another matrix, stored in one piece
    RowQuestion question;
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
    shuffle(question.stored);
    const std::size_t end = random.between(0, before + rows * columns);
    question.wanted = {random.between(0, end), end};
    return question;
  }

  /// Pieces in any order, some of them not stored; any part of the tensor is wanted.
  Question draw() {
    const std::size_t count = random.pick<std::size_t>({0, 1, 7, 30, 100});
    Question question;
    for (const Range& piece : cut(count, random.between(1, 12))) {
      if (random.between(0, 4) > 0) question.stored.push_back(piece);
    }
    shuffle(question.stored);
    const std::size_t begin = random.between(0, count);
    question.wanted = {begin, random.between(begin, count)};
    return question;
  }
};

TEST_F(ReshardTest, CopiesAreWhatPiecesAndWantedHaveInCommon) {
  for (int i = 0; i < 2000 && !HasFailure(); ++i) expect_copies(draw());
}

TEST_F(ReshardTest, WorkedByHand) {
  const Question question{.stored = {{8, 12}, {0, 3}, {3, 6}}, .wanted = {2, 10}};
  const std::vector<PieceCopy> expected = {{.piece = 1, .from = 2, .to = 0, .count = 1},
                                           {.piece = 2, .from = 0, .to = 1, .count = 3},
                                           {.piece = 0, .from = 0, .to = 6, .count = 2}};
  const std::vector<PieceCopy> found = copies_for(question.stored, question.wanted);
  EXPECT_TRUE(found == expected) << question.str() << "\nfound:   " << text(found)
                                 << "\nexpected:" << text(expected) << "\n"
                                 << hint_for(question, found);
}

TEST_F(ReshardTest, Ends) {
  const std::vector<Question> questions = {
      {{}, {0, 0}},                               // no pieces
      {{}, {3, 9}},                               // no pieces, and something is wanted
      {{{0, 4}, {4, 9}}, {0, 0}},                 // nothing is wanted
      {{{0, 4}, {4, 9}}, {4, 4}},                 // nothing, where two pieces meet
      {{{0, 9}}, {5, 5}},                         // nothing, in the middle of a piece
      {{{0, 0}, {4, 4}, {9, 9}}, {0, 9}},         // empty pieces only
      {{{5, 5}, {0, 9}}, {2, 7}},                 // an empty piece within another one
      {{{0, 9}}, {0, 9}},                         // a piece as a whole
      {{{3, 6}}, {0, 9}},                         // gaps on both sides
      {{{0, 9}}, {3, 6}},                         // the middle of a piece
      {{{0, 3}, {6, 9}}, {3, 6}},                 // the gap itself
      {{{4, 8}, {0, 4}}, {0, 8}},                 // two that meet stay two copies
      {{{6, 7}, {5, 6}, {4, 5}, {3, 4}}, {3, 7}}  // one element each, from the last to the first
  };
  for (const Question& question : questions) expect_copies(question);
}

TEST_F(ReshardTest, RowsOfAMatrixThatIsCutBetweenColumns) {
  for (int i = 0; i < 2000 && !HasFailure(); ++i) expect_copies(draw_columns());
}

// A matrix [3, 5] on two ranks: one has columns 0 to 1, the other 2 to 4. A flat shard wants [4, 12).
TEST_F(ReshardTest, RowsWorkedByHand) {
  const RowQuestion question{.stored = {{.first_row = {2, 5}, .rows = 3, .stride = 5},
                                        {.first_row = {0, 2}, .rows = 3, .stride = 5}},
                             .wanted = {4, 12}};
  const std::vector<PieceCopy> expected = {{.piece = 0, .from = 2, .to = 0, .count = 1},
                                           {.piece = 1, .from = 2, .to = 1, .count = 2},
                                           {.piece = 0, .from = 3, .to = 3, .count = 3},
                                           {.piece = 1, .from = 4, .to = 6, .count = 2}};
  const std::vector<PieceCopy> found = copies_from_rows(question.stored, question.wanted);
  EXPECT_TRUE(found == expected) << question.str() << "\nfound:   " << text(found)
                                 << "\nexpected:" << text(expected) << "\n"
                                 << hint_for(question, found);
}

/// What some ranks write is read by more or fewer ranks whose shards are cut differently.
TEST_F(ReshardTest, AnyRanksReadWhatAnyRanksWrote) {
  for (std::size_t writers = 1; writers <= 8; ++writers) {
    for (std::size_t readers = 1; readers <= 8; ++readers) {
      const std::size_t count = random.between(0, 60);
      SCOPED_TRACE(fmt::format("{} writers, {} readers, {} elements", writers, readers, count));
      std::vector<std::size_t> whole(count);
      std::iota(whole.begin(), whole.end(), std::size_t{1000});
      shuffle(whole);
      std::vector<Range> stored = cut(count, writers);
      shuffle(stored);
      std::vector<std::size_t> read;
      for (const Range& wanted : cut(count, readers)) {
        const Question question{stored, wanted};
        const std::vector<PieceCopy> copies = copies_for(stored, wanted);
        std::vector<std::size_t> part(wanted.size(), 0);
        for (const PieceCopy& copy : copies) {
          const bool inside = copy.piece < stored.size() && copy.count <= wanted.size() &&
                              copy.to <= wanted.size() - copy.count &&
                              copy.count <= stored[copy.piece].size() &&
                              copy.from <= stored[copy.piece].size() - copy.count;
          ASSERT_TRUE(inside) << question.str() << "\nfound:" << text({copy})
                              << ", which is outside of the piece or of what is wanted\n"
                              << hint_for(question, copies);
          for (std::size_t i = 0; i < copy.count; ++i) {
            part[copy.to + i] = whole[stored[copy.piece].begin + copy.from + i];
          }
        }
        read.insert(read.end(), part.begin(), part.end());
      }
      ASSERT_EQ(read, whole) << "0 is an element that no copy has brought";
    }
  }
}

}  // namespace
}  // namespace ultra::zero
