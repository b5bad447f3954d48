#pragma once
/// @file
/// EventQueue: what happens next in a simulation in which much happens at the same time.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

namespace ultra::collectives {

/// @brief Events by time. The ranks of a collective mostly move in step, so events of the same time
/// share a bucket, and only buckets are kept in order: a few instead of thousands.
class EventQueue {
 public:
  /// @brief True when nothing is left.
  [[nodiscard]] bool empty() const { return order_.empty(); }

  /// @brief Event `id` happens at `time`, not before the time that pop() has given last.
  void push(double time, std::uint32_t id) {
    Recent& recent = recent_of(time);
    if (!recent.open || recent.time != time) {
      recent = {.time = time, .bucket = new_bucket(), .open = true};
      order_.push({time, recent.bucket});
    }
    buckets_[recent.bucket].push_back(id);
  }

  /// @brief Takes all events of the earliest time out, in the order of their ids.
  /// @param ids  out: the events.
  /// @return their time. @pre !empty()
  double pop(std::vector<std::uint32_t>& ids) {
    const double time = order_.top().time;
    ids.clear();
    for (; !order_.empty() && order_.top().time == time; order_.pop()) {
      const std::uint32_t bucket = order_.top().bucket;
      ids.insert(ids.end(), buckets_[bucket].begin(), buckets_[bucket].end());
      buckets_[bucket].clear();
      free_.push_back(bucket);
    }
    // What is pushed for this very time from now on comes in a later turn.
    if (Recent& recent = recent_of(time); recent.time == time) recent.open = false;
    if (!std::is_sorted(ids.begin(), ids.end())) std::sort(ids.begin(), ids.end());
    return time;
  }

 private:
  struct Turn {
    double time = 0.0;
    std::uint32_t bucket = 0;

    bool operator>(const Turn& other) const {
      return time > other.time || (time == other.time && bucket > other.bucket);
    }
  };

  /// The bucket that a time was given last; forgotten when another time takes its place.
  struct Recent {
    double time = 0.0;
    std::uint32_t bucket = 0;
    bool open = false;
  };

  Recent& recent_of(double time) {
    constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15;  // 2^64 over the golden ratio
    return recent_[(std::bit_cast<std::uint64_t>(time) * kMix) >> (64 - kRecentBits)];
  }

  std::uint32_t new_bucket() {
    if (free_.empty()) {
      buckets_.emplace_back();
      return static_cast<std::uint32_t>(buckets_.size() - 1);
    }
    const std::uint32_t bucket = free_.back();
    free_.pop_back();
    return bucket;
  }

  static constexpr int kRecentBits = 8;

  std::priority_queue<Turn, std::vector<Turn>, std::greater<Turn>> order_;
  std::vector<std::vector<std::uint32_t>> buckets_;
  std::vector<std::uint32_t> free_;
  std::array<Recent, std::size_t{1} << kRecentBits> recent_{};
};

}  // namespace ultra::collectives
