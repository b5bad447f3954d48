#pragma once
// A ladder without kernels: each rung ends in another way, with counters that are known.

#include <string>
#include <vector>

#include "chapters/09_kernels/ladder.hpp"
#include "common/base/errors.hpp"
#include "kernels/simt/error.hpp"

namespace ultra::ladders::test {

class FakeLadder final : public Ladder {
 public:
  const LadderInfo& info() const override { return info_; }
  std::span<const RungInfo> rungs() const override { return rungs_; }
  using Ladder::cost;
  Cost cost(const Sizes& sizes, std::uint64_t) const override {
    return {.operations = 1e9, .least_bytes = 8.0 * sizes[0]};
  }
  std::string refusal(int rung, const Sizes&, simt::Executor) const override {
    return rung == 5 ? "it has no shape" : "";
  }

  Outcome run(int rung, const RunRequest& request) const override {
    Outcome outcome;
    if (rung == 3) {
      throw simt::SimtError(simt::Fault::kRace, "two threads at one place");
    }
    if (rung == 4) {
      throw NotWritten("09.99 fake");
    }
    outcome.verdict.compare("y", 7, rung == 1 ? 1.0 : 2.0, 1.0, 0.25);
    if (request.executor == simt::Executor::kGpu) {
      outcome.seconds = {0.004, 0.001, 0.002};
      outcome.beside_seconds = {0.001, 0.001, 0.001};
    } else {
      outcome.report.add({.kernel = "fake", .grid = {.x = 2}, .block = {.x = 32}}, counted());
    }
    return outcome;
  }

  // Two warps load 4 sectors each; one stores to 2 places of one bank, 16 lanes active.
  static std::vector<simt::Site> counted() {
    return {{.file = "kernels/fake/01.cu",
             .line = 3,
             .kind = simt::AccessKind::kGlobalLoad,
             .size = 4,
             .requests = 2,
             .lanes = 64,
             .sectors = 8,
             .bytes = 256},
            {.file = "kernels/fake/01.cu",
             .line = 4,
             .kind = simt::AccessKind::kSharedStore,
             .size = 4,
             .requests = 1,
             .lanes = 16,
             .bytes = 64,
             .wavefronts = 2,
             .ideal_wavefronts = 1}};
  }

 private:
  LadderInfo info_ = {.name = "fake",
                      .title = "y = x",
                      .dimensions = {{.name = "elements", .emulated = 16, .gpu = 1 << 20}},
                      .limit = Limit::kMemory};
  std::vector<RungInfo> rungs_ = {
      {.number = 1, .name = "good", .idea = "what is right", .file = "kernels/fake/01.cu"},
      {.number = 2, .name = "bad", .idea = "what is wrong", .file = "kernels/fake/02.cu"},
      {.number = 3, .name = "racing", .idea = "what races", .file = "kernels/fake/03.cu"},
      {.number = 4,
       .name = "stub",
       .idea = "an exercise",
       .file = "solutions/fake/04.cu",
       .exercise = "09.99"},
      {.number = 5,
       .name = "picky",
       .idea = "what refuses",
       .file = "kernels/fake/05.cu",
       .needs = Needs::kHopper}};
};

}  // namespace ultra::ladders::test
