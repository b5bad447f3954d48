#include "chapters/05_tensor_sequence_parallel/scaling/playbook_figures.hpp"

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

}  // namespace ultra::tensor_parallel
