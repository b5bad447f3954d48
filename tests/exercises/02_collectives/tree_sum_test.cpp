// Contract of exercise 02.8: the joins held against a tree that is cut from above, and sums against that
// tree's, bit by bit, of whole axes and of parts.
#include "chapters/02_collectives/tree_sum.hpp"

#include <bit>
#include <map>

#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

using collectives::Join;
using collectives::tree_joins;
using collectives::tree_sum;

/// The tree over [begin, end), from above: its left half is the largest power of two below the whole.
template <class Leaf, class Sum>
auto cut_from_above(std::size_t begin, std::size_t end, const Leaf& leaf, const Sum& sum)
    -> decltype(leaf(begin)) {
  if (end - begin == 1) return leaf(begin);
  const std::size_t middle = begin + std::bit_floor(end - begin - 1);
  return sum(cut_from_above(begin, middle, leaf, sum), cut_from_above(middle, end, leaf, sum));
}

std::string in_brackets(const std::string& left, const std::string& right) {
  return "(" + left + "+" + right + ")";
}

/// What node 0 ends as; says instead which join cannot be made.
std::string written_out(std::size_t nodes, const std::vector<Join>& joins) {
  std::map<std::size_t, std::string> held;
  for (std::size_t i = 0; i < nodes; ++i) held[i] = std::to_string(i);
  for (const auto& [into, from] : joins) {
    if (into == from || !held.contains(into) || !held.contains(from)) {
      return fmt::format("{} with {}, of which one is not there any more", into, from);
    }
    held[into] = in_brackets(held[into], held[from]);
    held.erase(from);
  }
  return held.contains(0) ? held[0] : "nothing: node 0 was added to another";
}

std::string expected_sum(std::size_t nodes) {
  return cut_from_above(
      0, nodes, [](std::size_t i) { return std::to_string(i); }, in_brackets);
}

std::string hint_for_joins(std::size_t nodes, const std::vector<Join>& joins) {
  if (joins.size() + 1 < nodes) {
    return "\nHint: a node is missing in the sum. One without a neighbour waits for a later "
           "round, in which it is the neighbour of all before it.";
  }
  if (joins.front() != Join{.into = 0, .from = 1}) {
    return "\nHint: node 0 is first joined with node 1. With a partner that is half of all nodes "
           "away, the tree depends on how many there are, and no rank has a whole part of it.";
  }
  if (std::ranges::all_of(joins, [](const Join& join) { return join.into == 0; })) {
    return "\nHint: one node after the other is added to the first: a rank that has nodes 2 and 3 "
           "cannot begin with them. Join neighbours.";
  }
  return "\nHint: round by round. In the first, i and i + 1 for i = 0, 2, 4; in the next, i and i "
         "+ 2 for i = 0, 4, 8; and so on, while there is a node i + width.";
}

/// Terms of any size and sign, whose sums round.
std::vector<float> draw_terms(test::Random& random, std::size_t count) {
  std::vector<float> terms;
  for (std::size_t i = 0; i < count; ++i) {
    terms.push_back(static_cast<float>(random.uniform(-1.0, 1.0)) *
                    static_cast<float>(1 << random.between(0, 12)));
  }
  return terms;
}

float sum_from_above(std::span<const float> terms, std::size_t block) {
  const auto of_block = [&](std::size_t i) {
    const std::size_t count = std::min(block, terms.size() - i * block);
    const auto own = terms.subspan(i * block, count);
    return std::accumulate(own.begin(), own.end(), 0.0F);
  };
  return cut_from_above(0, (terms.size() + block - 1) / block, of_block, std::plus<float>());
}

std::uint32_t bits(float number) { return std::bit_cast<std::uint32_t>(number); }

std::string hint_for_parts(std::size_t part, std::size_t block) {
  return fmt::format(
      "\nHint: blocks have {} terms on every rank, also on one that has {} terms. If the cut "
      "follows from a rank's own share, its blocks are not those of the whole axis.",
      block, part);
}

class TreeSum : public test::RandomTest {
 protected:
  /// An axis of whole blocks, cut into parts that are nodes of its tree.
  struct Axis {
    std::size_t block, blocks_of_part, parts;
    std::vector<float> terms = {};

    [[nodiscard]] std::size_t part() const { return block * blocks_of_part; }
    [[nodiscard]] std::span<const float> of(std::size_t rank) const {
      return std::span<const float>(terms).subspan(rank * part(), part());
    }
  };

  Axis draw_axis(std::size_t parts) {
    Axis axis{.block = random.between(1, 20),
              .blocks_of_part = std::size_t{1} << random.between(0, 4),
              .parts = parts};
    axis.terms = draw_terms(random, axis.part() * parts);
    return axis;
  }
};

TEST_F(TreeSum, JoinsNeighboursThenPairsOfThem) {
  for (std::size_t nodes = 1; nodes <= 70 && !HasFailure(); ++nodes) {
    const std::vector<Join> joins = tree_joins(nodes);
    EXPECT_EQ(written_out(nodes, joins), expected_sum(nodes))
        << nodes << " nodes" << hint_for_joins(nodes, joins);
  }
}

TEST_F(TreeSum, AddsBlocksAndJoinsThem) {
  for (int i = 0; i < 100 && !HasFailure(); ++i) {
    const std::size_t block = random.between(1, 20);
    const std::vector<float> terms = draw_terms(random, random.between(1, 400));
    EXPECT_EQ(bits(tree_sum(terms, block)), bits(sum_from_above(terms, block)))
        << terms.size() << " terms in blocks of " << block << hint_for_parts(terms.size(), block);
  }
}

TEST_F(TreeSum, PartsOfAnyNumberOfRanksJoinToTheBitsOfOne) {
  for (int i = 0; i < 100 && !HasFailure(); ++i) {
    const Axis axis = draw_axis(random.between(1, 13));
    std::vector<float> parts;
    for (std::size_t rank = 0; rank < axis.parts; ++rank) {
      parts.push_back(tree_sum(axis.of(rank), axis.block));
    }
    for (const auto& [into, from] : tree_joins(axis.parts)) parts[into] += parts[from];
    EXPECT_EQ(bits(parts.front()), bits(tree_sum(axis.terms, axis.block)))
        << axis.parts << " ranks with " << axis.blocks_of_part << " blocks each"
        << hint_for_parts(axis.part(), axis.block);
  }
}

}  // namespace
}  // namespace ultra
