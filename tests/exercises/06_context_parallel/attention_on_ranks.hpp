#pragma once
/// @file
/// Attention whose tokens several ranks have, and the same attention on one.

#include "chapters/06_context_parallel/block_attention.hpp"
#include "chapters/06_context_parallel/sequence_group.hpp"
#include "common/base/numeric.hpp"
#include "common/comm/communicator.hpp"
#include "common/ops/attention.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::context_parallel::test {

/// @brief Query, key, value and a gradient of the output, of whole sequences; no padding.
struct AttentionOfAll {
  Tensor query;
  Tensor key;
  Tensor value;
  Tensor d_output;
  std::vector<TokenChunks> chunks;  ///< of each rank
  nn::TokenPlaces places;
  std::size_t window = 0;

  /// @param c  tokens of a chunk.
  AttentionOfAll(ultra::test::Random& random, const Device& device, DType dtype, int ranks,
                 std::size_t c) {
    const auto n = static_cast<std::size_t>(ranks);
    const std::size_t seq = 2 * n * c;
    const std::size_t kv_heads = random.between(1, 2);
    const Shape of_keys{2, seq, kv_heads, 4};
    query = random.tensor(device, {2, seq, 2 * kv_heads, 4}, dtype);
    key = random.tensor(device, of_keys, dtype);
    value = random.tensor(device, of_keys, dtype);
    d_output = random.tensor(device, query.shape(), dtype);
    deal_out(n, c, random.pick({SequenceLayout::kZigzag, SequenceLayout::kContiguous}));
    places.sequence_len = seq;
    if (random.pick({true, false})) window = random.between(1, seq);
    if (random.pick({true, false})) {
      for (int sequence = 0; sequence < 2; ++sequence) {
        std::int32_t begin = 0;
        for (std::size_t i = 0; i < seq; ++i) {
          if (random.between(0, 4) == 0) begin = static_cast<std::int32_t>(i);
          places.document_begins.push_back(begin);
        }
      }
      places.document_begins[0] = 0;
    }
  }

  /// @brief As much to compute for every rank in every step but the first: zig-zag, no documents.
  void balance() {
    const std::size_t n = chunks.size();
    deal_out(n, places.sequence_len / (2 * n), SequenceLayout::kZigzag);
    places.document_begins.clear();
    window = 0;
  }
  /// @brief Steps of a ring in which some rank sees something. With c tokens of a chunk, a window reaches
  /// h = ceil((window - 1) / c) chunks back: contiguous, as many ranks; zig-zag, as many on either side.
  [[nodiscard]] std::size_t steps() const {
    const std::size_t ranks = chunks.size();
    if (window == 0) return ranks;
    const std::size_t reach = ceil_div(window - 1, chunks[0][0].size());
    return std::min(ranks, 1 + chunks[0].size() * reach);
  }
  /// @brief The rows of a rank, contiguous.
  [[nodiscard]] Tensor part(const Tensor& whole, int rank) const {
    const TokenChunks& own = chunks[static_cast<std::size_t>(rank)];
    Tensor rows =
        Tensor::empty(whole.device(), whole.shape().with(1, token_count(own)), whole.dtype());
    std::size_t at = 0;
    for (const Range& chunk : own) {
      rows.slice(1, {at, at + chunk.size()}).copy_from(whole.slice(1, chunk));
      at += chunk.size();
    }
    return rows;
  }
  [[nodiscard]] BlockAttention queries(int rank) const {
    return {part(query, rank),
            chunks[static_cast<std::size_t>(rank)],
            {.seq_len = places.sequence_len, .places = &places, .window = window}};
  }
  [[nodiscard]] KeyValues own(int rank) const {
    return {.key = part(key, rank),
            .value = part(value, rank),
            .chunks = chunks[static_cast<std::size_t>(rank)]};
  }
  /// @brief The same in the memory of a device of its own, which counts what a ring adds.
  [[nodiscard]] KeyValues own(int rank, const Device& on) const {
    const KeyValues shared = own(rank);
    const auto copied = [&](const Tensor& x) {
      Tensor copy = Tensor::empty(on, x.shape(), x.dtype());
      copy.copy_from(x);
      return copy;
    };
    return {.key = copied(shared.key), .value = copied(shared.value), .chunks = shared.chunks};
  }
  [[nodiscard]] ops::AttentionOptions options() const {
    return {.scale = 1.0 / std::sqrt(4.0), .first_seen = places.document_begins, .window = window};
  }
  [[nodiscard]] ops::AttentionResult forward() const {
    return ops::attention(query, key, value, options());
  }
  [[nodiscard]] ops::AttentionGradients backward() const {
    const auto [output, log_sum_exp] = forward();
    return ops::attention_backward(d_output, query, key, value, output, log_sum_exp, options());
  }
  [[nodiscard]] std::string str() const {
    return "queries " + query.shape().str() +
           (places.document_begins.empty() ? "" : ", documents") +
           (window > 0 ? ", a window of " + std::to_string(window) : "") +
           (chunks[0].size() == 2 ? ", zig-zag" : ", contiguous");
  }

  /// @brief How far rounding may take two ways to add the same terms apart.
  [[nodiscard]] double tolerance() const {
    return ultra::test::rounding_bound(query.dtype(), 64 * static_cast<double>(places.sequence_len),
                                       16.0);
  }

 private:
  void deal_out(std::size_t n, std::size_t c, SequenceLayout layout) {
    chunks.clear();
    for (std::size_t r = 0; r < n; ++r) {
      const std::size_t late = 2 * n - 1 - r;
      const bool zigzag = layout == SequenceLayout::kZigzag;
      chunks.push_back(zigzag ? TokenChunks{{r * c, (r + 1) * c}, {late * c, (late + 1) * c}}
                              : TokenChunks{{2 * r * c, 2 * (r + 1) * c}});
    }
  }
};

}  // namespace ultra::context_parallel::test
