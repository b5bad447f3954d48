#include "chapters/03_data_parallel/gradient_completion.hpp"

#include <algorithm>

#include "common/base/errors.hpp"

namespace ultra::data_parallel {

// [region completing_action]
std::size_t completing_action(std::span<const train::Action> schedule,
                              std::span<const std::size_t> chunks) {
  for (std::size_t i = schedule.size(); i-- > 0;) {
    const bool concerns = std::ranges::find(chunks, schedule[i].chunk) != chunks.end();
    if (concerns && schedule[i].makes_gradients()) return i;
  }
  throw InternalError("no action of the schedule makes gradients of these chunks");
}
// [/region]

}  // namespace ultra::data_parallel
