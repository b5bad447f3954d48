#pragma once
/// @file
/// A quiet training run with the chapter's parts, as its program has them.

#include <fmt/format.h>

#include "chapters/01_memory/memory.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/support/training/plain_training.hpp"
#include "tests/support/training/short_run.hpp"

namespace ultra::memory::test {

using namespace ultra::test;

inline train::TrainResult chapter_run(const train::TrainOptions& options,
                                      const RecomputeConfig& recompute = {}) {
  const std::string flags = fmt::format("--recompute {} --recompute-every {}",
                                        to_string(recompute.mode), recompute.recompute_every);
  train::TrainResult result;
  static_cast<void>(ultra::test::printed_by([&] {
    run_ranks(1, [&](Communicator& world) {
      result = train::train_with(
          ultra::test::setup_of(options, 1, train::list_of(technique()), flags), world);
    });
  }));
  return result;
}

}  // namespace ultra::memory::test
