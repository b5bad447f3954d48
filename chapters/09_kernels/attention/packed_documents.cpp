#include "chapters/09_kernels/attention/packed_documents.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "common/tensor/philox.hpp"

namespace ultra::ladders {
namespace {

int tokens_of(const Sizes& sizes) {
  const std::vector<int> lengths = sequence_lengths(sizes, 0);
  return std::accumulate(lengths.begin(), lengths.end(), 0);
}

}  // namespace

std::vector<int> sequence_lengths(const Sizes& sizes, std::uint64_t seed) {
  const auto count = static_cast<std::size_t>(sizes[0]);
  std::vector<int> lengths(count);
  for (std::size_t k = 0; k < count; ++k) {
    const double level = (static_cast<double>(k) + 0.5) / static_cast<double>(count);
    lengths[k] = 1 + static_cast<int>(-std::log(level) * (sizes[1] - 1));
  }
  const PhiloxStream stream(seed, "order of sequences");
  for (std::size_t left = count; left > 1; --left) {
    std::swap(lengths[left - 1], lengths[static_cast<std::size_t>(stream.below(left, left))]);
  }
  return lengths;
}

PackedDocuments::PackedDocuments(const Sizes& sizes, std::uint64_t seed)
    : begins{0},
      pack(draw_attention_bf16({1, sizes[2], sizes[3], tokens_of(sizes), sizes[4]}, seed)) {
  const std::vector<int> lengths = sequence_lengths(sizes, seed);
  std::partial_sum(lengths.begin(), lengths.end(), std::back_inserter(begins));
}

std::vector<int> PackedDocuments::document_of() const {
  std::vector<int> numbers(static_cast<std::size_t>(begins.back()));
  for (std::size_t index = 0; index < documents(); ++index) {
    std::fill(numbers.begin() + begins[index], numbers.begin() + begins[index + 1],
              static_cast<int>(index));
  }
  return numbers;
}

std::vector<float> PackedDocuments::rows_of(std::size_t index, std::span<const float> values,
                                            std::size_t columns) const {
  const auto tokens = static_cast<std::size_t>(begins.back());
  const auto begin = static_cast<std::size_t>(begins[index]);
  const auto length = static_cast<std::size_t>(begins[index + 1]) - begin;
  std::vector<float> rows;
  for (std::size_t first = 0; first < values.size(); first += tokens * columns) {
    const auto from = values.subspan(first + begin * columns, length * columns);
    rows.insert(rows.end(), from.begin(), from.end());
  }
  return rows;
}

AttentionInputs PackedDocuments::document(std::size_t index) const {
  const auto columns = static_cast<std::size_t>(pack.shape.head_dim);
  AttentionInputs own{.shape = pack.shape,
                      .seed = pack.seed,
                      .q = rows_of(index, pack.q, columns),
                      .k = rows_of(index, pack.k, columns),
                      .v = rows_of(index, pack.v, columns)};
  own.shape.seq_len = begins[index + 1] - begins[index];
  return own;
}

std::vector<Dimension> pack_dimensions(const Sizes& emulated) {
  return {{.name = "documents", .emulated = emulated[0], .gpu = 16},
          {.name = "mean length", .emulated = emulated[1], .gpu = 1024},
          {.name = "kv_heads", .emulated = emulated[2], .gpu = 8},
          {.name = "group", .emulated = emulated[3], .gpu = 4},
          {.name = "head_dim", .emulated = emulated[4], .gpu = 128}};
}

std::string refuse_pack_bf16(const Sizes& sizes) {
  return refuse_attention_bf16({1, sizes[2], sizes[3], sizes[1], sizes[4]});
}

Cost pack_cost(const Sizes& sizes, std::uint64_t seed, const AttentionWork& work) {
  Cost all{.operations = 0.0, .least_bytes = 4.0 * (sizes[0] + 1.0)};
  for (const int length : sequence_lengths(sizes, 0)) {
    const Cost one = attention_cost({1, sizes[2], sizes[3], length, sizes[4]}, seed, work);
    all.operations += one.operations;
    all.least_bytes += one.least_bytes;
  }
  return all;
}

}  // namespace ultra::ladders
