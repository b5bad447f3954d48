#include "common/comm/collectives/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "common/base/errors.hpp"

namespace ultra::comm {
namespace {

std::size_t wrap(int index, std::size_t size) {
  const int n = static_cast<int>(size);
  return static_cast<std::size_t>(((index % n) + n) % n);
}

std::string describe(const Block& block) {
  constexpr const char* kNames[] = {"", "input ", "scratch "};
  return fmt::format("{}[{}, {})", kNames[static_cast<int>(block.buffer)], block.range.begin,
                     block.range.end);
}

}  // namespace

std::string to_string(const Round& step) {
  std::string text;
  if (step.send_to != kNobody) {
    text = fmt::format("sends {} to rank {}", describe(step.send), step.send_to);
  }
  if (step.receive_from != kNobody) {
    text += fmt::format("{}receives {} from rank {}{}", text.empty() ? "" : ", ",
                        describe(step.receive), step.receive_from,
                        step.on_receive == OnReceive::kReduce ? " and reduces" : "");
  }
  return text.empty() ? "does nothing" : text;
}

Group Group::all(int rank, int size) {
  Group group{.ranks = std::vector<int>(static_cast<std::size_t>(size)), .rank = rank};
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  return group;
}

int Group::at(int position) const { return ranks[wrap(position, ranks.size())]; }

Chunks Chunks::even(Range whole, int parts) {
  if (parts < 1) {
    throw ConfigError(fmt::format("a range is cut into {} chunks; it takes at least 1", parts));
  }
  const auto count = static_cast<std::size_t>(parts);
  const std::size_t share = whole.size() / count;
  const std::size_t longer = whole.size() % count;
  Chunks chunks;
  chunks.bounds_.clear();
  for (std::size_t i = 0; i <= count; ++i) {
    chunks.bounds_.push_back(whole.begin + i * share + std::min(i, longer));
  }
  return chunks;
}

Chunks Chunks::of(std::span<const std::size_t> counts, std::size_t begin) {
  Chunks chunks;
  chunks.bounds_ = {begin};
  for (const std::size_t count : counts) chunks.bounds_.push_back(chunks.bounds_.back() + count);
  return chunks;
}

Range Chunks::operator[](int index) const {
  const std::size_t i = wrap(index, bounds_.size() - 1);
  return {bounds_[i], bounds_[i + 1]};
}

Range Chunks::span(int first, int last) const {
  return {bounds_[static_cast<std::size_t>(first)], bounds_[static_cast<std::size_t>(last)]};
}

std::size_t Chunks::largest() const {
  std::size_t largest = 0;
  for (int i = 0; i < size(); ++i) largest = std::max(largest, (*this)[i].size());
  return largest;
}

void append(Lane& lane, const Lane& more) { lane.insert(lane.end(), more.begin(), more.end()); }

std::size_t sent_count(const Schedule& schedule, int rank) {
  std::size_t count = 0;
  for (const Lane& lane : schedule.lanes) {
    for (const Round& step : lane) {
      if (step.send_to != kNobody && step.send_to != rank) count += step.send.range.size();
    }
  }
  return count;
}

}  // namespace ultra::comm
