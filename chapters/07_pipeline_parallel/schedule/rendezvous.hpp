#pragma once
/// @file
/// Rendezvous: ranks that follow their lists as far as they get, when each send holds up its rank
/// until the other one has posted its receive.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "chapters/07_pipeline_parallel/schedule/message_table.hpp"
#include "chapters/07_pipeline_parallel/schedule/messages.hpp"

namespace ultra::pipeline_parallel {

/// @brief All ranks of a schedule, each somewhere in its list.
class Rendezvous {
 public:
  /// @param lists  outlive this.
  Rendezvous(const PipelineSchedule& schedule, const InstructionLists& lists);

  /// @brief Lets all ranks go on until each has ended or waits.
  void run();
  /// @brief What every rank waits for, in words; nothing: all have ended.
  [[nodiscard]] std::optional<std::string> waiting() const;
  /// @brief Posts, where its receiver stands, the message of the first rank that waits to send one.
  /// @return whether there is such a rank.
  bool post_early();
  /// @brief What each rank has done, with receives where they have been posted.
  [[nodiscard]] InstructionLists take_done() { return std::move(done_); }

 private:
  /// Where a message stands.
  enum class State : std::uint8_t { kNowhere, kPosted, kThere };

  [[nodiscard]] bool has_ended(std::size_t stage) const;
  [[nodiscard]] const Instruction& instruction(std::size_t stage) const;
  bool follow(std::size_t stage);
  bool pass(std::size_t stage, const Instruction& now);
  void post(std::size_t stage, const Instruction& now);
  [[nodiscard]] std::string describe(std::size_t stage) const;

  const PipelineSchedule& schedule_;
  const InstructionLists& lists_;
  MessageTable<State> messages_;
  std::vector<std::size_t> next_;   // by stage
  std::vector<std::size_t> ready_;  // stages that may get further
  InstructionLists done_;
};

}  // namespace ultra::pipeline_parallel
