// Messages travel while stages compute; and a simulated step takes as long as the executed one.
//
// Covers: chapters/07_pipeline_parallel/execution/pipeline_links.hpp
// Covers: chapters/07_pipeline_parallel/stages/stage_split.hpp

#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "chapters/03_data_parallel/batch_shares.hpp"
#include "chapters/07_pipeline_parallel/simulate/simulator.hpp"
#include "chapters/07_pipeline_parallel/stages/stage_split.hpp"
#include "common/nn/layer_factory.hpp"
#include "tests/chapters/07_pipeline_parallel/pipeline_run.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/programs/process.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::pipeline_parallel {
namespace {

using namespace pipeline_parallel::test;
using nlohmann::json;
using Clock = CommObserver::Clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

/// A rank's passes and receives.
struct Followed : public train::StepObserver, public CommObserver {
  struct Span {
    Clock::time_point begin;
    Clock::time_point end;
  };

  void action_begins(const train::Action& action) override {
    passes[action.str()].begin = Clock::now();
  }
  void action_ends(const train::Action& action) override {
    passes[action.str()].end = Clock::now();
  }
  void operation_ended(const OperationInfo& info, std::size_t, Clock::time_point begin,
                       Clock::time_point end) override {
    const std::scoped_lock lock(mutex);
    operations[fmt::format("{} {}", to_string(info.kind), info.label)] = {begin, end};
  }
  void waited(const OperationInfo& info, Clock::time_point begin, Clock::time_point end) override {
    const std::scoped_lock lock(mutex);
    waits[fmt::format("{} {}", to_string(info.kind), info.label)] += seconds_between(begin, end);
  }

  std::map<std::string, Span> passes;
  std::mutex mutex;
  std::map<std::string, Span> operations;
  std::map<std::string, double> waits;
};

/// Hands a rank's observer on to the step, which would own it.
class PassesOn : public train::StepObserver {
 public:
  explicit PassesOn(Followed& to) : to_(to) {}
  void action_begins(const train::Action& action) override { to_.action_begins(action); }
  void action_ends(const train::Action& action) override { to_.action_ends(action); }

 private:
  Followed& to_;
};

/// Lets every layer sleep in its passes: so long that their length depends on no processor, and that
/// two ranks need no two of them.
class SleepingLayers : public train::Technique {
 public:
  static constexpr std::chrono::milliseconds kForward{8};

  void wrap_layers(train::FactoryStack& factories, const train::Plan&,
                   const train::Setup&) const override {
    factories.push_back(std::make_unique<Factory>(*factories.back()));
  }

 private:
  class Layer : public nn::Layer {
   public:
    explicit Layer(std::unique_ptr<nn::Layer> inner) : inner_(std::move(inner)) {}
    Tensor forward(const Tensor& x, nn::Saved& saved) override {
      std::this_thread::sleep_for(kForward);
      return inner_->forward(x, saved);
    }
    Tensor backward(const Tensor& d_y, nn::Saved& saved) override {
      std::this_thread::sleep_for(2 * kForward);
      return inner_->backward(d_y, saved);
    }
    std::vector<nn::Parameter*> parameters() override { return inner_->parameters(); }

   private:
    std::unique_ptr<nn::Layer> inner_;
  };

  class Factory : public nn::FactoryWrapper {
   public:
    using FactoryWrapper::FactoryWrapper;
    std::unique_ptr<nn::Layer> feed_forward(const nn::BuildContext& context,
                                            std::size_t layer) override {
      return std::make_unique<Layer>(inner().feed_forward(context, layer));
    }
  };
};

class OverlappedPipeline : public PipelineTest {
 protected:
  /// Two stages of two layers.
  MeshCase draw_slow(const std::string& schedule) {
    MeshCase c = draw({.pp = 2}, schedule, DType::kF32);
    c.options.model = {.hidden_size = 16,
                       .num_layers = 4,
                       .num_heads = 4,
                       .num_kv_heads = 4,
                       .ffn_hidden_size = 32,
                       .max_seq_len = 64};
    c.options.model.vocab_size = data::kByteVocabulary;
    c.options.doc_length = 0;
    c.options.steps = 1;
    c.micro_batch = 1;
    c.options.global_batch = 6;
    c.more = "--stage-split 2,2";
    return c;
  }

  /// Follows both ranks through a step, on a link of that speed.
  static void follow(const MeshCase& c, const LinkSpeed& link, std::vector<Followed>& ranks) {
    RankOptions options = c.setup().rank_options();
    options.link = link;
    quietly([&] {
      run_ranks(
          c.ranks(),
          [&](Communicator& world) {
            Followed& own = ranks[static_cast<std::size_t>(world.rank())];
            const auto put = [&](train::StepConfig& step_config) {
              step_config.observers.emplace_back(
                  [&](const train::ModelScope&) { return std::make_unique<PassesOn>(own); });
            };
            world.set_observer(&own);
            train::Setup setup = c.setup();
            setup.techniques.push_back(ultra::test::putting(put));
            setup.techniques.push_back(std::make_unique<SleepingLayers>());
            static_cast<void>(train::train_with(setup, world));
            world.set_observer(nullptr);
          },
          options);
    });
  }

  static constexpr double kMessageBytes = 16 * 64 * 4;
  ultra::test::TemporaryFolder folder;
};

// A receive stands before the pass ahead of the one that needs it has ended, unless the thread that
// moves messages along got no processor: not in every run.
TEST_F(OverlappedPipeline, ReceivesArePostedAPassAhead) {
  if (launched_world_size()) GTEST_SKIP() << "looks at the ranks of one process";
  const MeshCase c = draw_slow("afab");
  std::size_t late = 1;
  for (int attempt = 0; attempt < 10 && late > 0; ++attempt) {
    std::vector<Followed> ranks(2);
    follow(c, {.latency = 1e-3, .bytes_per_second = 1e8}, ranks);
    late = 0;
    for (std::size_t m = 1; m < 6; ++m) {
      const auto& activation =
          ranks[1].operations.at(fmt::format("recv the activation of micro-batch {}", m));
      const auto& gradient =
          ranks[0].operations.at(fmt::format("recv the gradient of micro-batch {}", m));
      if (activation.begin >= ranks[1].passes.at(fmt::format("F{}", m - 1)).end) ++late;
      if (gradient.begin >= ranks[0].passes.at(fmt::format("BW{}", m - 1)).end) ++late;
    }
  }
  EXPECT_EQ(late, 0U);
}

// In AFAB's forward phase the next activation is on its way while a stage computes: of a transfer
// that takes half a pass next to nothing is left to wait for. The least disturbed of some runs.
TEST_F(OverlappedPipeline, TransfersHideBehindThePasses) {
  if (launched_world_size()) GTEST_SKIP() << "looks at the ranks of one process";
  const MeshCase c = draw_slow("afab");
  const double pass = 2 * std::chrono::duration<double>(SleepingLayers::kForward).count();
  const double transfer = pass / 2;
  double exposed = 1;  // share of the transfers' time
  for (int attempt = 0; attempt < 10 && exposed > 0.25; ++attempt) {
    std::vector<Followed> ranks(2);
    follow(c, {.latency = 0, .bytes_per_second = kMessageBytes / transfer}, ranks);
    double waited = 0;
    for (std::size_t m = 2; m < 6; ++m) {
      waited += ranks[1].waits[fmt::format("recv the activation of micro-batch {}", m)];
    }
    exposed = std::min(exposed, waited / (4 * transfer));
  }
  EXPECT_LE(exposed, 0.25);
}

// The simulator is fed what the passes took in the very run that it is compared with.
TEST_F(OverlappedPipeline, ASimulatedStepTakesAsLongAsTheExecutedOne) {
  if (launched_world_size()) GTEST_SKIP() << "looks at the ranks of one process";
  for (const char* name : {"afab", "1f1b"}) {
    MeshCase c = draw_slow(name);
    c.options.steps = 2;
    const std::string path = folder.path("gantt.json");
    c.more += " --executed-gantt " + path;
    const LinkSpeed link{.latency = 4e-3, .bytes_per_second = kMessageBytes / 4e-3};
    double off = 1;
    for (int attempt = 0; attempt < 10 && off > 0.15; ++attempt) {
      std::vector<Followed> ranks(2);
      follow(c, link, ranks);
      const json chart = json::parse(ultra::test::read_file(path));
      CostModel costs;
      for (std::size_t part = 0; part < 2; ++part) {
        const double backward = chart.at("costs").at("BW").at(part);
        costs.parts.push_back({.forward = chart.at("costs").at("F").at(part),
                               .backward_input = backward / 2,
                               .backward_weight = backward / 2});
      }
      costs.link = {.latency = link.latency, .seconds_per_byte = 1 / link.bytes_per_second};
      costs.message_bytes = kMessageBytes;
      double executed = 0;
      for (const json& action : chart.at("actions")) {
        executed = std::max(executed, action.at("end").get<double>());
      }
      const double simulated =
          simulate(make_schedule(parse_schedule_choice(name), 2, 6), costs).seconds();
      off = std::min(off, std::abs(simulated / executed - 1));
    }
    EXPECT_LE(off, 0.15) << name;
  }
}

// A block of this model has more to do than its table, and its head less than two blocks.
TEST_F(OverlappedPipeline, PiecesAreMeasuredAlikeOnAllRanks) {
  const MeshCase c = draw_slow("1f1b");
  on_mesh(c, [&](Communicator& world) {
    const train::Plan plan =
        train::make_plan(c.options, world, MeshShape({axis_of(2)}),
                         {.share = data_parallel::share_of_batch,
                          .cut = data_parallel::cut_share,
                          .schedule = [](std::size_t) { return train::StepSchedule(); }});
    const PieceCosts costs = measure_pieces(c.options, plan);
    EXPECT_GT(costs.block, 0);
    EXPECT_GT(costs.head, 0);
    expect_same_on_all(world, std::vector<double>{costs.embedding, costs.block, costs.head});
  });
}

}  // namespace
}  // namespace ultra::pipeline_parallel
