#include "chapters/03_data_parallel/options/micro_batch_sizes.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace ultra::data_parallel {
namespace {

TEST(MicroBatchSizes, AddUpToTheLargestShare) {
  train::TrainOptions train;
  train.global_batch = 11;
  train.micro_batch = 2;
  const std::vector<std::size_t> sizes = micro_batch_sizes(train, 2);
  EXPECT_EQ(sizes, (std::vector<std::size_t>{2, 2, 2}));
  train.global_batch = 9;
  EXPECT_EQ(micro_batch_sizes(train, 2), (std::vector<std::size_t>{2, 2, 1}));
}

}  // namespace
}  // namespace ultra::data_parallel
