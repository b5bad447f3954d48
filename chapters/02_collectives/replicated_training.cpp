#include "chapters/02_collectives/replicated_training.hpp"

#include <fmt/format.h>

#include "chapters/01_memory/gradient_accumulation.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"

namespace ultra::collectives {

void expect_equal_shares(std::size_t global_batch, std::size_t micro_batch, int ranks) {
  const std::size_t at_once = checked_cast<std::size_t>(ranks) * micro_batch;
  if (at_once > 0 && global_batch % at_once == 0) return;
  throw ConfigError(fmt::format(
      "--ranks * --micro-batch must divide --global-batch: {} % ({} * {}) = {}. Choose a "
      "--global-batch that is a multiple of {}.",
      global_batch, ranks, micro_batch, at_once > 0 ? global_batch % at_once : global_batch,
      at_once));
}

Range share_of(std::size_t global_batch, const Communicator& ranks) {
  const std::size_t size = global_batch / checked_cast<std::size_t>(ranks.size());
  const std::size_t begin = checked_cast<std::size_t>(ranks.rank()) * size;
  return {begin, begin + size};
}

void average_gradients(const nn::Model& model, const Communicator& ranks) {
  for (const nn::Parameter* parameter : model.parameters()) {
    ranks.all_reduce(parameter->grad(), ReduceOp::kAverage);
  }
}

double average(double number, const Device& device, const Communicator& ranks) {
  const Tensor tensor = Tensor::empty(device, {1}, DType::kF64, MemoryCategory::kCommunication);
  tensor.fill(number);
  ranks.all_reduce(tensor, ReduceOp::kAverage);
  return tensor.to_vector()[0];
}

train::ForwardBackward replicated_forward_backward(const Communicator& ranks,
                                                   std::size_t micro_batch) {
  return [ranks, micro_batch](nn::Model& model, const data::Sampler& sampler, std::size_t step) {
    const std::size_t global_batch = sampler.global_batch_size();
    expect_equal_shares(global_batch, micro_batch, ranks.size());
    const data::Sampler own = sampler.share(share_of(global_batch, ranks));
    const double own_loss = memory::accumulate_gradients(model, own, step, micro_batch);
    average_gradients(model, ranks);
    return average(own_loss, model.device(), ranks);
  };
}

}  // namespace ultra::collectives
