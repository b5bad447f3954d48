#include "chapters/04_zero/prefetch_condition.hpp"

#include <algorithm>
#include <deque>
#include <vector>

#include "chapters/01_memory/gradient_accumulation.hpp"

namespace ultra::zero {
namespace {

std::vector<UnitUse> uses_of_micro_batch(std::size_t units) {
  const ChunkUnits chunk = ChunkUnits::whole(units);
  return unit_uses(memory::accumulation_schedule(1), std::span(&chunk, 1), 0);
}

/// A rank and its link, each with a clock.
class RankAndLink {
 public:
  RankAndLink(std::span<const UnitTimes> units, std::size_t ahead, Reshard reshard)
      : units_(units),
        there_(units.size()),
        uses_(uses_of_micro_batch(units.size())),
        prefetch_(ahead, {.start_gather =
                              [this](const UnitUse& use) {
                                there_[use.unit] = send(PassWork::kGather, use.unit);
                              },
                          .wait = [this](std::size_t u) { wait_until(there_[u]); },
                          .release = [](std::size_t) {}}) {
    prefetch_.follow(uses_, reshard);
  }

  // [region replay]
  PassTimes pass() {
    for (const auto& [unit, kind] : uses_) {
      prefetch_.gather(unit);
      if (kind == UseKind::kForward) {
        compute(PassWork::kForward, unit);
      } else {
        take_in_reductions(1);  // or there is no memory for this unit's gradients
        compute(PassWork::kBackward, unit);
        reductions_.push_back(send(PassWork::kReduce, unit));
      }
      prefetch_.free(unit);
    }
    take_in_reductions(0);
    return times_;
  }
  // [/region]

  [[nodiscard]] const std::vector<PassSpan>& timeline() const { return timeline_; }

 private:
  [[nodiscard]] double seconds_of(PassWork work, std::size_t unit) const {
    const UnitTimes& times = units_[unit];
    return work == PassWork::kForward    ? times.forward
           : work == PassWork::kBackward ? times.backward
           : work == PassWork::kGather   ? times.gather
                                         : times.reduce;
  }

  void compute(PassWork work, std::size_t unit) {
    const double begin = rank_;
    rank_ += seconds_of(work, unit);
    times_.compute += seconds_of(work, unit);
    timeline_.push_back({work, unit, begin, rank_});
  }

  /// Returns when the link has done what is issued now.
  double send(PassWork work, std::size_t unit) {
    const double begin = std::max(link_, rank_);
    link_ = begin + seconds_of(work, unit);
    timeline_.push_back({work, unit, begin, link_});
    return link_;
  }

  void wait_until(double moment) {
    times_.exposed += std::max(0.0, moment - rank_);
    rank_ = std::max(rank_, moment);
  }

  void take_in_reductions(std::size_t under_way) {
    while (reductions_.size() > under_way) {
      wait_until(reductions_.front());
      reductions_.pop_front();
    }
  }

  std::span<const UnitTimes> units_;
  std::vector<double> there_;  // when each unit's gather ends
  std::vector<UnitUse> uses_;  // of a micro-batch
  Prefetch prefetch_;
  std::deque<double> reductions_;  // when those under way end
  double rank_ = 0;
  double link_ = 0;
  PassTimes times_;
  std::vector<PassSpan> timeline_;
};

}  // namespace

PassTimes predict_pass(std::span<const UnitTimes> units, std::size_t ahead, Reshard reshard) {
  return RankAndLink(units, ahead, reshard).pass();
}

std::vector<PassSpan> pass_timeline(std::span<const UnitTimes> units, std::size_t ahead,
                                    Reshard reshard) {
  RankAndLink followed(units, ahead, reshard);
  static_cast<void>(followed.pass());
  return followed.timeline();
}

double gather_over_forward(std::size_t tokens, int ranks, double element_bytes, double flops,
                           double bytes_per_second) {
  const double n = ranks;
  const double gather = element_bytes * (n - 1) / n / bytes_per_second;
  const double forward = 2.0 * static_cast<double>(tokens) / flops;
  return gather / forward;
}

}  // namespace ultra::zero
