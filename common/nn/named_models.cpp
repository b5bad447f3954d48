#include "common/nn/named_models.hpp"

namespace ultra::nn {

const std::vector<NamedModel>& llama_models() {
  static const std::vector<NamedModel> models = {
      {"llama-1b",
       {.vocab_size = 128256,
        .hidden_size = 2048,
        .num_layers = 16,
        .num_heads = 32,
        .num_kv_heads = 8,
        .ffn_hidden_size = 8192,
        .tied_embeddings = true}},
      {"llama-7b",
       {.vocab_size = 32000,
        .hidden_size = 4096,
        .num_layers = 32,
        .num_heads = 32,
        .num_kv_heads = 32,
        .ffn_hidden_size = 11008}},
      {"llama-8b",
       {.vocab_size = 128256,
        .hidden_size = 4096,
        .num_layers = 32,
        .num_heads = 32,
        .num_kv_heads = 8,
        .ffn_hidden_size = 14336}},
      {"llama-70b",
       {.vocab_size = 128256,
        .hidden_size = 8192,
        .num_layers = 80,
        .num_heads = 64,
        .num_kv_heads = 8,
        .ffn_hidden_size = 28672}},
      {"llama-405b",
       {.vocab_size = 128256,
        .hidden_size = 16384,
        .num_layers = 126,
        .num_heads = 128,
        .num_kv_heads = 8,
        .ffn_hidden_size = 53248}},
  };
  return models;
}

}  // namespace ultra::nn
