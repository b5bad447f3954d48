#include "chapters/01_memory/gradient_accumulation.hpp"

#include <fmt/format.h>

#include "common/base/errors.hpp"

namespace ultra::memory {

// [region accumulate]
double accumulate_gradients(nn::Model& model, const data::Sampler& sampler, std::size_t step,
                            std::size_t micro_batch_size) {
  const std::size_t global_batch_size = sampler.global_batch_size();
  if (micro_batch_size == 0 || global_batch_size % micro_batch_size != 0) {
    throw ConfigError(fmt::format("micro-batches of {} do not divide a global batch of {}",
                                  micro_batch_size, global_batch_size));
  }
  const double normalizer = static_cast<double>(sampler.global_tokens());
  double loss = 0;
  for (std::size_t first = 0; first < global_batch_size; first += micro_batch_size) {
    const data::Batch batch =
        sampler.batch(model.device(), step, {first, first + micro_batch_size});
    nn::Saved saved;
    loss += model.loss(model.forward(batch.tokens, saved), batch.targets, normalizer, saved);
    model.backward(saved);
  }
  return loss;
}
// [/region]

}  // namespace ultra::memory
