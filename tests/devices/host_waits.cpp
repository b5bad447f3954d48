#include "tests/devices/host_waits.hpp"

#include <map>
#include <mutex>

#include "common/comm/run_ranks.hpp"
#include "common/gpu/streams.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/plain_training.hpp"

namespace ultra::devices {
namespace {

constexpr std::uint64_t kLossAndNorm = 1;

/// What waits more often, by the name of its layout: see docs/devices.md.
const std::map<std::string, std::uint64_t>& waits_beside_it() {
  static const std::map<std::string, std::uint64_t> kWaits = {
      // Compression reads gradients and messages on the host, and the kept second moment.
      {"TopK", 7},
      {"Int8", 7},
      {"OneBit", 91},
      {"OneBitAfterFiveSteps", 0},  // none of the four steps here is compressed
      {"PowerSgd", 65},
      // The norm of each matrix that the rank transforms: 7 in each of 2 layers, on 2 ranks.
      {"MuonStage2", 7},
      {"Muon", 7},
      // Before the blocks of the transfers' window are written again.
      {"OffloadsMoments", 1},
      {"OffloadsWeights", 1},
      // Blocks are quantised on the host.
      {"PlusPlus", 208},
      {"PlusPlusInt4", 72},
      // 2 layers, and micro-batches of a rank: the logits of the router, and a number per row.
      {"08_expert_parallel_OneRank", 24},
      {"Experts", 12},
      {"TensorParallel", 24},
      {"DroppedPadded", 24},
      // The biases besides, forward and when they are moved.
      {"SigmoidBiasShared", 20},
      {"DataTensorPipelineExperts", 12},
      // Random rounding, counts of updates, moments of a byte are the host's.
      {"Bf16Pure", 126},
      {"Int8Moments", 126},
      // Each layer's history of maxima, at the step's end.
      {"Fp8Delayed", 8},
  };
  return kWaits;
}

std::uint64_t expected_waits(const Layout& layout) {
  const auto& beside = waits_beside_it();
  for (const std::string& name : {layout.name, layout.chapter + "_" + layout.name}) {
    if (const auto found = beside.find(name); found != beside.end()) {
      return kLossAndNorm + found->second;
    }
  }
  return kLossAndNorm;
}

/// What a rank that waits most waits for in a step after the first.
std::uint64_t waits_of_a_step(const Layout& layout, DeviceKind device) {
  const test::TemporaryFolder folder;
  const std::string flags =
      fmt::format("{} --data {} --device {}", flags_of(layout, "--steps 4"),
                  folder.write("numbers.txt", text_of_numbers()), to_string(device));
  std::mutex mutex;
  std::map<int, std::vector<std::uint64_t>> waits;
  const auto make_setup = [&] {
    train::Techniques techniques = program_of(layout).techniques;
    techniques.push_back(test::putting(test::before_each_step([&](const train::StepPlan&,
                                                                  const train::ModelScope& scope) {
      const std::lock_guard lock(mutex);
      waits[scope.plan.ranks().rank()].push_back(scope.context.device.streams().synchronizations());
    })));
    return train::parse_setup(std::move(techniques), test::words_of(flags));
  };
  const train::Setup setup = make_setup();
  run_ranks(
      setup.comm.world_size(),
      [&](Communicator& world) {
        static_cast<void>(train::train_with(make_setup(), world, program_of(layout).make_worker));
      },
      setup.rank_options());
  std::uint64_t most = 0;
  for (const auto& [rank, counts] : waits) most = std::max(most, counts.at(3) - counts.at(2));
  return most;
}

}  // namespace

void expect_waits_of_the_table(const Layout& layout, DeviceKind device) {
  EXPECT_EQ(waits_of_a_step(layout, device), expected_waits(layout));
}

}  // namespace ultra::devices
