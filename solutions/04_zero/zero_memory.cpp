// Exercise 04.6: memory formulas.
//
// A stage decides which states are divided, hybrid sharding by how many ranks: by S, those that
// share a copy. What is sent is counted in trips around a ring, since an all-gather and a
// reduce-scatter of P elements take one each; a stage differs from the next by how often it needs
// them.
#include "chapters/04_zero/zero_memory.hpp"

namespace ultra::zero {
namespace {

double real(std::size_t value) { return static_cast<double>(value); }

}  // namespace

// [region bytes]
RankBytes bytes_per_rank(const Sharding& sharding, std::size_t parameters,
                         memory::NumberFormats precision) {
  const memory::StateBytes per = memory::bytes_per_parameter(precision);
  const auto share = [&](std::size_t bytes, bool sharded) {
    return real(bytes * parameters) / (sharded ? sharding.shards : 1);
  };
  return {.parameters = share(per.parameters, shards_parameters(sharding.stage)),
          .gradients = share(per.gradients, shards_gradients(sharding.stage)),
          .optimizer = share(per.optimizer, shards_optimizer(sharding.stage))};
}
// [/region]

// [region sent]
SentElements sent_per_rank(const Sharding& sharding, std::size_t parameters,
                           std::size_t micro_batches, Reshard reshard) {
  const double p = real(parameters);
  const double s = sharding.shards;
  const double r = sharding.replicas;
  const double m = real(micro_batches);
  const double per_pass = reshard == Reshard::kAfterForward ? 2.0 : 1.0;
  const double gathers = shards_parameters(sharding.stage) ? per_pass * m : 1.0;
  const double scatters = shards_gradients(sharding.stage) ? m : 1.0;
  return {.inside = (gathers + scatters) * p * (s - 1.0) / s,
          .between = 2.0 * p / s * (r - 1.0) / r};
}
// [/region]

// [region largest]
double largest_model(const Sharding& sharding, memory::NumberFormats precision,
                     double device_bytes) {
  return device_bytes / bytes_per_rank(sharding, 1, precision).total();
}
// [/region]

}  // namespace ultra::zero
