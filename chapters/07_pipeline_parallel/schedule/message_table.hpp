#pragma once
/// @file
/// MessageTable: something about every message of a schedule, found in one step.

#include <cstddef>
#include <utility>
#include <vector>

#include "chapters/07_pipeline_parallel/schedule/messages.hpp"

namespace ultra::pipeline_parallel {

/// @brief A value for each message.
template <class Value>
class MessageTable {
 public:
  /// @param initial  the value of every message.
  MessageTable(const PipelineSchedule& schedule, const Value& initial)
      : parts_(schedule.placement.parts()), values_(2 * parts_ * schedule.micro_batches, initial) {}

  /// @brief The value of a message.
  [[nodiscard]] Value& operator[](const Message& message) {
    const std::size_t direction = message.content == Content::kActivation ? 0 : 1;
    return values_[(message.micro_batch * parts_ + message.part) * 2 + direction];
  }

 private:
  std::size_t parts_;
  std::vector<Value> values_;
};

}  // namespace ultra::pipeline_parallel
