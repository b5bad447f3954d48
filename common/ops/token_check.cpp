#include "common/ops/token_check.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "common/base/errors.hpp"

namespace ultra::ops {

void expect_token_ids(const char* name, const Tensor& tokens, std::size_t vocab_size) {
  const std::span<const std::int32_t> ids = tokens.span<std::int32_t>();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || static_cast<std::size_t>(ids[i]) >= vocab_size) {
      throw ShapeError(fmt::format("{} {} at index {} is outside of the vocabulary [0, {})", name,
                                   ids[i], i, vocab_size));
    }
  }
}

}  // namespace ultra::ops
