#include "common/train/cli/technique.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/optim/rules.hpp"

namespace ultra::train {
namespace {

int replicas_among(const Setup& setup, int ranks) {
  const auto [needed, flags] = setup.ranks_per_replica();
  const auto all = checked_cast<std::size_t>(ranks);
  if (all % needed == 0) return checked_cast<int>(all / needed);
  throw ConfigError(fmt::format(
      "{} ranks are no whole replicas of {} ranks each ({}): {} % {} = {}. Change the number of "
      "ranks, or give --dp N and leave --ranks out.",
      all, needed, flags, all, needed, all % needed));
}

}  // namespace

std::optional<Question> Setup::question() const {
  std::optional<Question> asked;
  if (on.asked()) asked = {.flag = "--on", .what = Instead::kRecord};
  for (const auto& technique : techniques) {
    for (Question& question : technique->questions()) {
      if (asked) {
        throw ConfigError(
            fmt::format("{} and {} each ask for something instead of training. Give one of them.",
                        asked->flag, question.flag));
      }
      asked = std::move(question);
    }
  }
  return asked;
}

std::vector<FileFlag> Setup::files() const {
  std::vector<FileFlag> all = train.files();
  for (const auto& technique : techniques) {
    for (FileFlag& file : technique->files()) all.push_back(std::move(file));
  }
  return all;
}

std::pair<std::size_t, std::string> Setup::ranks_per_replica() const {
  std::size_t ranks = 1;
  std::string flags;
  for (const auto& technique : techniques) {
    const std::optional<Axis> axis = technique->axis();
    if (!axis || axis->size == 1) continue;
    ranks *= axis->size;
    flags += (flags.empty() ? "" : " and ") + axis->flag;
  }
  return {ranks, flags};
}

int Setup::replicas() const { return replicas_among(*this, comm.world_size()); }

int Setup::data_ranks() const {
  auto ranks = static_cast<std::size_t>(replicas());
  for (const auto& technique : techniques) {
    const std::optional<Axis> axis = technique->axis();
    if (axis && axis->splits == Splits::kTokens) ranks *= axis->size;
  }
  return checked_cast<int>(ranks);
}

std::size_t Setup::ranks_along(std::string_view name) const {
  for (const auto& technique : techniques) {
    std::vector<Axis> axes;
    if (const auto view = technique->mesh_view()) axes = view->by;
    if (auto axis = technique->axis()) axes.push_back(*std::move(axis));
    const auto found = std::ranges::find(axes, name, &Axis::name);
    if (found != axes.end()) return found->size;
  }
  return 1;
}

MeshShape Setup::mesh_shape(int ranks) const {
  std::vector<Axis> axes = {
      ultra::replicas(static_cast<std::size_t>(replicas_among(*this, ranks)))};
  axes.front().alike = train.global_batch % (axes.front().size * train.micro_batch) == 0;
  std::vector<MeshView> views;
  for (const auto& technique : techniques) {
    if (auto axis = technique->axis()) axes.push_back(*std::move(axis));
    if (auto view = technique->mesh_view()) views.push_back(*std::move(view));
  }
  return MeshShape(std::move(axes), std::move(views));
}

bool Setup::has_ranks() const {
  return std::ranges::any_of(techniques,
                             [](const auto& t) { return t->algorithms({}) != nullptr; });
}

ExtraConfig Setup::config() const {
  ExtraConfig all;
  for (const auto& technique : techniques) {
    for (auto& entry : technique->config(*this)) all.push_back(std::move(entry));
  }
  return all;
}

Identity Setup::identity() const {
  Identity all;
  if (train.optimizer != optim::kDefaultRule) all["--optimizer"] = train.optimizer;
  if (!train.freeze.empty()) all["--freeze"] = fmt::format("{}", fmt::join(train.freeze, ","));
  for (const auto& technique : techniques) all.merge(technique->identity(*this));
  return all;
}

RankOptions Setup::rank_options() const {
  AlgorithmNames names;
  for (const auto& technique : techniques) technique->name_algorithms(names);
  for (const auto& technique : techniques) {
    if (auto algorithms = technique->algorithms(names)) return comm.rank_options(algorithms);
  }
  return comm.rank_options(nullptr);
}

Formulas Setup::formulas() const {
  Formulas all;
  if (!train.model.has_closed_forms()) return all;
  for (const auto& technique : techniques) {
    try {
      technique->write_formulas(all, *this);
    } catch (const NotWritten&) {
      continue;  // an exercise that its reader has not reached
    }
  }
  if (train.freeze.empty()) return all;
  for (Formula& formula : all) {  // they count all weights as trained
    formula[MemoryCategory::kGradients].reset();
    formula[MemoryCategory::kOptimizer].reset();
  }
  return all;
}

NamedModel in_flags(const nn::NamedModel& named) {
  const nn::ModelConfig& config = named.config;
  NamedModel model{.name = named.name,
                   .flags = {{"--layers", fmt::to_string(config.num_layers)},
                             {"--hidden", fmt::to_string(config.hidden_size)},
                             {"--heads", fmt::to_string(config.num_heads)},
                             {"--kv-heads", fmt::to_string(config.num_kv_heads)},
                             {"--ffn", fmt::to_string(config.ffn_hidden_size)},
                             {"--vocab", fmt::to_string(config.vocab_size)}}};
  const auto add = [&](bool has, const char* flag, std::string value) {
    if (has) model.flags.emplace_back(flag, std::move(value));
  };
  add(config.tied_embeddings, "--tied-embeddings", "");
  add(config.head_size > 0, "--head-dim", fmt::to_string(config.head_size));
  add(config.qkv_bias, "--qkv-bias", "");
  add(config.qk_norm, "--qk-norm", "");
  add(config.sliding_window > 0, "--window", fmt::to_string(config.sliding_window));
  add(config.mtp, "--mtp", "");
  const nn::LatentAttention& latent = config.latent;
  add(latent.on, "--attention", "mla");
  add(latent.on, "--kv-lora-rank", fmt::to_string(latent.kv_lora_rank));
  add(latent.on, "--q-lora-rank", fmt::to_string(latent.q_lora_rank));
  add(latent.on, "--qk-nope-head-dim", fmt::to_string(latent.qk_nope_head_dim));
  add(latent.on, "--qk-rope-head-dim", fmt::to_string(latent.qk_rope_head_dim));
  add(latent.on, "--v-head-dim", fmt::to_string(latent.v_head_dim));
  return model;
}

}  // namespace ultra::train
