#pragma once
/// @file
/// A program of operations on the groups of a mesh, drawn at random, that every rank of a world can run,
/// and each alone.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "common/comm/mesh.hpp"
#include "tests/support/random.hpp"

namespace ultra::test {

/// @brief What every rank of a group calls.
struct Line {
  /// What is called; some kinds are several operations.
  enum class Call : std::uint8_t {
    kBroadcast,
    kReduce,
    kAllReduce,
    kGather,
    kScatter,
    kAllGather,
    kReduceScatter,
    kAllToAll,
    kAllToAllRows,
    kBarrier,
    kSendOn,     ///< to the next member on a channel, and from the one before
    kSendNamed,  ///< the same under a name
    kShift,
  };
  std::vector<std::string_view> axes;  ///< of the group
  Call call = Call::kBarrier;          ///< what
  std::size_t count = 0;               ///< elements of a member's part, or rows
  std::size_t extra = 0;               ///< elements that make the whole indivisible
  DType dtype = DType::kF32;           ///< of the elements
  int choice = 0;                      ///< root, channel, name or distance
  bool in_place = false;               ///< where that can be
  bool waits = true;                   ///< at once, or at the end
  std::string label;                   ///< of the handle
};

/// @brief Lines on a mesh of eight ranks.
struct DrawnProgram {
  MeshShape shape;          ///< of dp, pp and tp
  std::vector<Line> lines;  ///< in order
};

/// @brief Draws one.
[[nodiscard]] DrawnProgram draw_program(Random& random, std::size_t lines);

/// @brief Runs it as one rank of a world.
/// @param after  called behind each line with its number.
void run_program(const DrawnProgram& program, const Communicator& world, const Device& device,
                 const std::function<void(std::size_t)>& after);

}  // namespace ultra::test
