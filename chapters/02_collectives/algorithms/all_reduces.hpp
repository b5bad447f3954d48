#pragma once
/// @file
/// All-reduces beside those of the exercises: rings in segments, so that combining and sending overlap, and on
/// machines whose ranks form a grid; butterflies, in rounds over distances 1, 2, 4, ..., for any number of members;
/// and two binary trees at once, with the depth of a tree and the volume of a ring. The butterflies' rounds also make a
/// barrier without a centre.

#include <span>
#include <vector>

#include "common/comm/collectives/schedule.hpp"

namespace ultra::collectives {

/// @brief Ring all-reduce whose chunks are cut into segments that travel one behind the other.
///
/// In a plain ring the link rests while a chunk is being combined. Here the segments of every chunk
/// are dealt to two lanes: while one lane combines the segment that has arrived, the other's is on
/// the link. Inside a lane, all segments of a chunk take a step before any of them takes the next:
/// the segment that a step sends arrived as many steps ago as the lane has segments.
/// @param segments  per chunk; 1 is the plain ring, on one lane.
/// @throws ConfigError when segments < 1.
/// Cost: 2 (P-1) `segments` messages on two lanes; 2 n (P-1)/P elements sent per rank.
/// Source: Patarasuk & Yuan 2009, for the ring; two lanes are the usual double buffering.
[[nodiscard]] comm::Schedule segmented_ring_all_reduce(const comm::Group& group, Range range,
                                                       int segments);

/// @brief All-reduce on a torus of any dimension: reduce-scatter along the last dimension,
/// all-reduce of its own chunk in the torus of the others, all-gather along the last.
///
/// Position p has the coordinates of row-major order: the last one changes fastest. In two
/// dimensions: reduce-scatter in the row, all-reduce in the column, all-gather in the row.
/// @param extents  members along each dimension; their product is group.size().
/// @throws ConfigError when it is not, or when an extent is below 1.
/// Cost: 2 sum_d (extent_d - 1) steps; 2 n (P-1)/P elements sent per rank for equal chunks, as on
/// one ring, of which only 1/extent_last ever leaves the last dimension.
/// Source: Mikami et al. 2018, "Massively distributed SGD: ImageNet/ResNet-50 training in a flash",
/// arXiv 1811.05233, for two dimensions.
[[nodiscard]] comm::Lane torus_all_reduce(const comm::Group& group, Range range,
                                          std::span<const int> extents);

/// @brief All-reduce on a two-dimensional mesh: a ring all-reduce in every row, then one in every
/// column, both of the whole range.
///
/// Simpler than the torus, with almost twice its volume.
/// @param rows, columns  rows * columns == group.size(); position = row * columns + column.
/// @throws ConfigError when it is not, or when one is below 1.
/// Cost: 2 (rows - 1) + 2 (columns - 1) steps; 2 n ((rows-1)/rows + (columns-1)/columns) elements
/// sent per rank for equal chunks.
[[nodiscard]] comm::Lane mesh_all_reduce(const comm::Group& group, Range range, int rows,
                                         int columns);

/// @brief In each round every member exchanges all it has with a partner, twice as far away as the
/// one before, and combines: after k rounds it holds the reduction of 2^k members.
///
/// A message arrives in scratch memory, since the block that it is to be combined with is being
/// sent. Partners compute a + b and b + a, which are the same bits: all members end equal. Any group
/// size: members beyond the largest power of two are folded in and out.
/// Cost: log2 P rounds, ceil(log2 P) + 1 when P is no power of two; n floor(log2 P) elements sent
/// per rank, n more for those that fold.
/// Memory: n elements of scratch.
/// Source: Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations
/// in MPICH".
[[nodiscard]] comm::Schedule recursive_doubling_all_reduce(const comm::Group& group, Range range);

/// @brief All-reduce by recursive halving and doubling (halving_doubling.hpp) on the largest power of
/// two of members; the others are folded in and out.
///
/// Cost: 2 log2 P rounds and 2 n (P-1)/P elements sent per rank for powers of two; else, with C the
/// largest power of two below P, 2 log2 C + 2 rounds, and n elements more for those that fold.
/// Source: Rabenseifner 2004, "Optimization of collective reduction operations".
/// Deviation: in the paper the two members that fold each combine one half, which shares the work;
/// here one of them combines everything, which takes one step less.
[[nodiscard]] comm::Lane rabenseifner_all_reduce(const comm::Group& group, Range range);

/// @brief Nobody ends before everybody has begun: empty messages over distances 1, 2, 4, ...
///
/// After k rounds a position has heard, through others, from the 2^k - 1 positions before it.
/// Cost: ceil(log2 P) rounds, no elements.
/// Source: Hensgen, Finkel, Manber 1988, "Two algorithms for barrier synchronization".
[[nodiscard]] comm::Lane dissemination_barrier(const comm::Group& group);

/// @brief One position's neighbours in a tree, as positions of the group.
struct TreePlace {
  int parent = comm::kNobody;  ///< kNobody for the root
  std::vector<int> children;   ///< empty for a leaf
  /// @brief Equal when the neighbours are the same, in the same order.
  bool operator==(const TreePlace&) const = default;
};

/// @brief Which of the two trees.
enum class Tree { kFirst, kSecond };

/// @brief A position's place in one of two binary trees over `size` positions, such that no position
/// has children in both.
///
/// The first tree numbers its nodes from left to right, in order: leaves are the even positions,
/// inner nodes the odd ones; for an even size the last position is a root above it. The second is
/// the first read backwards (even size) or moved on by one position (odd size): its inner nodes are
/// even positions.
/// Source: Sanders, Speck, Traff 2009, "Two-tree algorithms for full bandwidth broadcast, reduction
/// and scan": one tree, and its mirror image or shift.
[[nodiscard]] TreePlace tree_place(int size, int position, Tree tree);

/// @brief All-reduce: each tree reduces one half of the data to its root and broadcasts it from
/// there, in segments that follow each other through the tree; each tree on a lane of its own.
///
/// A binary tree alone leaves half of the ranks (its leaves) with a link that rests: an inner node
/// sends every element three times, a leaf once. With two trees every rank does both.
/// @param segments  per half; more of them fill the pipeline better and cost more messages.
/// @throws ConfigError when segments < 1.
/// Cost: about 2 (2 segments + 2 log2 P) rounds; at most 2 n elements sent per rank: n/2 per
/// neighbour in each tree.
/// Source: Sanders, Speck, Traff 2009.
[[nodiscard]] comm::Schedule double_tree_all_reduce(const comm::Group& group, Range range,
                                                    int segments);

}  // namespace ultra::collectives
