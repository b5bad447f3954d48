// Votes and the warp's barrier: meetings of lanes with nothing to type.

#include "kernels/simt/emulator/language/intrinsics.hpp"

namespace ultra::simt::emulator {
namespace {

struct Vote {
  bool given;
  LaneMask taken;
};

void resolve_vote(std::span<void* const, 32> deposits, LaneMask mask) {
  LaneMask ballot = 0;
  for (LaneMask rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::size_t>(std::countr_zero(rest));
    if (static_cast<Vote*>(deposits[lane])->given) {
      ballot |= LaneMask{1} << lane;
    }
  }
  for (LaneMask rest = mask; rest != 0; rest &= rest - 1) {
    static_cast<Vote*>(deposits[static_cast<std::size_t>(std::countr_zero(rest))])->taken = ballot;
  }
}

void resolve_barrier(std::span<void* const, 32>, LaneMask mask) { order_lanes(mask); }

}  // namespace

LaneMask vote(LaneMask mask, bool predicate, const char* name, SourceLine place) {
  Vote deposit{.given = predicate, .taken = 0};
  meet({.mask = mask, .resolve = &resolve_vote, .deposit = &deposit, .name = name, .place = place});
  return deposit.taken;
}

void synchronise_warp(LaneMask mask, SourceLine place) {
  meet({.mask = mask,
        .resolve = &resolve_barrier,
        .deposit = nullptr,
        .name = "__syncwarp",
        .place = place});
}

}  // namespace ultra::simt::emulator
