#include "common/train/token_plan.hpp"

#include <algorithm>
#include <span>

#include "common/ops/cross_entropy.hpp"
#include "common/tensor/host_view.hpp"

namespace ultra::train {
namespace {

/// [batch, seq] -> [batch, positions]; `padding` where a position is behind the sequence's end.
Tensor select(const Tensor& whole, const std::vector<std::int32_t>& positions,
              std::int32_t padding) {
  const std::size_t sequences = whole.size(0);
  const std::size_t seq_len = whole.size(1);
  Tensor part = Tensor::empty(whole.device(), {sequences, positions.size()}, whole.dtype());
  const HostView<const std::int32_t> all(whole);
  const HostView<std::int32_t> selected(part, HostAccess::kWrite);
  const std::int32_t* from = all.data();
  std::int32_t* to = selected.data();
  for (std::size_t s = 0; s < sequences; ++s, from += seq_len) {
    for (const std::int32_t position : positions) {
      const auto at = static_cast<std::size_t>(position);
      *to++ = at < seq_len ? from[at] : padding;
    }
  }
  return part;
}

}  // namespace

void Documents::begins_into(std::size_t number, std::span<std::int32_t> begins) const {
  std::int32_t begin = 0;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    const bool is_first = i > 0 && stream_.below(number * begins.size() + i, mean_len_) == 0;
    if (is_first) begin = static_cast<std::int32_t>(i);
    begins[i] = begin;
  }
}

std::shared_ptr<const nn::TokenPlaces> TokenPlan::places(const data::Sampler& sampler,
                                                         std::size_t step, Range sequences) const {
  if (positions.empty() && !documents) return nullptr;
  nn::TokenPlaces places{.positions = positions,
                         .sequence_len = positions.empty() ? sampler.seq_len() : padded_len};
  if (documents) {
    places.document_begins.assign(sequences.size() * places.sequence_len,
                                  static_cast<std::int32_t>(sampler.seq_len()));
    std::span<std::int32_t> rest = places.document_begins;
    for (std::size_t s = sequences.begin; s < sequences.end; ++s) {
      documents->begins_into(sampler.number_of(step, s), rest.first(sampler.seq_len()));
      rest = rest.subspan(places.sequence_len);
    }
  }
  return std::make_shared<const nn::TokenPlaces>(std::move(places));
}

// [region next]
data::Batch TokenPlan::next_of(const data::Batch& whole, const nn::TokenPlaces* places) {
  const std::size_t sequences = whole.tokens.size(0);
  const std::size_t seq_len = whole.tokens.size(1);
  const Tensor tokens = Tensor::zeros(whole.tokens.device(), whole.tokens.shape(), DType::kI32);
  const Tensor targets = tokens.clone();
  targets.fill(ops::kNoTarget);
  const HostView<const std::int32_t> token(whole.tokens);
  const HostView<const std::int32_t> target(whole.targets);
  const HostView<std::int32_t> next(tokens, HostAccess::kReadWrite);
  const HostView<std::int32_t> after(targets, HostAccess::kReadWrite);
  for (std::size_t s = 0; s < sequences; ++s) {
    const auto begins = places ? places->begins(s, {0, seq_len}) : std::span<const std::int32_t>();
    const auto together = [&](std::size_t a, std::size_t b) {
      return begins.empty() || b >= seq_len || begins[a] == begins[b];
    };
    for (std::size_t i = 0; i + 1 < seq_len; ++i) {
      const std::size_t at = s * seq_len + i;
      if (!together(i, i + 1)) continue;
      next[at] = token[at + 1];
      if (together(i, i + 2)) after[at] = target[at + 1];
    }
  }
  return {.tokens = tokens, .targets = targets};
}
// [/region]

data::Batch TokenPlan::part_of(const data::Batch& whole) const {
  if (positions.empty() || !whole.tokens.defined()) return whole;
  return {.tokens = select(whole.tokens, positions, 0),
          .targets = select(whole.targets, positions, ops::kNoTarget)};
}

}  // namespace ultra::train
