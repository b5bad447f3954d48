#include "common/nn/model_config.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/base/errors.hpp"

namespace ultra::nn {

void ModelConfig::validate() const {
  const std::pair<std::size_t, const char*> positive[] = {
      {vocab_size, "vocab"}, {hidden_size, "hidden"},    {num_layers, "layers"},
      {num_heads, "heads"},  {num_kv_heads, "kv-heads"}, {ffn_hidden_size, "ffn"},
      {max_seq_len, "seq"}};
  for (const auto& [value, flag] : positive) {
    if (value == 0) throw ConfigError(fmt::format("--{} is 0. It must be at least 1.", flag));
  }
  if (hidden_size % num_heads != 0) {
    throw ConfigError(fmt::format(
        "--heads must divide --hidden: {} % {} = {}. Choose --hidden as a multiple of --heads.",
        hidden_size, num_heads, hidden_size % num_heads));
  }
  if (num_heads % num_kv_heads != 0) {
    throw ConfigError(fmt::format("--kv-heads must divide --heads: {} % {} = {}.", num_heads,
                                  num_kv_heads, num_heads % num_kv_heads));
  }
  if (head_dim() % 2 != 0) {
    throw ConfigError(
        fmt::format("rotary positions need an even head dimension: --hidden / --heads = {} / {} = "
                    "{}.",
                    hidden_size, num_heads, head_dim()));
  }
}

}  // namespace ultra::nn
