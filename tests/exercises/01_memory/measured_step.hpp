#pragma once
/// @file
/// One training step of a real model, with what it keeps measured tensor by tensor: the oracle of
/// chapter 01's closed forms.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "chapters/01_memory/memory_estimate.hpp"
#include "chapters/01_memory/recompute.hpp"
#include "common/nn/model.hpp"

namespace ultra::memory::test {

/// For ratios.
inline double real(std::size_t value) { return static_cast<double>(value); }

/// Both types that training runs in.
inline constexpr DType kDTypes[] = {DType::kF32, DType::kF64};

/// A small model of ours and what one pass works on.
struct Case {
  nn::ModelConfig config;
  MicroBatch batch;

  [[nodiscard]] std::string str() const {
    return fmt::format(
        "layers {} hidden {} heads {} kv_heads {} ffn {} vocab {} micro-batch {} seq {}",
        config.num_layers, config.hidden_size, config.num_heads, config.num_kv_heads,
        config.ffn_hidden_size, config.vocab_size, batch.size, batch.seq_len);
  }
};

/// A legal model with odd widths and grouped heads.
inline Case random_case(std::mt19937_64& engine) {
  const auto between = [&](std::size_t low, std::size_t high) {
    return std::uniform_int_distribution<std::size_t>(low, high)(engine);
  };
  const std::size_t kv_heads = between(1, 3);
  const std::size_t heads = kv_heads * between(1, 3);
  const std::size_t seq = between(1, 9);
  return {.config = {.vocab_size = between(2, 200),
                     .hidden_size = heads * 2 * between(1, 4),
                     .num_layers = between(1, 5),
                     .num_heads = heads,
                     .num_kv_heads = kv_heads,
                     .ffn_hidden_size = between(1, 90),
                     .max_seq_len = seq},
          .batch = {.size = between(1, 3), .seq_len = seq}};
}

/// Calls test(case) on random models until one fails; a failure prints the seed and the case.
template <class Test>
void for_random_cases(const Test& test) {
  const auto seed = std::random_device()();
  std::mt19937_64 engine(seed);
  for (int i = 0; i < 20 && !testing::Test::HasFailure(); ++i) {
    const Case random = random_case(engine);
    SCOPED_TRACE(fmt::format("seed {}, model {}: {}", seed, i, random.str()));
    test(random);
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

}  // namespace ultra::memory::test
