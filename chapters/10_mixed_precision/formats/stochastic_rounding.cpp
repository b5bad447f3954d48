#include "chapters/10_mixed_precision/stochastic_rounding.hpp"
#include "common/base/errors.hpp"

namespace ultra::mixed_precision {

void round_stochastically(std::span<const float> x, std::span<BFloat16> out,
                          const PhiloxStream& random, std::uint64_t first_index) {
  ensure(x.size() == out.size(), "as many results as numbers");
  constexpr std::uint64_t kDraws = 1U << 16U;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::uint64_t draw = random.below(first_index + i, kDraws);
    out[i].bits = bf16_stochastic(x[i], static_cast<std::uint16_t>(draw));
  }
}

}  // namespace ultra::mixed_precision
