#pragma once
/// @file
/// Copies found by a walk over each element, and what they look like after a typical mistake.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "chapters/04_zero/checkpoints/reshard.hpp"

namespace ultra::zero::test {

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
inline std::vector<PieceCopy> walk(const Question& q) {
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
inline std::vector<PieceCopy> walk(const RowQuestion& q) {
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

inline std::string text(const std::vector<PieceCopy>& copies) {
  std::string all;
  for (const PieceCopy& copy : copies) {
    all += fmt::format(" (piece {}, from {}, to {}, {} elements)", copy.piece, copy.from, copy.to,
                       copy.count);
  }
  return all.empty() ? " none" : all;
}

inline std::vector<PieceCopy> by_place(std::vector<PieceCopy> copies) {
  std::sort(copies.begin(), copies.end(), [](const PieceCopy& a, const PieceCopy& b) {
    return std::tie(a.to, a.piece) < std::tie(b.to, b.piece);
  });
  return copies;
}

/// What typical mistakes would give instead of `expected`.
inline std::string hint_for_changed(const Question& q, const std::vector<PieceCopy>& expected,
                                    const std::vector<PieceCopy>& found) {
  const auto changed = [&](const auto& change) {
    std::vector<PieceCopy> copies = expected;
    for (PieceCopy& copy : copies) change(copy);
    std::erase_if(copies, [](const PieceCopy& copy) { return copy.count == 0; });
    return by_place(copies) == by_place(found);
  };
  if (changed([&](PieceCopy& copy) { copy.from += q.stored[copy.piece].begin; })) {
    return "Hint: `from` is counted from the begin of the stored piece, not of the tensor.";
  }
  if (changed([&](PieceCopy& copy) { copy.to += q.wanted.begin; })) {
    return "Hint: `to` is counted from the begin of what is wanted, not of the tensor.";
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

inline std::string hint_for(const Question& q, const std::vector<PieceCopy>& found) {
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
inline std::string hint_for(const RowQuestion& q, const std::vector<PieceCopy>& found) {
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

}  // namespace ultra::zero::test
