#include "kernels/simt/emulator/async/access_log.hpp"

#include <algorithm>

namespace ultra::simt::emulator {
namespace {

constexpr std::size_t kWordBytes = 4;

bool same_access(const LoggedAccess& left, const LoggedAccess& right) {
  return left.event.slot == right.event.slot && left.event.count == right.event.count &&
         left.operation == right.operation && left.thread == right.thread &&
         left.place.line == right.place.line && left.place.file == right.place.file;
}

}  // namespace

void AccessLog::start(std::size_t bytes) {
  entries_.assign(1, LoggedAccess{});
  words_.resize((bytes + kWordBytes - 1) / kWordBytes);
  for (Word& word : words_) {
    word.writer = 0;
    word.readers.clear();
  }
}

void AccessLog::open(const LoggedAccess& access) {
  if (!same_access(entries_.back(), access)) {
    entries_.push_back(access);
  }
}

std::optional<Disorder> AccessLog::touch(std::size_t offset, std::size_t size, const Clock& known,
                                         const Order& order) {
  const LoggedAccess& access = entries_.back();
  const bool is_part = size < kWordBytes;
  std::optional<Disorder> found;
  for (std::size_t at = offset / kWordBytes; at * kWordBytes < offset + size; ++at) {
    Word& word = words_[at];
    const auto check = [&](Number earlier) {
      if (!found && earlier != 0) {
        found = meet(earlier, at * kWordBytes, known, order);
      }
    };
    if (!(is_part && word.is_part)) {
      check(word.writer);
    }
    if (access.operation == Operation::kLoad) {
      note_read(word);
      continue;
    }
    std::ranges::for_each(word.readers, check);
    word.readers.clear();
    word.writer = static_cast<Number>(entries_.size() - 1);
    word.is_part = is_part;
  }
  return found;
}

std::optional<Disorder> AccessLog::meet(Number earlier, std::size_t offset, const Clock& known,
                                        const Order& order) const {
  const LoggedAccess& before = entries_[earlier];
  const LoggedAccess& now = entries_.back();
  if (before.operation == Operation::kAtomic && now.operation == Operation::kAtomic) {
    return std::nullopt;
  }
  if (!known.knows(before.event)) {
    return Disorder{.earlier = before, .offset = offset, .lacks_fence = false};
  }
  const bool crosses = before.actor == Actor::kThread && now.actor != Actor::kThread &&
                       before.operation != Operation::kLoad;
  if (crosses && !order.is_shown(known, before.event)) {
    return Disorder{.earlier = before, .offset = offset, .lacks_fence = true};
  }
  return std::nullopt;
}

// The latest read of each slot is enough: who knows of it knows of those before it.
void AccessLog::note_read(Word& word) const {
  const auto own = static_cast<Number>(entries_.size() - 1);
  const Slot slot = entries_.back().event.slot;
  const auto same = std::ranges::find_if(
      word.readers, [&](Number reader) { return entries_[reader].event.slot == slot; });
  if (same != word.readers.end()) {
    *same = own;
  } else {
    word.readers.push_back(own);
  }
}

}  // namespace ultra::simt::emulator
