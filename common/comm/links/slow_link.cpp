#include "common/comm/links/slow_link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/comm/engine/operation.hpp"

namespace ultra {
namespace {

double positive(std::string_view key, std::string_view text) {
  const std::optional<double> value = parse_number<double>(text);
  if (!value || !std::isfinite(*value) || *value < 0) {
    throw ConfigError(fmt::format("'{}' of the link is {}; it must be a number of at least 0", key,
                                  in_quotes(text)));
  }
  return *value;
}

}  // namespace

LinkSpeed LinkSpeed::parse(const std::string& text) {
  LinkSpeed speed;
  for (const std::string_view item : split(text, ',')) {
    const std::size_t equals = item.find('=');
    const std::string_view key = item.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : item.substr(equals + 1);
    if (key == "latency-us") {
      speed.latency = positive(key, value) * 1e-6;
    } else if (key == "gbps") {
      speed.bytes_per_second = positive(key, value) * 1e9 / 8.0;
    } else if (key == "gb-per-second") {
      speed.bytes_per_second = positive(key, value) * 1e9;
    } else {
      throw ConfigError(
          fmt::format("a link is told by latency-us=... and gbps=... (10^9 bits per second) or "
                      "gb-per-second=... (10^9 bytes), with commas between; found {}",
                      in_quotes(item)));
    }
  }
  if (speed.bytes_per_second <= 0) {
    throw ConfigError(
        fmt::format("the link {} has no bandwidth: add gbps=... or gb-per-second=... above 0",
                    in_quotes(text)));
  }
  return speed;
}

}  // namespace ultra

namespace ultra::comm {
namespace {

// How long after a look in vain at a device the next one follows.
constexpr auto kPause = std::chrono::microseconds(50);
// What would take longer than this never arrives: the clock cannot count as far as a double.
constexpr double kNeverSeconds = 3e7;

class SlowSend : public Request {
 public:
  SlowSend(Transport& inner, SlowLink& link, Parcel parcel, int peer, Tag tag)
      : inner_(inner), link_(link), parcel_(std::move(parcel)), peer_(peer), tag_(tag) {
    link_.holds_back(1);
    depart();
  }
  SlowSend(const SlowSend&) = delete;
  SlowSend& operator=(const SlowSend&) = delete;
  ~SlowSend() override {
    if (!departed_) link_.holds_back(-1);
    if (!request_ && departed_) link_.settled(arrival_);
  }

  bool test() override {
    depart();
    if (!request_) {
      if (!departed_ || SlowLink::Clock::now() < arrival_) return false;
      request_ = inner_.isend(parcel_, peer_, tag_);
      link_.settled(arrival_);
    }
    return request_->test();
  }
  gpu::Event ended_at() const override { return request_->ended_at(); }

 private:
  /// What a device still has to compute cannot leave.
  void depart() {
    if (departed_ || !is_there(parcel_.place)) return;
    departed_ = true;
    link_.holds_back(-1);
    arrival_ = link_.depart(parcel_.memory.size());
  }

  Transport& inner_;
  SlowLink& link_;
  Parcel parcel_;
  int peer_;
  Tag tag_;
  bool departed_ = false;
  SlowLink::Clock::time_point arrival_;
  std::unique_ptr<Request> request_;
};

class SlowTransport : public Transport {
 public:
  SlowTransport(std::shared_ptr<Transport> inner, std::shared_ptr<SlowLink> link)
      : inner_(std::move(inner)), link_(std::move(link)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  int world_rank(int member) const override { return inner_->world_rank(member); }

  std::unique_ptr<Request> isend(const Parcel& parcel, int peer, Tag tag) override {
    if (peer == rank()) return inner_->isend(parcel, peer, tag);
    return std::make_unique<SlowSend>(*inner_, *link_, parcel, peer, tag);
  }
  std::unique_ptr<Request> irecv(const Landing& landing, int peer, Tag tag) override {
    return inner_->irecv(landing, peer, tag);
  }
  std::unique_ptr<Transport> subgroup(std::span<const int> members,
                                      std::uint32_t sequence) override {
    return slowed(inner_->subgroup(members, sequence), link_);
  }
  std::shared_ptr<Operation> native(const CollectiveCall& call, Checking) override {
    throw ConfigError(fmt::format("{}: {}", to_string(call.info), native_on_slowed_link().what()));
  }
  void check_device() override { inner_->check_device(); }
  void abort() override { inner_->abort(); }

 private:
  std::shared_ptr<Transport> inner_;
  std::shared_ptr<SlowLink> link_;
};

}  // namespace

SlowLink::SlowLink(LinkSpeed speed) : speed_(speed) {
  if (speed.latency >= 0 && speed.bytes_per_second > 0) return;
  throw ConfigError(fmt::format(
      "a link has {} s of latency and {} bytes per second; the latency must be at least "
      "0 and the bandwidth above 0",
      speed.latency, speed.bytes_per_second));
}

SlowLink::Clock::time_point SlowLink::depart(std::size_t bytes) {
  const auto ticks = [](double seconds) {
    return std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(std::min(seconds, kNeverSeconds)));
  };
  const std::scoped_lock lock(mutex_);
  const auto now = Clock::now();
  const auto taken = ticks(static_cast<double>(bytes) / speed_.bytes_per_second);
  free_at_ = std::min(std::max(free_at_, now) + taken, now + ticks(kNeverSeconds));
  const Clock::time_point arrival = free_at_ + ticks(speed_.latency);
  arrivals_.insert(arrival);
  return arrival;
}

void SlowLink::settled(Clock::time_point arrival) {
  const std::scoped_lock lock(mutex_);
  const auto found = arrivals_.find(arrival);
  ensure(found != arrivals_.end(), "a message is delivered once");
  arrivals_.erase(found);
}

void SlowLink::holds_back(int change) {
  const std::scoped_lock lock(mutex_);
  held_back_ += change;
}

std::optional<SlowLink::Clock::time_point> SlowLink::next_arrival() const {
  const std::scoped_lock lock(mutex_);
  std::optional<Clock::time_point> next;
  if (held_back_ > 0) next = Clock::now() + kPause;
  if (!arrivals_.empty() && (!next || *arrivals_.begin() < *next)) next = *arrivals_.begin();
  return next;
}

ConfigError native_on_slowed_link() {
  return ConfigError(
      "the platform's own collectives do not pass through a slowed link: choose algorithms over "
      "send and receive (--collectives ours)");
}

std::unique_ptr<Transport> slowed(std::shared_ptr<Transport> inner,
                                  std::shared_ptr<SlowLink> link) {
  return std::make_unique<SlowTransport>(std::move(inner), std::move(link));
}

}  // namespace ultra::comm
