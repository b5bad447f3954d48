#pragma once
/// @file
/// Messages of a schedule: its passes, with what travels between the ranks made explicit.
///
/// - A receive is posted: the rank says where the message is to go, and goes on. A pass waits until
///   what it needs has arrived.
/// - A send stands right after the pass that makes the message. It is a rendezvous: nothing travels
///   before the other rank has posted its receive.
/// - So receives are posted ahead: that lets messages travel while both ranks compute.
/// What goes from a chunk to another of the same rank is not a message.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "chapters/07_pipeline_parallel/schedule/pipeline_schedule.hpp"

namespace ultra::pipeline_parallel {

/// @brief What a message holds.
enum class Content : std::uint8_t {
  kActivation,  ///< the output of a forward pass, for the next part
  kGradient,    ///< the gradient of a part's input, for the part before
};

/// @brief A tensor on its way from a part of the model to a neighbour.
struct Message {
  Content content = Content::kActivation;  ///< and so the direction
  std::size_t micro_batch = 0;             ///< of the step
  std::size_t part = 0;                    ///< that receives it

  /// @brief The part that sends it.
  [[nodiscard]] std::size_t from_part() const {
    return content == Content::kActivation ? part - 1 : part + 1;
  }
  /// @brief "the activation of micro-batch 3".
  [[nodiscard]] std::string str() const;
  bool operator==(const Message&) const = default;
};

/// @brief What an action waits for; nothing for the first part's F, the last part's B, W and U.
[[nodiscard]] std::optional<Message> input_of(const PipelineSchedule& schedule, std::size_t stage,
                                              const train::Action& action);
/// @brief What an action makes for a neighbour; nothing for the last part's F, the first part's B.
[[nodiscard]] std::optional<Message> output_of(const PipelineSchedule& schedule, std::size_t stage,
                                               const train::Action& action);

/// @brief What an instruction does.
enum class InstructionKind : std::uint8_t {
  kPost,  ///< says that a message may come
  kPass,  ///< runs an action, when its message has come
  kSend,  ///< hands a message over
};

/// @brief One thing that a rank does.
struct Instruction {
  InstructionKind kind = InstructionKind::kPass;  ///< what
  train::Action action = {};  ///< that is run, has made the message, or needs it
  std::size_t index = 0;      ///< of that action in the rank's list
  Message message = {};       ///< of kPost and kSend
  std::size_t peer = 0;       ///< of kPost and kSend: the other rank along pp
};

/// Instructions by stage, in their order.
using InstructionLists = std::vector<std::vector<Instruction>>;

/// @brief The instructions of all ranks, such that even sends that block their rank come to an end.
///
/// While a rank waits for a message or uses it, the receive of its next one is posted already; more
/// of them are where all ranks would wait for each other otherwise.
/// @throws ConfigError when the passes alone wait for each other, with what each rank waits for.
[[nodiscard]] InstructionLists with_messages(const PipelineSchedule& schedule);

/// @brief The most receives that a rank has posted and not used yet: buffers that it needs.
[[nodiscard]] std::size_t peak_posted(const std::vector<Instruction>& list);

/// @brief Lets every rank follow its list, each send waiting until its message is taken.
/// @return what every rank waits for, in words, when some of them wait for ever.
[[nodiscard]] std::optional<std::string> find_deadlock(const PipelineSchedule& schedule,
                                                       const InstructionLists& lists);

}  // namespace ultra::pipeline_parallel
