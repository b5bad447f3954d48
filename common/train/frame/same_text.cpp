#include "common/train/frame/same_text.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/base/text.hpp"
#include "common/base/units.hpp"
#include "common/train/frame/agree.hpp"

namespace ultra::train {
namespace {

/// The bytes, by what stands for them, and the name, each in a line.
std::string description_of(const data::Dataset& dataset) {
  return fmt::format("{} bytes and the hash {:016x}\n{}", format_count(dataset.size()),
                     dataset.hash(), in_quotes(dataset.source()));
}

std::string difference(int rank, std::string_view said, std::string_view by_rank_0) {
  const std::vector<std::string_view> own = split(said, '\n');
  const std::vector<std::string_view> first = split(by_rank_0, '\n');
  if (own[0] == first[0]) return {};
  return fmt::format(
      "rank {} reads {} with {}, rank 0 reads {} with {}. Copy the same text to every machine.",
      rank, own[1], own[0], first[1], first[0]);
}

}  // namespace

void expect_same_text(const Communicator& world, const data::Dataset& dataset) {
  expect_same(world, description_of(dataset), difference);
}

}  // namespace ultra::train
