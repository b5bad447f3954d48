#include "tests/devices/equal_to_cpu.hpp"

#include "common/comm/run_ranks.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/rank_runs.hpp"

namespace ultra::devices {
namespace {

using test::RankRun;

constexpr double kF64 = 1e-10;
constexpr double kF32 = 1e-4;
constexpr double kHalf = 0.02;
constexpr double kMomentTolerance = 0.01;

/// What rank 0 had in the end; servers know no model, so that there nobody puts the weights together.
RankRun outcome_of(const Layout& layout, const std::string& flags) {
  const auto make_setup = [&] {
    return train::parse_setup(program_of(layout).techniques, test::words_of(flags));
  };
  const train::Setup setup = make_setup();
  RankRun outcome;
  run_ranks(
      setup.comm.world_size(),
      [&](Communicator& world) {
        RankRun run;
        if (layout.likeness == Likeness::kLossesInF64) {
          run.result = train::train_with(make_setup(), world, program_of(layout).make_worker);
        } else {
          run = test::run_of(make_setup(), world);
        }
        if (world.rank() == 0) outcome = std::move(run);
      },
      setup.rank_options());
  return outcome;
}

void expect_same_weights(const RankRun& found, const RankRun& cpu, double tolerance) {
  ASSERT_EQ(found.weights.size(), cpu.weights.size());
  for (std::size_t p = 0; p < cpu.weights.size(); ++p) {
    EXPECT_LE(test::largest_difference(found.weights[p], cpu.weights[p]),
              tolerance * test::largest_magnitude(cpu.weights[p]))
        << "parameter " << p;
  }
}

}  // namespace

void expect_equal_to_cpu(const Layout& layout, DeviceKind device) {
  const test::TemporaryFolder folder;
  const std::string text = folder.write("numbers.txt", text_of_numbers());
  const auto on = [&](DeviceKind kind, const std::string& more) {
    return outcome_of(layout, fmt::format("{} --data {} --device {}", flags_of(layout, more), text,
                                          to_string(kind)));
  };
  if (layout.likeness == Likeness::kRoughly) {
    const std::string steps = "--steps 3";
    return test::expect_near_losses(on(device, steps), on(DeviceKind::kCpu, steps), kHalf);
  }
  const std::string few = "--dtype f64 --steps 5";
  const RankRun found = on(device, few);
  const RankRun cpu = on(DeviceKind::kCpu, few);
  test::expect_near_losses(found, cpu, kF64);
  // Norms and weights are behind sums of many terms.
  test::expect_near_norms(found, cpu, 100 * kF64);
  if (layout.likeness != Likeness::kLossesInF64) expect_same_weights(found, cpu, 100 * kF64);
  if (layout.likeness == Likeness::kKeptMoment) {
    const std::string three = "--dtype f32 --steps 3";
    test::expect_near_losses(on(device, three), on(DeviceKind::kCpu, three), kMomentTolerance);
  }
  if (layout.likeness != Likeness::kEveryNumber) return;
  const std::string many = "--dtype f32 --steps 20";
  test::expect_near_losses(on(device, many), on(DeviceKind::kCpu, many), kF32);
}

std::string name_of(const ::testing::TestParamInfo<Layout>& info) {
  return fmt::format("{}_{}", info.param.chapter, info.param.name);
}

void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

}  // namespace ultra::devices
