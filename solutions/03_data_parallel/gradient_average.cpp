#include "chapters/03_data_parallel/gradient_average.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"

namespace ultra::data_parallel {

// [region share_of_batch]
Range share_of_batch(std::size_t global_batch, const Communicator& dp) {
  const auto replicas = checked_cast<std::size_t>(dp.size());
  const auto replica = checked_cast<std::size_t>(dp.rank());
  if (global_batch < replicas) {
    throw ConfigError(
        fmt::format("a global batch of {} leaves nothing to some of {} replicas: each needs a "
                    "sequence at least",
                    global_batch, replicas));
  }
  const std::size_t size = global_batch / replicas;
  const std::size_t rest = global_batch % replicas;  // one more sequence for each of the first
  const std::size_t begin = replica * size + std::min(replica, rest);
  return {begin, begin + size + (replica < rest ? 1 : 0)};
}
// [/region]

// [region loss_normalizer]
double loss_normalizer(const data::Sampler& global, const Communicator& dp) {
  return static_cast<double>(global.global_tokens()) / dp.size();
}
// [/region]

// [region average_gradients]
void average_gradients(const nn::Model& model, const Communicator& dp) {
  for (const nn::Parameter* parameter : model.parameters()) {
    dp.labeled(parameter->name()).all_reduce(parameter->grad(), ReduceOp::kAverage);
  }
}
// [/region]

}  // namespace ultra::data_parallel
