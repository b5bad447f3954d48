#include "tests/support/training/mesh_case.hpp"

#include "common/base/numeric.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/data/dataset.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"

namespace ultra::test {
namespace {

class TrainFlags : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup& setup) override { setup.train.add_to(app); }
};

}  // namespace

std::string Axes::flags() const {
  std::string flags;
  for (const auto& [flag, ranks] :
       {std::pair{"--dp", dp}, {"--pp", pp}, {"--cp", cp}, {"--tp", tp}, {"--ep", ep}}) {
    if (ranks > 1) flags += fmt::format("{} {} ", flag, ranks);
  }
  return flags;
}

int MeshCase::ranks() const { return checked_cast<int>(axes.dp * axes.pp * axes.cp * axes.tp); }

std::string MeshCase::flags() const {
  return fmt::format("{}{} {} {}", axes.flags(), model, layout, more);
}

std::string MeshCase::str() const {
  return fmt::format("{} {}, {}", flags(), note, text_of(options, micro_batch));
}

std::vector<std::size_t> MeshCase::micro_batches() const {
  std::vector<std::size_t> sizes;
  for (std::size_t begin = 0; begin < options.global_batch; begin += micro_batch) {
    sizes.push_back(std::min(micro_batch, options.global_batch - begin));
  }
  return sizes;
}

train::Setup MeshCase::setup() const {
  train::TrainOptions own = options;
  own.micro_batch = micro_batch;  // what closed forms read
  train::Setup setup = setup_of(own, ranks(), techniques(), flags());
  for (const auto& technique : setup.techniques) technique->validate_training(setup);
  setup.train.micro_batch = options.micro_batch;
  setup.techniques.push_back(cutting_into(micro_batch));
  return setup;
}

MeshCase MeshCase::one_rank() const {
  return {.model = model,
          .micro_batch = options.micro_batch,
          .options = options,
          .techniques = of_one_rank ? of_one_rank : techniques};
}

std::string text_of(const train::TrainOptions& options, std::size_t micro_batch) {
  const nn::ModelConfig& m = options.model;
  return fmt::format(
      "L {} h {} a {} kv {} f {} V {} s {} {}, documents {}, window {}, micro-batch {} of {}, clip "
      "{}{}",
      m.num_layers, m.hidden_size, m.num_heads, m.num_kv_heads, m.ffn_hidden_size, m.vocab_size,
      m.max_seq_len, to_string(options.dtype), options.doc_length, m.sliding_window, micro_batch,
      options.global_batch, options.clip_norm, m.tied_embeddings ? ", tied" : "");
}

std::unique_ptr<train::Technique> flags_of_every_trainer() {
  return std::make_unique<TrainFlags>();
}

std::unique_ptr<train::Technique> cutting_into(std::size_t micro_batch) {
  return putting([micro_batch](train::StepConfig& step_config) {
    step_config.cut.offer(
        [rule = step_config.cut.get(), micro_batch](const train::LocalBatch& share, std::size_t) {
          return rule(share, micro_batch);
        });
  });
}

train::TrainOptions random_run(Random& random, std::uint64_t seed, std::size_t replicas,
                               DType dtype) {
  train::TrainOptions options = short_run();
  options.model = random_model_config(random);
  options.model.vocab_size = data::kByteVocabulary;
  options.model.max_seq_len = random.between(2, 13);
  options.global_batch = replicas + random.between(0, 2 * replicas);
  options.micro_batch = 1;
  options.clip_norm = random.pick({0.0, 0.05, 1.0});
  options.seed = seed;
  options.dtype = dtype;
  return options;
}

MeshCase draw(Random& random, std::uint64_t seed, const Axes& axes, DType dtype,
              const Limits& limits) {
  MeshCase c{.axes = axes,
             .micro_batch = random.between(1, 3),
             .options = random_run(random, seed, axes.dp, dtype)};
  nn::ModelConfig& model = c.options.model;
  const std::size_t head_ranks = limits.head_ranks > 0 ? limits.head_ranks : axes.tp;
  model.num_kv_heads = head_ranks * random.between(1, 2);
  model.num_heads = model.num_kv_heads * random.between(1, 2);
  model.hidden_size = model.num_heads * 2 * random.between(1, limits.most_head_pairs);
  model.num_layers = random.between(1, limits.most_layers);
  model.ffn_hidden_size = axes.tp * random.between(1, limits.most_ffn);
  const std::size_t tokens = random.between(2 * axes.cp, 6 * axes.cp + 5);
  model.max_seq_len = ceil_div(tokens, limits.sequence_multiple) * limits.sequence_multiple;
  return c;
}

MeshCase MeshTest::as_replica(MeshCase c) {
  c.options.steps = 2;
  c.micro_batch = random.between(1, c.options.global_batch);
  return c;
}

void MeshTest::on_mesh(const MeshCase& c, const std::function<void(Communicator&)>& fn,
                       Progress progress) {
  RankOptions options = c.setup().rank_options();
  options.timeout = std::chrono::seconds(100);  // a hang would be one
  options.progress = progress;
  run_quietly(c.str(), c.ranks(), fn, options);
}

void MeshTest::expect_equals(const Communicator& world, const RankRun& run, const RankRun& one,
                             double relative) {
  expect_near_losses(run, one, relative);
  expect_near_norms(run, one, relative);
  // Where a gradient is smaller than AdamW's epsilon of 1e-8, a rounding moves the weight by
  // rounding / epsilon of the learning rate: 1e-10 for a sum of gradients of 0.01.
  expect_near_weights(run, one, std::max(relative, 1e-10));
  expect_saved_once(run);
  expect_same_on_all(world, losses_and_norms(run.result));
}

void MeshTest::expect_equals_one_rank(const MeshCase& c, double relative) {
  // The first mesh that differs says enough. Processes cannot leave out what others of them train.
  if (HasFailure() && !launched_world_size()) return;
  on_mesh(c, [&](Communicator& world) {
    const RankRun run = c.run(world);
    const RankRun one = c.run_alone(world);
    expect_equals(world, run, one, relative);
    for (std::size_t i = 0; i < one.result.steps.size(); ++i) {
      EXPECT_EQ(run.result.steps[i].figures, one.result.steps[i].figures) << "step " << i + 1;
    }
  });
}

std::vector<train::RankSummary> MeshTest::summaries(const MeshCase& c) {
  std::vector<train::RankSummary> ranks;
  const auto keep = [&](Communicator& world) {
    const train::TrainResult result = train::train_with(c.setup(), world);
    if (world.rank() == 0) ranks = result.ranks;
  };
  on_mesh(c, keep, Progress::kOnCall);
  return ranks;
}

}  // namespace ultra::test
