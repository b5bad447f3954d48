#include "chapters/02_collectives/replicated_training.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"

namespace ultra::collectives {
namespace {

class SumAfterBackward : public train::GradientExchange {
 public:
  SumAfterBackward(std::vector<nn::Parameter*> parameters, Communicator ranks)
      : parameters_(std::move(parameters)), ranks_(std::move(ranks)) {}

  void finish() override { sum_gradients(parameters_, ranks_); }

 private:
  std::vector<nn::Parameter*> parameters_;
  Communicator ranks_;
};

}  // namespace

void expect_equal_shares(std::size_t global_batch, std::size_t micro_batch, int ranks) {
  const std::size_t at_once = checked_cast<std::size_t>(ranks) * micro_batch;
  if (at_once > 0 && global_batch % at_once == 0) return;
  throw ConfigError(fmt::format(
      "--ranks * --micro-batch must divide --global-batch: {} % ({} * {}) = {}. Choose a "
      "--global-batch that is a multiple of {}.",
      global_batch, ranks, micro_batch, at_once > 0 ? global_batch % at_once : global_batch,
      at_once));
}

Range equal_share(std::size_t global_batch, const Communicator& ranks) {
  expect_equal_shares(global_batch, 1, ranks.size());
  const std::size_t size = global_batch / checked_cast<std::size_t>(ranks.size());
  const std::size_t begin = checked_cast<std::size_t>(ranks.rank()) * size;
  return {begin, begin + size};
}

void sum_gradients(const std::vector<nn::Parameter*>& parameters, const Communicator& ranks) {
  for (const nn::Parameter* parameter : parameters) {
    ranks.labeled(parameter->name()).all_reduce(parameter->grad()).wait();
  }
}

std::unique_ptr<train::GradientExchange> sum_after_backward(std::vector<nn::Parameter*> parameters,
                                                            const Communicator& ranks) {
  return std::make_unique<SumAfterBackward>(std::move(parameters), ranks);
}

}  // namespace ultra::collectives
