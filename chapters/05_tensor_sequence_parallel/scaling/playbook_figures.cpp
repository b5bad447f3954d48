#include "chapters/05_tensor_sequence_parallel/scaling/playbook_figures.hpp"

#include <algorithm>
#include <array>

namespace ultra::tensor_parallel {
namespace {

constexpr std::array<PlaybookFigure, 5> kFigures = {{
    {.tp = 2, .micro_batch = 4, .tokens_per_second_per_rank = 14167.25},
    {.tp = 4, .micro_batch = 10, .tokens_per_second_per_rank = 13460.16},
    {.tp = 8, .micro_batch = 20, .tokens_per_second_per_rank = 10888.53},
    {.tp = 16, .micro_batch = 40, .tokens_per_second_per_rank = 6159.3},
    {.tp = 32, .micro_batch = 100, .tokens_per_second_per_rank = 3609.73},
}};

}  // namespace

std::span<const PlaybookFigure> playbook_figures() { return kFigures; }

std::optional<PlaybookFigure> find_playbook_figure(int tp) {
  const auto found = std::ranges::find(kFigures, tp, &PlaybookFigure::tp);
  if (found == kFigures.end()) return std::nullopt;
  return *found;
}

const memory::TransformerShape& playbook_model() {
  static const memory::TransformerShape model = {.name = "playbook-3b",
                                                 .kind = memory::BlockKind::kLlama,
                                                 .num_layers = 28,
                                                 .hidden_size = 3072,
                                                 .num_heads = 32,
                                                 .num_kv_heads = 32,
                                                 .ffn_hidden_size = 8192,
                                                 .vocab_size = 131072,
                                                 .num_positions = 0,
                                                 .embeddings = memory::Embeddings::kTied};
  return model;
}

}  // namespace ultra::tensor_parallel
