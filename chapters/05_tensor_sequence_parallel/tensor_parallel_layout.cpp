#include "chapters/05_tensor_sequence_parallel/tensor_parallel_layout.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/base/errors.hpp"

namespace ultra::tensor_parallel {
namespace {

void expect_kv_heads(std::size_t num_kv_heads, std::size_t tp) {
  if (num_kv_heads % tp == 0 || tp % num_kv_heads == 0) return;
  throw ConfigError(
      fmt::format("--tp must divide --kv-heads, or be a multiple of it so that each key/value head "
                  "is on equally "
                  "many ranks: {0} % {1} = {2} and {1} % {0} = {3}. Change --tp or --kv-heads.",
                  num_kv_heads, tp, num_kv_heads % tp, tp % num_kv_heads));
}

}  // namespace

void TensorParallelLayout::validate(const nn::ModelConfig& model) const {
  if (tp < 1) throw ConfigError(fmt::format("--tp is {}. It must be at least 1.", tp));
  model.validate();
  if (ranks() > model.num_heads) {
    throw ConfigError(fmt::format(
        "--tp {} is more than --heads {}: a head is on one rank, so some would have none. Choose "
        "--tp of at most {}.",
        tp, model.num_heads, model.num_heads));
  }
  const std::pair<std::size_t, const char*> split[] = {{model.num_heads, "heads"},
                                                       {model.ffn_hidden_size, "ffn"}};
  for (const auto& [value, flag] : split) {
    if (value % ranks() == 0) continue;
    throw ConfigError(
        fmt::format("--tp must divide --{}: {} % {} = {}. Choose --{} as a multiple of --tp.", flag,
                    value, tp, value % ranks(), flag));
  }
  expect_kv_heads(model.num_kv_heads, ranks());
  if (splits_sequences() && model.max_seq_len % ranks() != 0) {
    throw ConfigError(
        fmt::format("with --sp on, --tp must divide --seq: {} % {} = {}. Choose --seq as a "
                    "multiple of --tp, or "
                    "--sp off.",
                    model.max_seq_len, tp, model.max_seq_len % ranks()));
  }
}

}  // namespace ultra::tensor_parallel
