// The book of requests: accesses are gathered per warp and line, and counted when the lanes meet.

#include "kernels/simt/emulator/counters.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <tuple>

namespace ultra::simt::emulator {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

bool is_shared(AccessKind kind) {
  return kind == AccessKind::kSharedLoad || kind == AccessKind::kSharedStore ||
         kind == AccessKind::kSharedAtomic;
}

auto order_of(const Site& site) { return std::tie(site.file, site.line, site.kind, site.size); }

}  // namespace

void Counters::start(std::size_t warps) {
  keys_.clear();
  sums_.clear();
  warps_.resize(std::max(warps, warps_.size()));
  for (Warp& warp : warps_) {
    warp.pending.clear();
    warp.active.clear();
  }
  recent_.fill(kNone);
}

std::uint32_t Counters::site_of(SourceLine place, AccessKind kind, std::size_t size) {
  const auto line = static_cast<std::size_t>(place.line);
  const std::size_t file = reinterpret_cast<std::uintptr_t>(place.file) >> 3;
  const std::size_t hash =
      (line * 8 + static_cast<std::size_t>(kind) + size * 131 + file) % recent_.size();
  const std::uint32_t known = recent_[hash];
  if (known != kNone) {
    const Key& key = keys_[known];
    if (key.place.line == place.line && key.place.file == place.file && key.kind == kind &&
        key.size == size) {
      return known;
    }
  }
  recent_[hash] = add_site({.place = place, .kind = kind, .size = size});
  return recent_[hash];
}

// Finds the key, or adds it.
std::uint32_t Counters::add_site(const Key& key) {
  const auto same = [&key](const Key& other) {
    return other.place.line == key.place.line && other.kind == key.kind && other.size == key.size &&
           std::strcmp(other.place.file, key.place.file) == 0;
  };
  const auto found = std::find_if(keys_.begin(), keys_.end(), same);
  if (found != keys_.end()) {
    return static_cast<std::uint32_t>(found - keys_.begin());
  }
  keys_.push_back(key);
  sums_.push_back({.file = key.place.file,
                   .line = key.place.line,
                   .kind = key.kind,
                   .size = static_cast<int>(key.size)});
  return static_cast<std::uint32_t>(keys_.size() - 1);
}

void Counters::record(std::size_t warp_index, std::size_t lane, std::uint32_t site,
                      std::uint64_t address) {
  Warp& warp = warps_[warp_index];
  if (site >= warp.pending.size()) {
    warp.pending.resize(keys_.size());
  }
  Pending& pending = warp.pending[site];
  if (pending.requests.empty()) {
    warp.active.push_back(site);
  }
  const std::uint32_t number = pending.executions[lane]++;
  if (number >= pending.requests.size()) {
    pending.requests.emplace_back();
  }
  Request& request = pending.requests[number];
  request.lanes |= LaneMask{1} << lane;
  request.addresses[lane] = address;
}

void Counters::count_box(std::uint32_t site, std::uint64_t bytes, std::uint64_t sectors) {
  Site& sum = sums_[site];
  ++sum.requests;
  ++sum.lanes;
  sum.bytes += bytes;
  sum.sectors += sectors;
}

void Counters::flush(std::size_t warp_index) {
  Warp& warp = warps_[warp_index];
  for (const std::uint32_t site : warp.active) {
    Pending& pending = warp.pending[site];
    for (const Request& request : pending.requests) {
      count(request, site);
    }
    pending.requests.clear();
    pending.executions.fill(0);
  }
  warp.active.clear();
}

void Counters::drop() {
  for (Warp& warp : warps_) {
    warp.pending.clear();
    warp.active.clear();
  }
}

void Counters::count(const Request& request, std::uint32_t site) {
  Site& sum = sums_[site];
  const auto lanes = static_cast<std::uint64_t>(std::popcount(request.lanes));
  const auto size = static_cast<std::size_t>(sum.size);
  ++sum.requests;
  sum.lanes += lanes;
  if (sum.kind == AccessKind::kBranch) {
    std::uint64_t taken = 0;
    for (LaneMask rest = request.lanes; rest != 0; rest &= rest - 1) {
      taken += request.addresses[static_cast<std::size_t>(std::countr_zero(rest))];
    }
    sum.divergent += taken != 0 && taken != lanes ? 1 : 0;
    return;
  }
  sum.bytes += lanes * size;
  if (is_shared(sum.kind)) {
    const auto [needed, ideal] = count_wavefronts(request.addresses, request.lanes, size);
    sum.wavefronts += needed;
    sum.ideal_wavefronts += ideal;
  } else {
    sum.sectors += count_sectors(request.addresses, request.lanes, size);
  }
}

std::vector<Site> Counters::sites() const {
  std::vector<Site> sites = sums_;
  std::sort(sites.begin(), sites.end(),
            [](const Site& left, const Site& right) { return order_of(left) < order_of(right); });
  return sites;
}

}  // namespace ultra::simt::emulator
