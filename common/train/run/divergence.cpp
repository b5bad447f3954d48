#include "common/train/run/divergence.hpp"

#include <fmt/format.h>

#include <cmath>

#include "common/base/errors.hpp"

namespace ultra::train {

void expect_finite(std::string_view what, double value, std::size_t step,
                   const TrainOptions& options) {
  if (std::isfinite(value)) return;
  throw NumericError(
      fmt::format("the {} is {} at step {}. Training diverged: lower --lr ({}), raise --warmup "
                  "({}) or clip with --clip ({}).",
                  what, std::isnan(value) ? std::abs(value) : value, step, options.learning_rate,
                  options.warmup, options.clip_norm));
}

}  // namespace ultra::train
