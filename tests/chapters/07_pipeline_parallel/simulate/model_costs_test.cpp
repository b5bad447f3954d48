#include "chapters/07_pipeline_parallel/simulate/model_costs.hpp"

#include <gtest/gtest.h>

namespace ultra::pipeline_parallel {
namespace {

TEST(ModelCosts, AreTheSameHoweverTheModelIsCut) {
  const ModelCosts model{.stage = {.forward = 1,
                                   .backward_input = 2,
                                   .backward_weight = 3,
                                   .saved_bytes = 4,
                                   .saved_bytes_after_b = 2},
                         .embedding = 0.25,
                         .head = 0.5};
  for (const Placement& placement :
       {Placement::loop(4), Placement::loop(4, 2), Placement::v_shape(4)}) {
    const CostModel costs = model.on(placement);
    double together = 0;
    double saved = 0;
    for (const PartCost& part : costs.parts) {
      together += part.together();
      saved += part.saved_bytes;
    }
    EXPECT_DOUBLE_EQ(together, 6 * 4.75);
    EXPECT_DOUBLE_EQ(saved, 4 * 4);
    const double chunks = static_cast<double>(placement.chunks());
    EXPECT_DOUBLE_EQ(costs.parts.front().forward, 1 / chunks + 0.25);
    EXPECT_DOUBLE_EQ(costs.parts.back().backward_weight, 3 / chunks + 1.5);
  }
}

}  // namespace
}  // namespace ultra::pipeline_parallel
