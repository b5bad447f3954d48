#include "chapters/03_data_parallel/compression/compression_options.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>

#include "chapters/03_data_parallel/compression/compressed_exchange.hpp"
#include "chapters/03_data_parallel/compression/power_sgd.hpp"
#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/tensor/dtype.hpp"

namespace ultra::data_parallel {
namespace {

/// Of PowerSGD: far beyond it no matrix has factors that are smaller.
constexpr std::size_t kMostRank = 1'000'000;

struct Known {
  std::string_view name;
  CompressionKind kind;
  std::string_view parameter;  // what the number behind the colon is; empty: there is none
  std::string_view example;
};

constexpr std::array<Known, 5> kKnown = {{
    {"none", CompressionKind::kNone, "", "none"},
    {"topk", CompressionKind::kTopK, "the fraction to keep, above 0 and up to 1", "topk:0.01"},
    {"int8", CompressionKind::kInt8, "", "int8"},
    {"onebit", CompressionKind::kOneBit, "", "onebit"},
    {"powersgd", CompressionKind::kPowerSgd, "the rank, a whole number from 1 to 1000000",
     "powersgd:2"},
}};

const Known& known(CompressionKind kind) { return kKnown[static_cast<std::size_t>(kind)]; }

const Known& find_known(std::string_view name, std::string_view text) {
  for (const Known& entry : kKnown) {
    if (entry.name == name) return entry;
  }
  throw ConfigError(
      fmt::format("there is no compression {}. Choose none, topk:FRACTION, int8, onebit or "
                  "powersgd:RANK, for example topk:0.01 or powersgd:2.",
                  in_quotes(text)));
}

[[noreturn]] void refuse_parameter(const Known& entry, std::string_view text) {
  if (entry.parameter.empty()) {
    throw ConfigError(fmt::format("compression {0}: {1} takes no number. Write {1}.",
                                  in_quotes(text), entry.name));
  }
  throw ConfigError(fmt::format("compression {}: {} needs {}, for example {}.", in_quotes(text),
                                entry.name, entry.parameter, entry.example));
}

/// Null for a compression that is none or a power_sgd_exchange().
std::shared_ptr<const Compressor> compressor_of(const Compression& compression) {
  switch (compression.kind) {
    case CompressionKind::kTopK:
      return top_k_compressor(compression.fraction);
    case CompressionKind::kInt8:
      return int8_compressor();
    case CompressionKind::kOneBit:
      return one_bit_compressor();
    case CompressionKind::kNone:
    case CompressionKind::kPowerSgd:
      break;
  }
  return nullptr;
}

/// The groups whose ranks compute the same gradient.
std::set<std::string> groups_of_copies(const nn::Parameter& parameter) {
  std::set<std::string> groups;
  for (const nn::Replication& replication : parameter.replications()) {
    const bool equal = replication.gradients == nn::CopyGradients::kEqual;
    if (equal && replication.size > 1) groups.insert(replication.group);
  }
  return groups;
}

}  // namespace

std::string Compression::name() const {
  const std::string_view base = known(kind).name;
  if (kind == CompressionKind::kTopK) return fmt::format("{}:{}", base, fraction);
  if (kind == CompressionKind::kPowerSgd) return fmt::format("{}:{}", base, rank);
  return std::string(base);
}

double Compression::sent_bytes(int replicas, const BucketContents& contents, DType dtype) const {
  const auto others = static_cast<double>(replicas - 1);
  if (const auto compressor = compressor_of(*this)) {
    const std::size_t words = compressor->message_words(contents.count, dtype);
    return others * static_cast<double>(words * sizeof(std::int32_t));
  }
  const auto in_all_reduce = [&](std::size_t count) {
    return 2.0 * others * static_cast<double>(count * size_of(dtype)) / replicas;
  };
  if (kind == CompressionKind::kPowerSgd) {
    const PowerSgdCounts counts = power_sgd_counts(contents.shapes, rank);
    return in_all_reduce(counts.first) + in_all_reduce(counts.second);
  }
  return in_all_reduce(contents.count);
}

Compression parse_compression(std::string_view text) {
  const std::size_t colon = text.find(':');
  const Known& entry = find_known(text.substr(0, colon), text);
  const bool has_number = colon != std::string_view::npos;
  const std::string_view number = has_number ? text.substr(colon + 1) : std::string_view();
  Compression compression{.kind = entry.kind};
  bool fits = !has_number;
  if (entry.kind == CompressionKind::kTopK) {
    compression.fraction = parse_number<double>(number).value_or(0.0);
    fits = compression.fraction > 0.0 && compression.fraction <= 1.0;
  } else if (entry.kind == CompressionKind::kPowerSgd) {
    compression.rank = parse_number<std::uint64_t>(number).value_or(0);
    fits = compression.rank >= 1 && compression.rank <= kMostRank;
  }
  if (!fits) refuse_parameter(entry, text);
  return compression;
}

MakeBucketExchange make_exchange(const Compression& compression, const Communicator& dp,
                                 ErrorFeedback feedback) {
  if (auto compressor = compressor_of(compression)) {
    return compressed_exchange(dp, std::move(compressor), feedback);
  }
  if (compression.kind == CompressionKind::kPowerSgd) {
    return power_sgd_exchange(dp, {.rank = compression.rank, .feedback = feedback});
  }
  return all_reduce_exchange(dp);
}

std::vector<Bucket> buckets_of_equal_copies(const std::vector<nn::Parameter*>& parameters,
                                            std::size_t capacity) {
  std::map<std::set<std::string>, std::size_t> numbers;
  std::vector<std::size_t> counts;
  std::vector<std::size_t> kinds;
  for (const nn::Parameter* parameter : parameters) {
    counts.push_back(parameter->count());
    kinds.push_back(
        numbers.try_emplace(groups_of_copies(*parameter), numbers.size()).first->second);
  }
  return assign_buckets_by_kind(counts, kinds, capacity);
}

}  // namespace ultra::data_parallel
