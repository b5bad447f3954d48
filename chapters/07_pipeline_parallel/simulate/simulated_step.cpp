#include "chapters/07_pipeline_parallel/simulate/simulated_step.hpp"

#include <algorithm>

namespace ultra::pipeline_parallel {

double SimulatedStep::seconds() const {
  double last = 0;
  for (const SimulatedRank& rank : ranks) {
    if (!rank.actions.empty()) last = std::max(last, rank.actions.back().end);
  }
  return last;
}

double SimulatedStep::longest_span() const {
  double longest = 0;
  for (const SimulatedRank& rank : ranks) longest = std::max(longest, rank.span());
  return longest;
}

double SimulatedStep::ideal() const {
  double busy = 0;
  for (const SimulatedRank& rank : ranks) busy += rank.busy;
  return busy / static_cast<double>(ranks.size());
}

}  // namespace ultra::pipeline_parallel
