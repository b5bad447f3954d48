#pragma once
/// @file
/// Flat arrays laid out and cut element by element, and what pieces look like after a typical mistake.

#include <fmt/ranges.h>

#include "chapters/04_zero/flat_layout.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero::test {

inline std::size_t as_size(int number) { return static_cast<std::size_t>(number); }

inline std::string text(const Range& range) {
  return fmt::format("[{}, {})", range.begin, range.end);
}

inline std::string text(const std::vector<Range>& ranges) {
  std::string all;
  for (const Range& range : ranges) all += " " + text(range);
  return all;
}

inline std::string text(const FlatLayout& layout) {
  return fmt::format("tensors at{}, a count of {}, padded to {}, shards of {}", text(layout.places),
                     layout.count, layout.padded, layout.shard);
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
inline FlatLayout lay_out(const Question& question) {
  FlatLayout layout;
  for (const std::size_t count : question.counts) {
    layout.places.push_back({layout.count, layout.count + count});
    layout.count += count;
  }
  layout.padded = layout.count;
  while (layout.padded % as_size(question.ranks) != 0) ++layout.padded;
  layout.shard = layout.padded / as_size(question.ranks);
  return layout;
}

/// Goes through the array, and begins a piece where a shard or a tensor begins.
inline std::vector<Piece> walk(const FlatLayout& layout, int rank) {
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

inline std::string text(const std::vector<Piece>& pieces) {
  std::string all;
  for (const Piece& piece : pieces) {
    all += fmt::format(" (tensor {}, elements {}, place {})", piece.tensor, text(piece.elements),
                       text(piece.place));
  }
  return all.empty() ? " none" : all;
}

inline void expect_layout(const FlatLayout& found, const FlatLayout& expected,
                          const std::string& hint) {
  EXPECT_TRUE(found == expected) << "found    " << text(found) << "\nexpected " << text(expected)
                                 << "\nHint: " << hint;
}

inline void expect_pieces(int rank, const std::vector<Piece>& found,
                          const std::vector<Piece>& expected, const std::string& hint) {
  EXPECT_TRUE(found == expected) << "rank " << rank << "\nfound:   " << text(found)
                                 << "\nexpected:" << text(expected) << "\nHint: " << hint;
}

/// What is wrong with pieces, told by what typical mistakes give.
inline const char* hint_for_pieces(const Question& question, const FlatLayout& layout, int rank,
                                   const std::vector<Piece>& found) {
  const std::vector<Piece> expected = walk(layout, rank);
  const auto some = [&](const auto& is) { return std::ranges::any_of(found, is); };
  const auto moved = [](const Range& range, std::size_t by) {
    return Range{range.begin + by, range.end + by};
  };
  const auto changed = [&](const auto& change) {
    std::vector<Piece> pieces = expected;
    for (Piece& piece : pieces) change(piece);
    return pieces == found;
  };
  if (some([](const Piece& p) {
        return p.elements.begin >= p.elements.end || p.place.begin >= p.place.end;
      })) {
    return "a piece is empty: a tensor that has nothing in common with the shard has no piece in "
           "it.";
  }
  if (changed([](Piece& p) { std::swap(p.elements, p.place); })) {
    return "`elements` and `place` are swapped: the elements are counted from the beginning of the "
           "tensor, the place from that of the shard.";
  }
  if (changed([&](Piece& p) { p.elements = moved(p.elements, layout.places[p.tensor].begin); })) {
    return "`elements` are counted from the beginning of the tensor, not of the array.";
  }
  if (changed([&](Piece& p) { p.place = moved(p.place, as_size(rank) * layout.shard); })) {
    return "`place` is counted from the beginning of the shard, not of the array.";
  }
  if (some([&](const Piece& p) { return p.tensor >= question.counts.size(); })) {
    return "there is no such tensor.";
  }
  if (some([&](const Piece& p) { return p.elements.end > question.counts[p.tensor]; })) {
    return "a piece reaches into the padding, or into the tensor behind it: it ends where the "
           "tensor ends or the shard, whichever comes first.";
  }
  return found.size() < expected.size()
             ? "a piece is missing: a tensor may begin or end in the middle of a shard, and may "
               "reach over several."
             : "a piece is what a tensor and the shard have in common, from the larger of the two "
               "beginnings to the smaller of the two ends.";
}

}  // namespace ultra::zero::test
