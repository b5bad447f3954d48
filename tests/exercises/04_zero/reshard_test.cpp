// Contract of exercise 04.8: each wanted element is looked for in all stored pieces, one by one;
// and arrays that some ranks wrote are read by others, element by element.
#include "chapters/04_zero/checkpoints/reshard.hpp"

#include "tests/exercises/04_zero/walked_copies.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace test;

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
