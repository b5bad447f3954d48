#pragma once
/// @file
/// RollCall: the members of a group tell each other what they are about to do.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/comm/engine/operation.hpp"
#include "common/comm/transport.hpp"

namespace ultra::comm {

/// @brief What a member says when the roll is called; plain bytes on the wire.
struct Answer {
  /// Bytes of a label that travel.
  static constexpr std::size_t kLabelBytes = 32;

  std::uint64_t count = 0;       ///< elements of the operation
  std::int32_t root = 0;         ///< its root
  std::uint32_t label_hash = 0;  ///< of the whole label
  OpKind kind{};                 ///< what the member calls
  ReduceOp op{};                 ///< how elements are reduced
  std::uint8_t dtype = 0;        ///< a DType: the type of the elements
  std::uint8_t device = 0;       ///< a DeviceKind: where the elements are
  std::uint32_t sequence = 0;    ///< its number among the group's operations
  /// The label for messages, with zeros after it; of a long one, the beginning and "...".
  std::array<char, kLabelBytes> label{};

  /// @brief What `info` says of an operation.
  [[nodiscard]] static Answer of(const OperationInfo& info);
  /// @brief Whether both members call the same.
  [[nodiscard]] bool same_call(const Answer& other) const;
};

/// @brief Throws CommMismatch unless all members call the same.
/// @param answers  by member.
/// @param info     this member's operation: gives the message its number and group.
void expect_same_call(const std::vector<Answer>& answers, const OperationInfo& info);

/// @brief One round of answers: each member to each other. Cost: P-1 messages of 56 bytes per rank.
class RollCall {
 public:
  /// @brief A round that has not begun.
  /// @param own  what this member says.
  RollCall(std::shared_ptr<Transport> transport, const OperationInfo& info, Answer own);

  /// @brief Moves the messages along; true when all answers are here and agree.
  /// @throws CommMismatch when they do not agree.
  [[nodiscard]] bool complete();
  /// @brief "rank 2 has not arrived", "ranks 2, 3 have not arrived": whose answer is missing.
  [[nodiscard]] std::string waits_for() const;
  /// @brief Answers by member, when complete.
  [[nodiscard]] const std::vector<Answer>& answers() const { return *answers_; }

 private:
  void post();
  [[nodiscard]] Answer& at(int member) { return (*answers_)[static_cast<std::size_t>(member)]; }

  std::shared_ptr<Transport> transport_;
  OperationInfo info_;
  std::shared_ptr<std::vector<Answer>> answers_;
  std::vector<std::unique_ptr<Request>> sends_;
  std::vector<std::unique_ptr<Request>> receives_;
  bool posted_ = false;
  bool agreed_ = false;
};

/// @brief "rank 2" or "ranks 2, 3".
[[nodiscard]] std::string rank_list(const std::vector<int>& ranks);

/// @brief "rank 2 has not arrived", "ranks 0, 1 have not arrived".
/// @param ranks  of the world.
[[nodiscard]] std::string have(const std::vector<int>& ranks, const char* done);

/// @brief "rank 2 has not arrived"; of a smaller group than the world "ranks 0, 1 (in the world: 4,
/// 6) have not arrived".
/// @param members  ranks in the group.
/// @param worlds   the world's rank of each member of the group.
[[nodiscard]] std::string have(const std::vector<int>& members, const std::vector<int>& worlds,
                               const char* done);

/// @brief The world's rank of each member of a group.
[[nodiscard]] std::vector<int> world_ranks(const Transport& group);

}  // namespace ultra::comm
