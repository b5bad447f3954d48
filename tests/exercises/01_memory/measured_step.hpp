#pragma once
/// @file
/// One training step of a real model, with what it keeps measured tensor by tensor: the oracle of
/// chapter 01's closed forms.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "chapters/01_memory/memory_estimate.hpp"
#include "chapters/01_memory/recompute.hpp"
#include "common/nn/model.hpp"
#include "tests/support/random.hpp"

namespace ultra::memory::measured {

/// For ratios.
inline double real(std::size_t value) { return static_cast<double>(value); }

/// Both types that training runs in.
inline constexpr DType kDTypes[] = {DType::kF32, DType::kF64};

/// A small model of ours and what one pass works on.
struct Case {
  nn::ModelConfig config;
  BatchShape batch;

  [[nodiscard]] std::string str() const {
    return fmt::format(
        "layers {} hidden {} heads {} kv_heads {} ffn {} vocab {} micro-batch {} seq {}",
        config.num_layers, config.hidden_size, config.num_heads, config.num_kv_heads,
        config.ffn_hidden_size, config.vocab_size, batch.size, batch.seq_len);
  }
};

/// A legal model with odd widths and grouped heads.
inline Case random_case(ultra::test::Random& random) {
  const std::size_t kv_heads = random.between(1, 3);
  const std::size_t heads = kv_heads * random.between(1, 3);
  const std::size_t seq = random.between(1, 9);
  return {.config = {.vocab_size = random.between(2, 80),
                     .hidden_size = heads * 2 * random.between(1, 3),
                     .num_layers = random.between(1, 4),
                     .num_heads = heads,
                     .num_kv_heads = kv_heads,
                     .ffn_hidden_size = random.between(1, 50),
                     .max_seq_len = seq},
          .batch = {.size = random.between(1, 3), .seq_len = seq}};
}

/// Calls check(case) on random models until one fails; a failure prints the seed and the case.
template <class Check>
void for_random_cases(const Check& check) {
  const std::uint64_t seed = ultra::test::seed_of_this_run();
  ultra::test::Random random(seed);
  for (int i = 0; i < 6 && !testing::Test::HasFailure(); ++i) {
    const Case drawn = random_case(random);
    SCOPED_TRACE(fmt::format("model {} of seed {}: {}; ULTRA_TEST_SEED={} repeats this run", i,
                             seed, drawn.str(), seed));
    check(drawn);
  }
}

/// The saved tensors of one pass: path -> bytes, each storage once. Highest bytes per category.
struct Measured {
  std::map<std::string, std::size_t> saved;
  MemoryTracker memory;

  [[nodiscard]] std::size_t saved_under(std::string_view prefix) const {
    std::size_t bytes = 0;
    for (const auto& [path, size] : saved) {
      if (path.starts_with(prefix)) bytes += size;
    }
    return bytes;
  }
};

/// One forward and backward pass. The caller's handle on the logits is gone before backward: it
/// would keep the loss's gradient alive.
inline Measured measure_step(const Case& c, DType dtype, const RecomputeConfig& config = {}) {
  const Device device = Device::cpu();
  nn::DenseFactory dense;
  RecomputeFactory factory(dense, config);
  nn::Model model(c.config, device, dtype, 1, factory);
  const Shape tokens_shape{c.batch.size, c.batch.seq_len};
  const Tensor tokens = Tensor::zeros(device, tokens_shape, DType::kI32);
  const Tensor targets = Tensor::zeros(device, tokens_shape, DType::kI32);
  Measured measured;
  nn::Saved saved;
  {
    const Tensor logits = model.forward(tokens, saved);
    (void)model.loss(logits, targets, real(c.batch.tokens()), saved);
  }
  std::vector<Tensor> seen;
  saved.for_each([&](const std::string& path, const Tensor& tensor) {
    const bool shared = std::any_of(seen.begin(), seen.end(), [&](const Tensor& other) {
      return other.shares_storage(tensor);
    });
    if (!shared) measured.saved[path] = tensor.storage_bytes();
    seen.push_back(tensor);
  });
  seen.clear();
  model.backward(saved);
  measured.memory = device.memory();
  return measured;
}

}  // namespace ultra::memory::measured
