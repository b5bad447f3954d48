#include "common/ops/token_check.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "common/base/errors.hpp"
#include "common/ops/cross_entropy.hpp"

namespace ultra::ops {
namespace {

bool in_vocabulary(std::int32_t id, std::size_t vocab_size) {
  return id >= 0 && static_cast<std::size_t>(id) < vocab_size;
}

ShapeError outside(const char* name, std::int32_t id, std::size_t index, std::size_t vocab_size) {
  return ShapeError(fmt::format("{} {} at index {} is outside of the vocabulary [0, {})", name, id,
                                index, vocab_size));
}

}  // namespace

void expect_token_ids(const char* name, const Tensor& tokens, std::size_t vocab_size) {
  if (has_streams(tokens.device().kind())) return;
  const std::span<const std::int32_t> ids = tokens.span<std::int32_t>();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!in_vocabulary(ids[i], vocab_size)) throw outside(name, ids[i], i, vocab_size);
  }
}

void expect_targets(const Tensor& targets, std::size_t vocab_size) {
  if (has_streams(targets.device().kind())) return;
  const std::span<const std::int32_t> ids = targets.span<std::int32_t>();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == kNoTarget || in_vocabulary(ids[i], vocab_size)) continue;
    throw outside("target", ids[i], i, vocab_size);
  }
}

}  // namespace ultra::ops
