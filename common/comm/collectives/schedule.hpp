#pragma once
/// @file
/// Schedule: a collective written down as the steps that one rank takes.
///
/// An algorithm is a function from (group, partition of the data) to a Schedule. The same object is
/// read by the executor, which sends and receives for real (schedule_runner.hpp), and by the cost
/// model, which only asks who sends how much to whom.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/tensor/shape.hpp"

namespace ultra::comm {

/// @brief The `peer` of a step's half that does not exist.
inline constexpr int kNobody = -1;

/// @brief The memory that a step reads or writes.
enum class Buffer : std::uint8_t {
  kData,     ///< the operation's data: holds this rank's contribution first, the result at the end
  kInput,    ///< what all_to_all sends; read only
  kScratch,  ///< Schedule::scratch_count elements that belong to the operation
};

/// @brief Consecutive elements of one buffer.
struct Block {
  Range range{};                  ///< elements
  Buffer buffer = Buffer::kData;  ///< of which memory
  /// @brief Equal when they are the same elements of the same buffer.
  bool operator==(const Block&) const = default;
};

/// @brief What happens to a message that arrives.
enum class OnReceive : std::uint8_t {
  kStore,   ///< it overwrites the block
  kReduce,  ///< it is combined with the block, element by element, by the operation's ReduceOp
};

/// @brief One step of a rank: at most one message sent and at most one received, at the same time.
///
/// The step has ended when the message sent was taken by its receiver and the message received has
/// been stored or combined. Both happen at once, so the two blocks must not overlap. A step whose
/// peers are both the rank itself is a local copy.
struct Round {
  int send_to = kNobody;                     ///< rank of the communicator, or kNobody
  Block send{};                              ///< what is sent
  int receive_from = kNobody;                ///< rank of the communicator, or kNobody
  Block receive{};                           ///< where the message goes
  OnReceive on_receive = OnReceive::kStore;  ///< how it gets there
  bool operator==(const Round&) const = default;
};

/// @brief Steps taken one after the other: each begins when the one before it has ended.
using Lane = std::vector<Round>;

/// @brief One rank's part of a collective.
///
/// Lanes run side by side and must touch different elements. Messages between two ranks are matched
/// lane by lane in the order of their steps: the k-th message that lane j of rank a sends to rank b
/// is the k-th that lane j of rank b receives from a, and both blocks have the same size.
struct Schedule {
  std::vector<Lane> lanes;        ///< run side by side
  std::size_t scratch_count = 0;  ///< elements of scratch memory, in the data's dtype
};

/// @brief "step 3: sends [0, 25) to rank 1, receives [75, 100) from rank 3 and reduces".
[[nodiscard]] std::string to_string(const Round& step);

/// @brief The members of a group as ranks of a communicator, and which of them this rank is.
struct Group {
  std::vector<int> ranks;  ///< rank of each member, in the group's order
  int rank = 0;            ///< this rank's position in the group

  /// @brief The group of all ranks of a communicator.
  [[nodiscard]] static Group all(int rank, int size);

  /// @brief Number of members.
  [[nodiscard]] int size() const { return static_cast<int>(ranks.size()); }
  /// @brief The rank of the member at a position; positions wrap around, negative ones too.
  [[nodiscard]] int at(int position) const;
  /// @brief Position after this one on the ring: messages on a ring go there.
  [[nodiscard]] int next() const { return (rank + 1) % size(); }
  /// @brief Position before this one on the ring: messages on a ring come from there.
  [[nodiscard]] int prev() const { return (rank + size() - 1) % size(); }
};

/// @brief Consecutive chunks that cover a range of elements without gaps; some may be empty.
class Chunks {
 public:
  /// @brief `parts` chunks whose sizes differ by at most one; the longer ones come first.
  /// @throws ConfigError when parts < 1.
  [[nodiscard]] static Chunks even(Range whole, int parts);

  /// @brief One chunk per count, from element `begin` on.
  [[nodiscard]] static Chunks of(std::span<const std::size_t> counts, std::size_t begin = 0);

  /// @brief Number of chunks.
  [[nodiscard]] int size() const { return static_cast<int>(bounds_.size()) - 1; }
  /// @brief A chunk; positions wrap around, negative ones too.
  [[nodiscard]] Range operator[](int index) const;
  /// @brief Chunks [first, last) as one range.
  [[nodiscard]] Range span(int first, int last) const;
  /// @brief All chunks as one range.
  [[nodiscard]] Range whole() const { return {bounds_.front(), bounds_.back()}; }
  /// @brief Elements of the largest chunk.
  [[nodiscard]] std::size_t largest() const;
  /// @brief Equal when all chunks are.
  bool operator==(const Chunks&) const = default;

 private:
  std::vector<std::size_t> bounds_{0};  // begins of all chunks, and the end of the last
};

/// @brief Adds the steps of `more` to the end of `lane`.
void append(Lane& lane, const Lane& more);

/// @brief Elements that the steps of a schedule send to other ranks.
/// @param rank  the rank whose schedule this is: copies to itself are not sent.
[[nodiscard]] std::size_t sent_count(const Schedule& schedule, int rank);

}  // namespace ultra::comm
