#include "chapters/01_memory/gradient_accumulation.hpp"

#include <fmt/format.h>

#include "common/base/errors.hpp"

namespace ultra::memory {

using train::ActionKind;

// [region accumulate]
std::vector<train::MicroBatch> cut_share(const train::LocalBatch& share,
                                         std::size_t micro_batch_size) {
  const std::size_t sequences = share.sequences.size();
  if (micro_batch_size == 0 || sequences % micro_batch_size != 0) {
    throw ConfigError(fmt::format("micro-batches of {} do not divide a batch of {}",
                                  micro_batch_size, sequences));
  }
  std::vector<train::MicroBatch> micro_batches;
  for (std::size_t first = 0; first < sequences; first += micro_batch_size) {
    micro_batches.push_back(
        {.sequences = {first, first + micro_batch_size}, .normalizer = share.global_tokens});
  }
  return micro_batches;
}

train::StepSchedule accumulation_schedule(std::size_t micro_batches) {
  train::StepSchedule schedule;
  for (std::size_t i = 0; i < micro_batches; ++i) {
    schedule.push_back({.kind = ActionKind::kForward, .micro_batch = i});
    schedule.push_back({.kind = ActionKind::kBackward, .micro_batch = i});
  }
  return schedule;
}
// [/region]

}  // namespace ultra::memory
