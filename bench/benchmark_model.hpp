#pragma once
/// @file
/// What benchmarks of training train.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/data/dataset.hpp"
#include "common/nn/model_config.hpp"

namespace ultra::bench {

/// @brief Four blocks on bytes, sequences of 256 tokens.
/// @param hidden  a multiple of 16: eight heads of an even width.
[[nodiscard]] inline nn::ModelConfig benchmark_model(std::size_t hidden) {
  return {.vocab_size = 256,
          .hidden_size = hidden,
          .num_layers = 4,
          .num_heads = 8,
          .num_kv_heads = 8,
          .ffn_hidden_size = hidden * 8 / 3 / 64 * 64,
          .max_seq_len = 256};
}

/// @brief 64 KiB that stand for a text: what it says does not change the time.
[[nodiscard]] inline data::Dataset benchmark_text() {
  std::vector<std::uint8_t> text(1 << 16);
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::uint8_t>(i * i >> 3);
  return {std::move(text), "numbers"};
}

}  // namespace ultra::bench
