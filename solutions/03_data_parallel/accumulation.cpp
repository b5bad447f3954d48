#include "chapters/03_data_parallel/accumulation.hpp"

#include <algorithm>

#include "common/base/errors.hpp"

namespace ultra::data_parallel {

// [region accumulate_and_sync]
double accumulate_and_sync(nn::Model& model, const data::Sampler& share, std::size_t step,
                           std::size_t micro_batch, double normalizer, GradientSync& sync) {
  if (micro_batch == 0) throw ConfigError("a micro-batch needs a sequence at least");
  const std::size_t sequences = share.global_batch_size();
  double loss = 0;
  for (std::size_t begin = 0; begin < sequences; begin += micro_batch) {
    const std::size_t end = std::min(begin + micro_batch, sequences);
    sync.begin(end == sequences ? Pass::kSynchronize : Pass::kAccumulate);
    const data::Batch batch = share.batch(model.device(), step, {begin, end});
    nn::Saved saved;
    loss += model.loss(model.forward(batch.tokens, saved), batch.targets, normalizer, saved);
    model.backward(saved);
  }
  sync.finish();
  return loss;
}
// [/region]

}  // namespace ultra::data_parallel
