#include "common/train/weights/piece_runs.hpp"

#include "tests/support/toolbox.hpp"

namespace ultra::train {
namespace {

using checkpoint::ElementRun;

TEST(PieceRuns, OfAPaddedShardOfColumnsLeaveItsPaddingOut) {
  const nn::Parameter columns(
      {.name = "w", .global_shape = {3, 8}, .shard = {{0, 3}, {2, 4}}, .initializer = {}},
      Device::cpu(), DType::kF32, 1, nn::Values::kDeferred);
  EXPECT_THAT(runs_of({.parameter = &columns, .elements = {1, 6}}),
              ElementsAre(ElementRun{.global = 3, .local = 0, .count = 1},
                          ElementRun{.global = 10, .local = 1, .count = 2},
                          ElementRun{.global = 18, .local = 3, .count = 2}));
  const nn::Parameter rows({.name = "w",
                            .global_shape = {5, 4},
                            .shard = {{3, 5}, {0, 4}},
                            .initializer = {},
                            .padding = 1},
                           Device::cpu(), DType::kF32, 1, nn::Values::kDeferred);
  EXPECT_THAT(runs_of({.parameter = &rows, .elements = {0, 12}}),
              ElementsAre(ElementRun{.global = 12, .local = 0, .count = 8}));
  EXPECT_THAT(runs_of({.parameter = &rows, .elements = {9, 12}}), IsEmpty());
}

}  // namespace
}  // namespace ultra::train
