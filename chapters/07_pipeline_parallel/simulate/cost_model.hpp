#pragma once
/// @file
/// CostModel: what passes and messages of a pipeline take, by formulas or in a real run (--executed-gantt).

#include <cstddef>
#include <string>
#include <vector>

#include "chapters/07_pipeline_parallel/schedule/pipeline_schedule.hpp"

namespace ultra::pipeline_parallel {

/// @brief What a micro-batch takes in one part of the model.
struct PartCost {
  double forward = 1;              ///< F, seconds
  double backward_input = 1;       ///< B, seconds
  double backward_weight = 1;      ///< W, seconds
  double saved_bytes = 0;          ///< that F leaves behind
  double saved_bytes_after_b = 0;  ///< of them, those that W still needs

  /// @brief BW: seconds of a whole backward pass.
  [[nodiscard]] double backward() const { return backward_input + backward_weight; }
  /// @brief F, B and W: seconds.
  [[nodiscard]] double together() const { return forward + backward(); }
};

/// @brief A link between two ranks, for one direction.
struct LinkCost {
  double latency = 0;           ///< alpha: seconds until the first byte arrives
  double seconds_per_byte = 0;  ///< beta; one message after the other

  /// @brief Seconds that a message keeps the link busy.
  [[nodiscard]] double busy(double bytes) const { return seconds_per_byte * bytes; }
};

/// @brief What everything costs.
struct CostModel {
  std::vector<PartCost> parts;  ///< by part of the model
  double overlapped = 1;     ///< seconds of an overlapped F and BW over those one after the other
  LinkCost link = {};        ///< between any two ranks
  double message_bytes = 0;  ///< of an activation, and of its gradient
  double update = 0;         ///< U: seconds of an optimizer's step after a backward pass

  /// @brief The same costs for all parts, free links.
  [[nodiscard]] static CostModel equal(std::size_t parts, const PartCost& part = {});

  /// @brief Seconds of an action on a part.
  [[nodiscard]] double seconds(train::ActionKind kind, std::size_t part) const;
};

/// @brief The mean seconds that the actions of a run took, by part of the model; free links.
///
/// A run that has only whole backward passes says nothing about B and W: each gets half of them.
/// @param gantt  the text of the file.
/// @param path   for messages.
/// @throws ConfigError when it is no such file, or a time is not one that a pass can take: with the
/// list and the number.
[[nodiscard]] CostModel costs_of_gantt(const std::string& gantt, const std::string& path);

}  // namespace ultra::pipeline_parallel
