#include "common/train/elsewhere/record_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <utility>

#include "common/base/errors.hpp"
#include "common/comm/backend/meta/meta_world.hpp"
#include "common/trace/step_timeline.hpp"
#include "common/train/cli/run_techniques.hpp"
#include "common/train/report/rank_meter.hpp"

namespace ultra::train {
namespace {

/// Tokens that are all the same: nobody computes with them.
data::Sampler sampler_of(const TrainOptions& options) {
  const std::size_t tokens = options.model.max_seq_len + 2;
  return {data::Dataset(std::vector<std::uint8_t>(tokens), "no text"), options.model.max_seq_len,
          options.global_batch, options.seed};
}

CommStats difference(const CommStats& all, const CommStats& before) {
  CommStats own = all;
  for (std::size_t kind = 0; kind < kOpKinds; ++kind) {
    own.kinds[kind].operations -= before.kinds[kind].operations;
    own.kinds[kind].sent_bytes -= before.kinds[kind].sent_bytes;
  }
  return own;
}

}  // namespace

std::string place_of(const Setup& setup, int rank) {
  const MeshShape shape = setup.mesh_shape(setup.ranks());
  std::string text;
  for (const Axis& axis : shape.axes()) {
    if (axis.size == 1 || axis.alike) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", axis.name,
                        shape.position(rank, axis.name));
  }
  return text;
}

RecordedRank record_step(const Setup& setup, int rank, bool checks_order) {
  const int ranks = setup.ranks();
  RecordedRank recorded{
      .rank = rank, .place = place_of(setup, rank), .tape = std::make_unique<gpu::Tape>()};
  gpu::Tape& tape = *recorded.tape;
  const Device device = Device::meta(tape, rank, checks_order);
  const Communicator world =
      comm::meta_world(rank, ranks, tape).with_algorithms(setup.rank_options().algorithms);
  const data::Sampler sampler = sampler_of(setup.train);
  trace::StepTimeline timeline(device, nullptr, 0);
  RankMeter meter(world, device);
  const RunContext context{.options = setup.train,
                           .world = world,
                           .sampler = sampler,
                           .device = device,
                           .timeline = timeline,
                           .meter = meter};
  const auto worker = make_trainer(setup, context, world);
  recorded.parameters = worker->parameter_count();
  recorded.tokens = sampler.global_tokens();
  const double learning_rate = setup.train.learning_rate;
  static_cast<void>(worker->step({.step = 1, .learning_rate = learning_rate}));
  device.reset_memory_peaks();
  const CommStats before = world.stats();
  timeline.begin_step(2);
  tape.run(true);
  static_cast<void>(worker->step({.step = 2, .learning_rate = learning_rate}));
  tape.run(false);
  timeline.end_step();
  recorded.sent = difference(world.stats(), before);
  recorded.memory = device.memory();
  recorded.reserved_bytes = device.reserved_bytes();
  return recorded;
}

std::vector<int> ranks_that_differ(const Setup& setup) {
  const int ranks = setup.ranks();
  const MeshShape shape = setup.mesh_shape(ranks);
  std::vector<int> differ = {0};
  std::size_t stride = static_cast<std::size_t>(ranks);
  for (const Axis& axis : shape.axes()) {
    stride /= axis.size;
    if (axis.alike) continue;
    std::vector<int> with;
    for (const int rank : differ) {
      for (std::size_t place = 0; place < axis.size; ++place) {
        with.push_back(rank + static_cast<int>(place * stride));
      }
    }
    differ = std::move(with);
  }
  return differ;
}

std::vector<RecordedRank> record_ranks(const Setup& setup, const std::vector<int>& ranks) {
  std::vector<RecordedRank> recorded(ranks.size());
  std::vector<std::exception_ptr> errors(ranks.size());
  std::atomic<std::size_t> next = 0;
  const auto record = [&] {
    for (std::size_t i = next++; i < ranks.size(); i = next++) {
      try {
        recorded[i] = record_step(setup, ranks[i]);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  std::vector<std::thread> others;
  const std::size_t threads =
      std::min<std::size_t>(ranks.size(), std::max(1U, std::thread::hardware_concurrency()));
  for (std::size_t i = 1; i < threads; ++i) others.emplace_back(record);
  record();
  for (std::thread& thread : others) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return recorded;
}

}  // namespace ultra::train
