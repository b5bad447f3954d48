#include "tests/devices/one_rank_step.hpp"

#include <fmt/format.h>

#include "chapters/11_five_d/five_d.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/gpu/streams.hpp"
#include "common/train/cli/run_techniques.hpp"
#include "tests/devices/layouts.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/programs/command_line.hpp"

namespace ultra::devices {
namespace {

OneRankStep second_step_in(const train::Setup& setup, const Communicator& world,
                           const Device& device, const std::function<void(bool)>& second) {
  const train::TrainOptions& options = setup.train;
  const data::Sampler sampler(setup.text->open(options.data_file()), options.model.max_seq_len,
                              options.global_batch, options.seed);
  trace::StepTimeline timeline(device, nullptr, 0);
  train::RankMeter meter(world, device);
  const train::RunContext context{.options = options,
                                  .world = world,
                                  .sampler = sampler,
                                  .device = device,
                                  .timeline = timeline,
                                  .meter = meter};
  const auto worker = train::make_trainer(setup, context, world);
  const auto waits = [&] {
    return has_streams(device.kind()) ? device.streams().synchronizations() : 0;
  };
  const auto make_step = [&](std::size_t step) {
    timeline.begin_step(step);
    static_cast<void>(worker->step({.step = step, .learning_rate = 1e-3}));
    timeline.end_step();
  };
  make_step(1);
  device.reset_memory_peaks();
  const std::uint64_t waits_before = waits();
  second(true);
  make_step(2);
  second(false);
  return {.memory = device.memory(),
          .host_waits = waits() - waits_before,
          .parameters = worker->parameter_count(),
          .model = options.model};
}

}  // namespace

OneRankStep second_step(const std::string& flags, const Device& device,
                        const std::function<void(bool)>& second) {
  const test::TemporaryFolder folder;
  const train::Setup setup = train::parse_setup(
      five_d::techniques(),
      test::words_of(
          fmt::format("{} --data {}", flags, folder.write("numbers.txt", text_of_numbers()))));
  RankOptions ranks = setup.rank_options();
  ranks.progress = Progress::kOnCall;  // one thread writes a tape
  OneRankStep step;
  run_ranks(
      1, [&](Communicator& world) { step = second_step_in(setup, world, device, second); }, ranks);
  return step;
}

OneRankStep emulated_step(const std::string& flags, std::vector<std::string>& operations) {
  const Device device = Device::create(DeviceKind::kEmulated);
  const auto note = [&](const gpu::StreamSlice& slice) {
    operations.push_back(fmt::format("{}: {}", to_string(slice.role), slice.operation));
  };
  return second_step(flags, device, [&](bool begins) {
    device.streams().set_listener(begins ? std::function<void(const gpu::StreamSlice&)>(note)
                                         : nullptr);
  });
}

OneRankStep recorded_step(const std::string& flags, gpu::Tape& tape) {
  return second_step(flags, Device::meta(tape, 0, true), [&](bool begins) { tape.run(begins); });
}

std::vector<std::string> operations_of(const gpu::Tape& tape) {
  std::vector<std::string> operations;
  for (const gpu::Entry& entry : tape.entries) {
    if (entry.kind != gpu::EntryKind::kWork) continue;
    operations.push_back(
        fmt::format("{}: {}", to_string(entry.role), tape.names[tape.works[entry.index].name]));
  }
  return operations;
}

}  // namespace ultra::devices
