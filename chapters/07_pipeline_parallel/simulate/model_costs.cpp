#include "chapters/07_pipeline_parallel/simulate/model_costs.hpp"

namespace ultra::pipeline_parallel {
namespace {

/// Passes of a part that is so many stages large; what it saves, but for the blocks, is not
/// counted.
PartCost scaled(const PartCost& stage, double passes, double blocks) {
  return {.forward = stage.forward * passes,
          .backward_input = stage.backward_input * passes,
          .backward_weight = stage.backward_weight * passes,
          .saved_bytes = stage.saved_bytes * blocks,
          .saved_bytes_after_b = stage.saved_bytes_after_b * blocks};
}

}  // namespace

CostModel ModelCosts::on(const Placement& placement) const {
  CostModel costs{.parts = {},
                  .overlapped = overlapped,
                  .link = link,
                  .message_bytes = message_bytes,
                  .update = update};
  const double blocks = 1 / static_cast<double>(placement.chunks());
  for (std::size_t part = 0; part < placement.parts(); ++part) {
    double passes = blocks;
    if (part == 0) passes += embedding;
    if (part + 1 == placement.parts()) passes += head;
    costs.parts.push_back(scaled(stage, passes, blocks));
  }
  return costs;
}

}  // namespace ultra::pipeline_parallel
