#include "common/gpu/meta/tape.hpp"

#include <algorithm>

namespace ultra::gpu {

std::string_view to_string(ExchangeKind kind) {
  constexpr std::array<std::string_view, kExchangeKinds> kNames = {
      "broadcast",  "reduce",         "all-reduce", "gather", "scatter",
      "all-gather", "reduce-scatter", "all-to-all", "barrier"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::uint32_t Tape::name(std::string_view text) {
  if (const auto found = indices_.find(text); found != indices_.end()) return found->second;
  const auto index = static_cast<std::uint32_t>(names.size());
  indices_.emplace(names.emplace_back(text), index);
  return index;
}

std::uint32_t Tape::group(const TapedGroup& group) {
  const auto found = std::ranges::find(groups, group);
  const auto index = static_cast<std::uint32_t>(found - groups.begin());
  if (found == groups.end()) groups.push_back(group);
  return index;
}

void Tape::enter(EntryKind kind, StreamRole role, std::size_t index) {
  entries.push_back({.kind = kind, .role = role, .index = static_cast<std::uint32_t>(index)});
}

std::size_t Tape::add(StreamRole role, TapedWork work) {
  if (!runs_) return 0;
  work.phase = phase_;
  enter(EntryKind::kWork, role, works.size());
  works.push_back(work);
  return works.size() - 1;
}

void Tape::add(const TapedExchange& exchange) {
  if (!runs_) return;
  enter(EntryKind::kExchange, StreamRole::kCommunication, exchanges.size());
  exchanges.push_back(exchange);
}

void Tape::add(const TapedMessage& message) {
  if (!runs_) return;
  enter(EntryKind::kMessage, StreamRole::kCommunication, messages.size());
  messages.push_back(message);
}

void Tape::add(EntryKind kind, StreamRole role, EventId event) {
  if (runs_ && event != 0) enter(kind, role, event);
}

void Tape::add(const TapedMemory& in_use) {
  if (!runs_) return;
  enter(EntryKind::kMemory, StreamRole::kCompute, memory.size());
  memory.push_back(in_use);
}

}  // namespace ultra::gpu
