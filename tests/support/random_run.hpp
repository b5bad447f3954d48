#pragma once
/// @file
/// Training runs of a fraction of a second, of random small models.

#include <cstddef>
#include <cstdint>

#include "common/data/dataset.hpp"
#include "tests/support/model.hpp"
#include "tests/support/random.hpp"
#include "tests/support/short_run.hpp"

namespace ultra::test {

/// @brief A legal run for that many replicas: each gets at least one sequence, and their shares of
/// the global batch may differ. The micro-batch is one sequence.
/// @param seed  of the run.
inline train::TrainOptions random_run(Random& random, std::uint64_t seed, int replicas,
                                      DType dtype) {
  const auto least = static_cast<std::size_t>(replicas);
  train::TrainOptions options = short_run();
  options.model = random_model_config(random);
  options.model.vocab_size = data::kByteVocabulary;
  options.model.max_seq_len = random.between(2, 13);
  options.global_batch = least + random.between(0, 2 * least);
  options.micro_batch = 1;
  options.clip_norm = random.pick({0.0, 0.05, 1.0});
  options.seed = seed;
  options.dtype = dtype;
  return options;
}

}  // namespace ultra::test
