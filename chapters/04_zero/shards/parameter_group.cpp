#include "chapters/04_zero/shards/parameter_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "common/base/errors.hpp"
#include "common/train/weights/frozen_weights.hpp"

namespace ultra::zero {
namespace {

/// The numbers of parameters among all that are grouped.
using Numbers = std::unordered_map<const nn::Parameter*, std::size_t>;

Numbers numbers_in(const std::vector<nn::Parameter*>& all) {
  Numbers numbers;
  for (std::size_t i = 0; i < all.size(); ++i) numbers.emplace(all[i], i);
  return numbers;
}

/// A flat shard has pieces of all parameters of its unit, and would have to leave out some.
void expect_one_kind(const ParameterGroup& unit) {
  const std::size_t frozen = train::frozen(unit.parameters).size();
  if (unit.cut == ShardCut::kRows || frozen == 0 || frozen == unit.parameters.size()) return;
  throw ConfigError(
      fmt::format("--freeze leaves {} with {} frozen parameters and {} that are trained, and a "
                  "flat unit is all of "
                  "one kind. Give --shards rows, which has each parameter for itself, or freeze "
                  "all of the unit.",
                  unit.name, frozen, unit.parameters.size() - frozen));
}

/// Those of a chunk's, or a part's, parameters that are grouped.
std::vector<std::size_t> numbers_of(const std::vector<nn::Parameter*>& some,
                                    const Numbers& numbers) {
  std::vector<std::size_t> found;
  for (const nn::Parameter* parameter : some) {
    if (const auto at = numbers.find(parameter); at != numbers.end()) found.push_back(at->second);
  }
  return found;
}

/// Another stage has it in other company, or its gradient is made at another time.
bool stands_alone(const nn::Model& chunk, const nn::Parameter& parameter) {
  return chunk.uses(parameter) > 1 ||
         std::ranges::find(parameter.replications(), nn::kTiedGroup, &nn::Replication::group) !=
             parameter.replications().end();
}

std::vector<TensorRows> rows_of(const std::vector<nn::Parameter*>& parameters) {
  std::vector<TensorRows> all;
  for (const nn::Parameter* parameter : parameters) {
    const std::size_t rows = parameter->shape()[0];
    all.push_back({.rows = rows, .width = parameter->count() / std::max<std::size_t>(rows, 1)});
  }
  return all;
}

ParameterGroup make_group(std::span<nn::Model* const> chunks,
                          const std::vector<nn::Parameter*>& parameters, std::string name,
                          std::size_t chunk, std::vector<std::size_t> numbers, int ranks,
                          ShardCut cut = ShardCut::kFlat) {
  ParameterGroup group{.name = std::move(name),
                       .chunk = chunk,
                       .part = 0,
                       .numbers = std::move(numbers),
                       .parameters = {},
                       .cut = cut,
                       .ranks = ranks,
                       .layout = {}};
  std::vector<std::size_t> counts;
  for (const std::size_t number : group.numbers) {
    group.parameters.push_back(parameters[number]);
    counts.push_back(group.parameters.back()->count());
  }
  group.layout = cut == ShardCut::kRows ? row_layout(rows_of(group.parameters), ranks)
                                        : flat_layout(counts, ranks);
  group.is_tied =
      group.parameters.size() == 1 && chunks[chunk]->uses(*group.parameters.front()) > 1;
  return group;
}

/// Splits numbers into runs of parameters that may stand together.
std::vector<std::vector<std::size_t>> companies(const nn::Model& chunk,
                                                const std::vector<nn::Parameter*>& parameters,
                                                const Numbers& numbers) {
  std::vector<std::vector<std::size_t>> runs;
  bool open = false;
  for (const std::size_t number : numbers_of(chunk.parameters(), numbers)) {
    const bool alone = stands_alone(chunk, *parameters[number]);
    if (alone || !open) runs.emplace_back();
    runs.back().push_back(number);
    open = !alone;
  }
  return runs;
}

}  // namespace

Tensor ParameterGroup::flat(std::size_t count, MemoryCategory category) const {
  const nn::Parameter& first = *parameters.front();
  return Tensor::empty(first.device(), {count}, first.dtype(), category);
}

Tensor ParameterGroup::view(const Tensor& flat, std::size_t i) const {
  return flat.slice(0, layout.places[i]).view(parameters[i]->shape());
}

std::vector<Piece> ParameterGroup::pieces(int rank) const {
  if (cut == ShardCut::kFlat) return pieces_of(layout, rank);
  return row_pieces(rows_of(parameters), ranks, rank);
}

void ParameterGroup::initialize(const Tensor& shard, int rank) const {
  shard.fill(0.0);
  for (const Piece& piece : pieces(rank)) {
    parameters[piece.tensor]->initial_values_into(shard.slice(0, piece.place),
                                                  piece.elements.begin);
  }
}

std::vector<ParameterGroup> groups_by_bucket(std::span<nn::Model* const> chunks,
                                             const std::vector<nn::Parameter*>& parameters,
                                             std::size_t capacity, int ranks) {
  const Numbers all = numbers_in(parameters);
  std::vector<ParameterGroup> groups;
  for (std::size_t chunk = chunks.size(); chunk-- > 0;) {
    const auto runs = companies(*chunks[chunk], parameters, all);
    for (std::size_t run = runs.size(); run-- > 0;) {
      std::vector<std::size_t> counts;
      for (const std::size_t number : runs[run]) counts.push_back(parameters[number]->count());
      for (const data_parallel::Bucket& bucket : data_parallel::assign_buckets(counts, capacity)) {
        std::vector<std::size_t> numbers;
        for (const std::size_t i : bucket.parameters) numbers.push_back(runs[run][i]);
        groups.push_back(make_group(chunks, parameters, fmt::format("bucket {}", groups.size()),
                                    chunk, std::move(numbers), ranks));
      }
    }
  }
  return groups;
}

std::vector<ParameterGroup> groups_by_part(std::span<nn::Model* const> chunks,
                                           const std::vector<nn::Parameter*>& parameters, int ranks,
                                           ShardCut cut) {
  const Numbers all = numbers_in(parameters);
  std::vector<ParameterGroup> groups;
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    const std::vector<nn::ModelPart>& parts = chunks[chunk]->parts();
    for (std::size_t part = 0; part < parts.size(); ++part) {
      std::vector<std::size_t> numbers = numbers_of(parts[part].parameters, all);
      if (numbers.empty()) continue;
      groups.push_back(
          make_group(chunks, parameters, parts[part].name, chunk, std::move(numbers), ranks, cut));
      groups.back().part = part;
      expect_one_kind(groups.back());
    }
  }
  std::reverse(groups.begin(), groups.end());
  return groups;
}

std::vector<Tensor> whole_weights(const std::vector<ParameterGroup>& groups) {
  std::vector<Tensor> arrays;
  for (const ParameterGroup& group : groups) {
    arrays.push_back(group.flat(group.layout.padded, MemoryCategory::kParameters));
    for (int rank = 0; rank < group.ranks; ++rank) {
      group.initialize(arrays.back().slice(0, shard_range(group.layout, rank)), rank);
    }
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      group.parameters[i]->set_value(group.view(arrays.back(), i));
    }
  }
  return arrays;
}

std::vector<data_parallel::Bucket> as_buckets(const std::vector<ParameterGroup>& groups) {
  std::vector<data_parallel::Bucket> buckets;
  for (const ParameterGroup& group : groups) {
    buckets.push_back({.parameters = group.numbers, .count = group.layout.count});
  }
  return buckets;
}

}  // namespace ultra::zero
