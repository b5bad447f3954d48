#include "kernels/simt/emulator/async/barriers.hpp"

#include <fmt/format.h>

namespace ultra::simt::emulator {

void PhaseBarrier::complete() {
  ++phase;
  missing = arrivals;
  announced = 0;
  come = 0;
  completed.join(arriving);
  completed.learn({.slot = slot, .count = phase});
  arriving = Clock();
}

std::string PhaseBarrier::to_text() const {
  return fmt::format("{} of {} arrivals and {} of {} bytes", arrivals - missing, arrivals, come,
                     announced);
}

bool GatheringBarrier::open_if_complete() {
  if (come < expected) {
    return false;
  }
  ++openings;
  come = 0;
  expected = 0;
  opened.join(arriving);
  arriving = Clock();
  return true;
}

}  // namespace ultra::simt::emulator
