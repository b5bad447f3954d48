#include "chapters/03_data_parallel/options/micro_batch_sizes.hpp"

#include <algorithm>

#include "common/base/numeric.hpp"

namespace ultra::data_parallel {

std::vector<std::size_t> micro_batch_sizes(const train::TrainOptions& train, std::size_t replicas) {
  const std::size_t share = ceil_div(train.global_batch, replicas);
  std::vector<std::size_t> sizes;
  for (std::size_t begin = 0; begin < share; begin += train.micro_batch) {
    sizes.push_back(std::min(train.micro_batch, share - begin));
  }
  return sizes;
}

}  // namespace ultra::data_parallel
