// What a replica pushes and pulls, and when: against a server that is played by the test.

#include "chapters/03_data_parallel/parameter_server/push_pull.hpp"

#include <set>

#include "common/comm/run_ranks.hpp"
#include "common/ops/elementwise.hpp"
#include "common/optim/clip.hpp"
#include "tests/chapters/03_data_parallel/parameter_server/served_run.hpp"
#include "tests/exercises/03_data_parallel/replica.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

using namespace test;

constexpr int kWordChannel = 7;
constexpr int kServer = 1;

/// "Go on", from one rank to the other.
void say(const Communicator& world) {
  world.send(Tensor::zeros(Device::cpu(), {1}, DType::kI32), 1 - world.rank(), kWordChannel).wait();
}
void hear(const Communicator& world) {
  world.recv(Tensor::zeros(Device::cpu(), {1}, DType::kI32), 1 - world.rank(), kWordChannel).wait();
}

/// A server whose every move the test decides.
class PlayedServer {
 public:
  PlayedServer(const ServerWorld& servers, ServedModel model, DType dtype)
      : servers_(servers), model_(std::move(model)) {
    for (const Slice& slice : model_.slices) {
      gradients.push_back(Tensor::empty(Device::cpu(), {slice.elements.size()}, dtype));
      values_.push_back(Tensor::empty(Device::cpu(), {slice.elements.size()}, dtype));
    }
    begin(1);
  }
  /// Asks for all gradients of a step: one that is not asked for may hold up others behind it.
  void begin(std::size_t step) {
    step_ = step;
    pushes_.clear();
    for (std::size_t s = 0; s < gradients.size(); ++s) {
      pushes_.push_back(servers_.world.recv(gradients[s], 0, push_name(model_, step, s)));
    }
  }
  void take(std::size_t slice) { pushes_[slice].wait(); }
  void take_all() {
    for (std::size_t s = 0; s < pushes_.size(); ++s) take(s);
  }
  void give(std::size_t slice, double value) {
    values_[slice].fill(value);
    servers_.world.send(values_[slice], 0, pull_name(model_, step_, slice)).wait();
  }
  void give_all(double value) {
    for (std::size_t s = 0; s < values_.size(); ++s) give(s, value);
  }

  std::vector<Tensor> gradients;

 private:
  ServerWorld servers_;
  ServedModel model_;
  std::size_t step_ = 0;
  std::vector<Work> pushes_;
  std::vector<Tensor> values_;
};

class PushPullRanks : public ServedTest {
 protected:
  /// A replica and a server, which know the same slices.
  struct Pair {
    ServerWorld servers;
    std::unique_ptr<Replica> replica;  // on rank 0
    ServedModel model;
  };

  Pair pair(const Communicator& world, const ServerSettings& settings) const {
    Pair made{.servers = make_server_world(world, settings), .replica = {}, .model = {}};
    std::vector<ServedParameter> own;
    if (!made.servers.is_server()) {
      made.replica = std::make_unique<Replica>(config, DType::kF64, seed);
      for (const nn::Parameter* parameter : made.replica->model.parameters()) {
        own.push_back({.name = parameter->name(),
                       .count = parameter->count(),
                       .decays = train::decays(*parameter)});
      }
    }
    made.model = share_model(made.servers, own);
    return made;
  }

  double pass(nn::Model& model) const {
    const data::Sampler sampler(text, config.max_seq_len, 2, seed);
    return one_pass(model, sampler, {0, 2}, 10.0);
  }

  /// A step of one pass; keeps the gradients.
  void step(nn::Model& model, PushPull& sync) const {
    Followed followed(model, sync);
    followed.begin(1);
    followed.pass([&] { pass(model); });
    followed.finish();
    sync.push();
  }

  static nn::ModelConfig two_blocks(Random& random) {
    nn::ModelConfig made = random_config(random);
    made.num_layers = 2;
    return made;
  }

  nn::ModelConfig config = two_blocks(random);
  data::Dataset text = random_text(random);
};

/// In the backward pass of block 0, the replica waits until the server has the gradients of all that
/// stands behind it, and has sent the head's weights back: they travel before the pass is over.
TEST_F(PushPullRanks, GradientsAndWeightsTravelDuringTheBackwardPass) {
  for (const Priority priority : {Priority::kWaitFree, Priority::kPriority}) {
    run_ranks(2, [&](Communicator& world) {
      const Pair made = pair(world, {.servers = 1, .priority = priority, .slice_capacity = 200});
      const std::vector<ServedParameter>& parameters = made.model.parameters;
      std::vector<std::size_t> behind;  // slices of block 1, the final norm and the head
      std::vector<std::size_t> others;
      for (std::size_t s = 0; s < made.model.slices.size(); ++s) {
        const std::string& name = parameters[made.model.slices[s].parameter].name;
        const bool in_front =
            name.find("embed") != std::string::npos || name.find("layers.0.") != std::string::npos;
        (in_front ? others : behind).push_back(s);
      }
      ASSERT_FALSE(behind.empty());
      if (world.rank() == kServer) {
        PlayedServer server(made.servers, made.model, DType::kF64);
        for (const std::size_t s : behind) server.take(s);
        for (const std::size_t s : behind) server.give(s, 0.5);
        say(world);
        for (const std::size_t s : others) server.take(s);
        for (const std::size_t s : others) server.give(s, 0.25);
        return;
      }
      nn::Model& model = made.replica->model;
      PushPull sync(model, made.servers, made.model);
      const nn::HookHandle hook = model.add_part_hook({.backward = [&](const auto& call) {
        if (call.part == 1) hear(world);  // block 0
        call.compute();
      }});
      step(model, sync);
      sync.drain();
      EXPECT_EQ(model.parameters().back()->value().to_vector().front(), 0.5);
      EXPECT_EQ(model.parameters().front()->value().to_vector().front(), 0.25);
    });
  }
}

/// The server keeps what stands behind block 0 to itself until block 0 runs in the next step.
TEST_F(PushPullRanks, ABlockWaitsForItsOwnWeightsOnly) {
  for (const Priority priority : {Priority::kWaitFree, Priority::kPriority}) {
    run_ranks(2, [&](Communicator& world) {
      const Pair made = pair(world, {.servers = 1, .priority = priority, .slice_capacity = 200});
      const std::size_t slices = made.model.slices.size();
      if (world.rank() == kServer) {
        PlayedServer server(made.servers, made.model, DType::kF64);
        server.take_all();
        const auto is_behind = [&](std::size_t s) {
          const std::string& name = made.model.parameters[made.model.slices[s].parameter].name;
          return name.find("embed") == std::string::npos &&
                 name.find("layers.0.") == std::string::npos;
        };
        for (std::size_t s = 0; s < slices; ++s) {
          if (!is_behind(s)) server.give(s, 0.01);
        }
        hear(world);
        for (std::size_t s = 0; s < slices; ++s) {
          if (is_behind(s)) server.give(s, 0.01);
        }
        server.begin(2);
        server.take_all();
        server.give_all(0.02);
        return;
      }
      nn::Model& model = made.replica->model;
      PushPull sync(model, made.servers, made.model);
      bool second = false;
      const nn::HookHandle hook = model.add_part_hook({.forward = [&](const auto& call) {
        call.compute();
        if (second && call.part == 1) say(world);  // block 0
      }});
      for (int i = 0; i < 2; ++i) {
        step(model, sync);
        model.drop_grads();
        second = true;
      }
      sync.drain();
      for (const nn::Parameter* parameter : model.parameters()) {
        EXPECT_EQ(parameter->value().to_vector().back(), 0.02) << parameter->name();
      }
    });
  }
}

/// The numbers of a rank's pushes, in the order in which they begin.
class PushLog : public CommObserver {
 public:
  void operation_ended(const OperationInfo& info, std::size_t /*sent_bytes*/,
                       Clock::time_point begin, Clock::time_point /*end*/) override {
    if (info.kind == OpKind::kSend && !info.label.empty()) pushes_.emplace(begin, info.sequence);
  }
  void waited(const OperationInfo& /*info*/, Clock::time_point /*begin*/,
              Clock::time_point /*end*/) override {}

  [[nodiscard]] std::vector<std::uint32_t> numbers() const {
    std::vector<std::uint32_t> numbers;
    for (const auto& [begin, number] : pushes_) numbers.push_back(number);
    return numbers;
  }

 private:
  std::set<std::pair<Clock::time_point, std::uint32_t>> pushes_;
};

/// The server takes nothing before the backward pass is over: what waits till then goes in the
/// order of the next forward pass, but for those that are on their way.
TEST_F(PushPullRanks, WhatIsNeededFirstOvertakes) {
  if (launched_world_size()) GTEST_SKIP() << "MPI takes small messages before they are asked for";
  run_ranks(2, [&](Communicator& world) {
    const Pair made =
        pair(world, {.servers = 1, .priority = Priority::kPriority, .slice_capacity = 50});
    if (world.rank() == kServer) {
      hear(world);
      PlayedServer server(made.servers, made.model, DType::kF64);
      server.take_all();
      server.give_all(0);
      return;
    }
    PushPull sync(made.replica->model, made.servers, made.model);
    PushLog log;
    world.set_observer(&log);
    step(made.replica->model, sync);
    say(world);
    sync.drain();
    world.set_observer(nullptr);
    const std::vector<std::uint32_t> numbers = log.numbers();
    ASSERT_EQ(numbers.size(), made.model.slices.size());
    const auto first_to_wait = numbers.begin() + kSlicesOnTheirWay;
    EXPECT_TRUE(std::is_sorted(first_to_wait, numbers.end()));
  });
}

/// A replica that pushes late may still scale its gradient when the passes are over.
TEST_F(PushPullRanks, WhatIsPushedLateMayChangeBehindThePasses) {
  for (const Priority priority : kPriorities) {
    run_ranks(2, [&](Communicator& world) {
      const Pair made = pair(world, {.servers = 1, .priority = priority, .asynchronous = true});
      if (world.rank() == kServer) {
        PlayedServer server(made.servers, made.model, DType::kF64);
        server.take_all();
        server.give_all(0);
        Replica one(config, DType::kF64, seed);
        pass(one.model);
        EXPECT_NEAR(optim::global_norm(server.gradients),
                    0.5 * optim::global_norm(gradients_of(one.model)), 1e-12);
        return;
      }
      nn::Model& model = made.replica->model;
      PushPull sync(model, made.servers, made.model, Push::kLate);
      Followed followed(model, sync);
      followed.begin(1);
      followed.pass([&] { pass(model); });
      followed.finish();
      for (const nn::Parameter* parameter : model.parameters()) {
        ops::scale_into(parameter->grad(), 0.5);
      }
      sync.push();
      sync.drain();
    });
  }
}

}  // namespace
}  // namespace ultra::data_parallel
