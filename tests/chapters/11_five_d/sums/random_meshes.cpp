#include "tests/chapters/11_five_d/sums/random_meshes.hpp"

#include <bit>

#include "chapters/07_pipeline_parallel/lists/schedules.hpp"
#include "chapters/07_pipeline_parallel/schedule/schedule_choice.hpp"
#include "common/base/numeric.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/mask_file.hpp"
#include "tests/support/training/short_run.hpp"

namespace ultra::five_d::test {

using ultra::test::RankRun;

std::optional<RankRun> run_of_first(const Configuration& configuration) {
  std::optional<RankRun> found;
  RankOptions options = setup_of(configuration).rank_options();
  options.timeout = std::chrono::seconds(60);
  static_cast<void>(ultra::test::quietly([&] {
    run_ranks(
        checked_cast<int>(configuration.ranks()),
        [&](Communicator& world) {
          RankRun run = ultra::test::run_of(setup_of(configuration), world);
          if (world.rank() == 0) found = std::move(run);
        },
        options);
  }));
  return found;
}

Bits bits_of(const Configuration& configuration) {
  const std::optional<RankRun> run = run_of_first(configuration);
  if (!run) return {};
  Bits bits;
  const auto add = [&](double number) { bits.push_back(std::bit_cast<std::uint64_t>(number)); };
  for (const train::StepMetrics& step : run->result.steps) {
    add(step.loss);
    add(step.grad_norm);
    add(step.validation_loss.value_or(0.0));
  }
  for (const std::vector<double>& weight : run->weights) std::ranges::for_each(weight, add);
  return bits;
}

/// Ranks along the axes, and chunks of a stage.
struct RandomMeshes::Extents {
  std::size_t dp = 1;
  std::size_t tp = 1;
  std::size_t cp = 1;
  std::size_t pp = 1;
  std::size_t chunks = 1;
};

Configuration RandomMeshes::draw(const std::string& types) {
  for (;;) {
    Configuration drawn = draw_any(types);
    if (refusal_of(drawn).empty()) return drawn;
  }
}

Configuration RandomMeshes::draw_with(const std::string& flag, const std::string& types) {
  for (;;) {
    Configuration drawn = draw(types);
    for (const auto* flags : {&drawn.layout, &drawn.model}) {
      if (std::ranges::find(*flags, flag, &Flag::first) != flags->end()) return drawn;
    }
  }
}

Configuration RandomMeshes::alone(const Configuration& configuration) {
  Configuration one = configuration.alone();
  std::size_t micro_batch = 1;
  const std::size_t batch = one.count_of("--global-batch");
  while (batch % (2 * micro_batch) == 0 && percent(60)) micro_batch *= 2;
  one.layout.emplace_back("--micro-batch", std::to_string(micro_batch));
  return one;
}

/// Any mesh, and any model: of which some have no trees that the mesh cuts at nodes.
Configuration RandomMeshes::draw_any(const std::string& types) {
  Configuration drawn;
  const Extents mesh = draw_mesh(drawn);
  drawn.model.emplace_back("--sums", "tree");
  drawn.model.emplace_back("--device", device_);
  draw_model(drawn, mesh);
  if (percent(30)) draw_experts(drawn, mesh);
  draw_types(drawn, types);
  draw_layout(drawn, mesh);
  return drawn;
}

RandomMeshes::Extents RandomMeshes::draw_mesh(Configuration& drawn) {
  Extents mesh;
  do {
    mesh.dp = random_.pick({1U, 2U, 2U, 3U, 4U});
    mesh.tp = random_.pick({1U, 2U, 2U, 4U});
    mesh.cp = random_.pick({1U, 1U, 1U, 2U, 4U});
    mesh.pp = random_.pick({1U, 1U, 2U, 3U, 4U});
  } while (mesh.dp * mesh.tp * mesh.cp * mesh.pp > most_ranks_);
  for (const auto& [flag, ranks] :
       {std::pair{"--dp", mesh.dp}, {"--tp", mesh.tp}, {"--cp", mesh.cp}, {"--pp", mesh.pp}}) {
    if (ranks > 1) drawn.layout.emplace_back(flag, std::to_string(ranks));
  }
  if (mesh.pp > 1) {
    const auto all = pipeline_parallel::all_schedules();
    pipeline_parallel::ScheduleChoice choice = all[random_.between(0, all.size() - 1)];
    if (choice.takes_chunks()) choice.interleaved_chunks = random_.between(1, 2);
    mesh.chunks = choice.chunks();
    drawn.layout.emplace_back("--schedule", choice.str());
  }
  return mesh;
}

void RandomMeshes::draw_model(Configuration& drawn, const Extents& mesh) {
  const auto model = [&](const char* flag, const std::string& value) {
    drawn.model.emplace_back(flag, value);
  };
  const auto number = [&](const char* flag, std::size_t value) {
    model(flag, std::to_string(value));
  };
  const std::size_t kv_heads = mesh.tp * random_.between(1, 2);
  number("--layers", mesh.pp * mesh.chunks);
  const bool has_latents = percent(20);
  number("--heads", kv_heads * (has_latents ? 1 : random_.between(1, 2)));
  number("--kv-heads", kv_heads);
  if (has_latents) {
    model("--attention", mesh.tp * mesh.cp == 1 ? random_.pick({"mla", "mla-absorbed"}) : "mla");
    number("--kv-lora-rank", 2 * random_.between(1, 10));
    number("--q-lora-rank", random_.between(0, 20));
    number("--qk-nope-head-dim", 12);
    number("--qk-rope-head-dim", 4);
    number("--v-head-dim", 16);
  } else {
    number("--head-dim", random_.pick({4U, 8U, 12U, 16U, 34U}));
  }
  number("--hidden", random_.pick({16U, 20U, 24U, 32U, 46U}));
  number("--ffn", mesh.tp * random_.pick({11U, 16U, 24U, 32U}));
  number("--vocab", random_.pick({256U, 264U, 384U}));
  number("--seq", mesh.cp > 1 ? mesh.cp * random_.pick({9U, 16U, 17U, 32U})
                              : random_.pick({7U, 9U, 16U, 17U, 24U, 32U, 40U, 64U}));
  const std::size_t micro_batch = mesh.cp > 1 ? 1 : power_of_two(1);
  const std::size_t share = micro_batch * (mesh.dp > 1 ? power_of_two(2) : random_.between(1, 5));
  number("--global-batch", mesh.dp * share);
  drawn.layout.emplace_back("--micro-batch", std::to_string(micro_batch));
  model("--data", ultra::test::kText);
  number("--steps", 2);
  number("--warmup", 1);
  number("--seed", random_.between(1, 1000));
  model("--clip", random_.pick({"0", "0.05", "1"}));
  if (percent(50)) model("--optimizer", random_.pick({"sgd", "muon"}));
  if (percent(25)) model("--qkv-bias", "");
  if (percent(25)) model("--qk-norm", "");
  if (percent(25)) model("--tied-embeddings", "");
  if (percent(20)) model("--doc-length", std::to_string(random_.between(2, 9)));
  if (percent(25)) model("--window", std::to_string(random_.between(1, 20)));
  if (percent(15)) model("--mask", ultra::test::mask_file(random_, 0.5));
  if (percent(15)) {
    model("--val-data", ultra::test::kText);
    model("--val-batches", "2");
  }
}

/// Experts, as wide as tp's parts take them, on ranks of dp and cp.
void RandomMeshes::draw_experts(Configuration& drawn, const Extents& mesh) {
  const auto model = [&](const char* flag, const std::string& value) {
    drawn.model.emplace_back(flag, value);
  };
  const std::size_t ranks = mesh.dp * mesh.cp;
  const std::size_t ep = random_.pick({std::size_t{1}, ranks, ranks % 2 == 0 ? 2 : ranks});
  const std::size_t experts = ep * random_.between(1, ep == 1 ? 6 : 2);
  model("--experts", std::to_string(experts));
  model("--top-k", std::to_string(random_.between(1, std::min<std::size_t>(experts, 3))));
  model("--router", random_.pick({"softmax", "sigmoid"}));
  model("--balance", random_.pick({"aux", "bias", "none"}));
  if (percent(50)) model("--expert-ffn", std::to_string(mesh.tp * random_.pick({11U, 24U})));
  if (percent(30)) model("--shared-experts", "1");
  if (percent(40)) model("--capacity-factor", random_.pick({"0.7", "1", "1.5"}));
  if (percent(50)) model("--z-loss", "0.01");
  if (ep > 1) drawn.layout.emplace_back("--ep", std::to_string(ep));
}

void RandomMeshes::draw_types(Configuration& drawn, const std::string& types) {
  const std::string chosen =
      types.empty() ? random_.pick({"f32", "f32", "f32", "f64", "bf16", "bf16"}) : types;
  if (chosen != "bf16") {
    drawn.model.emplace_back("--dtype", chosen);
    return;
  }
  drawn.model.emplace_back("--precision", chosen);
  if (percent(70)) return;
  drawn.model.emplace_back("--master-weights", "off");
  drawn.model.emplace_back("--rounding", random_.pick({"nearest", "stochastic"}));
}

void RandomMeshes::draw_layout(Configuration& drawn, const Extents& mesh) {
  const auto layout = [&](const char* flag, const std::string& value) {
    drawn.layout.emplace_back(flag, value);
  };
  const std::size_t zero = random_.between(0, 3);
  if (zero > 0) layout("--zero", std::to_string(zero));
  if (zero == 3 && percent(40)) layout("--shards", "rows");
  if (percent(40)) layout("--overlap", random_.pick({"none", "bucketed"}));
  if (percent(40) && zero < 3) layout("--bucket-mb", random_.pick({"0.0003", "0.002", "0.01"}));
  if (percent(40)) layout("--recompute", random_.pick({"selective", "full"}));
  if (mesh.cp > 1) {
    layout("--cp-layout", "contiguous");
    layout("--cp-method", random_.pick({"all-gather", "ulysses"}));
  }
  if (mesh.tp == 1) return;
  if (percent(50)) layout("--sp", "on");
  if (percent(20)) layout("--tp-overlap", "none");
}

}  // namespace ultra::five_d::test
