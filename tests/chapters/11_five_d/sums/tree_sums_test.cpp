// What the gradients of micro-batches take while they wait for their neighbours; that they are joined by
// their places is tree_sums_ranks_test.cpp's.
//
// Covers: common/train/gradients/tensor_tree.hpp

#include "chapters/11_five_d/sums/tree_sums.hpp"

#include "common/nn/model.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"

namespace ultra::five_d {
namespace {

using TreeGradientsTest = ultra::test::RandomTest;

TEST_F(TreeGradientsTest, WaitInAsManyBuffersAsTheirNumberHasBits) {
  nn::DenseFactory factory;
  nn::Model model{ultra::test::random_model_config(random), Device::cpu(), DType::kF32, 1, factory};
  const std::vector<nn::Model*> chunks{&model};
  const auto observer = join_gradients_by_tree(chunks, 16);
  observer->step_begins({});
  const auto kept = [&] { return model.device().memory().current()[MemoryCategory::kGradients]; };
  const std::size_t before = kept();
  std::size_t most = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    const train::Action action{.kind = train::ActionKind::kBackward, .micro_batch = i};
    observer->action_begins(action);
    for (nn::Parameter* parameter : model.parameters()) {
      parameter->add_grad([](const Tensor& grad, ops::Write) { grad.fill(1.0); });
    }
    observer->action_ends(action);
    most = std::max(most, kept() - before);
  }
  EXPECT_EQ(most, 4 * model.parameter_count() * size_of(DType::kF32));
  for (const nn::Parameter* parameter : model.parameters()) {
    EXPECT_THAT(parameter->grad().to_vector(), Each(16.0));
  }
}

}  // namespace
}  // namespace ultra::five_d
