// What a GPU is measured against runs there: the copy and cuBLAS's products.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "chapters/09_kernels/ladder.hpp"
#include "chapters/09_kernels/report/ceiling.hpp"
#include "kernels/device/device_info.hpp"

namespace ultra::ladders::ceiling_gpu_test {

TEST(CeilingOnGpu, EveryLimitHasOne) {
  if (kernels::list_devices().empty()) {
    GTEST_SKIP() << "no GPU on this machine";
  }
  const Sizes sizes = {200, 136, 72};
  const Cost cost{.operations = 2.0 * 200 * 136 * 72, .least_bytes = 1e6};
  for (const Limit limit : {Limit::kMemory, Limit::kFp32, Limit::kBf16}) {
    const LadderInfo info{.name = "test",
                          .title = "",
                          .dimensions = {{.name = "rows", .emulated = 1, .gpu = 1},
                                         {.name = "columns", .emulated = 1, .gpu = 1},
                                         {.name = "depth", .emulated = 1, .gpu = 1}},
                          .limit = limit};
    std::string why_not;
    const auto ceiling = make_ceiling(info, sizes, cost, why_not);
    if (!ceiling) {
      GTEST_SKIP() << why_not;
    }
    EXPECT_EQ(ceiling->work(), limited_work(limit, cost));
    const RunRequest request{
        .sizes = sizes, .executor = simt::Executor::kGpu, .repetitions = 3, .beside = [&] {
          ceiling->launch();
        }};
    Outcome outcome;
    time_on_gpu(
        request, [&] { ceiling->launch(); }, outcome);
    for (const std::vector<double>& times : {outcome.seconds, outcome.beside_seconds}) {
      ASSERT_EQ(times.size(), 3U) << ceiling->name();
      EXPECT_GT(times.front(), 0.0) << ceiling->name();
    }
  }
}

}  // namespace ultra::ladders::ceiling_gpu_test
